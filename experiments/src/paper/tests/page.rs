//! docs/paper.md against the code: its tables and its key sentences carry the numbers that the commands print at the page's seed.

use super::super::claims::sweep::Where;
use super::super::detail::{Alternative, Details, EffectScore, Implied};
use super::super::placement::switch_ms;
use super::super::report::{Cell, percent};
use super::{curves, paper, table, tables};
use crate::paper::report::TableReport;

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/paper.md")).unwrap()
}

/// Fails with every line that no line of the page begins with.
#[track_caller]
fn assert_lines(expected: &[String]) {
    let page = page();
    let missing: Vec<&String> =
        expected.iter().filter(|wanted| !page.lines().any(|line| line.starts_with(wanted.as_str()))).collect();
    assert!(missing.is_empty(), "docs/paper.md lacks these lines:\n{missing:#?}");
}

/// Fails with every phrase that the page lacks, wherever its lines break.
#[track_caller]
fn assert_phrases(expected: &[String]) {
    let page = page().split_whitespace().map(str::to_owned).collect::<Vec<String>>().join(" ");
    let missing: Vec<&String> = expected.iter().filter(|wanted| !page.contains(wanted.as_str())).collect();
    assert!(missing.is_empty(), "docs/paper.md lacks these phrases:\n{missing:#?}");
}

fn line(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// A signed percentage.
fn signed(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

#[test]
fn how_well_it_predicts() {
    let row = |title: &str, report: &TableReport, wanted: &dyn Fn(&Cell) -> bool| {
        let cells = report.cells.iter().filter(|cell| wanted(cell) && cell.error().is_some()).count();
        let (mean, worst) = report.errors(wanted).unwrap();
        let [own, borrowed] = [report.parameters.len(), report.details.borrowed.len()];
        line(&[
            title.to_owned(),
            own.to_string(),
            borrowed.to_string(),
            cells.to_string(),
            percent(mean),
            percent(worst),
        ])
    };
    let whole = |name: &str| row(&format!("`{name}`"), table(name), &|_| true);
    let names = ["threshold", "ablation", "placement", "model_pairs", "multi_node", "parallel"];
    let mut expected: Vec<String> = names.map(whole).to_vec();
    let original = table("original_settings");
    let serving = |cell: &Cell| cell.row.ends_with("tokenrouter");
    expected.push(row("`original_settings`, serving system", original, &serving));
    expected.push(row("`original_settings`, official code", original, &|cell| !serving(cell)));
    let two = |cell: &Cell| cell.column.starts_with("nodes: two");
    expected.push(row("`multi_node`, two nodes alone", table("multi_node"), &two));
    expected.push(row("`multi_node`, two nodes at C = 4", table("multi_node"), &|cell| {
        two(cell) && cell.column.ends_with('4')
    }));
    assert_lines(&expected);
    let error = |row: &str, column: &str| signed(original.cell(row, column).error().unwrap());
    let own = ["CITER", "R-Stitch", "R2R", "Co-LLM"]
        .map(|name| format!("{name} {}", error(&format!("{name} tokenrouter"), "concurrency 4")));
    assert_phrases(&own);
    let n_parameters = 5 + tables().iter().map(|report| report.parameters.len()).sum::<usize>();
    assert_phrases(&[format!("{n_parameters} parameters in all")]);
}

#[test]
fn the_machines() {
    let machine = paper().machine;
    assert_lines(&[
        format!("| `layer_ms` | {:.3} ms |", machine.layer_ms),
        format!("| `row_ms` | {:.2} ms |", machine.row_ms),
        format!("| `routing_ms` | {:.2} ms |", machine.routing_ms),
        format!("| co-run rate of the small model | {:.2} |", machine.corun[0]),
        format!("| co-run rate of the large model | {:.2} |", machine.corun[1]),
    ]);
}

/// Where the latencies may have been read.
#[test]
fn readings_of_the_latencies() {
    let errors = |alternative: &Alternative| {
        let words = alternative
            .errors()
            .map_or_else(|| ["none".to_owned(), String::new()], |(mean, worst)| [percent(mean), percent(worst)]);
        let title = alternative.assumption.replace("latencies read at concurrency ", "C = ");
        line(&[title, words[0].clone(), words[1].clone()])
    };
    let alternatives = &table("threshold").details.alternatives;
    assert_eq!(alternatives.len(), 10);
    assert_lines(&alternatives.iter().map(errors).collect::<Vec<String>>());
}

#[test]
fn against_the_large_model_alone() {
    let Details { effects, alternatives, implied, .. } = &table("original_settings").details;
    let words = |name: &str, concurrency: u32| {
        let effect = effects.iter().find(|effect| (effect.row.as_str(), effect.concurrency) == (name, concurrency));
        let effect = effect.unwrap();
        format!("{:.2} ({:.2})", effect.published, effect.predicted)
    };
    let names = ["R2R", "CITER", "R-Stitch", "Co-LLM"];
    let mut expected = names.map(|name| line(&[name.to_owned(), words(name, 1), words(name, 4)])).to_vec();
    let report = table("original_settings");
    let predicted = |row: &str| format!("{:.1}", report.cell(row, "concurrency 4").predicted.unwrap());
    let published = |row: &str| format!("{:.1}", report.cell(row, "concurrency 4").published);
    for name in names {
        let [serving, large_only] = ["tokenrouter", "llm_only"].map(|code| format!("{name} {code}"));
        let untuned =
            alternatives.iter().find(|other| other.assumption == "no threshold" && other.cells.starts_with(&serving));
        let untuned = format!("{:.1}", untuned.unwrap().predicted.unwrap());
        let cells = [predicted(&serving), untuned, predicted(&large_only), published(&serving), published(&large_only)];
        expected.push(line(&[[name.to_owned()].as_slice(), &cells].concat()));
    }
    let of_b = alternatives.iter().filter(|other| other.assumption.starts_with("b ="));
    let (names, values): (Vec<String>, Vec<String>) =
        of_b.map(|other| (other.assumption.clone(), format!("{:.1}", other.predicted.unwrap()))).unzip();
    expected.push(line(&names));
    expected.push(line(&values));
    assert_lines(&expected);
    let [system, official] = &implied[..] else { panic!("two probabilities: {implied:?}") };
    assert_phrases(&[format!(
        "p = {:.2} would meet the serving system and p = {:.2} the official code",
        system.value, official.value
    )]);
}

/// Sizes of effects, and what each algorithm alone would give for their parameter.
#[test]
fn effects_of_places() {
    let mut expected = Vec::new();
    for name in ["placement", "multi_node"] {
        let Details { effects, implied, .. } = &table(name).details;
        for Implied { by: algorithm, value, .. } in implied {
            let of = |concurrency: u32| {
                let wanted = (algorithm.as_str(), concurrency);
                let effect = effects.iter().find(|effect| (effect.row.as_str(), effect.concurrency) == wanted).unwrap();
                [signed(effect.published - 1.0), signed(effect.predicted - 1.0)]
            };
            let [one, four] = [of(1), of(4)];
            let value = format!("{value:.2} ms");
            expected.push(line(&[[algorithm.to_owned()].as_slice(), &one, &four, &[value]].concat()));
        }
    }
    assert_lines(&expected);
    let share = |name: &str| EffectScore::of(&table(name).details.effects, Some(4)).unwrap().words();
    assert_phrases(&[share("placement"), share("multi_node")]);
    assert_phrases(&[format!("{:.2} ms a step", switch_ms(&paper().published))]);
}

/// The detours of ablation, and the bound on messages.
#[test]
fn what_a_handoff_costs() {
    let reading = &table("ablation").reading;
    let detours = reading.split("of a single request: ").nth(1).unwrap().split(". Messages").next().unwrap();
    let detours: Vec<String> = detours
        .split("; ")
        .map(|detour| detour.split_once(" ms (").unwrap().1.trim_end_matches(')').to_owned())
        .collect();
    assert_eq!(detours.len(), 2);
    assert_phrases(&detours);
    let bound = reading.split("a handoff would take ").nth(1).unwrap();
    assert_phrases(&[format!("at most {}", bound.trim_end_matches('.'))]);
}

#[test]
fn switching_every_n_tokens() {
    let title = |place: Where| match place {
        Where::Published => "published steps, separate devices",
        Where::Calibrated => "calibrated machine, shared GPUs",
    };
    let mut expected = Vec::new();
    for curve in curves() {
        let mixing = match (curve.concurrency, curve.mixed) {
            (1, _) => "",
            (_, true) => ", together",
            (_, false) => ", apart",
        };
        let first = format!("{}, C = {}{mixing}", title(curve.place), curve.concurrency);
        let cells = [1, 2, 3, 4, 8, 64].map(|every| curve.at(every).words());
        expected.push(line(&[[first].as_slice(), &cells].concat()));
    }
    for curve in curves().iter().filter(|curve| curve.concurrency > 1) {
        let (fit, lack, (every, residual)) = (curve.line(), curve.lack_of_fit(), curve.farthest());
        let mixing = if curve.mixed { "together" } else { "apart" };
        expected.push(line(&[
            format!("{}, C = {}, {mixing}", title(curve.place), curve.concurrency),
            curve.break_even_words(),
            format!("{:.1} + {:.1}", fit.intercept, fit.slope),
            format!("{:.2}", fit.r_squared),
            format!("N = {every}, {:+.0} %", residual * 100.0),
            format!("{:.0}", lack.f),
        ]));
    }
    assert_lines(&expected);
}
