use super::super::folder::tests::{facts, fingerprint};
use super::super::manifest::MANIFEST_FILE;
use super::*;
use proptest::prelude::*;
use std::fmt::Display;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    placement: String,
    every: u32,
    throughput: f64,
    speedup: Option<f64>,
}

const FIGURES: [NamedFile<'static>; 1] = [("figure.svg", b"<svg/>")];

fn grid() -> Vec<CellKey> {
    (0..6).map(key).collect()
}

fn key(every: u32) -> CellKey {
    CellKey::new([("placement", &"separate" as &dyn Display), ("every", &every)])
}

/// Numbers that a careless conversion would change.
fn row(every: u32) -> Row {
    let throughput = 1000.0 / f64::from(every + 3) + 1e-13;
    Row { placement: "quoted, \"so\"\nlong".to_owned(), every, throughput, speedup: (every > 2).then_some(0.1 + 0.2) }
}

fn open(folder: &Path, prompt_tokens: u32) -> Result<Opened<Journal>, StoreError> {
    Journal::open(folder, fingerprint(prompt_tokens), grid(), &["figure.svg"])
}

fn unfinished(folder: &Path) -> Journal {
    match open(folder, 100).unwrap() {
        Opened::Unfinished(journal) => journal,
        Opened::UpToDate(_) => panic!("nothing was finished"),
    }
}

/// What an uninterrupted run writes.
fn reference() -> Vec<u8> {
    cells::to_csv(&(0..6).map(row).collect::<Vec<_>>()).unwrap()
}

fn complete(folder: &Path) {
    let journal = unfinished(folder);
    for every in (0..6).filter(|&every| !journal.was_finished(&key(every))) {
        journal.record(&key(every), &row(every)).unwrap();
    }
    journal.finish(&FIGURES, facts()).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_sweep_ends_with_its_results_alone() {
    let folder = tempfile::tempdir().unwrap();
    complete(folder.path());
    assert_eq!(names(folder.path()), ["figure.svg", "manifest.json", "rows.csv"]);
    assert_eq!(fs::read(folder.path().join(ROWS_FILE)).unwrap(), reference());
    assert_eq!(read_rows::<Row>(folder.path()).unwrap(), (0..6).map(row).collect::<Vec<_>>());
    assert!(matches!(open(folder.path(), 100), Ok(Opened::UpToDate(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Any set of cells finished in any order, some cut short, a temporary file left: the end is the same.
    #[test]
    fn a_resumed_sweep_writes_the_same_bytes(
        before in Just((0..6_u32).collect::<Vec<_>>()).prop_shuffle(),
        n_before in 0..=6_usize,
        cut in prop::option::of(0..6_usize),
        cut_at in 0.0..1.0_f64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let journal = unfinished(folder.path());
        for &every in &before[..n_before] {
            journal.record(&key(every), &row(every)).unwrap();
        }
        let cells = journal.cells();
        drop(journal);
        fs::write(cells.join(".x.json.1-1.handoff-tmp"), "half").unwrap();
        let mut whole = n_before;
        if let Some(position) = cut.filter(|&position| position < n_before) {
            let path = fragment_path(&cells, &key(before[position]));
            let bytes = fs::read(&path).unwrap();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a short file")]
            let kept = (bytes.len() as f64 * cut_at) as usize;
            fs::write(&path, &bytes[..kept]).unwrap();
            whole -= 1;
        }

        let resumed = unfinished(folder.path());
        prop_assert_eq!(grid().iter().filter(|key| resumed.was_finished(key)).count(), whole);
        drop(resumed);
        complete(folder.path());
        prop_assert_eq!(fs::read(folder.path().join(ROWS_FILE)).unwrap(), reference());
        prop_assert_eq!(names(folder.path()), ["figure.svg", "manifest.json", "rows.csv"]);
    }
}

#[test]
fn killed_between_two_results() {
    let folder = tempfile::tempdir().unwrap();
    let journal = unfinished(folder.path());
    (0..6).for_each(|every| journal.record(&key(every), &row(every)).unwrap());
    drop(journal);
    // The results of the killed run, the last one not yet renamed, no manifest.
    fs::write(folder.path().join(ROWS_FILE), reference()).unwrap();
    fs::write(folder.path().join(".figure.svg.1-1.handoff-tmp"), "<sv").unwrap();
    complete(folder.path());
    assert_eq!(names(folder.path()), ["figure.svg", "manifest.json", "rows.csv"]);
    assert_eq!(fs::read(folder.path().join(ROWS_FILE)).unwrap(), reference());
}

#[test]
fn killed_after_the_manifest() {
    let folder = tempfile::tempdir().unwrap();
    complete(folder.path());
    write_header(folder.path(), &fingerprint(100)).unwrap();
    fs::create_dir(folder.path().join(CELLS_FOLDER)).unwrap();
    assert!(matches!(open(folder.path(), 100), Ok(Opened::UpToDate(_))));
    assert_eq!(names(folder.path()), ["figure.svg", "manifest.json", "rows.csv"]);
}

#[test]
fn a_journal_of_another_configuration_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let journal = unfinished(folder.path());
    journal.record(&key(1), &row(1)).unwrap();
    drop(journal);
    let error = open(folder.path(), 200).unwrap_err();
    assert!(error.is_wrong_input());
    let text = error.to_string();
    assert!(text.contains("`workload.prompt_tokens` is 100 there, but 200 was asked for"), "{text}");
    assert!(text.contains("hint: choose another folder with --out"), "{text}");
    assert!(unfinished(folder.path()).was_finished(&key(1)));
}

#[test]
fn results_without_a_journal_or_manifest_are_not_overwritten() {
    for name in ["rows.csv", "figure.svg", "cells"] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), "kept").unwrap();
        let error = open(folder.path(), 100).unwrap_err();
        assert!(matches!(&error, StoreError::Unexplained { file, .. } if file == name), "{error}");
        assert_eq!(fs::read(folder.path().join(name)).unwrap(), b"kept");
    }
}

#[test]
fn an_unfinished_grid_has_no_results() {
    let folder = tempfile::tempdir().unwrap();
    let journal = unfinished(folder.path());
    journal.record(&key(0), &row(0)).unwrap();
    assert!(matches!(journal.rows::<Row>(), Err(StoreError::MissingCell { cell }) if cell == key(1).as_str()));
    assert!(journal.finish(&FIGURES, facts()).is_err());
    assert!(!folder.path().join(MANIFEST_FILE).exists());
    assert!(unfinished(folder.path()).was_finished(&key(0)));
}

#[test]
fn cells_with_other_columns_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let journal = unfinished(folder.path());
    (0..5).for_each(|every| journal.record(&key(every), &row(every)).unwrap());
    #[derive(Serialize)]
    struct Other {
        every: u32,
    }
    journal.record(&key(5), &Other { every: 5 }).unwrap();
    let error = journal.rows::<Row>().unwrap_err().to_string();
    assert!(error.contains("its columns are `every`"), "{error}");
}

#[test]
fn cells_may_be_recorded_from_several_threads() {
    let folder = tempfile::tempdir().unwrap();
    let journal = unfinished(folder.path());
    std::thread::scope(|scope| {
        for every in 0..6 {
            let journal = &journal;
            scope.spawn(move || journal.record(&key(every), &row(every)).unwrap());
        }
    });
    assert_eq!(journal.rows::<Row>().unwrap(), (0..6).map(row).collect::<Vec<_>>());
}
