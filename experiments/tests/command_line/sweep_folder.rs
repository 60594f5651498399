//! What `sweep` writes: rows, figure, manifest, and nothing twice.

use super::support::{TINY, Workbench, checked_manifest};

const SWEEP: &str = "sweep --every 1,2 --concurrency 1,3,16 --seed 5";

#[test]
fn a_finished_folder_holds_rows_figure_and_manifest() {
    let bench = Workbench::new();
    bench.run_words(SWEEP, &[&TINY[..], &["--out", "a/b"]].concat()).done();
    let manifest = checked_manifest(&bench, "a/b");
    let files: Vec<&str> =
        manifest["files"].as_array().expect("a list").iter().filter_map(|file| file["path"].as_str()).collect();
    assert_eq!(files, ["rows.csv", "figure.svg", "figure.png"]);
    assert_eq!(manifest["schema"], 1);
    assert_eq!(manifest["seed"], 5);
    assert_eq!(manifest["device"], "simulated");
    let command = manifest["command"].as_array().expect("a list");
    assert_eq!(command[..4], ["handoff", "sweep", "--every", "1,2"]);
    assert_eq!(manifest["scenario"]["name"], "h200.toml");
    let text = manifest["scenario"]["text"].as_str().expect("a text");
    assert!(text.contains("\n[[model]]\n") && text.contains("# --set workload.requests=5\n# --set"), "{text}");
    assert_eq!(manifest["profiles"].as_array().map(Vec::len), Some(1));
    assert_eq!(manifest["profiles"][0]["name"], "h200.csv");

    let figure = bench.text("a/b/figure.svg");
    for text in ["separate", "overlapped", "exclusive", "C = 1", "C = 3", "C = 16", "scenario h200.toml, seed 5"] {
        assert!(figure.contains(text), "{text}");
    }
    let image = bench.read("a/b/figure.png");
    assert!(image.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), "a PNG begins with its signature and its header");
    let size = |at: usize| u32::from_be_bytes(image[at..at + 4].try_into().expect("four bytes"));
    assert!(size(16) > 100 && size(20) > 100, "{} x {}", size(16), size(20));
}

#[test]
fn a_finished_folder_is_not_computed_again() {
    let bench = Workbench::new();
    let arguments = "sweep --scenario pair.toml --every 1,2 --concurrency 1,2 --out out --format";
    for format in ["table", "csv", "json"] {
        let first = bench.run_words(arguments, &[format]).done();
        let files = bench.files();
        let again = bench.run_words(arguments, &[format]);
        assert_eq!(again.stderr, "`out` already holds this sweep; nothing was computed again\n");
        assert_eq!(again.done(), first);
        assert_eq!(bench.files(), files);
    }
}

/// Without `--out`, the name of the folder follows from what is asked.
#[test]
fn each_sweep_has_a_folder_of_its_own() {
    let bench = Workbench::new();
    for (every, n_folders) in [("1", 1), ("2", 2), ("1", 2)] {
        bench.run_words("sweep --scenario pair.toml --concurrency 1 --every", &[every]).done();
        let folders =
            bench.files().into_keys().filter(|path| path.starts_with("out/sweep-") && path.ends_with('/')).count();
        assert_eq!(folders, n_folders);
    }
}

#[test]
fn rows_do_not_depend_on_the_number_of_threads() {
    let bench = Workbench::new();
    for threads in ["1", "2", "4"] {
        bench.run_words(SWEEP, &[&TINY[..], &["--threads", threads, "--out", threads]].concat()).done();
    }
    for file in ["rows.csv", "figure.svg", "figure.png"] {
        let first = bench.read(&format!("1/{file}"));
        assert!(bench.read(&format!("2/{file}")) == first && bench.read(&format!("4/{file}")) == first, "{file}");
    }
}

/// A folder is bound to the content of the files that were read, not to their names, however the scenario spells them.
#[test]
fn another_content_of_a_profile_is_another_sweep() {
    const PROFILE: &str =
        "device,model,kind,graph,rows,new_tokens,kv_tokens,peer_model,peer_rows,rate,mean_us,p50_us,p99_us,repeats
x,m,decode,true,1,1,16,,,,4000,4000,,
x,m,decode,true,8,1,16,,,,5000,5000,,
x,m,extend,true,1,4,16,,,,5000,5000,,
";
    let bench = Workbench::new();
    bench.write("points", PROFILE);
    bench.write("lengths.txt", "output_tokens\n20\n24\n");
    let arguments = [
        "--set",
        "model.small.cost={ profile = 'points', model = 'm' }",
        "--grid",
        "workload.output_tokens=24,{ csv = 'lengths.txt' }",
    ];
    let sweep = || bench.run_words("sweep --scenario pair.toml --out out", &arguments);
    sweep().done();
    let manifest = bench.json("out/manifest.json");
    let names: Vec<&str> = manifest["profiles"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|profile| profile["name"].as_str())
        .collect();
    assert_eq!(names, ["lengths.txt", "points"]);
    assert!(sweep().stderr.contains("nothing was computed again"));
    for (file, content) in
        [("points", PROFILE.replace("4000", "4001")), ("lengths.txt", "output_tokens\n20\n25\n".to_owned())]
    {
        let before = bench.read(file);
        bench.write(file, content);
        let run = sweep();
        assert_eq!(run.status, Some(2), "{}", run.stderr);
        assert!(run.stderr.contains("`out` holds the results of another run: `profiles."), "{}", run.stderr);
        bench.write(file, before);
    }
}

/// Whoever reads standard output may stop, as `head` does.
#[test]
fn a_closed_pipe_is_no_failure() {
    use std::io::Read;
    use std::process::Stdio;

    let bench = Workbench::new();
    // Longer than a pipe holds, so that the program is still writing when the reader goes.
    let grid =
        ["--grid", "scheduler.hop_us=1..300", "--set", "workload.requests=1", "--set", "workload.replications_max=2"];
    let arguments: Vec<&str> = "simulate --scenario pair.toml --format json".split(' ').chain(grid).collect();
    let mut child =
        bench.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut first = [0; 1];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("a document");
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}
