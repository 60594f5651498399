use proptest::prelude::*;

use super::*;

const HEADER: &str = "request,step,model,destination,committed,entropy";

fn read(text: &[u8]) -> Result<RouteRecord, RecordError> {
    RouteRecord::from_reader(text, "routes.csv", 2)
}

#[track_caller]
fn check_error(text: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(read(text.as_ref()).unwrap_err().to_string(), expected);
}

#[test]
fn mixed_requests_are_sorted_out() {
    let text = "request,step,model,destination,committed,entropy\n\
        8,0,0,stay,true,0.1\n\
        3,0,1,0,true,\n\
        8,1,0,1,false,0.9\n\
        \r\n\
        3,1,0,finished,true,0\n\
        8,2,1,0,true,1e-3";
    let record = read(text.as_bytes()).unwrap();
    assert_eq!((record.n_models(), record.n_requests(), record.n_steps()), (2, 2, 5));
    let expected = [
        (3, 1, vec![Outcome::commit_to(ModelIdx(0)), Outcome::FINISHED], 2),
        (8, 0, vec![Outcome::STAY, Outcome::drop_to(ModelIdx(1)), Outcome::commit_to(ModelIdx(0))], 2),
    ];
    for (request, (number, first, outcomes, tokens)) in record.requests().zip(expected) {
        assert_eq!((request.number, request.first_model), (number, ModelIdx(first)));
        assert_eq!(request.outcomes, outcomes);
        assert_eq!(request.tokens(), tokens);
    }
}

#[test]
fn columns_may_be_quoted_and_in_any_order() {
    let text = "\"entropy\",\"committed\",\"destination\",\"model\",\"step\",\"request\"\r\n0.5,\"true\",\"stay\",\"0\",0,18446744073709551615\r\n";
    let mut reader = RecordReader::new(text.as_bytes(), "routes.csv", 1).unwrap();
    assert_eq!(reader.line(), 1);
    let row = reader.next().unwrap().unwrap();
    let expected =
        RecordRow { request: u64::MAX, step: 0, model: ModelIdx(0), outcome: Outcome::STAY, entropy: Some(0.5) };
    assert_eq!(row, expected);
    assert_eq!(reader.line(), 2);
    assert!(reader.next().is_none());
}

#[test]
fn wrong_files_are_refused() {
    check_error("", &format!("routes.csv: the file is empty, expected the header `{HEADER}`"));
    check_error("\n\n", &format!("routes.csv:2: the file is empty, expected the header `{HEADER}`"));
    check_error(format!("{HEADER}\n"), "routes.csv:1: there are no rows after the header, expected one or more");
    let mark = "routes.csv:1: the file begins with a byte order mark, expected UTF-8 text without one";
    check_error(format!("\u{feff}{HEADER}\n"), mark);
    check_error(b"\xFF\xFEr\0e\0", mark);
    check_error(b"\xFE\xFF\0r\0e", mark);
    check_error(vec![b'x'; 5000], "routes.csv:1: the line has more than 1024 bytes, expected 6 short fields");
}

#[test]
fn wrong_headers_are_refused() {
    check_error(
        "request,step,model,destination,committed\n",
        &format!("routes.csv:1: column `entropy` is missing, expected `{HEADER}`"),
    );
    check_error(format!("{HEADER},note\n"), &format!("routes.csv:1: column `note` is unknown, expected `{HEADER}`"));
    check_error(
        format!("{HEADER},step\n"),
        &format!("routes.csv:1: column `step` appears twice, expected each of `{HEADER}` once"),
    );
    check_error(b"requ\xFFest\n", &format!("routes.csv:1: column `requ\u{fffd}est` is unknown, expected `{HEADER}`"));
}

#[test]
fn wrong_fields_are_refused() {
    let cases: [(&[u8], &str); 19] = [
        (b"0,0,0,stay,true", "the row has 5 fields, expected 6 as in the header"),
        (b"0,0,0,stay,true,,", "the row has 7 fields, expected 6 as in the header"),
        (b"-1,0,0,stay,true,", "`request` is `-1`, expected an integer from 0 to 18446744073709551615"),
        (
            b"18446744073709551616,0,0,stay,true,",
            "`request` is `18446744073709551616`, expected an integer from 0 to 18446744073709551615",
        ),
        (b"0,4294967296,0,stay,true,", "`step` is `4294967296`, expected an integer from 0 to 4294967295"),
        (b"0,,0,stay,true,", "`step` is ``, expected an integer from 0 to 4294967295"),
        (b"0,0,2,stay,true,", "`model` is `2`, expected the index of a model, below 2"),
        (b"0,0,256,stay,true,", "`model` is `256`, expected the index of a model, below 2"),
        (b"0,0,0,2,true,", "`destination` is `2`, expected `stay`, `finished` or the index of another model, below 2"),
        (b"0,0,1,1,true,", "`destination` is `1`, expected `stay`, `finished` or the index of another model than 1"),
        (
            b"0,0,0,Stay,true,",
            "`destination` is `Stay`, expected `stay`, `finished` or the index of another model, below 2",
        ),
        (b"0,0,0,stay,True,", "`committed` is `True`, expected `true` or `false`"),
        (b"0,0,0,finished,false,", "`committed` is `false`, expected `true` where the destination is `finished`"),
        (b"0,0,0,stay,true,NaN", "`entropy` is `NaN`, expected a finite number, 0 or more, or nothing"),
        (b"0,0,0,stay,true,inf", "`entropy` is `inf`, expected a finite number, 0 or more, or nothing"),
        (b"0,0,0,stay,true,1e99", "`entropy` is `1e99`, expected a finite number, 0 or more, or nothing"),
        (b"0,0,0,stay,true,-0.1", "`entropy` is `-0.1`, expected a finite number, 0 or more, or nothing"),
        (b"0,0,0,st\xFFay,true,", "`destination` is `st\u{fffd}ay`, expected UTF-8 text"),
        (
            b"0,0,0,stay,\t\0abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz,",
            "`committed` is `\\t\\0abcdefghijklmnopqrstuvwxyzabcdefghijkl..`, expected `true` or `false`",
        ),
    ];
    for (row, expected) in cases {
        let text = [HEADER.as_bytes(), b"\r\n9,0,0,stay,true,\r\n\r\n", row, b"\r\n"].concat();
        check_error(text, &format!("routes.csv:4: {expected}"));
    }
}

#[test]
fn rows_that_form_no_route_are_refused() {
    let cases = [
        ("0,1,0,stay,true,", "`step` of request 0 is 1, expected 0"),
        ("0,0,0,stay,true,\n0,0,0,stay,true,", "`step` of request 0 is 0, expected 1"),
        ("0,0,0,stay,true,\n0,2,0,stay,true,", "`step` of request 0 is 2, expected 1"),
        (
            "0,0,0,stay,true,\n0,1,1,stay,true,",
            "`model` at step 1 of request 0 is 1, expected 0 where the step before left the request",
        ),
        (
            "7,0,0,1,false,\n7,1,0,stay,true,",
            "`model` at step 1 of request 7 is 0, expected 1 where the step before left the request",
        ),
        (
            "0,0,0,finished,true,\n0,1,0,stay,true,",
            "request 0 has a step 1 after its `destination` was `finished`, expected no more steps",
        ),
    ];
    for (rows, expected) in cases {
        let line = rows.lines().count() + 1;
        check_error(format!("{HEADER}\n{rows}\n"), &format!("routes.csv:{line}: {expected}"));
    }
}

#[test]
fn the_reader_ends_after_an_error() {
    let text = format!("{HEADER}\n0,0,0,stay,true,\nbad\n1,0,0,stay,true,\n");
    let rows: Vec<bool> = RecordReader::new(text.as_bytes(), "", 2).unwrap().map(|row| row.is_ok()).collect();
    assert_eq!(rows, [true, false]);
}

#[test]
fn rows_that_no_reader_accepts_are_not_written() {
    let good = RecordRow { request: 1, step: 0, model: ModelIdx(0), outcome: Outcome::STAY, entropy: None };
    let dropped_end = Outcome { destination: Destination::Finished, committed: false };
    let bad = [
        RecordRow { entropy: Some(f32::NAN), ..good },
        RecordRow { entropy: Some(-1.0), ..good },
        RecordRow { outcome: Outcome::commit_to(ModelIdx(0)), ..good },
        RecordRow { outcome: dropped_end, ..good },
    ];
    let mut writer = RecordWriter::new(Vec::new()).unwrap();
    for row in bad {
        assert_eq!(writer.write(&row).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }
    writer.write(&good).unwrap();
    assert_eq!(writer.finish().unwrap(), format!("{HEADER}\n1,0,0,stay,true,\n").into_bytes());
}

fn any_row() -> impl Strategy<Value = RecordRow> {
    let finite = prop_oneof![Just(None), (0.0_f32..1e30).prop_map(Some)];
    (any::<u64>(), any::<u32>(), 0_u8..5, 0_u8..7, any::<bool>(), finite).prop_map(
        |(request, step, model, destination, committed, entropy)| {
            let outcome = match destination {
                5 => Outcome::FINISHED,
                to if to == model || to == 6 => Outcome { destination: Destination::Stay, committed },
                to => Outcome { destination: Destination::To(ModelIdx(to)), committed },
            };
            RecordRow { request, step, model: ModelIdx(model), outcome, entropy }
        },
    )
}

/// Text that gets past the first checks: made of what a route record is made of.
fn likely_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "0", "1", "2", "stay", "finished", "true", "false", "0.5", "nan", ",", ",", ",", ",", "\n", "\r\n", "\"", "-",
        "", "é",
    ]);
    let row = ("[0-2]", "[0-3]", "[0-2]", "(stay|finished|[0-2])", "(true|false)", "(|0\\.5|x)");
    let row = row.prop_map(|(request, step, model, destination, committed, entropy)| {
        format!("{request},{step},{model},{destination},{committed},{entropy}\n")
    });
    let part = prop_oneof![3 => row, 1 => prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())];
    prop::collection::vec(part, 0..12).prop_map(|parts| format!("{HEADER}\n{}", parts.concat()))
}

proptest! {
    #[test]
    fn any_bytes_give_a_record_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes);
        let _ = read(&[HEADER.as_bytes(), b"\n", &bytes].concat());
    }

    #[test]
    fn likely_text_gives_a_record_or_an_error(text in likely_text()) {
        match read(text.as_bytes()) {
            Ok(record) => prop_assert!(record.requests().all(|request| !request.outcomes.is_empty())),
            Err(error) => prop_assert!(error.to_string().starts_with("routes.csv:"), "{}", error),
        }
    }

    #[test]
    fn what_is_written_is_read(rows in prop::collection::vec(any_row(), 0..20)) {
        let mut writer = RecordWriter::new(Vec::new()).unwrap();
        rows.iter().for_each(|row| writer.write(row).unwrap());
        let text = writer.finish().unwrap();
        let found: Vec<RecordRow> = RecordReader::new(&text[..], "", 5).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(found, rows);
    }
}
