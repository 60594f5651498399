use super::*;
use proptest::prelude::*;
use std::io::Write;

fn lengths(text: impl AsRef<[u8]>) -> Result<Vec<u32>, String> {
    parse_lengths(Path::new("lengths.csv"), text.as_ref(), LengthColumn::OutputTokens)
        .map_err(|error| error.to_string())
}

fn arrivals(text: &str) -> Result<Vec<u64>, String> {
    parse_arrivals(Path::new("trace.csv"), text.as_bytes()).map_err(|error| error.to_string())
}

#[track_caller]
fn check_error(text: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(lengths(text), Err(expected.to_owned()));
}

#[test]
fn reads_one_column_or_the_right_one_of_several() {
    assert_eq!(lengths("output_tokens\n5\n7\n"), Ok(vec![5, 7]));
    assert_eq!(lengths("prompt_tokens,output_tokens\n1,5\n2,7"), Ok(vec![5, 7]));
    let text = b"arrival_s,output_tokens,prompt_tokens\n0.5,5,1\n1,7,2\n";
    assert_eq!(lengths(text), Ok(vec![5, 7]));
    assert_eq!(parse_lengths(Path::new("f"), text, LengthColumn::PromptTokens).unwrap(), [1, 2]);
    assert_eq!(parse_arrivals(Path::new("f"), text).unwrap(), [500_000_000, 1_000_000_000]);
}

#[test]
fn accepts_what_spreadsheets_write() {
    assert_eq!(lengths("\u{feff}output_tokens\r\n5\r\n\r\n \"7\" \r\n"), Err(wrong(4, "\\\"7\\\"")));
    assert_eq!(lengths("\u{feff}output_tokens\r\n5\r\n\r\n\"7\"\r\n"), Ok(vec![5, 7]));
    assert_eq!(lengths("\u{feff}\"output_tokens\"\n 5 \n"), Ok(vec![5]));
    assert_eq!(lengths("output_tokens\r5\r7"), Ok(vec![5, 7]));
    assert_eq!(lengths("output_tokens\n1\n16777216\n"), Ok(vec![1, 16_777_216]));
}

/// The error for a value, shown as `value`, in line `line`.
fn wrong(line: u64, value: &str) -> String {
    format!("lengths.csv:{line}: `output_tokens` is \"{value}\", expected a whole number from 1 to 16777216")
}

#[test]
fn wrong_values_are_named_with_their_line() {
    for value in ["0", "-5", "NaN", "inf", "1.5", "1e3", "16777217", "99999999999999999999", "0x10", "1_000", "five"] {
        check_error(format!("output_tokens\n7\n{value}\n"), &wrong(3, value));
    }
    check_error("prompt_tokens,output_tokens\n1,5\n2,\n", &wrong(3, ""));
    check_error("output_tokens\n\"\"\n", &wrong(2, ""));
    check_error("output_tokens\n5 7\n", &wrong(2, "5 7"));
    check_error("output_tokens\n5\u{7}\n", &wrong(2, "5\\u{7}"));
    check_error(format!("output_tokens\n{}\n", "9".repeat(1_000_000)), &wrong(2, &("9".repeat(40) + "...")));
}

#[test]
fn blank_lines_and_long_values_do_not_shift_the_line() {
    check_error("\n\r\n\noutput_tokens\n\n5\n\n\nx\n", &wrong(9, "x"));
    check_error("note,output_tokens\n\"two\nlines\",5\n,x\n", &wrong(4, "x"));
    // An open quote swallows the rest of the file.
    check_error("output_tokens\n5\n\"6\n7\n8\n", &wrong(3, "6\\n7\\n8"));
}

#[test]
fn text_in_another_encoding_is_refused() {
    check_error(b"output_tokens\n5\n\xff\n", "lengths.csv:3: `output_tokens` is \"\u{fffd}\", expected UTF-8 text");
    // UTF-16, as some spreadsheets write it.
    let utf16: Vec<u8> = "\u{feff}output_tokens\n5\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(lengths(utf16).unwrap_err().starts_with("lengths.csv:1: the columns are \"\u{fffd}\u{fffd}o\\0u\\0"));
    // Columns that are not asked for may hold anything.
    assert_eq!(lengths(b"name,output_tokens\n\xff,5\n"), Ok(vec![5]));
}

#[test]
fn the_header_must_name_the_column_once() {
    check_error("", "lengths.csv: the file is empty, expected a header line with `output_tokens`");
    check_error("\n\n", "lengths.csv: the file is empty, expected a header line with `output_tokens`");
    check_error("output_tokens\n\n", "lengths.csv: there are no rows, expected at least one `output_tokens`");
    check_error("5\n7\n", "lengths.csv:1: the columns are \"5\", expected `output_tokens` among them");
    check_error(
        "\nOutput_Tokens,b\n",
        "lengths.csv:2: the columns are \"Output_Tokens\", \"b\", expected `output_tokens` among them",
    );
    check_error(
        "a,b,c,d,e,f,g,h,i\n",
        "lengths.csv:1: the columns are \"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", ..., expected `output_tokens` among them",
    );
    check_error(
        "output_tokens,a,output_tokens\n1,2,3\n",
        "lengths.csv:1: `output_tokens` is the name of 2 columns, expected one",
    );
}

#[test]
fn rows_must_be_as_wide_as_the_header() {
    check_error("a,output_tokens\n1,2\n\n3\n", "lengths.csv:4: the row has 1 values, expected 2 as in the header");
    check_error("output_tokens\n1,2\n", "lengths.csv:2: the row has 2 values, expected 1 as in the header");
}

#[test]
fn arrivals_are_seconds_that_never_decrease() {
    assert_eq!(
        arrivals("arrival_s\n0\n0.000000001\n1e-3\n2.5\n2.5\n1000000000\n"),
        Ok(vec![0, 1, 1_000_000, 2_500_000_000, 2_500_000_000, 1_000_000_000_000_000_000])
    );
    assert_eq!(
        arrivals("arrival_s\n1.5\n2.25\n\n2.2\n"),
        Err("trace.csv:5: `arrival_s` is \"2.2\", expected at least 2.25, the arrival in line 3".to_owned())
    );
    for value in ["-0.1", "NaN", "inf", "1e999", "1000000001", "soon", "1,5"] {
        let expected = if value == "1,5" {
            "trace.csv:2: the row has 2 values, expected 1 as in the header".to_owned()
        } else {
            format!("trace.csv:2: `arrival_s` is \"{value}\", expected a number of seconds from 0 to 1000000000")
        };
        assert_eq!(arrivals(&format!("arrival_s\n{value}\n")), Err(expected));
    }
}

#[test]
fn files_are_read_and_their_absence_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lengths.csv");
    let missing = read_lengths(&file, LengthColumn::PromptTokens).unwrap_err().to_string();
    assert!(missing.starts_with(&format!("{}: cannot be read: ", file.display())), "{missing}");
    File::create(&file).unwrap().write_all(b"prompt_tokens,arrival_s\n12,0.25\n").unwrap();
    assert_eq!(read_lengths(&file, LengthColumn::PromptTokens).unwrap(), [12]);
    assert_eq!(read_arrivals(&file).unwrap(), [250_000_000]);
    File::create(&file).unwrap().set_len(BYTES_MAX + 1).unwrap();
    assert_eq!(
        read_arrivals(&file).unwrap_err().to_string(),
        format!("{}: the file is too large, expected at most 67108864 bytes", file.display())
    );
}

/// Bytes of the kind that CSV files are made of, so that odd structure comes up often.
fn csv_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"output_tokens".to_vec()),
        Just(b"arrival_s".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        prop::sample::select(b",,\"\"\n\n\r 0123456789.-e\xff\x00".to_vec()).prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(noise in prop::collection::vec(any::<u8>(), 0..300), csv in csv_like()) {
        let file = Path::new("f");
        let with_header = [b"output_tokens,arrival_s\n".as_slice(), &csv].concat();
        for bytes in [&noise, &csv, &with_header] {
            if let Ok(tokens) = parse_lengths(file, bytes, LengthColumn::OutputTokens) {
                prop_assert!(!tokens.is_empty() && tokens.iter().all(|tokens| (1..=TOKENS_MAX).contains(tokens)));
            }
            if let Ok(times_ns) = parse_arrivals(file, bytes) {
                prop_assert!(!times_ns.is_empty() && times_ns.is_sorted());
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back(tokens in prop::collection::vec(1..=TOKENS_MAX, 1..50), blanks in 0_usize..3) {
        let end = "\n".repeat(blanks + 1);
        let rows: String = tokens.iter().map(|tokens| format!("x,{tokens}{end}")).collect();
        prop_assert_eq!(lengths(format!("a,output_tokens{end}{rows}")), Ok(tokens));
    }

    #[test]
    fn the_line_of_an_error_is_right(before in prop::collection::vec(prop_oneof!["", "[1-9]", "\"[1-9]\""], 0..20)) {
        let rows: String = before.iter().map(|row| format!("{row}\n")).collect();
        prop_assert_eq!(lengths(format!("output_tokens\n{rows}x\n")), Err(wrong(before.len() as u64 + 2, "x")));
    }
}
