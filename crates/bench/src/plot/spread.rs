//! Ratios beside each other: a line each with its median and what most of its rounds lie between, around 1.

use super::painter::{Align, Canvas, FAINT, Failure, GRID, INK, SERIES, Text};
use super::{Picture, machine, write};
use crate::error::Error;
use std::path::{Path, PathBuf};

/// One ratio.
#[derive(Clone, Debug)]
pub struct Spread {
    /// What it is of.
    pub name: String,
    /// Two percentiles and the median between them.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The upper percentile.
    pub high: f64,
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
    /// Name of the axis.
    pub x: &'static str,
}

/// Draws them in their order; gives the paths.
///
/// # Errors
/// When there is nothing to draw, or a file cannot be written.
pub fn draw(dir: &Path, chart: &Chart, spreads: &[Spread]) -> Result<Vec<PathBuf>, Error> {
    let spreads: Vec<_> = spreads.iter().filter(|s| s.median.is_finite()).collect();
    if spreads.is_empty() {
        return Err(Error::Failed(format!("there is nothing to plot as {}", chart.file)));
    }
    let all = || spreads.iter().flat_map(|s| [s.low, s.median, s.high]).filter(|v| v.is_finite());
    let (low, high) = (all().fold(1.0, f64::min), all().fold(1.0, f64::max));
    // Ratios that are all 1 still have an axis.
    let margin = ((high - low) * 0.08).max(0.005);
    let picture = Spreads { chart, spreads, low: low - margin, high: high + margin, machine: machine() };
    write(dir, chart.file, &picture)
}

struct Spreads<'a> {
    chart: &'a Chart,
    spreads: Vec<&'a Spread>,
    low: f64,
    high: f64,
    machine: String,
}

const WIDTH: f64 = 1000.0;
const TOP: f64 = 96.0;
const LINE: f64 = 34.0;
/// Between the widest name and the frame, and between the frame and the numbers at its right.
const GAP: f64 = 16.0;
const RIGHT: f64 = WIDTH - 96.0;

impl Spreads<'_> {
    fn bottom(&self) -> f64 {
        TOP + self.spreads.len() as f64 * LINE
    }
}

/// A step of a linear axis that makes at most so many.
fn step(range: f64, most: f64) -> f64 {
    let power = 10f64.powf((range / most).log10().floor());
    [1.0, 2.0, 5.0].map(|s| s * power).into_iter().find(|s| range / s <= most).unwrap_or(10.0 * power)
}

/// To a ten-thousandth, without trailing zeros: near 1, a hundredth decides.
fn number(ratio: f64) -> String {
    format!("{ratio:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Picture for Spreads<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (self.bottom() + 104.0) as u32)
    }

    fn paint(&self, canvas: &dyn Canvas) -> Result<(), Failure> {
        canvas.clear()?;
        canvas.text(self.chart.title, (28.0, 34.0), Text::new(24.0))?;
        canvas.text(self.chart.subtitle, (28.0, 64.0), Text::new(14.0).colour(FAINT))?;
        let height = f64::from(self.size().1);
        canvas.text(&self.machine, (28.0, height - 22.0), Text::new(12.0).colour(FAINT))?;
        let widest = self.spreads.iter().map(|s| canvas.width(&s.name, 13.0)).fold(0.0, f64::max);
        let (left, bottom) = ((28.0 + widest + GAP).min(WIDTH / 2.0), self.bottom());
        let x_of = |x: f64| left + (x - self.low) / (self.high - self.low) * (RIGHT - left);
        let step = step(self.high - self.low, 8.0);
        let mut at = (self.low / step).ceil();
        while at * step <= self.high {
            let x = x_of(at * step);
            canvas.line(&[(x, TOP), (x, bottom)], GRID, 1)?;
            canvas.text(&number(at * step), (x, bottom + 16.0), Text::new(13.0).align(Align::Middle))?;
            at += 1.0;
        }
        canvas.line(&[(left, bottom), (RIGHT, bottom)], INK, 1)?;
        canvas.line(&[(x_of(1.0), TOP), (x_of(1.0), bottom)], FAINT, 1)?;
        let looks = Text::new(13.0).align(Align::Middle).colour(FAINT);
        canvas.text(self.chart.x, ((left + RIGHT) / 2.0, bottom + 42.0), looks)?;
        for (at, spread) in self.spreads.iter().enumerate() {
            let (y, colour) = (TOP + (at as f64 + 0.5) * LINE, SERIES[at % SERIES.len()]);
            canvas.text(&spread.name, (left - GAP, y), Text::new(13.0).align(Align::Right))?;
            if spread.low.is_finite() && spread.high.is_finite() {
                let (from, to) = (x_of(spread.low), x_of(spread.high));
                canvas.line(&[(from, y), (to, y)], colour, 2)?;
                for end in [from, to] {
                    canvas.line(&[(end, y - 5.0), (end, y + 5.0)], colour, 2)?;
                }
            }
            canvas.dot((x_of(spread.median), y), 5.0, colour)?;
            canvas.text(&number(spread.median), (RIGHT + GAP, y), Text::new(13.0).colour(colour))?;
        }
        Ok(())
    }
}
