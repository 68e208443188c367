//! The distribution of notification latencies, a panel for each kind of pair.

use super::painter::{Align, Canvas, FAINT, Failure, GRID, INK, SERIES, Text, short, ticks};
use super::{Picture, machine, write};
use crate::error::Error;
use crate::stats::Times;
use plotters::style::WHITE;
use std::path::{Path, PathBuf};

const WIDTH: f64 = 1000.0;
const TOP: f64 = 96.0;
const PANEL: f64 = 270.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = WIDTH - 40.0;
/// From one name to the one below it, and what a panel has above its peaks for names.
const LINE: f64 = 17.0;
const NAMES: f64 = 78.0;
/// Classes per factor of ten.
const CLASSES: f64 = 20.0;

/// One distribution.
#[derive(Clone, Debug)]
pub struct Distribution<'a> {
    /// Title of the panel that it stands in.
    pub panel: String,
    /// What it is called there.
    pub name: String,
    /// The times.
    pub times: &'a Times,
}

/// Draws `latency.svg` and `latency.png`; gives their paths.
///
/// # Errors
/// When there is nothing to draw, or a file cannot be written.
pub fn draw(dir: &Path, measured: &[Distribution<'_>]) -> Result<Vec<PathBuf>, Error> {
    let mut panels: Vec<(&str, Vec<&Distribution<'_>>)> = Vec::new();
    for one in measured.iter().filter(|m| !m.times.is_empty()) {
        match panels.iter_mut().find(|(title, _)| *title == one.panel) {
            Some((_, panel)) => panel.push(one),
            None => panels.push((&one.panel, vec![one])),
        }
    }
    let all = || panels.iter().flat_map(|p| &p.1);
    let low = all().map(|m| m.times.percentile(0.1)).fold(f64::INFINITY, f64::min);
    let high = all().map(|m| m.times.percentile(99.0)).fold(0.0, f64::max);
    if panels.is_empty() {
        return Err(Error::Failed("there is no latency to plot".into()));
    }
    write(
        dir,
        "latency",
        &Distributions { panels, low: (low / 1.5).max(1.0), high: high * 1.5, machine: machine() },
    )
}

struct Distributions<'a> {
    panels: Vec<(&'a str, Vec<&'a Distribution<'a>>)>,
    low: f64,
    high: f64,
    machine: String,
}

impl Picture for Distributions<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (TOP + self.panels.len() as f64 * self.height() + 60.0) as u32)
    }

    fn paint(&self, canvas: &dyn Canvas) -> Result<(), Failure> {
        canvas.clear()?;
        canvas.text("How fast does a notification arrive?", (28.0, 34.0), Text::new(24.0))?;
        let what = "From just before the send to the first instruction that sees it; further left is faster, \
                    narrower is steadier; dots are medians";
        canvas.text(what, (28.0, 64.0), Text::new(14.0).colour(FAINT))?;
        let height = f64::from(self.size().1);
        canvas.text(&self.machine, (28.0, height - 22.0), Text::new(12.0).colour(FAINT))?;
        for (at, panel) in self.panels.iter().enumerate() {
            self.panel(canvas, panel, TOP + at as f64 * self.height())?;
        }
        let looks = Text::new(13.0).align(Align::Middle).colour(FAINT);
        canvas.text("time to arrive (µs, logarithmic)", ((LEFT + RIGHT) / 2.0, height - 52.0), looks)
    }
}

impl Distributions<'_> {
    /// Above the peaks, so that names that all meet have a line each.
    fn names(&self) -> f64 {
        let most = self.panels.iter().map(|(_, panel)| panel.len()).max().unwrap_or(0);
        (most as f64 * LINE + 10.0).max(NAMES)
    }

    /// Of a panel.
    fn height(&self) -> f64 {
        PANEL - NAMES + self.names()
    }

    fn panel(
        &self,
        canvas: &dyn Canvas,
        (title, measured): &(&str, Vec<&Distribution<'_>>),
        y: f64,
    ) -> Result<(), Failure> {
        let (top, bottom) = (y + 34.0, y + self.height() - 40.0);
        canvas.text(title, (LEFT, y + 10.0), Text::new(16.0))?;
        let x_of = |ns: f64| LEFT + (ns / self.low).ln() / (self.high / self.low).ln() * (RIGHT - LEFT);
        for tick in ticks(self.low, self.high) {
            canvas.line(&[(x_of(tick), top), (x_of(tick), bottom)], GRID, 1)?;
            let looks = Text::new(13.0).align(Align::Middle);
            canvas.text(&short(tick / 1000.0), (x_of(tick), bottom + 14.0), looks)?;
        }
        canvas.line(&[(LEFT, bottom), (RIGHT, bottom)], INK, 1)?;
        let looks = Text::new(13.0).align(Align::Middle).colour(FAINT).upright();
        canvas.text("share of posts", (LEFT - 22.0, (top + bottom) / 2.0), looks)?;

        let classes = ((self.high / self.low).log10() * CLASSES).ceil() as usize;
        let bound = |class: usize| self.low * 10f64.powf(class as f64 / CLASSES);
        let bounds: Vec<f64> = (0..classes).map(bound).collect();
        let shares: Vec<Vec<f64>> = measured.iter().map(|m| m.times.shares(&bounds)).collect();
        let most = shares.iter().flatten().fold(0.0f64, |a, b| a.max(*b)).max(1e-9);
        let y_of = |share: f64| bottom - share / most * (bottom - top - self.names());
        let mut medians = Vec::new();
        for (at, (one, shares)) in measured.iter().zip(&shares).enumerate() {
            let colour = SERIES[at % SERIES.len()];
            let mut outline = vec![(x_of(bounds[0]), bottom)];
            for (class, share) in shares.iter().enumerate() {
                outline.push((x_of(bound(class)).min(RIGHT), y_of(*share)));
                outline.push((x_of(bound(class + 1)).min(RIGHT), y_of(*share)));
            }
            outline.push((RIGHT, bottom));
            canvas.area(&outline, colour, 0.25)?;
            canvas.line(&outline, colour, 2)?;
            let median = one.times.median();
            let class = bounds.partition_point(|b| *b <= median).saturating_sub(1);
            let place = (x_of(median), y_of(shares[class]));
            canvas.dot(place, 4.0, colour)?;
            medians.push((place, format!("{} {} µs", one.name, short(median / 1000.0)), colour));
        }
        // Names above all peaks, in a lower line where two would meet.
        for (place, _, colour) in &medians {
            canvas.line(&[(place.0, top + 8.0), *place], *colour, 1)?;
        }
        let mut names: Vec<(f64, f64, f64)> = Vec::new();
        for (place, label, colour) in medians {
            let half = canvas.width(&label, 13.0) / 2.0;
            let x = place.0.clamp(LEFT + half, RIGHT - half);
            let mut y = top + 8.0;
            while names.iter().any(|(nx, ny, nh)| (nx - x).abs() < half + nh + 12.0 && *ny == y) {
                y += LINE;
            }
            names.push((x, y, half));
            canvas.rectangle((x - half - 3.0, y - 8.0), (x + half + 3.0, y + 8.0), WHITE, true)?;
            canvas.text(&label, (x, y), Text::new(13.0).align(Align::Middle).colour(colour))?;
        }
        Ok(())
    }
}
