//! Curves over message sizes or other steps, logarithmic upwards.

use super::painter::{Align, Canvas, FAINT, Failure, GRID, INK, SERIES, Text, short, ticks};
use super::{Picture, machine, write};
use crate::error::Error;
use crate::row::Row;
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

/// What rows are of, for names: the keys whose values differ among the rows, each with what is said after its value. The first
/// is said in any case.
pub(crate) struct Names<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Names<'a> {
    pub(crate) fn of(rows: &[Row], keys: &[(&'a str, &'a str)]) -> Names<'a> {
        let differs = |key: &str| rows.windows(2).any(|pair| pair[0].get(key) != pair[1].get(key));
        let tell = keys.iter().enumerate().filter(|(at, (key, _))| *at == 0 || differs(key));
        Names(tell.map(|(_, key)| *key).collect())
    }

    pub(crate) fn name(&self, row: &Row) -> String {
        let value = |key: &str| match row.as_text(key) {
            Some(text) => Some(text.to_owned()),
            None if key.ends_with("bytes") => row.as_number(key).map(|bytes| human_size(bytes as u64)),
            None => row.as_number(key).map(short),
        };
        let parts = self.0.iter().filter_map(|(key, after)| Some(value(key)? + after));
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// What tells the plans of a bench apart.
pub(crate) const OF_PLAN: [(&str, &str); 6] = [
    ("backend", ""),
    ("kind", ""),
    ("ranks", " ranks"),
    ("progress", ""),
    ("schedule", ""),
    ("buffers", " buffers"),
];

/// A curve for each name, over the value of one key, of another's. Rows that lack one are left out.
pub(crate) fn of_rows(rows: &[Row], keys: &[(&str, &str)], x: &str, y: &str) -> Vec<Series> {
    let names = Names::of(rows, keys);
    let mut all: Vec<Series> = Vec::new();
    for row in rows {
        let Some(point) = row.as_number(x).zip(row.as_number(y)) else { continue };
        let name = names.name(row);
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(Series { name, points: vec![point] }),
        }
    }
    all
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
/// Of the names at the right, from one to the next.
const LINE: f64 = 18.0;
const FRAME: [f64; 3] = [92.0, 96.0, 730.0]; // left, top, right
/// Below it: the axis and the machine.
const BELOW: f64 = 110.0;

impl Picture for Curves<'_> {
    fn size(&self) -> (u32, u32) {
        // Many names take more room than the curves do.
        let names = (FRAME[1] + self.series.len() as f64 * LINE + 60.0) as u32;
        (SIZE.0, SIZE.1.max(names))
    }

    fn paint(&self, canvas: &dyn Canvas) -> Result<(), Failure> {
        let [left, top, right] = FRAME;
        let height = f64::from(self.size().1);
        let bottom = height - BELOW;
        canvas.clear()?;
        canvas.text(self.chart.title, (28.0, 34.0), Text::new(24.0))?;
        canvas.text(self.chart.subtitle, (28.0, 64.0), Text::new(14.0).colour(FAINT))?;
        canvas.text(&self.machine, (28.0, height - 22.0), Text::new(12.0).colour(FAINT))?;

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
        let mut places: Vec<f64> = Vec::new();
        for (y, ..) in &labels {
            places.push(places.last().map_or(*y, |last| y.max(last + LINE)));
        }
        // And back up from where there is no room.
        let mut lowest = height - 60.0;
        for place in places.iter_mut().rev() {
            *place = place.min(lowest);
            lowest = *place - LINE;
        }
        for ((y, name, colour), at) in labels.into_iter().zip(places) {
            canvas.line(&[(right - step / 2.0 + 8.0, y), (right + 8.0, at)], GRID, 1)?;
            canvas.text(name, (right + 12.0, at), Text::new(13.0).colour(colour))?;
        }
        Ok(())
    }
}
