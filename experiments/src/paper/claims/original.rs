//! Claims about original_settings.csv.

use super::super::Paper;
use super::super::original_settings;
use super::super::published::Published;
use super::super::routed::Algorithm;
use super::{Claim, Verdict, agrees};

const ALGORITHMS: [Algorithm; 4] = [Algorithm::R2r, Algorithm::Citer, Algorithm::CoLlm, Algorithm::RStitch];

fn throughput(published: &Published, algorithm: Algorithm, implementation: &str, concurrency: u32) -> f64 {
    let row = published.original(algorithm, implementation, concurrency);
    row.throughput.expect("this figure is published")
}

/// One implementation over another.
fn ratio(published: &Published, algorithm: Algorithm, over: [&str; 2], concurrency: u32) -> f64 {
    throughput(published, algorithm, over[0], concurrency) / throughput(published, algorithm, over[1], concurrency)
}

fn against_large_only(published: &Published, algorithm: Algorithm, concurrency: u32) -> f64 {
    ratio(published, algorithm, ["tokenrouter", "llm_only"], concurrency)
}

fn list(values: &[(Algorithm, f64)]) -> String {
    let words: Vec<String> =
        values.iter().map(|(algorithm, value)| format!("{} {value:.2}", algorithm.name())).collect();
    words.join(", ")
}

pub(super) fn claims(paper: &Paper) -> Vec<Claim> {
    let published = &paper.published;
    let against =
        |concurrency| ALGORITHMS.map(|algorithm| (algorithm, against_large_only(published, algorithm, concurrency)));
    let (at_1, at_4) = (against(1), against(4));
    let official = ratio(published, Algorithm::R2r, ["tokenrouter", "official"], 4);
    let large_only = against_large_only(published, Algorithm::R2r, 4);
    let winners: Vec<&str> =
        at_4.iter().filter(|(_, ratio)| *ratio > 1.0).map(|(algorithm, _)| algorithm.name()).collect();
    let [co_llm, r_stitch] =
        [Algorithm::CoLlm, Algorithm::RStitch].map(|own| [1, 4].map(|n| against_large_only(published, own, n)));
    let slower = [1, 4].map(|n| ratio(published, Algorithm::CoLlm, ["llm_only", "official"], n));
    let lifted = [1, 4].map(|n| ratio(published, Algorithm::CoLlm, ["tokenrouter", "official"], n));
    let citer_official = [1, 4].map(|n| ratio(published, Algorithm::Citer, ["official", "llm_only"], n));
    let citer = [1, 4].map(|n| against_large_only(published, Algorithm::Citer, n));
    vec![
        Claim::new(
            "R2R, concurrency 4: 2.73 times the official code, 1.68 times large-only",
            format!("{official:.2} times the official code, {large_only:.2} times large-only"),
            Verdict::of_parts(&[agrees(official, 2.73, 2), agrees(large_only, 1.68, 2)]),
            "original_settings: ratios of throughputs at concurrency 4",
        ),
        Claim::new(
            "R2R is the only one of the algorithms that beats large-only at concurrency 4 (the same text also says: R2R and CITER do)",
            format!("over large-only at concurrency 4: {}; above 1: {}", list(&at_4), winners.join(" and ")),
            Verdict::of(winners == ["R2R"]),
            "original_settings: serving system over large-only. The text contradicts itself; of its two sentences the table bears out the one that names R2R and CITER",
        ),
        Claim::new(
            "CITER loses to large-only",
            format!(
                "serving system over large-only {:.2} at concurrency 1 and {:.2} at 4; official code over large-only {:.2} and {:.2}",
                citer[0], citer[1], citer_official[0], citer_official[1]
            ),
            Verdict::of_parts(&[citer[0] < 1.0, citer[1] < 1.0]),
            "original_settings: of the serving system it is false at both concurrencies; only CITER's official code loses",
        ),
        Claim::new(
            "Co-LLM and R-Stitch lose to large-only (0.56 and 0.93 times) at concurrency 4; and at concurrency 1?",
            format!(
                "Co-LLM {:.2} at concurrency 4 and {:.2} at 1; R-Stitch {:.2} at concurrency 4 and {:.2} at 1",
                co_llm[1], co_llm[0], r_stitch[1], r_stitch[0]
            ),
            Verdict::of_parts(&[
                agrees(co_llm[1], 0.56, 2) && agrees(r_stitch[1], 0.93, 2),
                co_llm[0] < 1.0 && r_stitch[0] < 1.0,
            ]),
            "original_settings: at concurrency 4 as claimed. At concurrency 1 Co-LLM loses too, R-Stitch wins: whether routing pays depends on concurrency",
        ),
        Claim::new(
            "the official Co-LLM is 39 times slower than large-only",
            format!("{:.1} times at concurrency 4, {:.1} times at concurrency 1", slower[1], slower[0]),
            Verdict::of_parts(&[agrees(slower[1], 39.0, 0), agrees(slower[0], 39.0, 0)]),
            "original_settings: large-only over official. As claimed at concurrency 4 alone: large-only gains by batching, the official code hardly",
        ),
        Claim::new(
            "the serving system lifts Co-LLM 76 times over the official code",
            format!(
                "{:.1} times at concurrency 4, {:.1} times at concurrency 1; {:.2} is its throughput at concurrency 4 in tokens/s",
                lifted[1],
                lifted[0],
                throughput(published, Algorithm::CoLlm, "tokenrouter", 4)
            ),
            Verdict::of(lifted.iter().any(|lifted| agrees(*lifted, 76.0, 0))),
            "original_settings: serving system over official. The 76 is a throughput, not a ratio",
        ),
        denser(paper, &at_1, &at_4),
    ]
}

/// The denser the handoffs, the smaller the gain: by rank, over the four algorithms, and over the three that replace single tokens.
fn denser(paper: &Paper, at_1: &[(Algorithm, f64); 4], at_4: &[(Algorithm, f64); 4]) -> Claim {
    let density = ALGORITHMS.map(|algorithm| (algorithm, original_settings::handoffs_per_token(paper, algorithm)));
    let over_official = [Algorithm::R2r, Algorithm::Citer, Algorithm::CoLlm]
        .map(|algorithm| (algorithm, ratio(&paper.published, algorithm, ["tokenrouter", "official"], 4)));
    // Pairs of algorithms of which the denser one gains less.
    let agreeing = |gains: &[(Algorithm, f64)]| {
        let of =
            |wanted: Algorithm| density.iter().find(|(own, _)| *own == wanted).map_or(f64::NAN, |(_, value)| *value);
        let pairs =
            gains.iter().enumerate().flat_map(|(idx, one)| gains[idx + 1..].iter().map(move |other| (one, other)));
        let (mut agree, mut all) = (0, 0);
        for (one, other) in pairs {
            all += 1;
            agree += u32::from((of(one.0) - of(other.0)) * (one.1 - other.1) < 0.0);
        }
        (agree, all)
    };
    let (four, detours, official) = (agreeing(at_4), agreeing(&at_4[..3]), agreeing(&over_official));
    let alone = agreeing(at_1);
    Claim::new(
        "the denser the handoffs, the smaller the gain",
        format!(
            "handoffs a token: {}. Over large-only at concurrency 4: {}; the denser one gains less in {} of {} pairs ({} of {} without R-Stitch), at concurrency 1 in {} of {}. Over the official code: {}; in {} of {} pairs",
            list(&density),
            list(at_4),
            four.0,
            four.1,
            detours.0,
            detours.1,
            alone.0,
            alone.1,
            list(&over_official),
            official.0,
            official.1
        ),
        Verdict::of_parts(&[four.0 == four.1, detours.0 == detours.1, official.0 == official.1]),
        "original_settings: handoffs a token from the routing probabilities fitted at concurrency 1 (that of R-Stitch with b = 0.5 assumed). True of the gain over large-only among algorithms that replace single tokens; the gain over the official code goes the other way; models and data differ between algorithms, so four points prove no law",
    )
}
