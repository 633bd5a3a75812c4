//! Dots on a line for each row, drawn by `plotters` as SVG.

use std::fmt::Display;

use anyhow::{Result, anyhow};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::html;
use crate::samples::Range;
use hanare_common::output;

/// A row of a plot.
pub struct Row {
    /// Text to the left of the row.
    pub label: String,
    /// Values.
    pub dots: Vec<f64>,
    /// Range that is drawn as a line under the values.
    pub bar: Option<Range>,
    /// A short black line across: a target, a median.
    pub mark: Option<f64>,
    /// Colour of the dots and the bar.
    pub colour: Colour,
}

/// Colours of the plots, which people who see few colours tell apart as well. `html` has them, too.
#[derive(Clone, Copy)]
pub enum Colour {
    Blue,
    Orange,
    Green,
}

const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const ORANGE: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
const GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);
/// Lines of a grid.
pub const GREY: RGBColor = RGBColor(0xbb, 0xbb, 0xbb);

const WIDTH: u32 = 760;
const LEFT: u32 = 200;
const RIGHT: u32 = 30;
const TOP: u32 = 10;
const BOTTOM: u32 = 42;
const ROW: u32 = 20;
/// Characters that fit to the left.
const LABEL_MAX: usize = 30;
/// Size of texts.
pub const FONT: i32 = 13;
/// Lines of the grid.
const TICKS_MAX: usize = 11;

/// A picture of the rows; `around` is a value that has a line of its own. `None`: there is nothing
/// to draw.
pub fn draw(rows: &[Row], around: Option<f64>, axis_name: &str) -> Option<String> {
    if rows.iter().all(|row| row.dots.is_empty()) {
        return None;
    }
    let bars = rows.iter().filter_map(|row| row.bar).flat_map(|bar| [bar.low, bar.high]);
    let dots = rows.iter().flat_map(|row| row.dots.iter().copied());
    let marks = rows.iter().filter_map(|row| row.mark);
    let axis = Axis::of(dots.chain(marks).chain(bars).chain(around))?;
    let mut svg = String::new();
    paint(&mut svg, rows, around, &axis, axis_name).ok()?;
    // A screen reader reads the label.
    let name = html::escape(&format!("plot of {axis_name}"));
    Some(svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{name}\" "), 1))
}

/// The horizontal axis: logarithmic, unless a value is not above 0.
pub struct Axis {
    is_log: bool,
    /// Lower end of the axis, in the units of [`Axis::at`].
    pub low: f64,
    /// Upper end of the axis.
    pub high: f64,
}

impl Axis {
    /// Wide enough for the values; `None`: there are none, or none that can be drawn.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        let is_log = min > 0.0;
        let (low, high) = if is_log { (min.log10(), max.log10()) } else { (min, max.max(1.0)) };
        let margin = ((high - low) * 0.05).max(if is_log { 0.05 } else { 0.0 });
        let axis = Self { is_log, low: low - margin, high: high + margin };
        (axis.high - axis.low).is_finite().then_some(axis)
    }

    /// Place of a value on the axis.
    pub fn at(&self, value: f64) -> f64 {
        if self.is_log { value.log10() } else { value }
    }

    /// Values that get a line and a number: of 1, 2 and 5 times powers of ten.
    pub fn ticks(&self) -> Vec<f64> {
        if !self.is_log {
            return self.steps();
        }
        let decades = self.low.floor() as i32..=self.high.ceil() as i32;
        let of = |digits: &'static [f64], every: usize| {
            let decades = decades.clone().step_by(every);
            let all = decades
                .flat_map(move |decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)));
            all.filter(|&value| (self.low..=self.high).contains(&value.log10())).collect::<Vec<_>>()
        };
        const DIGITS: [&[f64]; 2] = [&[1.0, 2.0, 5.0], &[1.0]];
        let fitting =
            DIGITS.iter().map(|digits| of(digits, 1)).find(|ticks| ticks.len() <= TICKS_MAX);
        fitting.unwrap_or_else(|| of(DIGITS[1], decades.clone().count() / TICKS_MAX + 1))
    }

    fn steps(&self) -> Vec<f64> {
        let wanted = (self.high - self.low) / 6.0;
        let power = 10f64.powf(wanted.log10().floor());
        let step =
            [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|&step| step >= wanted);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.low / step).ceil();
        (0..TICKS_MAX)
            .map(|index| (first + index as f64) * step)
            .filter(|&value| value <= self.high)
            .collect()
    }
}

/// An error of `plotters`.
pub fn failed(error: impl Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

fn paint(
    svg: &mut String,
    rows: &[Row],
    around: Option<f64>,
    axis: &Axis,
    axis_name: &str,
) -> Result<()> {
    let height = TOP + BOTTOM + ROW * u32::try_from(rows.len())?;
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    let count = rows.len() as f64;
    let mut chart = ChartBuilder::on(&root)
        .margin_left(LEFT)
        .margin_right(RIGHT)
        .margin_top(TOP)
        .margin_bottom(BOTTOM)
        .build_cartesian_2d(axis.low..axis.high, 0.0..count)
        .map_err(failed)?;
    for tick in axis.ticks() {
        upright(&mut chart, axis.at(tick), (0.0, count), GREY.stroke_width(1))?;
    }
    if let Some(value) = around {
        upright(&mut chart, axis.at(value), (0.0, count), BLACK.stroke_width(1))?;
    }
    for (index, row) in rows.iter().enumerate() {
        paint_row(&mut chart, axis, row, count - index as f64 - 0.5)?;
    }
    let place = |x: f64, y: f64| chart.backend_coord(&(x, y));
    let style = |horizontal| {
        ("sans-serif", FONT).into_text_style(&root).pos(Pos::new(horizontal, VPos::Center))
    };
    let write = |text: String, at: (i32, i32), horizontal| {
        root.draw(&Text::new(text, at, style(horizontal))).map_err(failed)
    };
    for (index, row) in rows.iter().enumerate() {
        let (x, y) = place(axis.low, count - index as f64 - 0.5);
        write(output::cut(&row.label, LABEL_MAX), (x - 8, y), HPos::Right)?;
    }
    for tick in axis.ticks() {
        let (x, y) = place(axis.at(tick), 0.0);
        write(label(tick), (x, y + 12), HPos::Center)?;
    }
    let (x, y) = place(f64::midpoint(axis.low, axis.high), 0.0);
    write(output::cut(axis_name, LABEL_MAX), (x, y + 30), HPos::Center)?;
    root.present().map_err(failed)
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn paint_row(chart: &mut Chart, axis: &Axis, row: &Row, y: f64) -> Result<()> {
    let colour = match row.colour {
        Colour::Blue => BLUE,
        Colour::Orange => ORANGE,
        Colour::Green => GREEN,
    };
    if let Some(Range { low, high }) = row.bar {
        let line = vec![(axis.at(low), y), (axis.at(high), y)];
        let bar = PathElement::new(line, colour.stroke_width(3));
        chart.draw_series([bar]).map_err(failed)?;
    }
    let dots = row.dots.iter().map(|&value| Circle::new((axis.at(value), y), 4, colour.filled()));
    chart.draw_series(dots).map_err(failed)?;
    match row.mark {
        Some(mark) => upright(chart, axis.at(mark), (y - 0.35, y + 0.35), BLACK.stroke_width(2)),
        None => Ok(()),
    }
}

fn upright(chart: &mut Chart, x: f64, (low, high): (f64, f64), style: ShapeStyle) -> Result<()> {
    chart.draw_series([PathElement::new(vec![(x, low), (x, high)], style)]).map_err(failed)?;
    Ok(())
}

/// A round number in short.
pub fn label(value: f64) -> String {
    match value.abs() {
        0.001..1e6 => value.to_string(),
        0.0 => "0".into(),
        _ => format!("{value:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(dots: &[f64]) -> Row {
        Row {
            label: "a <b> & \"c\"".into(),
            dots: dots.into(),
            bar: None,
            mark: None,
            colour: Colour::Blue,
        }
    }

    #[test]
    fn labels_are_escaped() {
        let svg = draw(&[row(&[1.0])], None, "<script>").unwrap();
        assert!(!svg.contains("<script>") && !svg.contains("<b>"), "{svg}");
        assert!(svg.contains("&lt;b&gt;"), "{svg}");
    }

    #[test]
    fn nothing_and_what_has_no_width_is_no_picture_or_a_small_one() {
        assert_eq!(draw(&[], Some(1.0), "ns"), None);
        assert_eq!(draw(&[row(&[])], None, "ns"), None);
        assert_eq!(draw(&[row(&[-f64::MAX, f64::MAX])], None, "ns"), None);
        for dots in [&[1.0][..], &[0.0], &[-5.0, 3.0], &[1e-300, 1e300], &[f64::MAX], &[5e-324]] {
            assert!(draw(&[row(dots)], Some(1.0), "ns").is_some(), "{dots:?}");
        }
    }

    #[test]
    fn ticks_are_round_and_few() {
        let ticks = |values: &[f64]| Axis::of(values.iter().copied()).unwrap().ticks();
        assert_eq!(ticks(&[0.4, 2.4]), [0.5, 1.0, 2.0]);
        assert_eq!(ticks(&[0.0, 10.0]), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        for values in
            [&[1e-300, 1e300][..], &[1.0, 1e9], &[1.0], &[0.0], &[0.0, 1e300], &[-7.0, 7.0]]
        {
            let ticks = ticks(values);
            assert!(ticks.len() <= TICKS_MAX, "{values:?}: {ticks:?}");
        }
    }
}
