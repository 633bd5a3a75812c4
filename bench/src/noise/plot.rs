//! The plot: lengths of quanta over time, a panel for each CPU, and their distribution.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::measured::Measured;
use super::statistics::{Histogram, envelope};

const WIDTH: u32 = 1000;
const TITLE_HEIGHT: u32 = 70;
const PANEL_HEIGHT: u32 = 190;
const HISTOGRAM_HEIGHT: u32 = 380;
/// Stretches of time of a panel: about one for each pixel.
const STRETCHES: usize = 800;
const COLUMNS: usize = 120;
const FONT: &str = "sans-serif";

/// One for each side, to be told apart in print and by the colour-blind (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Writes an SVG.
pub fn draw(file: &Path, title: &[String; 2], sides: &[Measured]) -> Result<()> {
    let panels = PANEL_HEIGHT * u32::try_from(sides.len())?;
    let height = TITLE_HEIGHT + panels + HISTOGRAM_HEIGHT;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        draw_on(&root, title, sides).map_err(|error| anyhow!("{error}"))?;
    }
    Ok(std::fs::write(file, text)?)
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw_on(root: &Area, title: &[String; 2], sides: &[Measured]) -> Drawn {
    root.fill(&WHITE)?;
    root.draw(&Text::new(title[0].clone(), (20, 14), (FONT, 22)))?;
    root.draw(&Text::new(title[1].clone(), (20, 42), (FONT, 14)))?;
    let (_, below) = root.split_vertically(TITLE_HEIGHT);
    let (panels, histogram) = below.split_vertically(PANEL_HEIGHT * u32::try_from(sides.len())?);
    let range = range(sides);
    let coloured = || sides.iter().zip(COLOURS.iter().cycle());
    for (area, (side, colour)) in panels.split_evenly((sides.len(), 1)).iter().zip(coloured()) {
        draw_panel(area, side, *colour, range)?;
    }
    draw_histogram(&histogram, &coloured().collect::<Vec<_>>(), range)?;
    Ok(root.present()?)
}

/// Range of all lengths, with some room; µs.
fn range(sides: &[Measured]) -> (f64, f64) {
    let low = sides.iter().map(|side| side.statistics.min_us).fold(f64::INFINITY, f64::min);
    let high = sides.iter().map(|side| side.statistics.max_us).fold(0.0, f64::max);
    (low.max(0.001) * 0.95, high.max(low * 1.5) * 1.1)
}

/// Each stretch of time is a line from its shortest to its longest quantum.
fn draw_panel(area: &Area, side: &Measured, colour: RGBColor, (low, high): (f64, f64)) -> Drawn {
    let seconds = side.lengths_us.iter().sum::<f64>() / 1e6;
    let mut chart = ChartBuilder::on(area)
        .caption(side.place.describe(), (FONT, 15, &colour))
        .margin_right(20)
        .x_label_area_size(34)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..seconds, (low..high).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("time, s")
        .y_desc("quantum, µs")
        .y_labels(5)
        .y_label_formatter(&|us| short(*us))
        .label_style((FONT, 12))
        .draw()?;
    let lines = envelope(&side.lengths_us, STRETCHES).into_iter().map(|(start, low, high)| {
        // What does not vary is seen, too.
        PathElement::new(vec![(start, low * 0.995), (start, high * 1.005)], colour.stroke_width(1))
    });
    chart.draw_series(lines)?;
    Ok(())
}

/// Outlines, one over the other: both axes are logarithmic.
fn draw_histogram(area: &Area, sides: &[(&Measured, &RGBColor)], (low, high): (f64, f64)) -> Drawn {
    // Columns without a quantum lie below the axis, which begins where one quantum is seen.
    const NONE: f64 = 0.5;
    let most = sides.iter().map(|(side, _)| side.statistics.quanta).max().unwrap_or(1) as f64;
    let mut chart = ChartBuilder::on(area)
        .caption("Distribution of the lengths", (FONT, 15))
        .margin_right(20)
        .margin_bottom(8)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d((low..high).log_scale(), (NONE..most * 1.5).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("quantum, µs (log scale)")
        .y_desc("quanta (log scale)")
        .x_label_formatter(&|us| short(*us))
        .y_label_formatter(&|count| short(*count))
        .label_style((FONT, 12))
        .draw()?;
    for (side, colour) in sides {
        let histogram = Histogram::of(&side.lengths_us, low, high, COLUMNS);
        let outline = histogram.columns.iter().flat_map(|&(edge, count)| {
            let height = if count == 0 { NONE } else { count as f64 };
            [(edge, height), (edge * histogram.factor, height)]
        });
        let colour = **colour;
        chart
            .draw_series([PathElement::new(outline.collect::<Vec<_>>(), colour.stroke_width(2))])?
            .label(side.label())
            .legend(move |(x, y)| {
                PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2))
            });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, 13))
        .draw()?;
    Ok(())
}

/// A number on an axis.
fn short(value: f64) -> String {
    match value {
        _ if value >= 10_000.0 => format!("{value:.0e}"),
        _ if value >= 10.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sides::Place;
    use super::super::statistics::Statistics;
    use super::*;

    #[test]
    fn a_plot_has_title_sides_and_axes() {
        let side = |name: &str, lengths_us: Vec<f64>| Measured {
            place: Place::lwk(name, 1),
            statistics: Statistics::of(&lengths_us).unwrap(),
            interrupts: 7,
            sources: Vec::new(),
            exceptions: None,
            lengths_us,
        };
        let mut noisy = vec![100.0; 500];
        noisy[250] = 4000.0;
        let file = std::env::temp_dir().join(format!("hanare-plot-{}.svg", std::process::id()));
        let title = ["Title of it".to_owned(), "where".to_owned()];
        draw(&file, &title, &[side("still", vec![100.0; 500]), side("noisy", noisy)]).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(text.starts_with("<svg"), "{text}");
        for word in ["Title of it", "LWK still, CPU 1", "LWK noisy, CPU 1: lost", "quantum, µs"] {
            assert!(text.contains(word), "{word}");
        }
        // One side of equal lengths alone has an axis, too.
        draw(&file, &title, &[side("still", vec![100.0; 3])]).unwrap();
        std::fs::remove_file(&file).unwrap();
    }
}
