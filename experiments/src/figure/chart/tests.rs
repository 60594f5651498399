use super::super::png;
use super::super::readable::assert_readable;
use super::*;
use resvg::usvg::roxmltree::Document;

pub(crate) fn sample() -> LineChart {
    let line = |label: &str, slope: f64, dashed: bool| ChartLine {
        label: label.to_owned(),
        points: (1..=8)
            .map(|idx| {
                let x = f64::from(idx);
                let y = slope * x + 3.0;
                ChartPoint { x, y, band: (!dashed).then_some((y * 0.95, y * 1.05)) }
            })
            .collect(),
        dashed,
    };
    LineChart {
        title: "Batch admission delay of the large model against its threshold".to_owned(),
        x: AxisTitle { title: "threshold B of `large`".to_owned(), scale: Scale::Linear },
        x_words: Vec::new(),
        y: AxisTitle { title: "batch admission delay (ms)".to_owned(), scale: Scale::Linear },
        lines: vec![
            line("C = 8, simulated", 4.0, false),
            line("C = 8, mean field", 4.05, true),
            line("C = 16, simulated", 1.5, false),
            line("C = 16, mean field", 1.6, true),
        ],
        band: "95 % interval".to_owned(),
        caption: vec!["scenario default".to_owned(), "seed 1".to_owned()],
    }
}

#[test]
fn names_axes_and_lines() {
    let svg = sample().svg().unwrap();
    let document = Document::parse(&svg).unwrap();
    let texts: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter_map(|node| node.text())
        .map(str::trim)
        .collect();
    for wanted in ["threshold B of `large`", "batch admission delay (ms)", "C = 8, simulated", "95 % interval"] {
        assert_eq!(texts.iter().filter(|text| **text == wanted).count(), 1, "{wanted}: {texts:?}");
    }
    png::rasterise(&svg).unwrap();
}

#[test]
fn a_logarithmic_axis_refuses_zero() {
    let mut chart = sample();
    chart.x.scale = Scale::Log;
    assert!(chart.svg().is_ok());
    chart.lines[1].points[0].x = 0.0;
    let expected = "`x` of line `C = 8, mean field` is 0, expected a positive number on a logarithmic axis";
    assert_eq!(chart.svg().unwrap_err().to_string(), expected);
}

#[test]
fn a_band_may_reach_below_a_logarithmic_axis() {
    let mut chart = sample();
    chart.y.scale = Scale::Log;
    chart.lines[0].points[0].band = Some((-1.0, 20.0));
    assert!(!chart.svg().unwrap().contains("NaN"));
}

#[test]
fn nothing_to_draw_is_an_error() {
    let mut chart = sample();
    chart.lines[2].points.clear();
    assert_eq!(
        chart.svg().unwrap_err().to_string(),
        "line `C = 16, simulated` has no points: there is nothing to draw"
    );
    chart.lines.clear();
    assert_eq!(chart.svg().unwrap_err().to_string(), "the chart has no lines: there is nothing to draw");
}

#[test]
fn one_point_is_enough() {
    let mut chart = sample();
    chart.lines.truncate(1);
    chart.lines[0].points.truncate(1);
    assert!(!chart.svg().unwrap().contains("NaN"));
}

#[test]
fn texts_do_not_overlap_and_stay_on_the_paper() {
    assert_readable(&sample().svg().unwrap());
    // Titles that are wider than the paper, words that need smaller letters, and numbers of many digits.
    let mut chart = sample();
    chart.title = "Throughput against the threshold of a model with a very long name ".repeat(3);
    chart.x.title = "a title of the axis that is wider than all of its values together ".repeat(3);
    chart.x_words = (1..=9).map(|number| format!("a mode with a name {number}")).collect();
    chart.lines.iter_mut().flat_map(|line| &mut line.points).for_each(|point| {
        point.y *= 1e5;
        point.band = None;
    });
    assert_readable(&chart.svg().unwrap());
}

#[test]
fn words_take_the_place_of_numbers() {
    let mut chart = sample();
    chart.lines.truncate(1);
    chart.lines[0].points.truncate(2);
    chart.lines[0].points.iter_mut().zip([0.0, 1.0]).for_each(|(point, x)| point.x = x);
    chart.x_words = vec!["eager".to_owned(), "delayed".to_owned()];
    let svg = chart.svg().unwrap();
    assert!(svg.contains("eager") && svg.contains("delayed"), "{svg}");
}
