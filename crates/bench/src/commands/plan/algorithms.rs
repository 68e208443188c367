//! `tocsin plan algorithms`: a row per algorithm of the library's table.

use crate::cli::Algorithms;
use crate::row::{Row, Sink, print};
use tocsin_nbc::table::{ALGORITHMS, Algorithm};

pub(crate) fn run(args: &Algorithms) {
    let asked = |algorithm: &&Algorithm| args.op.is_empty() || args.op.contains(&algorithm.operation);
    let algorithms = ALGORITHMS.iter().filter(asked);
    if args.json {
        let mut sink = Sink::new(true);
        algorithms.for_each(|algorithm| sink.row(&row(algorithm)));
    } else {
        print(&table(algorithms));
    }
}

fn row(algorithm: &Algorithm) -> Row {
    let row = Row::new("plan algorithms");
    KEYS.iter().zip(cells(algorithm)).fold(row, |row, (key, cell)| row.set(key, cell))
}

const KEYS: [&str; 5] = ["op", "algorithm", "restrictions", "cost", "source"];

fn cells(algorithm: &Algorithm) -> [String; 5] {
    [
        algorithm.operation.name().to_owned(),
        algorithm.name.to_owned(),
        algorithm.restrictions.to_string(),
        algorithm.cost.to_owned(),
        algorithm.source.to_owned(),
    ]
}

/// Text reads from the left, unlike the numbers of other tables.
fn table<'a>(algorithms: impl Iterator<Item = &'a Algorithm>) -> String {
    let lines: Vec<_> = std::iter::once(KEYS.map(str::to_owned)).chain(algorithms.map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    let mut text = String::new();
    for line in &lines {
        let padded = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text += padded.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}
