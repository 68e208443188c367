//! Curves over message sizes, logarithmic upwards.

use super::painter::{Align, Canvas, FAINT, Failure, GRID, INK, SERIES, Text, short, ticks};
use super::{Picture, machine, write};
use crate::error::Error;
use crate::values::human_size;
use std::path::{Path, PathBuf};

/// One curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A curve without points yet.
    pub fn new(name: String) -> Series {
        Series { name, points: Vec::new() }
    }
}

/// What a picture says.
#[derive(Clone, Copy, Debug)]
pub struct Chart {
    /// Name of the files, without extension.
    pub file: &'static str,
    /// The question it answers.
    pub title: &'static str,
    /// What is shown, and which direction is good.
    pub subtitle: &'static str,
    /// Name of the horizontal axis.
    pub x: &'static str,
    /// Name and unit of the vertical axis.
    pub y: &'static str,
    /// Whether horizontal values are sizes in bytes.
    pub x_is_bytes: bool,
}

/// Draws the curves; gives the paths.
///
/// # Errors
/// When there is nothing to draw, or a file cannot be written.
pub fn draw(dir: &Path, chart: &Chart, series: &[Series]) -> Result<Vec<PathBuf>, Error> {
    let ys = || series.iter().flat_map(|s| &s.points).map(|p| p.1).filter(|y| y.is_finite() && *y > 0.0);
    let (low, high) = (ys().fold(f64::INFINITY, f64::min), ys().fold(0.0, f64::max));
    if high == 0.0 {
        return Err(Error::Failed(format!("there is nothing to plot as {}", chart.file)));
    }
    let mut xs: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|p| p.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    write(
        dir,
        chart.file,
        &Curves { chart, series, xs, low: low / 1.3, high: high * 1.3, machine: machine() },
    )
}

struct Curves<'a> {
    chart: &'a Chart,
    series: &'a [Series],
    xs: Vec<f64>,
    low: f64,
    high: f64,
    machine: String,
}

const SIZE: (u32, u32) = (1000, 600);
const FRAME: [f64; 4] = [92.0, 96.0, 730.0, 490.0]; // left, top, right, bottom

impl Picture for Curves<'_> {
    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn paint(&self, canvas: &dyn Canvas) -> Result<(), Failure> {
        let [left, top, right, bottom] = FRAME;
        canvas.clear()?;
        canvas.text(self.chart.title, (28.0, 34.0), Text::new(24.0))?;
        canvas.text(self.chart.subtitle, (28.0, 64.0), Text::new(14.0).colour(FAINT))?;
        canvas.text(&self.machine, (28.0, f64::from(SIZE.1) - 22.0), Text::new(12.0).colour(FAINT))?;

        let y_of = |y: f64| bottom - (y / self.low).ln() / (self.high / self.low).ln() * (bottom - top);
        // Sizes are steps: 0 B has no place on a logarithmic axis.
        let step = (right - left) / self.xs.len() as f64;
        let x_of = |x: f64| {
            let at = self.xs.iter().position(|known| *known == x).unwrap_or(0);
            left + (at as f64 + 0.5) * step
        };
        for tick in ticks(self.low, self.high) {
            canvas.line(&[(left, y_of(tick)), (right, y_of(tick))], GRID, 1)?;
            canvas.text(&short(tick), (left - 8.0, y_of(tick)), Text::new(13.0).align(Align::Right))?;
        }
        let every = self.xs.len().div_ceil(9);
        for (at, x) in self.xs.iter().enumerate().filter(|(at, _)| at % every == 0) {
            let label = if self.chart.x_is_bytes { human_size(*x as u64) } else { short(*x) };
            let place = left + (at as f64 + 0.5) * step;
            canvas.line(&[(place, bottom), (place, bottom + 5.0)], INK, 1)?;
            canvas.text(&label, (place, bottom + 18.0), Text::new(13.0).align(Align::Middle))?;
        }
        canvas.line(&[(left, top), (left, bottom), (right, bottom)], INK, 1)?;
        let looks = Text::new(13.0).align(Align::Middle).colour(FAINT);
        canvas.text(self.chart.x, ((left + right) / 2.0, bottom + 42.0), looks)?;
        canvas.text(self.chart.y, (28.0, (top + bottom) / 2.0), looks.upright())?;

        let mut labels = Vec::new();
        for (at, series) in self.series.iter().enumerate() {
            let colour = SERIES[at % SERIES.len()];
            let points: Vec<_> =
                series.points.iter().filter(|p| p.1 > 0.0).map(|p| (x_of(p.0), y_of(p.1))).collect();
            canvas.line(&points, colour, 2)?;
            for point in &points {
                canvas.dot(*point, 4.0, colour)?;
            }
            if let Some(end) = points.last() {
                labels.push((end.1, series.name.as_str(), colour));
            }
        }
        // Names beside the curves' ends, pushed apart where ends are close.
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut next = top;
        for (y, name, colour) in labels {
            let at = y.max(next);
            canvas.line(&[(right - step / 2.0 + 8.0, y), (right + 8.0, at)], GRID, 1)?;
            canvas.text(name, (right + 12.0, at), Text::new(13.0).colour(colour))?;
            next = at + 18.0;
        }
        Ok(())
    }
}
