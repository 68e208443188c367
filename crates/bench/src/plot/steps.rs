//! The steps of one collective over time, a row per rank.

use super::painter::{Align, Canvas, FAINT, Failure, GRID, INK, SERIES, Text, short};
use super::{Picture, machine, write};
use crate::error::Error;
use crate::steps::{OfRank, Steps};
use crate::values::human_size;
use plotters::style::RGBColor;
use std::path::{Path, PathBuf};

const WIDTH: f64 = 1100.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 40.0;
const TOP: f64 = 132.0;
/// Height of a rank's row, of the steps in it, and of what its thread did.
const ROW: f64 = 56.0;
const STEPS: f64 = 32.0;
const STATE: f64 = 8.0;
/// Ranks beyond are left out: no picture shows more.
const MOST_RANKS: usize = 64;

/// What steps are, and their colours.
const KINDS: [(&str, RGBColor); 5] = [
    ("send", SERIES[0]),
    ("recv", SERIES[4]),
    ("copy", SERIES[2]),
    ("reduce", SERIES[5]),
    ("join", SERIES[3]),
];
/// What threads do.
const STATES: [(&str, RGBColor); 3] = [
    ("computing", RGBColor(0xc8, 0xdc, 0xc8)),
    ("library", RGBColor(0x9a, 0x9a, 0xa4)),
    ("handler", SERIES[1]),
];

/// Draws `file.svg` and `file.png`; gives their paths. `what`: more for the title.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn draw(dir: &Path, file: &str, what: &str, steps: &Steps) -> Result<Vec<PathBuf>, Error> {
    write(dir, file, &Rows { steps, what, machine: machine() })
}

struct Rows<'a> {
    steps: &'a Steps,
    what: &'a str,
    machine: String,
}

/// Steps of a rank side by side: the row of each among those that overlap, and how many rows there are.
fn stacked(of: &OfRank) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..of.steps.len()).collect();
    order.sort_by(|a, b| of.steps[*a].span.begun.total_cmp(&of.steps[*b].span.begun));
    let (mut ends, mut at): (Vec<f64>, Vec<usize>) = (Vec::new(), vec![0; of.steps.len()]);
    for step in order {
        let span = of.steps[step].span;
        let free = ends.iter().position(|end| *end <= span.begun).unwrap_or(ends.len());
        if free == ends.len() {
            ends.push(0.0);
        }
        ends[free] = span.ends;
        at[step] = free;
    }
    (at, ends.len().max(1))
}

/// Places of ticks on a linear axis from 0: some five round numbers.
fn linear(to: f64) -> Vec<f64> {
    let rough = (to / 5.0).max(1e-3);
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    (0..).map(|n| f64::from(n) * step).take_while(|at| *at <= to * 1.001).collect()
}

impl Picture for Rows<'_> {
    fn size(&self) -> (u32, u32) {
        let rows = self.steps.ranks.len().min(MOST_RANKS) as f64;
        (WIDTH as u32, (TOP + rows * ROW + 92.0) as u32)
    }

    fn paint(&self, canvas: &dyn Canvas) -> Result<(), Failure> {
        let steps = self.steps;
        let (ranks, height) = (steps.ranks.len(), f64::from(self.size().1));
        canvas.clear()?;
        let longest = steps.ranks.iter().flat_map(|of| &of.steps).map(|step| step.bytes).max().unwrap_or(0);
        let title = format!("{} ({}), {ranks} ranks{}", steps.operation, steps.algorithm, self.what);
        canvas.text(&title, (28.0, 34.0), Text::new(24.0))?;
        let what = format!(
            "Bars are steps (the longest of {}), lines are messages; below them what the rank's thread does",
            human_size(longest)
        );
        canvas.text(&what, (28.0, 64.0), Text::new(14.0).colour(FAINT))?;
        self.legend(canvas)?;
        let bottom = height - 92.0;
        let to = steps.took.max(1e-3);
        let x_of = |us: f64| LEFT + (us / to).clamp(0.0, 1.0) * (RIGHT - LEFT);
        for tick in linear(to) {
            canvas.line(&[(x_of(tick), TOP - 6.0), (x_of(tick), bottom)], GRID, 1)?;
            canvas.text(&short(tick), (x_of(tick), bottom + 14.0), Text::new(13.0).align(Align::Middle))?;
        }
        let looks = Text::new(13.0).align(Align::Middle).colour(FAINT);
        canvas.text(
            "since the first rank has started it (µs)",
            ((LEFT + RIGHT) / 2.0, bottom + 38.0),
            looks,
        )?;
        let shown = &steps.ranks[..ranks.min(MOST_RANKS)];
        for (at, of) in shown.iter().enumerate() {
            self.row(canvas, of, TOP + at as f64 * ROW, &x_of)?;
        }
        let y_of = |rank: u32| {
            let at = shown.iter().position(|of| of.rank == rank)?;
            Some(TOP + at as f64 * ROW + STEPS / 2.0)
        };
        for arrow in &steps.arrows {
            let (Some(from), Some(to)) = (y_of(arrow.from.0), y_of(arrow.to.0)) else { continue };
            let end = (x_of(arrow.to.1), to);
            canvas.line(&[(x_of(arrow.from.1), from), end], INK, 1)?;
            canvas.dot(end, 2.5, INK)?;
        }
        let more =
            if ranks > MOST_RANKS { format!("; {} more ranks", ranks - MOST_RANKS) } else { String::new() };
        let caption = format!("{}{more}", self.machine);
        canvas.text(&caption, (28.0, height - 22.0), Text::new(12.0).colour(FAINT))
    }
}

impl Rows<'_> {
    fn legend(&self, canvas: &dyn Canvas) -> Result<(), Failure> {
        let mut x = LEFT;
        for (name, colour) in KINDS.iter().chain(&STATES) {
            canvas.rectangle((x, 88.0), (x + 12.0, 100.0), *colour, true)?;
            canvas.text(name, (x + 18.0, 94.0), Text::new(13.0))?;
            x += 18.0 + canvas.width(name, 13.0) + 24.0;
        }
        Ok(())
    }

    fn row(
        &self,
        canvas: &dyn Canvas,
        of: &OfRank,
        top: f64,
        x_of: &dyn Fn(f64) -> f64,
    ) -> Result<(), Failure> {
        let looks = Text::new(14.0).align(Align::Right);
        canvas.text(&format!("rank {}", of.rank), (LEFT - 12.0, top + STEPS / 2.0), looks)?;
        // At least a pixel, or nobody sees it.
        let bar = |begun: f64, ends: f64| (x_of(begun), x_of(ends).max(x_of(begun) + 1.0));
        if let Some(whole) = of.whole {
            let (from, to) = bar(whole.begun, whole.ends);
            canvas.rectangle((from, top - 2.0), (to, top + STEPS + 2.0), GRID, false)?;
        }
        let (at, rows) = stacked(of);
        let high = STEPS / rows as f64;
        for (step, at) in of.steps.iter().zip(at) {
            let (from, to) = bar(step.span.begun, step.span.ends);
            let y = top + at as f64 * high;
            canvas.rectangle(
                (from, y),
                (to, y + (high - 1.0).max(1.0)),
                colour_of(&KINDS, &step.kind),
                true,
            )?;
        }
        let y = top + STEPS + 4.0;
        // In this order: a handler interrupts what is painted before it.
        for (state, colour) in STATES {
            for (span, _) in of.states.iter().filter(|(_, name)| name == state) {
                let (from, to) = bar(span.begun, span.ends);
                canvas.rectangle((from, y), (to, y + STATE), colour, true)?;
            }
        }
        Ok(())
    }
}

fn colour_of(names: &[(&str, RGBColor)], name: &str) -> RGBColor {
    names.iter().find(|(known, _)| *known == name).map_or(INK, |(_, colour)| *colour)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::{Span, Step};

    #[test]
    fn what_overlaps_is_stacked() {
        let step =
            |begun, ends| Step { span: Span { begun, ends }, kind: "send".into(), peer: None, bytes: 0 };
        let of = OfRank { steps: vec![step(2.0, 4.0), step(0.0, 3.0), step(3.0, 5.0)], ..OfRank::default() };
        assert_eq!(stacked(&of), (vec![1, 0, 0], 2));
        assert_eq!(stacked(&OfRank::default()), (vec![], 1));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(linear(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear(470.0), [0.0, 100.0, 200.0, 300.0, 400.0]);
    }
}
