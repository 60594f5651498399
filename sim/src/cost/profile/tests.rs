use proptest::prelude::*;

use super::*;
use crate::cost::{CorunRates, HopLatency, HostCost, Jitter, RouterLatency, Selection, StepLatency, TableLatency};

const HEADER: &str =
    "device,model,kind,graph,rows,new_tokens,kv_tokens,peer_model,peer_rows,rate,mean_us,p50_us,p99_us,repeats";
const DECODE: &str = "H200,m,decode,true,4,1,512,,,,20.5,20,30,15";

fn parse(text: &str) -> Result<Profile, ProfileError> {
    Profile::parse(text.as_bytes(), "p.csv")
}

/// The error of a file with the right header, [`DECODE`] on line 2 and `row` on line 3.
fn error_of_row(row: &str) -> String {
    parse(&format!("{HEADER}\n{DECODE}\n{row}\n")).unwrap_err().to_string()
}

fn error_of(bytes: &[u8]) -> String {
    Profile::parse(bytes, "p.csv").unwrap_err().to_string()
}

#[test]
fn reads_every_kind() {
    let profile = parse(&format!(
        "{HEADER}\n{DECODE}\nH200,m,extend,false,2,8,0,,,,40,,,\nH200,m,corun,true,4,,,n,2,0.25,82,81,,7\n\
         H200,n,corun,true,2,,,m,4,1,,,,\nH200,m,router,false,4,,,,,,5,,,\nH200,m,hop,,,,,n,,,9,,,\nA100-80G,,hop,,,,,,,,8,,,\n\
         H200,launch,host,,,,,,,,1.5,,,\n"
    ))
    .unwrap();
    let time = |mean_us| Measured { mean_us, p50_us: None, p99_us: None, repeats: None };
    let (device, model, peer) = ("H200".to_owned(), "m".to_owned(), "n".to_owned());
    assert_eq!(profile.name(), "p.csv");
    assert_eq!(profile.devices(), ["A100-80G", "H200"]);
    assert_eq!(
        profile.steps(),
        [
            StepPoint {
                device: device.clone(),
                model: model.clone(),
                graph: true,
                rows: 4,
                new_tokens: 1,
                kv_tokens: 512,
                time: Measured { mean_us: 20.5, p50_us: Some(20.0), p99_us: Some(30.0), repeats: Some(15) },
            },
            StepPoint {
                device: device.clone(),
                model: model.clone(),
                graph: false,
                rows: 2,
                new_tokens: 8,
                kv_tokens: 0,
                time: time(40.0),
            },
        ]
    );
    let corun = |model: &str, rows, peer_model: &str, peer_rows, rate, time| CorunPoint {
        device: device.clone(),
        model: model.to_owned(),
        graph: true,
        rows,
        peer_model: peer_model.to_owned(),
        peer_rows,
        rate,
        time,
    };
    let together = Measured { mean_us: 82.0, p50_us: Some(81.0), p99_us: None, repeats: Some(7) };
    assert_eq!(profile.coruns(), [corun("m", 4, "n", 2, 0.25, Some(together)), corun("n", 2, "m", 4, 1.0, None)]);
    let router = RouterPoint { device: device.clone(), model: model.clone(), graph: false, rows: 4, time: time(5.0) };
    assert_eq!(profile.routers(), [router]);
    assert_eq!(
        profile.hops(),
        [
            HopPoint { device: device.clone(), between: Some((model, peer)), time: time(9.0) },
            HopPoint { device: "A100-80G".to_owned(), between: None, time: time(8.0) },
        ]
    );
    assert_eq!(profile.hosts(), [HostPoint { device, part: HostPart::Launch, time: time(1.5) }]);
}

#[test]
fn columns_may_come_in_any_order_and_fields_may_be_quoted() {
    let profile = parse(
        "repeats,kind,device,\"model\",graph,rows,kv_tokens,new_tokens,peer_rows,peer_model,rate,p99_us,p50_us,mean_us\r\n\
         ,decode,H200,\"a, b\",true,4,512,1,,,,,,20.5\r\n",
    )
    .unwrap();
    let point = &profile.steps()[0];
    assert_eq!((point.model.as_str(), point.kv_tokens, point.new_tokens, point.time.mean_us), ("a, b", 512, 1, 20.5));
}

#[test]
fn the_committed_profile_reads() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/profiles/h200.csv");
    let profile = Profile::read(std::fs::File::open(path).unwrap(), "h200.csv").unwrap();
    assert_eq!((profile.steps().len(), profile.coruns().len()), (36, 8));
    assert_eq!(profile.devices(), ["H200"]);
    let models = [("Qwen3-0.6B", true), ("Qwen3-32B", true)];
    let rates = CorunRates::from_profile(&profile, None, &models).unwrap();
    let (small, large) = (handoff_scheduler::ModelIdx(0), handoff_scheduler::ModelIdx(1));
    // 1969 alone over 4820 together, and 19574 over 21909.
    assert_eq!((rates.rate(small, 1, large, 1), rates.rate(large, 1, small, 1)), (0.4085, 0.8934));
    assert_eq!(Jitter::measured(&profile, None, "Qwen3-32B", true).unwrap(), Jitter::none());
    assert_eq!(HostCost::from_profile(&profile, None), Ok(None));
}

#[test]
fn the_header_must_be_right() {
    assert_eq!(error_of(b""), "p.csv: has no header; expected a header and at least one row");
    assert_eq!(error_of(b"\n\r\n"), "p.csv: has no header; expected a header and at least one row");
    assert_eq!(error_of(HEADER.as_bytes()), "p.csv: has no row; expected a header and at least one row");
    assert_eq!(
        error_of(format!("\u{feff}{HEADER}\n{DECODE}\n").as_bytes()),
        "p.csv:1: starts with a byte-order mark; expected plain UTF-8 that starts with the header"
    );
    assert_eq!(
        error_of(format!("\n{HEADER},p95_us\n").as_bytes()),
        format!("p.csv:2: unknown column \"p95_us\"; expected {HEADER}")
    );
    assert_eq!(
        error_of(format!("{},\n", &HEADER[..HEADER.len() - 1]).as_bytes()),
        format!("p.csv:1: unknown column \"repeat\"; expected {HEADER}")
    );
    assert_eq!(
        error_of(format!("{HEADER},\n").as_bytes()),
        format!("p.csv:1: unknown column empty; expected {HEADER}")
    );
    assert_eq!(error_of(format!("{HEADER},rows\n").as_bytes()), "p.csv:1: column `rows` appears twice");
    assert_eq!(
        error_of(HEADER.replace("rate,", "").as_bytes()),
        format!("p.csv:1: column `rate` is missing; expected {HEADER}")
    );
}

#[test]
fn bytes_must_be_utf8() {
    let text = [HEADER.as_bytes(), b"\nH200,\xffm,decode,true,4,1,512,,,,20,,,\n"].concat();
    assert_eq!(error_of(&text), "p.csv:2: byte 6 of the line is not UTF-8");
    assert_eq!(error_of(b"\xc3"), "p.csv:1: byte 1 of the line is not UTF-8");
}

#[test]
fn a_failing_reader_is_an_error() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let error = Profile::read(Broken, "p.csv").unwrap_err();
    assert_eq!(error.to_string(), "p.csv: cannot be read: the disk is gone");
}

#[test]
fn rows_must_have_all_fields() {
    assert_eq!(
        error_of_row("H200,m,decode,true,4,1,512,,,,20,,"),
        "p.csv:3: row has 13 fields; expected 14, as in the header"
    );
    assert_eq!(
        error_of_row("H200,m,decode,true,4,1,512,,,,20,,,,"),
        "p.csv:3: row has 15 fields; expected 14, as in the header"
    );
}

#[test]
fn lines_are_counted_across_blank_ones_quotes_and_either_line_end() {
    let line_of = |text: &str| match parse(text).unwrap_err() {
        ProfileError::Value { line, .. } => line,
        other => panic!("{other}"),
    };
    let bad = DECODE.replace("true", "yes");
    assert_eq!(line_of(&format!("{HEADER}\r\n{DECODE}\r\n{bad}\r\n")), 3);
    assert_eq!(line_of(&format!("{HEADER}\n\n\n{DECODE}\n\r\n{bad}")), 6);
    assert_eq!(line_of(&format!("{HEADER}\n{}\n{bad}", DECODE.replace(",m,", ",\"m\nm\","))), 4);
}

/// One row a case: the row with one field changed, and what is said about it.
#[test]
fn values_must_be_what_the_kind_needs() {
    let cases = [
        // All kinds.
        ("H200,m,,true,4,1,512,,,,20,,,", "`kind` is empty; expected decode, extend, corun, router, hop or host"),
        (
            "H200,m,Decode,true,4,1,512,,,,20,,,",
            "`kind` is \"Decode\"; expected decode, extend, corun, router, hop or host",
        ),
        (",m,decode,true,4,1,512,,,,20,,,", "`device` is empty; expected a name without spaces around it"),
        ("H200, m,decode,true,4,1,512,,,,20,,,", "`model` is \" m\"; expected a name without spaces around it"),
        ("H200,m,decode,true,4,1,512,,,,,,,", "`mean_us` is empty; expected microseconds above 0 and at most 1e12"),
        (
            "H200,m,decode,true,4,1,512,,,,NaN,,,",
            "`mean_us` is \"NaN\"; expected microseconds above 0 and at most 1e12",
        ),
        ("H200,m,decode,true,4,1,512,,,,-1,,,", "`mean_us` is \"-1\"; expected microseconds above 0 and at most 1e12"),
        ("H200,m,decode,true,4,1,512,,,,0,,,", "`mean_us` is \"0\"; expected microseconds above 0 and at most 1e12"),
        (
            "H200,m,decode,true,4,1,512,,,,1e400,,,",
            "`mean_us` is \"1e400\"; expected microseconds above 0 and at most 1e12",
        ),
        (
            "H200,m,decode,true,4,1,512,,,,inf,,,",
            "`mean_us` is \"inf\"; expected microseconds above 0 and at most 1e12",
        ),
        ("H200,m,decode,true,4,1,512,,,,20,x,,", "`p50_us` is \"x\"; expected microseconds above 0 and at most 1e12"),
        ("H200,m,decode,true,4,1,512,,,,20,20,19.5,", "`p99_us` is \"19.5\"; expected at least `p50_us`, which is 20"),
        ("H200,m,decode,true,4,1,512,,,,20,,,0", "`repeats` is \"0\"; expected a whole number from 1 to 1000000000"),
        // Steps.
        ("H200,m,decode,True,4,1,512,,,,20,,,", "`graph` is \"True\"; expected true or false"),
        ("H200,m,decode,,4,1,512,,,,20,,,", "`graph` is empty; expected true or false"),
        ("H200,m,decode,true,0,1,512,,,,20,,,", "`rows` is \"0\"; expected a whole number from 1 to 1000000000"),
        ("H200,m,decode,true,-4,1,512,,,,20,,,", "`rows` is \"-4\"; expected a whole number from 1 to 1000000000"),
        ("H200,m,decode,true,4.0,1,512,,,,20,,,", "`rows` is \"4.0\"; expected a whole number from 1 to 1000000000"),
        (
            "H200,m,decode,true,4294967296,1,512,,,,20,,,",
            "`rows` is \"4294967296\"; expected a whole number from 1 to 1000000000",
        ),
        ("H200,m,decode,true,,1,512,,,,20,,,", "`rows` is empty; expected a whole number from 1 to 1000000000"),
        ("H200,m,decode,true,4,1,,,,,20,,,", "`kv_tokens` is empty; expected a whole number from 0 to 1000000000"),
        (
            "H200,m,decode,true,4,1,1000000001,,,,20,,,",
            "`kv_tokens` is \"1000000001\"; expected a whole number from 0 to 1000000000",
        ),
        ("H200,m,decode,true,4,2,512,,,,20,,,", "`new_tokens` is \"2\"; expected 1 for kind decode"),
        (
            "H200,m,extend,true,4,1,512,,,,20,,,",
            "`new_tokens` is \"1\"; expected 2 or more for kind extend: one new token is a decode",
        ),
        ("H200,m,extend,true,4,0,512,,,,20,,,", "`new_tokens` is \"0\"; expected a whole number from 1 to 1000000000"),
        ("H200,m,decode,true,4,1,512,n,,,20,,,", "`peer_model` is \"n\"; expected nothing for kind decode"),
        ("H200,m,extend,true,4,8,512,,,0.5,20,,,", "`rate` is \"0.5\"; expected nothing for kind extend"),
        // Co-run rates.
        ("H200,m,corun,true,4,,,,1,0.5,,,,", "`peer_model` is empty; expected a name without spaces around it"),
        ("H200,m,corun,true,4,,,n,0,0.5,,,,", "`peer_rows` is \"0\"; expected a whole number from 1 to 1000000000"),
        ("H200,m,corun,true,4,,,n,1,,,,,", "`rate` is empty; expected a number above 0 and at most 1"),
        ("H200,m,corun,true,4,,,n,1,0,,,,", "`rate` is \"0\"; expected a number above 0 and at most 1"),
        ("H200,m,corun,true,4,,,n,1,1.01,,,,", "`rate` is \"1.01\"; expected a number above 0 and at most 1"),
        ("H200,m,corun,true,4,,,n,1,nan,,,,", "`rate` is \"nan\"; expected a number above 0 and at most 1"),
        ("H200,m,corun,true,4,1,,n,1,0.5,,,,", "`new_tokens` is \"1\"; expected nothing for kind corun"),
        ("H200,m,corun,true,4,,,n,1,0.5,,20,,", "`mean_us` is empty; expected microseconds above 0 and at most 1e12"),
        ("H200,m,corun,true,4,,,n,1,0.5,,,,x", "`repeats` is \"x\"; expected a whole number from 1 to 1000000000"),
        // Routers, hops and the host.
        ("H200,m,router,true,,,,,,,20,,,", "`rows` is empty; expected a whole number from 1 to 1000000000"),
        ("H200,m,router,true,4,,512,,,,20,,,", "`kv_tokens` is \"512\"; expected nothing for kind router"),
        ("H200,m,hop,,,,,,,,20,,,", "`peer_model` is empty; expected a name without spaces around it"),
        ("H200,,hop,,,,,n,,,20,,,", "`model` is empty; expected a name without spaces around it"),
        ("H200,m,hop,true,,,,n,,,20,,,", "`graph` is \"true\"; expected nothing for kind hop"),
        ("H200,gate,host,,,,,,,,20,,,", "`model` is \"gate\"; expected launch, loop or message for kind host"),
        ("H200,loop,host,,4,,,,,,20,,,", "`rows` is \"4\"; expected nothing for kind host"),
    ];
    for (row, expected) in cases {
        assert_eq!(error_of_row(row), format!("p.csv:3: {expected}"), "{row}");
    }
}

#[test]
fn long_and_odd_values_are_shown_short_and_escaped() {
    let row = DECODE.replace("decode", &"ä".repeat(1000));
    let expected =
        format!("p.csv:3: `kind` is \"{}\"...; expected decode, extend, corun, router, hop or host", "ä".repeat(60));
    assert_eq!(error_of_row(&row), expected);
    assert_eq!(
        error_of_row(&DECODE.replace("decode", "\u{1b}[2J")),
        "p.csv:3: `kind` is \"\\u{1b}[2J\"; expected decode, extend, corun, router, hop or host"
    );
}

#[test]
fn a_point_may_repeat_but_not_contradict_itself() {
    let same = DECODE.replace("20.5", "2.05e1");
    assert_eq!(parse(&format!("{HEADER}\n{DECODE}\n{same}\n")).unwrap().steps().len(), 1);
    assert_eq!(
        error_of_row(&DECODE.replace("20.5", "20.6")),
        "p.csv:3: same point as line 2 with another `mean_us`: \"20.6\", but \"20.5\" there"
    );
    assert_eq!(
        error_of_row(&DECODE.replace(",15", ",")),
        "p.csv:3: same point as line 2 with another `repeats`: empty, but \"15\" there"
    );
}

const FIELDS: [&str; 20] = [
    "",
    "H200",
    "m",
    "decode",
    "extend",
    "corun",
    "router",
    "hop",
    "host",
    "launch",
    "true",
    "false",
    "0",
    "1",
    "4",
    "1000000000",
    "0.5",
    "20",
    "NaN",
    "\"",
];

/// Asks a profile everything, whether it can answer or not.
fn ask_everything(profile: &Profile) {
    for graph in [false, true] {
        let _ = Jitter::measured(profile, None, "m", graph);
        let _ =
            RouterLatency::from_profile(profile, None, "m", graph).map(|router| router.map(|router| router.step(3)));
        let _ = CorunRates::from_profile(profile, None, &[("m", graph), ("H200", graph)]);
        if let Ok(table) = TableLatency::from_profile(profile, &Selection::new("m", graph)) {
            let max = u64::from(u32::MAX).pow(2);
            for (rows, tokens) in [(0, 0), (1, 1), (3, 77), (u32::MAX, max)] {
                let shape =
                    crate::cost::BatchShape { rows, decode_rows: rows / 2, new_tokens: tokens, kv_tokens: tokens };
                assert!(table.step(&shape).ns > 0);
            }
        }
    }
    let _ = HostCost::from_profile(profile, None);
    let _ = HopLatency::from_profile(profile, None, &["m", "H200"]);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), after_header: bool) {
        let bytes = if after_header { [HEADER.as_bytes(), b"\n", &bytes].concat() } else { bytes };
        if let Ok(profile) = Profile::parse(&bytes, "p.csv") {
            ask_everything(&profile);
        }
    }

    #[test]
    fn no_fields_make_it_panic(
        rows in proptest::collection::vec(proptest::collection::vec(0..FIELDS.len(), 14), 0..4),
    ) {
        let rows = rows.iter().map(|row| row.iter().map(|&idx| FIELDS[idx]).collect::<Vec<_>>().join(","));
        let text = [HEADER.to_owned()].into_iter().chain(rows).collect::<Vec<_>>().join("\n");
        if let Ok(profile) = parse(&text) {
            ask_everything(&profile);
        }
    }

    /// Rows that are right but extreme.
    #[test]
    fn no_points_make_it_panic(
        points in proptest::collection::vec(
            (prop_oneof![1_u32..5, Just(1_000_000_000)], prop_oneof![1_u32..5, Just(1_000_000_000)],
             prop_oneof![0_u32..5, Just(1_000_000_000)], prop_oneof![Just("1e-300"), Just("1"), Just("1e12")]),
            1..12),
    ) {
        let rows = points.iter().map(|(rows, new, kv, us)| {
            let kind = if *new == 1 { "decode" } else { "extend" };
            format!("H200,m,{kind},true,{rows},{new},{kv},,,,{us},,,")
        });
        let text = [HEADER.to_owned()].into_iter().chain(rows).collect::<Vec<_>>().join("\n");
        if let Ok(profile) = parse(&text) {
            ask_everything(&profile);
        }
    }
}
