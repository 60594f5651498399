//! A sweep that is stopped on its way and run again.
#![cfg(unix)]

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::support::Workbench;

/// 40 cells, long enough that the program does not finish them between two looks at the folder.
const SWEEP: &str = "sweep --scenario pair.toml --every 1,2,3,4,5,6,7,8 --concurrency 1..5 --threads 1 --out out --format csv \
    --set workload.requests=300 --set workload.output_tokens=200 --set workload.replications_min=5 \
    --set workload.replications_max=5";
const N_CELLS: usize = 40;

fn spawn(bench: &Workbench) -> Child {
    let arguments: Vec<&str> = SWEEP.split_whitespace().collect();
    bench.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// Finished cells in the journal.
fn n_finished(bench: &Workbench) -> usize {
    let Ok(entries) = std::fs::read_dir(bench.path("out/cells")) else { return 0 };
    entries
        .filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "json")))
        .count()
}

/// Waits for the first finished cells.
fn wait_for_cells(bench: &Workbench, child: &mut Child) {
    while n_finished(bench) < 3 {
        assert!(child.try_wait().expect("a child").is_none(), "the sweep ended before it could be stopped");
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_sweep_that_was_stopped_ends_in_the_same_bytes() {
    let bench = Workbench::new();
    let reference = bench.run_words(SWEEP, &[]).done();
    assert_eq!(reference.lines().count(), 1 + N_CELLS);
    let files = bench.files();
    let clean = || std::fs::remove_dir_all(bench.path("out")).expect("a folder");

    // Killed, it says nothing, and what is finished is kept.
    clean();
    let mut child = spawn(&bench);
    wait_for_cells(&bench, &mut child);
    child.kill().expect("a running child");
    child.wait().expect("a child");
    let kept = n_finished(&bench);
    assert!((3..N_CELLS).contains(&kept), "{kept} cells");
    assert!(!bench.path("out/manifest.json").exists() && !bench.path("out/rows.csv").exists());

    // Interrupted, it says how far it has come.
    let mut child = spawn(&bench);
    while n_finished(&bench) <= kept {
        assert!(child.try_wait().expect("a child").is_none(), "the sweep ended before it could be stopped");
        sleep(Duration::from_millis(1));
    }
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("the command kill");
    assert!(signal.success());
    let output = child.wait_with_output().expect("a child");
    let stderr = String::from_utf8(output.stderr).expect("a text");
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert_eq!(output.stdout, b"", "no result, no output");
    let finished = n_finished(&bench);
    assert!((kept + 1..N_CELLS).contains(&finished), "{finished} cells");
    assert!(stderr.contains(&format!("going on in `out`: {kept} of {N_CELLS} cells are finished\n")), "{stderr}");
    let expected = format!(
        "error: interrupted: {finished} of {N_CELLS} cells are finished and kept in `out`; the same command goes on from there\n"
    );
    assert!(stderr.ends_with(&expected), "{stderr}");

    let run = bench.run_words(SWEEP, &[]);
    assert!(run.stderr.starts_with(&format!("going on in `out`: {finished} of {N_CELLS} cells are finished\n")));
    assert_eq!(run.done(), reference);
    let mut found = bench.files();
    // The manifest alone says when it was written.
    let manifests = [found.remove("out/manifest.json"), files.get("out/manifest.json").cloned()];
    assert!(manifests.iter().all(Option::is_some));
    let mut expected = files.clone();
    expected.remove("out/manifest.json");
    assert!(found == expected, "the same files with the same bytes, and no journal");
}

#[test]
fn a_folder_in_use_is_refused() {
    let bench = Workbench::new();
    let mut child = spawn(&bench);
    wait_for_cells(&bench, &mut child);
    let second = bench.run_words(SWEEP, &[]);
    child.kill().expect("a running child");
    child.wait().expect("a child");
    assert_eq!(second.status, Some(2));
    assert_eq!(second.stdout, "");
    assert!(second.stderr.starts_with("error: another run is writing into `out`\n"), "{}", second.stderr);
}
