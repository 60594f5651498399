//! Result folders that are not this run's to fill.

use super::{Case, call};
use crate::support::PAIR;

const SWEEP: &str = "sweep --scenario pair.toml --every 1,2 --concurrency 1 --out out";
const SIMULATE: &str = "simulate --scenario pair.toml --out out";

pub(super) fn cases() -> Vec<Case> {
    let of_sweep = |what, words: &str, named| call(what, &format!("{SWEEP} {words}"), named);
    vec![
        of_sweep(
            "the folder of another seed",
            "--seed 2",
            &[
                "`out` holds the results of another run: `scenario.set.seed` is absent there, but \"2\" was asked for",
                "--out",
            ],
        )
        .after(&[SWEEP]),
        call(
            "the folder of another grid",
            "sweep --scenario pair.toml --every 1,4 --concurrency 1 --out out",
            &["another run: `axes.every.1` is 2 there, but 4 was asked for"],
        )
        .after(&[SWEEP]),
        call(
            "the folder of another command",
            SIMULATE,
            &["another run: `command` is \"sweep\" there, but \"simulate\" was asked for"],
        )
        .after(&[SWEEP]),
        call(
            "the folder of another scenario",
            "simulate --scenario pair.toml --set policy.small=3 --out out",
            &["another run: `scenario.set.policy.small` is absent there, but \"3\" was asked for"],
        )
        .after(&[SIMULATE]),
        of_sweep(
            "the folder of a scenario that was edited since",
            "",
            &["another run: `scenario.line.5` is \"requests = 5\" there, but \"requests = 6\" was asked for"],
        )
        .after(&[SWEEP])
        .then("pair.toml", PAIR.replace("requests = 5", "requests = 6")),
        of_sweep(
            "a finished folder that was edited since",
            "",
            &["`out` is finished, but its `rows.csv` is not the one"],
        )
        .after(&[SWEEP])
        .then("out/rows.csv", "placement\n"),
        of_sweep(
            "a folder with rows of unknown origin",
            "",
            &["`out` already holds `rows.csv`, but no manifest.json", "--out"],
        )
        .with("out/rows.csv", "mine"),
        call("a folder with a report of unknown origin", SIMULATE, &["`out` already holds `report.json`"])
            .with("out/report.json", "mine"),
        of_sweep("a folder with cells of unknown origin", "", &["`out` already holds `cells`"])
            .with("out/cells/mine.json", "{}"),
        of_sweep("a manifest that makes no sense", "", &["cannot understand `out/manifest.json`"])
            .with("out/manifest.json", "{"),
        of_sweep("a journal that makes no sense", "", &["cannot understand `out/sweep.json`"])
            .with("out/sweep.json", "{}"),
        call(
            "a file for a folder",
            "sweep --scenario pair.toml --out pair.toml",
            &["--out pair.toml", "is a file, expected a folder"],
        ),
        call(
            "a folder below a file",
            "simulate --scenario pair.toml --out pair.toml/below",
            &["--out pair.toml/below", "`pair.toml` is a file"],
        ),
        call("a folder without a name", "simulate --out", &["--out <DIR>", "value is required"]).and(""),
    ]
}
