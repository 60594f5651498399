use super::super::png;
use super::super::readable::assert_readable;
use super::*;
use proptest::prelude::*;
use resvg::usvg::roxmltree::Document;

pub(crate) fn sample() -> SweepFigure {
    let titles = [
        "separate (two devices)",
        "overlapped (one device)",
        "exclusive, small-first (one device)",
        "exclusive, large-first (one device)",
    ];
    let panels = titles.iter().enumerate().map(|(panel_idx, title)| SweepPanel {
        title: (*title).to_owned(),
        lines: [1, 2, 4, 8, 16].iter().enumerate().map(|(line_idx, &c)| line(panel_idx, line_idx, c)).collect(),
    });
    SweepFigure {
        title: "Throughput when two models swap a request every N tokens".to_owned(),
        panels: panels.collect(),
        y_scale: Scale::Log,
        caption: vec![
            "scenario qwen3-0.6b-8b-h200".to_owned(),
            "seed 1".to_owned(),
            "handoff 0.1.0 (0123abcd)".to_owned(),
            "simulated".to_owned(),
            "200 requests per replication, 2048 output tokens, prompts of 100 tokens".to_owned(),
        ],
    }
}

/// Made up, with the shapes that occur: lines that cross their level, one that always wins, some that never do, ends
/// that lie close together, starts that end in different orbits, flagged and extrapolated cells.
fn line(panel_idx: usize, line_idx: usize, concurrency: u32) -> SweepLine {
    let c = f64::from(concurrency);
    let large_only = 36.0 * c.powf(0.94);
    let gain = [0.98, 1.1, 1.3, 1.6, 2.1][line_idx] * [1.3, 1.0, 0.9, 0.8][panel_idx];
    let half = [2.2, 3.0, 4.5, 6.0][panel_idx] * [1.0, 1.2, 1.4, 1.7, 2.0][line_idx];
    let always = panel_idx == 2 && line_idx == 4;
    let sinks = panel_idx == 3 && line_idx == 4;
    let wide = |every: u32| panel_idx == 3 && line_idx == 3 && (4..=32).contains(&every);
    let point = |every: u32| {
        let n = f64::from(every);
        let drop = if sinks { 1.0 + (n / 24.0).powi(2).min(0.9) } else { 1.0 };
        let throughput = large_only * gain * (if always { n + 12.0 } else { n }) / (n + half) / drop;
        let (inner, outer) = if wide(every) { (0.08, 0.38) } else { (0.012, 0.035) };
        SweepPoint {
            every,
            throughput,
            ci_low: throughput * (1.0 - inner),
            ci_high: throughput * (1.0 + inner),
            orbit_low: throughput * (1.0 - outer),
            orbit_high: throughput * (1.0 + outer),
            flagged: wide(every),
            extrapolated: line_idx == 4 && every >= 64,
        }
    };
    let points: Vec<SweepPoint> = (0..8).map(|exponent| point(1 << exponent)).collect();
    let wins = points.iter().rev().take_while(|point| point.throughput >= large_only).map(|point| point.every);
    let break_even = wins.min().map(|every| BreakEven { every, at_grid_edge: every == 1 });
    SweepLine { concurrency, points, large_only: Some(large_only), break_even }
}

fn small(points: &[(u32, f64)]) -> SweepFigure {
    let point = |&(every, throughput): &(u32, f64)| SweepPoint {
        every,
        throughput,
        ci_low: throughput,
        ci_high: throughput,
        orbit_low: throughput,
        orbit_high: throughput,
        flagged: false,
        extrapolated: false,
    };
    let points = points.iter().map(point).collect();
    let line = SweepLine { concurrency: 4, points, large_only: Some(100.0), break_even: None };
    SweepFigure {
        title: "t".to_owned(),
        panels: vec![SweepPanel { title: "separate".to_owned(), lines: vec![line] }],
        y_scale: Scale::Log,
        caption: Vec::new(),
    }
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap_or_default().trim().to_owned()).collect()
}

fn n_times(texts: &[String], wanted: &str) -> usize {
    texts.iter().filter(|text| *text == wanted).count()
}

#[test]
fn says_everything_once_per_panel() {
    let svg = sample().svg().unwrap();
    let texts = texts(&svg);
    for label in ["C = 1", "C = 2", "C = 4", "C = 8", "C = 16", X_TITLE, Y_TITLE, "1", "64", "128", "break-even N"] {
        let expected = if label == "break-even N" { 5 } else { 4 };
        assert_eq!(n_times(&texts, label), expected, "{label}: {texts:?}");
    }
    for label in ["separate (two devices)", "large-only at the same C", "flagged: precision not reached"] {
        assert_eq!(n_times(&texts, label), 1, "{label}: {texts:?}");
    }
    assert!(svg.contains("font-family=\"DejaVu Sans, sans-serif\""));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    assert!(texts.iter().any(|text| text.contains("seed 1")));
}

#[test]
fn texts_do_not_overlap_and_stay_on_the_paper() {
    assert!(assert_readable(&sample().svg().unwrap()) > 100);
}

#[test]
fn one_value_of_n_and_one_point_are_enough() {
    for figure in [small(&[(8, 50.0)]), small(&[(1, 50.0), (128, 50.0)]), small(&[(3, 100.0)])] {
        let svg = figure.svg().unwrap();
        assert_eq!(n_times(&texts(&svg), "C = 4"), 1);
        assert!(png::rasterise(&svg).unwrap().len() > 1000);
    }
}

#[test]
fn points_may_come_in_any_order() {
    assert_eq!(
        small(&[(1, 50.0), (2, 60.0), (4, 70.0)]).svg().unwrap(),
        small(&[(4, 70.0), (1, 50.0), (2, 60.0)]).svg().unwrap()
    );
}

#[test]
fn nothing_to_draw_is_an_error() {
    let error = |figure: &SweepFigure| figure.svg().unwrap_err().to_string();
    let mut figure = small(&[]);
    assert_eq!(error(&figure), "C = 4 in panel `separate` has no points: there is nothing to draw");
    figure.panels[0].lines.clear();
    assert_eq!(error(&figure), "panel `separate` has no lines: there is nothing to draw");
    figure.panels.clear();
    assert_eq!(error(&figure), "the figure has no panels: there is nothing to draw");
}

#[test]
fn values_without_a_place_are_named() {
    let place = "N = 8, C = 4 in panel `separate`";
    let error = |figure: &SweepFigure| figure.svg().unwrap_err().to_string();
    assert_eq!(error(&small(&[(8, f64::NAN)])), format!("`throughput` of {place} is NaN, expected a finite number"));
    let expected = format!("`throughput` of {place} is 0, expected a positive number on a logarithmic axis");
    assert_eq!(error(&small(&[(8, 0.0)])), expected);
    let on_linear = SweepFigure { y_scale: Scale::Linear, ..small(&[(8, 0.0)]) };
    assert!(on_linear.svg().is_ok());
    assert!(error(&small(&[(0, 5.0)])).starts_with("`every` of N = 0"));

    let mut figure = small(&[(8, 50.0)]);
    figure.panels[0].lines[0].points[0].ci_low = 60.0;
    assert!(error(&figure).contains("expected a low end that is not above the high end"));
    let mut figure = small(&[(8, 50.0)]);
    figure.panels[0].lines[0].large_only = Some(f64::INFINITY);
    assert!(error(&figure).starts_with("`large-only throughput` of C = 4"));
    let mut figure = small(&[(8, 50.0)]);
    figure.panels[0].lines[0].break_even = Some(BreakEven { every: 4, at_grid_edge: false });
    assert_eq!(error(&figure), "the break-even of C = 4 in panel `separate` is at N = 4, where the line has no point");
}

#[test]
fn hostile_text_stays_text() {
    let mut figure = small(&[(8, 50.0)]);
    figure.panels[0].title = "a < b & \"c\" </text><script>".to_owned();
    figure.title = "<&>\u{1}\n'".to_owned();
    figure.caption = vec![String::new(), "x ".repeat(400), "\u{4e2d}".to_owned()];
    let svg = figure.svg().unwrap();
    assert!(texts(&svg).contains(&figure.panels[0].title));
    png::rasterise(&svg).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_sensible_sweep_can_be_drawn(
        cells in prop::collection::vec((1..2000_u32, 1e-3..1e6_f64, 0.0..3.0_f64), 1..12),
        n_panels in 1..7_usize,
        log in any::<bool>(),
    ) {
        let mut figure = small(&cells.iter().map(|&(every, throughput, _)| (every, throughput)).collect::<Vec<_>>());
        for (point, (.., spread)) in figure.panels[0].lines[0].points.iter_mut().zip(&cells) {
            point.ci_low -= spread * point.throughput;
            point.orbit_high += spread * point.throughput;
        }
        figure.panels = vec![figure.panels[0].clone(); n_panels];
        figure.y_scale = if log { Scale::Log } else { Scale::Linear };
        let svg = figure.svg().unwrap();
        prop_assert!(!svg.contains("NaN"));
        prop_assert_eq!(n_times(&texts(&svg), X_TITLE), n_panels);
    }
}
