//! The Paje format, which ViTE and pj_dump read: a header that defines the events, then events in order of time.
//!
//! Containers are the world, its ranks, and the rows of each; rows have one state at a time, so that of slices inside each
//! other the innermost shows. Times are whole nanoseconds. Messages are links between ranks: those whose two ends are both
//! known, and have fields of their own beyond the format's: bytes, tag, context and, if it is known, a collective's operation.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use tocsin_p2p::trace as p2p;

use super::timeline::{COMPUTING, Row, Shows, Slice, Timeline};

const HEADER: &str = "\
%EventDef PajeDefineContainerType 0
%  Alias string
%  Type string
%  Name string
%EndEventDef
%EventDef PajeDefineStateType 1
%  Alias string
%  Type string
%  Name string
%EndEventDef
%EventDef PajeDefineEventType 2
%  Alias string
%  Type string
%  Name string
%EndEventDef
%EventDef PajeDefineVariableType 3
%  Alias string
%  Type string
%  Name string
%  Color color
%EndEventDef
%EventDef PajeDefineLinkType 4
%  Alias string
%  Type string
%  StartContainerType string
%  EndContainerType string
%  Name string
%EndEventDef
%EventDef PajeDefineEntityValue 5
%  Alias string
%  Type string
%  Name string
%  Color color
%EndEventDef
%EventDef PajeCreateContainer 6
%  Time date
%  Alias string
%  Type string
%  Container string
%  Name string
%EndEventDef
%EventDef PajeDestroyContainer 7
%  Time date
%  Type string
%  Name string
%EndEventDef
%EventDef PajeSetState 8
%  Time date
%  Type string
%  Container string
%  Value string
%EndEventDef
%EventDef PajeNewEvent 9
%  Time date
%  Type string
%  Container string
%  Value string
%EndEventDef
%EventDef PajeSetVariable 10
%  Time date
%  Type string
%  Container string
%  Value double
%EndEventDef
%EventDef PajeStartLink 11
%  Time date
%  Type string
%  Container string
%  StartContainer string
%  Value string
%  Key string
%  Bytes int
%  Tag int
%  Context string
%  Operation string
%EndEventDef
%EventDef PajeEndLink 12
%  Time date
%  Type string
%  Container string
%  EndContainer string
%  Value string
%  Key string
%EndEventDef
";

/// A link's field that is not known.
const UNKNOWN: &str = "-";

/// What a row shows when it shows nothing.
const IDLE: &str = "idle";

/// Of the entities, by turns (Okabe and Ito, 2008).
const COLOURS: [&str; 7] = [
    "0.00 0.45 0.70",
    "0.84 0.37 0.00",
    "0.00 0.62 0.45",
    "0.80 0.47 0.65",
    "0.34 0.71 0.91",
    "0.90 0.62 0.00",
    "0.27 0.27 0.27",
];
/// Of what is nothing.
const PALE: &str = "0.93 0.93 0.93";

/// Alias and name of the state type of a row.
fn state_type(shows: Shows) -> (&'static str, &'static str) {
    match shows {
        Shows::Thread => ("ST", "State"),
        Shows::Collectives => ("SC", "Collective"),
        Shows::Steps => ("SS", "Step"),
        Shows::Copies => ("SK", "Copy"),
    }
}

/// Alias of a row.
fn row_alias(rank: u32, row: &Row) -> String {
    let letter = match row.shows {
        Shows::Thread => 't',
        Shows::Collectives => 'c',
        Shows::Steps => 's',
        Shows::Copies => 'k',
    };
    format!("r{rank}{letter}{}", row.number)
}

/// What a row shows from when on.
type Change<'a> = (u64, &'a str);

/// The innermost of slices that lie inside each other, as it changes.
fn changes<'a>(slices: &'a [Slice], base: &'a str, since: u64) -> Vec<Change<'a>> {
    let mut all: Vec<Change<'_>> = vec![(since, base)];
    let mut open: Vec<&Slice> = Vec::new();
    let mut change = |ns: u64, name: &'a str| {
        // No slice ends before one inside it, but for the grain of the clock.
        let ns = all.last().map_or(ns, |(last, _)| ns.max(*last));
        all.push((ns, name));
    };
    for slice in slices {
        while let Some(last) = open.pop_if(|last| last.ends() <= slice.begun) {
            change(last.ends(), open.last().map_or(base, |s| &s.name));
        }
        change(slice.begun, &slice.name);
        open.push(slice);
    }
    while let Some(last) = open.pop() {
        change(last.ends(), open.last().map_or(base, |s| &s.name));
    }
    // Of several at one time the last counts.
    let mut kept: Vec<Change<'_>> = Vec::with_capacity(all.len());
    for (ns, name) in all {
        match kept.last_mut() {
            Some(last) if last.0 == ns => last.1 = name,
            _ => kept.push((ns, name)),
        }
    }
    kept.dedup_by(|next, last| next.1 == last.1);
    kept
}

/// The names that entities of a type have, and their aliases.
#[derive(Default)]
struct Values<'a>(BTreeMap<&'static str, BTreeSet<&'a str>>);

impl<'a> Values<'a> {
    fn add(&mut self, of: &'static str, name: &'a str) {
        self.0.entry(of).or_default().insert(name);
    }

    fn alias(&self, of: &'static str, name: &str) -> String {
        let at = self.0.get(of).and_then(|names| names.iter().position(|known| *known == name));
        format!("{of}{}", at.unwrap_or(0))
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for (of, names) in &self.0 {
            for (at, name) in names.iter().enumerate() {
                let colour = if *name == IDLE { PALE } else { COLOURS[at % COLOURS.len()] };
                writeln!(out, "5 {of}{at} {of} \"{name}\" \"{colour}\"")?;
            }
        }
        Ok(())
    }
}

/// An event: when, which of those of one time it comes after, and its line from its type on.
type Line = (u64, u8, String);

pub(super) fn write(out: &mut dyn Write, origin: u64, ranks: &[Timeline]) -> io::Result<()> {
    out.write_all(HEADER.as_bytes())?;
    writeln!(out, "0 W 0 World")?;
    writeln!(out, "0 R W Rank")?;
    writeln!(out, "0 T R Row")?;
    let all = [Shows::Thread, Shows::Collectives, Shows::Steps, Shows::Copies];
    for (alias, name) in all.map(state_type) {
        writeln!(out, "1 {alias} T {name}")?;
    }
    writeln!(out, "2 E R Event")?;
    writeln!(out, "3 L R \"Lost events\" \"{}\"", COLOURS[1])?;
    writeln!(out, "4 M W R R Message")?;

    let rows: Vec<(&Timeline, &Row, Vec<Change<'_>>)> = ranks
        .iter()
        .flat_map(|of| of.rows.iter().map(move |row| (of, row)))
        .map(|(of, row)| {
            // What is not known of a thread is not computing: the first row has slices for that.
            (of, row, changes(&row.slices, IDLE, of.since))
        })
        .collect();
    let mut values = Values::default();
    values.add("M", "message");
    values.add("M", "announcement");
    for (_, row, changes) in &rows {
        let (of, _) = state_type(row.shows);
        changes.iter().for_each(|(_, name)| values.add(of, name));
    }
    values.add(state_type(Shows::Thread).0, COMPUTING);
    ranks.iter().flat_map(|of| &of.moments).for_each(|moment| values.add("E", moment.name));
    values.write(out)?;

    let mut lines: Vec<Line> = Vec::new();
    for (of, row, changes) in &rows {
        let (kind, _) = state_type(row.shows);
        let alias = row_alias(of.rank, row);
        let line =
            |(ns, name): &Change<'_>| (*ns, 2, format!("8 # {kind} {alias} {}", values.alias(kind, name)));
        lines.extend(changes.iter().map(line));
    }
    for of in ranks {
        let line = |ns, name| (ns, 3, format!("9 # E r{} {}", of.rank, values.alias("E", name)));
        lines.extend(of.moments.iter().map(|moment| line(moment.ns, moment.name)));
        lines.push((of.since, 3, format!("10 # L r{} {}", of.rank, of.lost)));
    }
    lines.extend(links(ranks, &values));
    lines.sort_by_key(|line| (line.0, line.1));

    let begins = lines.first().map_or(origin, |line| line.0.min(origin));
    let ends =
        lines.last().map_or(origin, |line| line.0).max(ranks.iter().map(|of| of.until).max().unwrap_or(0));
    let since = |ns: u64| ns.saturating_sub(origin);
    writeln!(out, "6 {} w W 0 World", since(begins))?;
    for of in ranks {
        writeln!(out, "6 {} r{} R w \"rank {}\"", since(begins), of.rank, of.rank)?;
    }
    for (of, row, _) in &rows {
        let alias = row_alias(of.rank, row);
        let (_, shows) = state_type(row.shows);
        let name = format!("rank {} {shows} {}", of.rank, row.number);
        writeln!(out, "6 {} {alias} T r{} \"{name}\"", since(begins), of.rank)?;
    }
    for (ns, _, line) in &lines {
        writeln!(out, "{}", line.replacen('#', &since(*ns).to_string(), 1))?;
    }
    for (of, row, _) in &rows {
        writeln!(out, "7 {} T {}", since(ends), row_alias(of.rank, row))?;
    }
    for of in ranks {
        writeln!(out, "7 {} R r{}", since(ends), of.rank)?;
    }
    writeln!(out, "7 {} W w", since(ends))
}

/// The messages of which both ends are known.
fn links(ranks: &[Timeline], values: &Values<'_>) -> Vec<Line> {
    let mut sent = HashMap::new();
    for of in ranks {
        for end in of.ends.iter().filter(|end| end.sent) {
            sent.insert(end.key(of.rank), (of.rank, end));
        }
    }
    let mut lines = Vec::new();
    for of in ranks {
        for taken in of.ends.iter().filter(|end| !end.sent) {
            let key = taken.key(of.rank);
            let Some((from, start)) = sent.remove(&key) else { continue };
            let name = if start.passed.announced { "announcement" } else { "message" };
            let value = values.alias("M", name);
            let context = start.passed.context.map_or_else(|| UNKNOWN.into(), |context| context.to_string());
            // Of one of the ranks it may have been overwritten.
            let operation = start.of.or(taken.of).map_or(UNKNOWN, |(operation, _)| operation);
            let p2p::Passed { bytes, tag, .. } = start.passed;
            let fields = format!("{bytes} {tag} {context} {operation}");
            lines.push((start.ns, 1, format!("11 # M w r{from} {value} m{key} {fields}")));
            // Never before it begins: the clock is one, but has a grain.
            lines.push((taken.ns.max(start.ns), 4, format!("12 # M w r{} {value} m{key}", of.rank)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_shows() {
        let slice = |begun, took, name: &str| Slice { begun, took, name: name.into(), details: Vec::new() };
        let slices = [
            slice(0, 10, "computing"),
            slice(10, 20, "library"),
            slice(12, 3, "handler"),
            slice(15, 0, "nothing"),
            slice(20, 10, "handler"),
            slice(30, 5, "computing"),
        ];
        let right = [
            (0, "computing"),
            (10, "library"),
            (12, "handler"),
            (15, "library"),
            (20, "handler"),
            (30, "computing"),
            (35, IDLE),
        ];
        assert_eq!(changes(&slices, IDLE, 0), right);
        assert_eq!(changes(&[], IDLE, 7), [(7, IDLE)]);
    }
}
