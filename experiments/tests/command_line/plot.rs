//! `plot` draws what a sweep drew.

use super::support::{TINY, Workbench};

#[test]
fn the_figure_is_drawn_again_to_the_byte() {
    let bench = Workbench::new();
    let sweeps = [
        ("placements", "sweep --every 1,2,4 --concurrency 1,4"),
        ("grid", "sweep --grid scheduler.mode=eager,delayed --grid policy.large=1..3"),
        ("thresholds", "sweep --scenario a100-paper --grid model.large.threshold=1..3"),
    ];
    for (name, sweep) in sweeps {
        bench.run_words(sweep, &[&TINY[..], &["--out", name]].concat()).done();
        for (from, out) in [(name.to_owned(), "from-folder"), (format!("{name}/rows.csv"), "from-file")] {
            let run = bench.run(&["plot", &from, "--out", out]);
            assert_eq!(run.stderr, format!("wrote figure.svg and figure.png to `{out}`\n"));
            assert_eq!(run.done(), "");
            for file in ["figure.svg", "figure.png"] {
                assert!(
                    bench.read(&format!("{out}/{file}")) == bench.read(&format!("{name}/{file}")),
                    "{name} {out} {file}"
                );
            }
        }
    }
}

/// Rows alone do not tell who computed them.
#[test]
fn rows_without_a_manifest_are_of_unknown_origin() {
    let bench = Workbench::new();
    bench.run_words("sweep --scenario pair.toml --every 1,2 --concurrency 2 --seed 9 --out out", &[]).done();
    bench.write("copy.csv", bench.read("out/rows.csv"));
    bench.run(&["plot", "copy.csv"]).done();
    let figure = bench.text("out/plot/figure.svg");
    assert!(figure.contains("scenario unknown, seed 9") && figure.contains("of unknown origin"), "{figure}");
    assert!(bench.text("out/figure.svg").contains("scenario pair.toml, seed 9"));
}
