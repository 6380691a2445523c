//! Plots as SVG text: bars of several machines with their intervals, and lines over a number.
//!
//! An SVG here has no background and three colours that stand for others: `INK` and `GRID`, which the style of
//! [`html`](super::html) replaces by those of the page, light or dark, and `PALETTE`, which is read on both and by
//! people who tell few colours apart (Okabe and Ito).

use super::side::letter;
use crate::Fail;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Of text and axes.
pub(super) const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
/// Of the lines behind.
pub(super) const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
const PALETTE: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
];
const WIDTH: u32 = 760;
const BAR_HEIGHT: u32 = 13;
/// About the width of a letter.
const LETTER_WIDTH: u32 = 7;

/// What can be plotted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Chart {
    Bars(Bars),
    Lines(Lines),
}

/// Horizontal bars: rows, with a bar a machine each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bars {
    /// What the figures are, with their unit.
    pub(crate) label: String,
    pub(crate) rows: Vec<(String, Vec<Option<Bar>>)>,
}

/// A figure with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Lines over a number, which is `x`; both axes with their units.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lines {
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) lines: Vec<Line>,
}

/// One of them: of a figure, which gives it its colour, and a machine, which dashes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) figure: usize,
    pub(crate) file: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Bar {
    /// A figure without an interval.
    pub(crate) fn exact(value: f64) -> Bar {
        Bar { value, low: value, high: value }
    }
}

impl Bars {
    /// The chart, if there is a bar.
    pub(crate) fn some(self) -> Option<Chart> {
        let any = self.rows.iter().any(|(_, row)| row.iter().any(Option::is_some));
        any.then_some(Chart::Bars(self))
    }

    fn files(&self) -> usize {
        self.rows.iter().map(|(_, row)| row.len()).max().unwrap_or(0)
    }
}

impl Lines {
    /// The chart, if there is a line.
    pub(crate) fn some(self) -> Option<Chart> {
        let any = self.lines.iter().any(|line| line.points.len() > 1);
        any.then_some(Chart::Lines(self))
    }
}

/// The chart as an `<svg>` element.
pub(crate) fn svg(chart: &Chart) -> Result<String, Fail> {
    let mut text = String::new();
    match chart {
        Chart::Bars(bars) => draw_bars(bars, &mut text),
        Chart::Lines(lines) => draw_lines(lines, &mut text),
    }
    .map_err(|error| format!("a plot cannot be drawn: {error}"))?;
    Ok(text)
}

fn colour(at: usize) -> RGBColor {
    PALETTE[at % PALETTE.len()]
}

fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// Room at the left for labels of the given lengths.
fn label_width<'a>(labels: impl Iterator<Item = &'a String>) -> u32 {
    let letters = labels.map(|label| label.chars().count() as u32).max().unwrap_or(0);
    (letters * LETTER_WIDTH + 12).clamp(60, WIDTH / 2)
}

/// Everything up to the greatest figure, and a little more.
fn up_to(figures: impl Iterator<Item = f64>) -> f64 {
    let most = figures.filter(|figure| figure.is_finite()).fold(0.0, f64::max);
    if most > 0.0 { most * 1.05 } else { 1.0 }
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw_bars(bars: &Bars, text: &mut String) -> Drawn {
    let files = bars.files();
    let row_height = BAR_HEIGHT * files as u32 + 8;
    let legend = if files > 1 { 20 } else { 0 };
    let height = row_height * bars.rows.len() as u32 + 56 + legend;
    let root = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    let most =
        up_to(bars.rows.iter().flat_map(|(_, row)| row.iter().flatten()).map(|bar| bar.high));
    let mut chart = ChartBuilder::on(&root)
        .margin_top(4 + legend)
        .margin_right(20)
        .margin_bottom(4)
        .set_label_area_size(
            LabelAreaPosition::Left,
            label_width(bars.rows.iter().map(|row| &row.0)),
        )
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .build_cartesian_2d(0.0..most, bars.rows.len() as f64..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_desc(bars.label.as_str())
        .axis_desc_style(font(13))
        .label_style(font(12))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let thick = 0.84 / files.max(1) as f64;
    for (row, (label, figures)) in bars.rows.iter().enumerate() {
        let top = row as f64 + 0.08;
        for (file, bar) in figures.iter().enumerate() {
            let Some(bar) = bar else { continue };
            let (from, to) = (top + thick * file as f64, top + thick * (file + 1) as f64);
            let corners = [(0.0, from), (bar.value, to)];
            chart.draw_series([Rectangle::new(corners, colour(file).filled())])?;
            if bar.low < bar.high {
                let middle = (from + to) / 2.0;
                let whisker = vec![(bar.low, middle), (bar.high.min(most), middle)];
                chart.draw_series([PathElement::new(whisker, INK.stroke_width(2))])?;
            }
        }
        let (x, y) = chart.backend_coord(&(0.0, row as f64 + 0.5));
        let style = font(12).pos(Pos::new(HPos::Right, VPos::Center));
        root.draw(&Text::new(label.as_str(), (x - 6, y), style))?;
    }
    for file in (0..files).filter(|_| files > 1) {
        let x = 12 + 60 * file as i32;
        root.draw(&Rectangle::new([(x, 6), (x + 12, 18)], colour(file).filled()))?;
        let style = font(13).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(letter(file), (x + 18, 12), style))?;
    }
    root.present()?;
    Ok(())
}

fn draw_lines(lines: &Lines, text: &mut String) -> Drawn {
    let legend = 18 * lines.lines.len() as u32 + 8;
    let root = SVGBackend::with_string(text, (WIDTH, 300 + legend)).into_drawing_area();
    let points = || lines.lines.iter().flat_map(|line| &line.points);
    let (right, top) = (up_to(points().map(|point| point.0)), up_to(points().map(|point| point.1)));
    let mut chart = ChartBuilder::on(&root)
        .margin_top(legend)
        .margin_right(20)
        .margin_bottom(4)
        .set_label_area_size(LabelAreaPosition::Left, 64)
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc(lines.x.as_str())
        .y_desc(lines.y.as_str())
        .axis_desc_style(font(13))
        .label_style(font(12))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (at, Line { name, figure, file, points }) in lines.lines.iter().enumerate() {
        let style = colour(*figure).stroke_width(2);
        let y = 12 + 18 * at as i32;
        // The first machine's lines are whole, the others' are dashed, each by a length of its own.
        if *file == 0 {
            chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        } else {
            let dash = 10 / *file as u32 + 2;
            chart.draw_series(DashedLineSeries::new(points.iter().copied(), dash, 4, style))?;
        }
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, style.filled())))?;
        root.draw(&PathElement::new(vec![(70, y), (94, y)], style))?;
        let left = font(12).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(name.as_str(), (100, y), left))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_labels_units_and_a_legend_of_machines() {
        let bar = Bar { value: 10.0, low: 9.0, high: 12.0 };
        let rows =
            vec![("a < b".into(), vec![Some(bar), None]), ("c".into(), vec![None, Some(bar)])];
        let svg = svg(&Chart::Bars(Bars { label: "cost [ns]".into(), rows })).expect("drawn");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(svg.contains("cost [ns]") && svg.contains("a &lt; b") && svg.contains("#D55E00"));
        assert!(!svg.contains("<script") && !svg.contains("href"));
    }

    #[test]
    fn lines_have_both_axes_named() {
        let points = vec![(1.0, 0.5), (192.0, 3.0)];
        let lines = vec![Line { name: "striped".into(), figure: 0, file: 0, points }];
        let svg = svg(&Chart::Lines(Lines { x: "cores".into(), y: "lines".into(), lines }));
        let svg = svg.expect("drawn");
        assert!(svg.contains("cores") && svg.contains("lines") && svg.contains("striped"));
    }

    #[test]
    fn nothing_to_plot_is_no_chart() {
        assert_eq!(
            Bars { label: String::new(), rows: vec![("a".into(), vec![None])] }.some(),
            None
        );
        assert_eq!(Lines { x: String::new(), y: String::new(), lines: Vec::new() }.some(), None);
    }

    #[test]
    fn figures_of_zero_and_none_still_have_an_axis() {
        let rows = vec![("a".into(), vec![Some(Bar::exact(0.0))])];
        assert!(svg(&Chart::Bars(Bars { label: "n".into(), rows })).is_ok());
    }
}
