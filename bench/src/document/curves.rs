//! Curves: figures that differ by a number at the end of their ids, one line for each way, drawn by
//! `plotters` as SVG.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::html;
use super::plot::{Axis, FONT, GREY, failed, label};
use crate::run::{Measured, Run, Series};
use hanare_common::output;

/// Colours that people who see few colours tell apart as well, in the order of the ways.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0x8f, 0xc1, 0x31),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x88, 0x2f, 0x72),
    RGBColor(0x77, 0x77, 0x77),
];
/// Fewer numbers are no curve.
const NUMBERS_MIN: usize = 4;

const WIDTH: u32 = 760;
const HEIGHT: u32 = 380;
const LEFT: u32 = 70;
const RIGHT: u32 = 150;
const TOP: u32 = 10;
const BOTTOM: u32 = 42;
const LEGEND_ROW: i32 = 18;
/// Characters of a line's name.
const NAME_MAX: usize = 18;

/// A line: its name, and its points.
#[derive(Debug, PartialEq)]
pub struct Curve {
    /// The way, and the side where it is not the LWK's.
    pub name: String,
    /// Number and median.
    pub points: Vec<(f64, f64)>,
}

/// Some curves with one unit.
#[derive(Debug, PartialEq)]
pub struct Curves {
    /// First part of the figures' ids, which all curves of the plot share.
    pub kind: String,
    /// Unit of the medians.
    pub unit: String,
    /// One for each way, and the first way on Linux.
    pub curves: Vec<Curve>,
}

/// `kind.way.number`; `None`: the figure is on no curve.
fn parts(id: &str) -> Option<(&str, &str, f64)> {
    let (front, number) = id.rsplit_once('.')?;
    let (kind, way) = front.rsplit_once('.')?;
    Some((kind, way, number.parse().ok().filter(|&number: &f64| number > 0.0)?))
}

/// All curves of a run.
pub fn of(run: &Run) -> Vec<Curves> {
    let mut all: Vec<Curves> = Vec::new();
    let figures = run.figures.iter().filter_map(|figure| Some((figure, parts(&figure.id)?)));
    for (figure, (kind, way, number)) in figures {
        let index = all.iter().position(|curves| curves.kind == kind).unwrap_or_else(|| {
            all.push(Curves { kind: kind.into(), unit: figure.unit.clone(), curves: Vec::new() });
            all.len() - 1
        });
        let curves = &mut all[index].curves;
        let of_linux = format!("{way}, Linux");
        let is_first = curves.is_empty() || curves.iter().any(|curve| curve.name == of_linux);
        add(curves, way, number, &figure.lwk);
        if is_first {
            add(curves, &of_linux, number, &figure.linux);
        }
    }
    for curves in &mut all {
        curves.curves.retain(|curve| curve.points.len() >= NUMBERS_MIN);
    }
    all.retain(|curves| !curves.curves.is_empty());
    all
}

fn add(curves: &mut Vec<Curve>, name: &str, number: f64, series: &Series) {
    let Some(summary) = series.summary.filter(|summary| summary.median > 0.0) else { return };
    let point = (number, summary.median);
    match curves.iter_mut().find(|curve| curve.name == name) {
        Some(curve) => curve.points.push(point),
        None => curves.push(Curve { name: name.into(), points: vec![point] }),
    }
}

impl Curves {
    /// Whether a figure is a point of one of them.
    pub fn has(&self, figure: &Measured) -> bool {
        parts(&figure.id).is_some_and(|(kind, ..)| kind == self.kind)
    }

    /// A picture of the curves; `None`: they cannot be drawn.
    pub fn draw(&self) -> Option<String> {
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter());
        let across = Axis::of(points().map(|point| point.0))?;
        let up = Axis::of(points().map(|point| point.1))?;
        let mut svg = String::new();
        self.paint(&mut svg, &across, &up).ok()?;
        let name = html::escape(&format!("curves of {}", self.kind));
        Some(svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{name}\" "), 1))
    }

    fn paint(&self, svg: &mut String, across: &Axis, up: &Axis) -> Result<()> {
        let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin_left(LEFT)
            .margin_right(RIGHT)
            .margin_top(TOP)
            .margin_bottom(BOTTOM)
            .build_cartesian_2d(across.low..across.high, up.low..up.high)
            .map_err(failed)?;
        for tick in up.ticks() {
            let line = vec![(across.low, up.at(tick)), (across.high, up.at(tick))];
            chart.draw_series([PathElement::new(line, GREY.stroke_width(1))]).map_err(failed)?;
        }
        for (curve, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            let at = |&(number, value): &(f64, f64)| (across.at(number), up.at(value));
            let line: Vec<(f64, f64)> = curve.points.iter().map(at).collect();
            let dots = line.iter().map(|&point| Circle::new(point, 3, colour.filled()));
            chart.draw_series(dots).map_err(failed)?;
            chart.draw_series([PathElement::new(line, colour.stroke_width(2))]).map_err(failed)?;
        }
        let write = |text: &str, at: (i32, i32), horizontal| {
            let pos = Pos::new(horizontal, VPos::Center);
            let style = ("sans-serif", FONT).into_text_style(&root).pos(pos);
            root.draw(&Text::new(output::cut(text, NAME_MAX), at, style)).map_err(failed)
        };
        for tick in up.ticks() {
            let (x, y) = chart.backend_coord(&(across.low, up.at(tick)));
            write(&label(tick), (x - 8, y), HPos::Right)?;
        }
        for (number, _) in &self.curves[0].points {
            let (x, y) = chart.backend_coord(&(across.at(*number), up.low));
            write(&label(*number), (x, y + 12), HPos::Center)?;
        }
        let (x, y) = chart.backend_coord(&(f64::midpoint(across.low, across.high), up.low));
        write(&self.unit, (x, y + 30), HPos::Center)?;
        let right = (WIDTH - RIGHT) as i32 + 12;
        for (row, (curve, colour)) in self.curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let y = TOP as i32 + LEGEND_ROW * (row as i32 + 1);
            root.draw(&Circle::new((right, y), 4, colour.filled())).map_err(failed)?;
            write(&curve.name, (right + 10, y), HPos::Left)?;
        }
        root.present().map_err(failed)
    }
}
