//! The heat map of `bench overlap`: message size x computing time, colour = overlap ratio.

use super::painter::{Align, At, Canvas, FAINT, Failure, INK, Text, short};
use super::{Picture, machine, write};
use crate::error::Error;
use crate::row::Row;
use crate::values::human_size;
use plotters::style::RGBColor;
use std::path::{Path, PathBuf};

const CELL: (f64, f64) = (92.0, 46.0);
const LEFT: f64 = 96.0;
const TOP: f64 = 92.0;
const PANEL_HEAD: f64 = 48.0;
const PANEL_FOOT: f64 = 58.0;
const BETWEEN: f64 = 92.0;
const LEGEND: f64 = 190.0;
const BOTTOM: f64 = 52.0;
/// A cell whose null ratio is farther from 0 than this says nothing.
const NOISE: f64 = 0.2;

/// Draws the rows of `bench overlap` as `overlap.svg` and `overlap.png`; gives their paths.
///
/// # Errors
/// When there is nothing to draw, or a file cannot be written.
pub fn draw(dir: &Path, rows: &[Row]) -> Result<Vec<PathBuf>, Error> {
    let map = Map::new(rows);
    if map.panels.is_empty() {
        return Err(Error::Failed("there is no overlap to plot".into()));
    }
    write(dir, "overlap", &map)
}

struct Panel {
    backend: String,
    kind: String,
    case: String,
    /// Ratio and null ratio by computing time, then size.
    cells: Vec<Vec<Option<(f64, f64)>>>,
}

struct Map {
    sizes: Vec<u64>,
    computes: Vec<String>,
    columns: usize,
    panels: Vec<Panel>,
    caption: [String; 2],
}

impl Map {
    fn new(rows: &[Row]) -> Map {
        let text = |row: &Row, key| row.as_text(key).unwrap_or_default().to_owned();
        let size = |row: &Row| row.as_number("size_bytes").unwrap_or(0.0) as u64;
        let mut sizes: Vec<u64> = rows.iter().map(size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut computes: Vec<String> = Vec::new();
        let mut panels: Vec<Panel> = Vec::new();
        for row in rows {
            if !computes.contains(&text(row, "compute")) {
                computes.push(text(row, "compute"));
            }
        }
        // Least computing at the bottom: sorted by number, factors after microseconds.
        let order = |label: &String| {
            let number: f64 = label.trim_end_matches('x').parse().unwrap_or(0.0);
            (label.ends_with('x'), number)
        };
        computes.sort_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal));
        let mut noise = 0.0f64;
        for row in rows {
            let kind = match row.as_text("progress") {
                Some(policy) => format!("{}, {policy}", text(row, "kind")),
                None => text(row, "kind"),
            };
            let key = (text(row, "case"), text(row, "backend"), kind);
            let same = |p: &&mut Panel| (&p.case, &p.backend, &p.kind) == (&key.0, &key.1, &key.2);
            let (Some(x), Some(y)) = (
                sizes.iter().position(|s| *s == size(row)),
                computes.iter().position(|c| *c == text(row, "compute")),
            ) else {
                continue;
            };
            let ratio =
                row.as_number("ratio").map(|ratio| (ratio, row.as_number("null_ratio").unwrap_or(0.0)));
            noise = noise.max(ratio.map_or(0.0, |(_, null)| null.abs()));
            if let Some(panel) = panels.iter_mut().find(same) {
                panel.cells[y][x] = ratio;
            } else {
                let mut cells = vec![vec![None; sizes.len()]; computes.len()];
                cells[y][x] = ratio;
                let (case, backend, kind) = key;
                panels.push(Panel { backend, kind, case, cells });
            }
        }
        // A row of panels for each case.
        let cases = ["recv", "send", "both"];
        panels.sort_by_key(|panel| cases.iter().position(|case| *case == panel.case));
        let first_case = panels.first().map(|p| p.case.clone());
        let columns = panels.iter().filter(|p| Some(&p.case) == first_case.as_ref()).count().max(1);
        let rounds = rows.first().and_then(|row| row.as_number("rounds")).unwrap_or(0.0);
        let caption = [
            format!(
                "Median of {rounds} paired rounds per cell. Greatest null ratio (computing against computing): {}; \
                 cells where it is above {NOISE} are marked ~.",
                short(noise)
            ),
            machine(),
        ];
        Map { sizes, computes, columns, panels, caption }
    }

    fn panel_size(&self) -> (f64, f64) {
        // Wide enough for a panel's two head lines.
        ((self.sizes.len() as f64 * CELL.0).max(300.0), self.computes.len() as f64 * CELL.1)
    }

    fn cell_width(&self) -> f64 {
        self.panel_size().0 / self.sizes.len() as f64
    }
}

impl Picture for Map {
    fn size(&self) -> (u32, u32) {
        let (width, height) = self.panel_size();
        let rows = self.panels.len().div_ceil(self.columns) as f64;
        let columns = self.columns as f64;
        let all_width = LEFT + columns * width + (columns - 1.0) * BETWEEN + LEGEND;
        (all_width.max(880.0) as u32, (TOP + rows * (PANEL_HEAD + height + PANEL_FOOT) + BOTTOM) as u32)
    }

    fn paint(&self, canvas: &dyn Canvas) -> Result<(), Failure> {
        let (width, height) = (f64::from(self.size().0), f64::from(self.size().1));
        canvas.clear()?;
        canvas.text("Does communication hide behind computing?", (28.0, 34.0), Text::new(24.0))?;
        let what = "Each cell: the part of the shorter activity that could not be hidden (overlap ratio). \
                    0: all hidden. 1: nothing gained.";
        canvas.text(what, (28.0, 64.0), Text::new(14.0).colour(FAINT))?;
        let (panel_width, panel_height) = self.panel_size();
        for (at, panel) in self.panels.iter().enumerate() {
            let (column, row) = ((at % self.columns) as f64, (at / self.columns) as f64);
            let x = LEFT + column * (panel_width + BETWEEN);
            let y = TOP + row * (PANEL_HEAD + panel_height + PANEL_FOOT);
            self.panel(canvas, panel, (x, y))?;
        }
        self.legend(canvas, (width - LEGEND + 40.0, TOP + PANEL_HEAD), panel_height.max(170.0))?;
        for (line, text) in self.caption.iter().enumerate() {
            let y = height - 40.0 + 18.0 * line as f64;
            canvas.text(text, (28.0, y), Text::new(12.0).colour(FAINT))?;
        }
        Ok(())
    }
}

impl Map {
    fn panel(&self, canvas: &dyn Canvas, panel: &Panel, (x, y): At) -> Result<(), Failure> {
        let (width, height) = self.panel_size();
        let how = match panel.backend.as_str() {
            "uintr" => "a user interrupt announces messages",
            "signal" => "a signal announces messages",
            "thread" => "a progress thread looks for messages",
            "poll" => "messages move inside calls only",
            _ => "",
        };
        let who = match panel.case.as_str() {
            "recv" => "the receiver computes",
            "send" => "the sender computes",
            _ => "both compute",
        };
        canvas.text(&format!("{}: {how}", panel.backend), (x, y + 10.0), Text::new(16.0))?;
        let ranks = if panel.kind == "thread" { "ranks are threads" } else { "ranks are processes" };
        canvas.text(&format!("{who}, {ranks}"), (x, y + 31.0), Text::new(13.0).colour(FAINT))?;
        let top = y + PANEL_HEAD;
        let cell_width = self.cell_width();
        let rows = self.computes.len();
        for (at, row) in panel.cells.iter().enumerate() {
            let y = top + (rows - 1 - at) as f64 * CELL.1;
            let label = match self.computes[at].strip_suffix('x') {
                Some(factor) => format!("{factor} ×"),
                None => self.computes[at].clone(),
            };
            let looks = Text::new(13.0).align(Align::Right);
            canvas.text(&label, (x - 8.0, y + CELL.1 / 2.0), looks)?;
            for (column, cell) in row.iter().enumerate() {
                let x = x + column as f64 * cell_width;
                let (from, to) = ((x + 1.0, y + 1.0), (x + cell_width - 1.0, y + CELL.1 - 1.0));
                let Some((ratio, null)) = cell else {
                    canvas.rectangle(from, to, RGBColor(0xf0, 0xf0, 0xf0), true)?;
                    continue;
                };
                let colour = colour(*ratio);
                canvas.rectangle(from, to, colour, true)?;
                let noisy = if null.abs() > NOISE { "~" } else { "" };
                let label = format!("{noisy}{ratio:.2}").replace('-', "−");
                let looks = Text::new(16.0).align(Align::Middle).colour(ink_on(colour));
                canvas.text(&label, (x + cell_width / 2.0, y + CELL.1 / 2.0), looks)?;
            }
        }
        let bottom = top + height;
        for (column, size) in self.sizes.iter().enumerate() {
            let at = (x + (column as f64 + 0.5) * cell_width, bottom + 13.0);
            canvas.text(&human_size(*size), at, Text::new(13.0).align(Align::Middle))?;
        }
        let looks = Text::new(13.0).align(Align::Middle).colour(FAINT);
        canvas.text("message size", (x + width / 2.0, bottom + 33.0), looks)?;
        let factors = self.computes.iter().all(|c| c.ends_with('x'));
        let label = if factors { "computing time ÷ message time" } else { "computing time (µs)" };
        canvas.text(label, (x - 62.0, top + height / 2.0), looks.upright())
    }

    fn legend(&self, canvas: &dyn Canvas, (x, y): At, height: f64) -> Result<(), Failure> {
        canvas.text("overlap ratio", (x, y - 14.0), Text::new(13.0))?;
        let (lowest, highest) = (0.0, 1.25);
        let steps = 100;
        let place = |ratio: f64| y + height * (highest - ratio) / (highest - lowest);
        for step in 0..steps {
            let ratio = |step: i32| lowest + (highest - lowest) * f64::from(step) / f64::from(steps);
            let (from, to) = ((x, place(ratio(step + 1))), (x + 22.0, place(ratio(step)) + 0.5));
            canvas.rectangle(from, to, colour(ratio(step)), true)?;
        }
        let words = [(0.0, "0  all hidden"), (0.25, "0.25"), (0.5, "0.5  half"), (0.75, "0.75")];
        for (ratio, word) in words.into_iter().chain([(1.0, "1  nothing gained"), (1.25, "worse")]) {
            canvas.line(&[(x + 22.0, place(ratio)), (x + 27.0, place(ratio))], INK, 1)?;
            canvas.text(word, (x + 32.0, place(ratio)), Text::new(12.0))?;
        }
        Ok(())
    }
}

/// Blue: hidden; nearly white: half; red: not hidden; dark red: worse than not trying. People with any colour vision
/// tell these apart (the ends of ColorBrewer's RdBu).
fn colour(ratio: f64) -> RGBColor {
    const STOPS: [(f64, [f64; 3]); 5] = [
        (0.0, [33.0, 102.0, 172.0]),
        (0.25, [110.0, 170.0, 210.0]),
        (0.5, [247.0, 240.0, 235.0]),
        (1.0, [214.0, 96.0, 77.0]),
        (1.25, [130.0, 10.0, 35.0]),
    ];
    let ratio = ratio.clamp(0.0, 1.25);
    let upper = STOPS.iter().position(|(at, _)| ratio <= *at).unwrap_or(STOPS.len() - 1).max(1);
    let ((a, from), (b, to)) = (STOPS[upper - 1], STOPS[upper]);
    let share = (ratio - a) / (b - a);
    let mix = |i: usize| (from[i] + (to[i] - from[i]) * share).round() as u8;
    RGBColor(mix(0), mix(1), mix(2))
}

fn ink_on(RGBColor(r, g, b): RGBColor) -> RGBColor {
    let light = 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b);
    if light > 140.0 { INK } else { RGBColor(0xff, 0xff, 0xff) }
}
