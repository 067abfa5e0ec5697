//! Chart of the pods bound over time.

use anyhow::{Context as _, anyhow};
use plotters::{
    chart::{ChartBuilder, SeriesLabelPosition},
    drawing::{DrawingArea, IntoDrawingArea as _},
    element::PathElement,
    prelude::SVGBackend,
    series::LineSeries,
    style::{Color as _, RGBColor, WHITE},
};

use super::Report;
use crate::{
    measured::{Measured, POINT_US},
    schedulers::Scheduler,
    shape::Shape,
};

const WIDTH: u32 = 800;
const HEIGHT: u32 = 320;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

impl Report {
    pub(crate) fn picture(&self) -> anyhow::Result<String> {
        let shapes: Vec<Shape> =
            Shape::ALL.into_iter().filter(|shape| self.runs.iter().any(|run| run.shape == *shape)).collect();
        let mut text = String::new();
        let height = HEIGHT * u32::try_from(shapes.len().max(1)).context("too many shapes for a picture")?;
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        // The library's error borrows the area.
        let drawn = area.fill(&WHITE).map_err(|error| anyhow!("{error}")).and_then(|()| {
            for (part, shape) in area.split_evenly((shapes.len().max(1), 1)).iter().zip(&shapes) {
                self.draw(part, *shape)?;
            }
            area.present().map_err(|error| anyhow!("{error}"))
        });
        drop(area);
        drawn.context("cannot draw the picture")?;
        Ok(text)
    }

    fn draw(&self, area: &Area<'_>, shape: Shape) -> anyhow::Result<()> {
        let runs: Vec<&Measured> = self.runs.iter().filter(|run| run.shape == shape).collect();
        let end_s = runs.iter().map(|run| run.rate.seconds).fold(1.0, f64::max);
        let pods = runs.iter().map(|run| run.rate.bound).max().unwrap_or(0).max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .caption(format!("{}: pods bound", shape.name()), ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..end_s, 0.0..pods)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .max_light_lines(1)
            .x_desc("seconds since the first pod was created")
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| format!("{value:.0}"))
            .draw()?;
        for scheduler in Scheduler::ALL {
            let color = color(scheduler);
            for (index, run) in runs.iter().filter(|run| run.scheduler == scheduler).enumerate() {
                let series = chart.draw_series(LineSeries::new(points(run), color.stroke_width(2)))?;
                if index == 0 {
                    series
                        .label(scheduler.name())
                        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
                }
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE)
            .border_style(RGBColor(200, 200, 200))
            .draw()?;
        Ok(())
    }
}

/// Distinguishable with red-green colour blindness.
const fn color(scheduler: Scheduler) -> RGBColor {
    match scheduler {
        Scheduler::Ceiling => RGBColor(60, 60, 60),
        Scheduler::CeilingWithEvents => RGBColor(170, 170, 170),
        Scheduler::Stock => RGBColor(230, 159, 0),
        Scheduler::Flotilla => RGBColor(0, 114, 178),
    }
}

fn points(run: &Measured) -> Vec<(f64, f64)> {
    let step_s = POINT_US as f64 / 1e6;
    let mut points = vec![(0.0, 0.0)];
    let counts = run.rate.bound_over_time.iter().zip(1_u32..);
    // The last point is at the last binding instead of the end of its interval.
    points.extend(counts.map(|(count, step)| ((f64::from(step) * step_s).min(run.rate.seconds), *count as f64)));
    points
}
