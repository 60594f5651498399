use proptest::prelude::*;

use super::*;
use crate::cost::{COLUMNS, Measured};

/// Rows `rows,new_tokens,kv_tokens,mean_us` of model `m` on device `d`.
fn profile_text(graph: bool, points: &[(u32, u32, u32, f64)]) -> String {
    points
        .iter()
        .map(|(rows, new, kv, us)| {
            let kind = if *new == 1 { "decode" } else { "extend" };
            format!("\nd,m,{kind},{graph},{rows},{new},{kv},,,,{us},,,")
        })
        .collect()
}

fn parse(rows: &str) -> Profile {
    Profile::parse((COLUMNS.join(",") + rows).as_bytes(), "p.csv").unwrap()
}

fn table(graph: bool, points: &[(u32, u32, u32, f64)]) -> TableLatency {
    TableLatency::from_profile(&parse(&profile_text(graph, points)), &Selection::new("m", graph)).unwrap()
}

fn h200() -> Profile {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/profiles/h200.csv");
    Profile::read(std::fs::File::open(path).unwrap(), "h200.csv").unwrap()
}

fn h200_table(model: &str, graph: bool) -> TableLatency {
    TableLatency::from_profile(&h200(), &Selection::new(model, graph)).unwrap()
}

fn shape_of(point: &StepPoint) -> BatchShape {
    if point.new_tokens == 1 {
        BatchShape::decode(point.rows, point.kv_tokens)
    } else {
        BatchShape::extend(point.rows, point.new_tokens, point.kv_tokens)
    }
}

/// The step's microseconds, and that they are or are not extrapolated.
#[track_caller]
fn check(table: &TableLatency, shape: BatchShape, us: f64, extrapolated: bool) {
    let cost = table.step(&shape);
    assert!((cost.ns as f64 / 1e3 - us).abs() <= 0.0006, "{shape:?}: {cost:?}, not {us} us");
    assert_eq!(cost.extrapolated, extrapolated, "{shape:?}: {cost:?}");
}

#[test]
fn the_h200_profile_is_reproduced_exactly() {
    let profile = h200();
    let mut n_points = 0;
    for model in ["Qwen3-0.6B", "Qwen3-32B"] {
        for graph in [false, true] {
            let table = h200_table(model, graph);
            for point in profile.steps().iter().filter(|point| point.model == model && point.graph == graph) {
                let expected = StepCost { ns: (point.time.mean_us * 1e3) as u64, extrapolated: false };
                assert_eq!(table.step(&shape_of(point)), expected, "{point:?}");
                n_points += 1;
            }
        }
    }
    assert_eq!(n_points, 36);
}

#[test]
fn the_h200_profile_interpolates_as_computed_by_hand() {
    let eager = h200_table("Qwen3-0.6B", false);
    // Half way between 4858 at two rows and 5022 at four.
    check(&eager, BatchShape::decode(3, 512), 4940.0, false);

    let graph = h200_table("Qwen3-0.6B", true);
    // Five rows run in the graph of eight.
    check(&graph, BatchShape::decode(5, 512), 2283.0, false);
    // 8 x 88 = 704 KV tokens beyond the reference; 1536 more took 2552 - 1980 = 572 at one row.
    check(&graph, BatchShape::decode(8, 600), 2283.0 + 572.0 * 704.0 / 1536.0, false);
    // Five rows of 900 hold 4500 KV tokens, 404 more than eight at the reference.
    check(&graph, BatchShape::decode(5, 900), 2283.0 + 572.0 * 404.0 / 1536.0, false);
    // Less KV than measured takes as long as the least that was.
    check(&graph, BatchShape::decode(8, 0), 2283.0, false);
    // Three more new tokens took 526 at one row, twelve more 279 at four: monotone means 402.5 for both.
    check(&graph, BatchShape { rows: 8, decode_rows: 7, new_tokens: 11, kv_tokens: 4096 }, 2283.0 + 402.5, false);
    check(&graph, BatchShape { rows: 8, decode_rows: 7, new_tokens: 9, kv_tokens: 4096 }, 2283.0 + 402.5 / 3.0, false);
    // Four rows have their own measurement: half of its twelve extra tokens.
    check(&graph, BatchShape { rows: 4, decode_rows: 3, new_tokens: 10, kv_tokens: 2048 }, 2306.0 + 279.0 / 2.0, false);
    // Both extras at one row, each as measured there.
    check(&graph, BatchShape::extend(1, 4, 2048), 1980.0 + 526.0 + 572.0, false);
}

#[test]
fn beyond_the_measured_range_is_flagged() {
    let small = h200_table("Qwen3-0.6B", true);
    // More rows, KV or new tokens than measured: the last measured point is above the roofline here.
    check(&small, BatchShape::decode(33, 512), 2782.0, true);
    check(&small, BatchShape::decode(8, 2048), 2283.0 + 572.0, true);
    check(&small, BatchShape { rows: 8, decode_rows: 7, new_tokens: 21, kv_tokens: 4096 }, 2283.0 + 402.5, true);
    // 16384 KV tokens at 32 rows are the reference, 1536 more the last that was measured.
    check(&small, BatchShape { rows: 32, decode_rows: 32, new_tokens: 32, kv_tokens: 17920 }, 2782.0 + 572.0, false);
    check(&small, BatchShape { rows: 32, decode_rows: 32, new_tokens: 32, kv_tokens: 17921 }, 2782.0 + 572.0, true);

    // A prefill of 4096 tokens is bound by arithmetic far above the last measured point.
    let large = h200_table("Qwen3-32B", true);
    let prefill = BatchShape::extend(1, 4096, 0);
    let roofline = RooflineLatency::new(ModelShape::named("Qwen3-32B").unwrap(), DeviceSpec::named("H200").unwrap());
    assert_eq!(large.step(&prefill), StepCost { ns: roofline.step(&prefill).ns, extrapolated: true });
    assert!(large.step(&prefill).ns > 300_000_000);
}

#[test]
fn without_a_roofline_the_last_point_holds_until_one_is_given() {
    let table = table(false, &[(1, 1, 100, 50.0), (2, 1, 100, 60.0)]);
    check(&table, BatchShape::decode(64, 100), 60.0, true);
    let roofline = RooflineLatency::new(ModelShape::named("Qwen3-8B").unwrap(), DeviceSpec::named("A100-80G").unwrap());
    let expected = roofline.step(&BatchShape::decode(64, 100)).ns;
    let table = table.with_roofline(roofline);
    assert_eq!(table.step(&BatchShape::decode(64, 100)), StepCost { ns: expected, extrapolated: true });
    // Measured points stay as they are, though this roofline lies above them.
    check(&table, BatchShape::decode(2, 100), 60.0, false);
}

#[test]
fn rows_below_the_smallest_are_flagged_unless_a_graph_holds_them() {
    let points = [(2, 1, 100, 50.0), (4, 1, 100, 60.0)];
    check(&table(false, &points), BatchShape::decode(1, 100), 50.0, true);
    check(&table(true, &points), BatchShape::decode(1, 100), 50.0, false);
}

#[test]
fn one_extend_over_128_tokens_is_neither_128_decodes_nor_one() {
    let table =
        table(false, &[(1, 1, 512, 1000.0), (128, 1, 512, 1800.0), (1, 32, 512, 1100.0), (1, 128, 512, 1500.0)]);
    let decode = table.step(&BatchShape::decode(1, 512)).ns;
    check(&table, BatchShape::extend(1, 128, 512), 1500.0, false);
    assert!(1_500_000 > decode && 1_500_000 < 128 * decode);
    // Nor is it one step of 128 decode rows.
    check(&table, BatchShape::decode(128, 512), 1800.0, false);
    // 80 tokens: half way between 32 and 128.
    check(&table, BatchShape::extend(1, 80, 512), 1300.0, false);
    // The same 127 extra tokens beside a decode row: 1000 + 800 / 127 for the second row.
    let mixed = BatchShape { rows: 2, decode_rows: 1, new_tokens: 129, kv_tokens: 1024 };
    check(&table, mixed, 1000.0 + 800.0 / 127.0 + 500.0, false);
}

#[test]
fn extends_can_run_without_graphs_beside_decodes_with_them() {
    let profile = h200();
    let selection = Selection { extend_graph: false, ..Selection::new("Qwen3-32B", true) };
    let table = TableLatency::from_profile(&profile, &selection).unwrap();
    check(&table, BatchShape::decode(3, 512), 20616.0, false);
    check(&table, BatchShape::extend(4, 4, 512), 25243.0, false);
    // Not padded to four rows: half way between 23061 and 23316, each with six extra tokens. At one row three took
    // 3404, at four rows twelve took 1927: pooled that is 2665.5 for two rows, and four rows take half of their own.
    let shape = BatchShape { rows: 3, decode_rows: 2, new_tokens: 9, kv_tokens: 1536 };
    let (two_rows, four_rows) = (23061.0 + 2665.5, 23316.0 + 1927.0 / 2.0);
    check(&table, shape, (two_rows + four_rows) / 2.0, false);
}

#[test]
fn buckets_are_the_measured_row_counts_or_those_given() {
    let points = [(1, 1, 0, 10.0), (4, 1, 0, 40.0), (8, 1, 0, 80.0)];
    let profile = parse(&profile_text(true, &points));
    let measured = TableLatency::from_profile(&profile, &Selection::new("m", true)).unwrap();
    assert_eq!(measured.buckets().map(Buckets::rows), Some([1, 4, 8].as_slice()));
    check(&measured, BatchShape::decode(5, 0), 80.0, false);

    let given = Selection { buckets: Some(Buckets::new(vec![1, 2, 4, 6, 8])), ..Selection::new("m", true) };
    let given = TableLatency::from_profile(&profile, &given).unwrap();
    check(&given, BatchShape::decode(5, 0), 60.0, false);
    assert_eq!(table(false, &points).buckets(), None);
    check(&table(false, &points), BatchShape::decode(5, 0), 50.0, false);
}

#[test]
fn points_off_the_reference_are_reproduced_and_fill_the_grid() {
    let points = [
        (1, 1, 512, 100.0),
        (2, 1, 512, 120.0),
        (4, 1, 512, 140.0),
        // Less KV than the reference, two row counts without a decode at it, and a prefill from nothing.
        (2, 1, 128, 104.0),
        (3, 8, 512, 200.0),
        (16, 1, 640, 260.0),
        (1, 64, 0, 300.0),
    ];
    let table = table(false, &points);
    for (rows, new_tokens, kv_tokens, mean_us) in points {
        let time = Measured { mean_us, p50_us: None, p99_us: None, repeats: None };
        let (device, model) = (String::new(), String::new());
        let point = StepPoint { device, model, graph: false, rows, new_tokens, kv_tokens, time };
        check(&table, shape_of(&point), mean_us, false);
    }
    // 768 KV tokens fewer than the reference took 16 less: at four rows of 320 as well.
    check(&table, BatchShape::decode(4, 320), 124.0, false);
    // Half of that at four rows of 416.
    check(&table, BatchShape::decode(4, 416), 132.0, false);
    // And no less for less still.
    check(&table, BatchShape::decode(4, 0), 124.0, false);
}

#[test]
fn what_is_pooled_comes_from_the_points_nearest_to_a_plain_decode() {
    // At one row four extra tokens take 20 at the reference and 60 on twice its KV; 100 extra KV tokens 10 and 50.
    let table =
        table(false, &[(1, 1, 100, 50.0), (2, 1, 100, 60.0), (1, 1, 200, 60.0), (1, 5, 100, 70.0), (1, 5, 200, 120.0)]);
    check(&table, BatchShape { rows: 2, decode_rows: 1, new_tokens: 6, kv_tokens: 200 }, 80.0, false);
    check(&table, BatchShape { rows: 2, decode_rows: 2, new_tokens: 2, kv_tokens: 300 }, 70.0, false);
}

#[test]
fn extends_tell_of_kv_lengths_at_which_nothing_was_decoded() {
    let table = table(false, &[(1, 1, 100, 50.0), (2, 1, 100, 60.0), (1, 5, 100, 70.0), (1, 5, 300, 85.0)]);
    check(&table, BatchShape { rows: 2, decode_rows: 2, new_tokens: 2, kv_tokens: 400 }, 75.0, false);
}

#[test]
fn of_equally_frequent_kv_lengths_the_shortest_is_the_reference() {
    let table = table(false, &[(1, 1, 100, 50.0), (2, 1, 100, 60.0), (1, 1, 200, 70.0), (4, 1, 200, 110.0)]);
    // At four rows 400 KV tokens more than the reference: as far as is known they take 20.
    check(&table, BatchShape::decode(4, 100), 90.0, false);
}

#[test]
fn noise_never_makes_more_tokens_cheaper() {
    // The extend over two tokens and the longer KV were measured faster than the plain decode.
    let table = table(false, &[(1, 1, 100, 50.0), (1, 2, 100, 40.0), (1, 3, 100, 55.0), (1, 1, 200, 45.0)]);
    check(&table, BatchShape::decode(1, 100), 50.0, false);
    check(&table, BatchShape::extend(1, 2, 100), 50.0, false);
    check(&table, BatchShape::decode(1, 200), 50.0, false);
    check(&table, BatchShape::extend(1, 3, 100), 55.0, false);
}

#[test]
fn what_the_profile_lacks_is_named() {
    let rows = profile_text(true, &[(1, 1, 0, 1.0), (1, 4, 0, 2.0)]) + "\nd,only-extends,extend,false,1,4,0,,,,1,,,";
    let profile = parse(&rows);
    let error = |selection: &Selection| TableLatency::from_profile(&profile, selection).unwrap_err().to_string();
    assert_eq!(
        error(&Selection::new("n", true)),
        "p.csv: has no steps of model `n` on d; it has `m` (1 decode with graph = true, 1 extend with graph = true), \
         `only-extends` (1 extend with graph = false)"
    );
    assert_eq!(
        error(&Selection::new("m", false)),
        "p.csv: has no decode rows of `m` on d with graph = false; it has 1 decode with graph = true, 1 extend with graph \
         = true"
    );
    assert_eq!(
        error(&Selection { extend_graph: false, ..Selection::new("m", true) }),
        error(&Selection::new("m", false))
    );
    assert_eq!(
        error(&Selection::new("only-extends", false)),
        "p.csv: has no decode rows of `only-extends` on d with graph = false; it has 1 extend with graph = false"
    );
    assert_eq!(
        error(&Selection { device: Some("e".to_owned()), ..Selection::new("m", true) }),
        "p.csv: has no device `e`; it has d"
    );
    let two = parse("\nd,m,decode,true,1,1,0,,,,1,,,\ne,m,decode,true,1,1,0,,,,2,,,");
    assert_eq!(
        TableLatency::from_profile(&two, &Selection::new("m", true)).unwrap_err().to_string(),
        "p.csv: has several devices (d, e); expected `device` to name one"
    );
    let second = Selection { device: Some("e".to_owned()), ..Selection::new("m", true) };
    check(&TableLatency::from_profile(&two, &second).unwrap(), BatchShape::decode(1, 0), 2.0, false);
}

/// A few distinct values of `from`, ascending.
fn axis(from: std::ops::Range<u32>) -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::btree_set(from, 2..5).prop_map(|set| set.into_iter().collect())
}

/// Whole numbers, so that a measured time in microseconds is exact in the csv.
fn coefficients() -> impl Strategy<Value = [f64; 8]> {
    proptest::array::uniform8((0_u32..50).prop_map(f64::from))
}

fn points() -> impl Strategy<Value = Vec<(u32, u32, u32, f64)>> {
    let point = (1_u32..40, prop_oneof![Just(1_u32), 2_u32..40], 0_u32..3000, 1_u32..10_000);
    proptest::collection::vec(point, 1..25).prop_map(|points| {
        let mut points: Vec<_> = points.into_iter().map(|(rows, new, kv, us)| (rows, new, kv, f64::from(us))).collect();
        points.push((3, 1, 500, 777.0));
        points.sort_unstable_by_key(|&(rows, new, kv, _)| (rows, new, kv));
        points.dedup_by_key(|&mut (rows, new, kv, _)| (rows, new, kv));
        points
    })
}

proptest! {
    /// Where all corners were measured, the value is multilinear in rows, new tokens per row and KV tokens per row.
    #[test]
    fn a_full_grid_of_a_multilinear_function_is_exact(
        rows in axis(1..40), new in axis(2..60), kv in axis(0..3000), c in coefficients(),
        place in (0.0..=1.0, 0.0..=1.0, 0.0..=1.0),
    ) {
        let cost = |r: u32, n: u32, k: u32| {
            let (r, n, k) = (f64::from(r), f64::from(n), f64::from(k));
            1.0 + c[0] + c[1] * r + c[2] * n + c[3] * k + c[4] * r * n + c[5] * r * k + c[6] * n * k + c[7] * r * n * k
        };
        let new = [vec![1], new].concat();
        let mut points = Vec::new();
        for &r in &rows {
            for &n in &new {
                points.extend(kv.iter().map(|&k| (r, n, k, cost(r, n, k))));
            }
        }
        let table = table(false, &points);
        let within = |axis: &[u32], x: f64| {
            let (first, last) = (axis[0], axis[axis.len() - 1]);
            first + (f64::from(last - first) * x).floor() as u32
        };
        let (r, n, k) = (within(&rows, place.0), within(&new, place.1), within(&kv, place.2));
        let found = table.step(&BatchShape::extend(r, n, k));
        prop_assert!(!found.extrapolated);
        let expected_ns = cost(r, n, k) * 1e3;
        prop_assert!((found.ns as f64 - expected_ns).abs() <= 1.0 + 1e-12 * expected_ns, "{found:?}, not {expected_ns}");
    }

    /// A cost that is affine in rows, total new tokens and total KV tokens needs one point for each direction.
    #[test]
    fn an_affine_cost_is_exact_from_few_points(
        rows in 1_u32..32, extra_new in 0_u32..=63, extra_kv in 0_u32..=4096, c in coefficients(),
    ) {
        let cost = |r: u32, new: u32, kv: u32| {
            1.0 + c[0] + c[1] * f64::from(r) + c[2] * f64::from(new) + c[3] * f64::from(kv)
        };
        let point = |r: u32, n: u32, k: u32| (r, n, k, cost(r, r * n, r * k));
        let table = table(false, &[point(1, 1, 512), point(5, 1, 512), point(32, 1, 512), point(1, 64, 512), point(2, 1, 2560)]);
        let shape = BatchShape {
            rows,
            decode_rows: 0,
            new_tokens: u64::from(rows + extra_new),
            kv_tokens: u64::from(512 * rows + extra_kv),
        };
        let found = table.step(&shape);
        let expected_ns = cost(rows, rows + extra_new, 512 * rows + extra_kv) * 1e3;
        prop_assert!(!found.extrapolated);
        prop_assert!((found.ns as f64 - expected_ns).abs() <= 1.0, "{found:?}, not {expected_ns}");
    }

    /// Padding: a batch costs what its graph's row count costs, with the same extra tokens and the same KV.
    #[test]
    fn a_padded_batch_costs_what_its_graph_does(rows in 1_u32..=32, new in 0_u64..12, kv in 0_u64..20_000) {
        let table = h200_table("Qwen3-32B", true);
        let bucket = rows.next_power_of_two();
        let shape = BatchShape { rows, decode_rows: 0, new_tokens: u64::from(rows) + new, kv_tokens: kv };
        let padded = BatchShape { rows: bucket, new_tokens: u64::from(bucket) + new, ..shape };
        let (cost, padded_cost) = (table.step(&shape), table.step(&padded));
        prop_assert_eq!(cost.extrapolated, padded_cost.extrapolated);
        if !cost.extrapolated {
            prop_assert_eq!(cost, padded_cost);
        }
    }

    /// Whatever was measured, more new or more KV tokens take no less time. 1 ns is left for rounding.
    #[test]
    fn never_faster_with_more_new_or_kv_tokens(
        points in points(), graph: bool, rows in 1_u32..50, new in 0_u64..2000, kv in 0_u64..200_000,
        more_new in 0_u64..300, more_kv in 0_u64..3000,
    ) {
        let roofline = RooflineLatency::new(&ModelShape::ALL[0], &DeviceSpec::ALL[0]);
        let table = table(graph, &points).with_roofline(roofline);
        let shape = BatchShape { rows, decode_rows: 0, new_tokens: u64::from(rows) + new, kv_tokens: kv };
        let cost = table.step(&shape).ns;
        let with_more_new = table.step(&BatchShape { new_tokens: shape.new_tokens + more_new, ..shape }).ns;
        let with_more_kv = table.step(&BatchShape { kv_tokens: kv + more_kv, ..shape }).ns;
        prop_assert!(with_more_new + 1 >= cost, "{with_more_new} < {cost} for {more_new} more new tokens");
        prop_assert!(with_more_kv + 1 >= cost, "{with_more_kv} < {cost} for {more_kv} more KV tokens");
    }

    /// Where larger batches were measured slower, one more decode row takes no less time. Its KV is the reference, or
    /// more without graphs: in a larger graph, more of the KV is part of the base.
    #[test]
    fn never_faster_with_more_rows(
        steps in proptest::collection::vec(0_u32..500, 5), graph: bool, rows in 1_u32..40, new in 0_u64..200, more_kv in 0_u64..100,
    ) {
        let base = steps.iter().scan(1000.0, |us, &step| { *us += f64::from(step); Some(*us) });
        let mut points: Vec<_> = [1, 3, 8, 20, 32].into_iter().zip(base).map(|(rows, us)| (rows, 1, 512, us)).collect();
        points.extend([(1, 100, 512, points[0].3 + 300.0), (1, 1, 4096, points[0].3 + 200.0)]);
        let table = table(graph, &points);
        let kv = if graph { 512 } else { 512 + more_kv };
        let shape = |rows: u32| BatchShape {
            rows,
            decode_rows: 0,
            new_tokens: u64::from(rows) + new,
            kv_tokens: u64::from(rows) * kv,
        };
        let (cost, with_more_rows) = (table.step(&shape(rows)).ns, table.step(&shape(rows + 1)).ns);
        prop_assert!(with_more_rows + 1 >= cost, "{with_more_rows} < {cost}");
    }

    /// Every point is reproduced, but for those that noise put below a point with less work at the same row count.
    #[test]
    fn every_point_is_reproduced_or_raised(points in points(), graph: bool) {
        let table = table(graph, &points);
        for &(rows, new, kv, us) in &points {
            let found = table.step(&BatchShape::extend(rows, new, kv));
            prop_assert!(!found.extrapolated, "{:?} {:?}", (rows, new, kv, us), found);
            prop_assert!(found.ns as f64 >= us * 1e3, "{:?} {:?}", (rows, new, kv, us), found);
        }
    }
}
