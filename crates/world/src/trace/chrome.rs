//! Chrome trace JSON, which ui.perfetto.dev and chrome://tracing read: an array with an event a line.
//!
//! A process per rank, a thread per row. Times are microseconds with three decimals. The two ends of a message are slices
//! of a nanosecond in a row of their own, because a flow leads from slice to slice.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::timeline::{Details, End, Row, Shows, Timeline, Value};

pub(super) fn write(out: &mut dyn Write, origin: u64, ranks: &[Timeline]) -> io::Result<()> {
    let mut to = Events { out, origin, before: "[\n" };
    ranks.iter().try_for_each(|rank| to.rank(rank))?;
    let end = if to.before.starts_with('[') { "[]" } else { "\n]" };
    writeln!(out, "{end}")
}

struct Events<'a> {
    out: &'a mut dyn Write,
    origin: u64,
    before: &'static str,
}

impl Events<'_> {
    /// One event of a rank. `rest`: what it has beside that, which begins with a comma unless it is empty.
    fn event(&mut self, name: &str, phase: char, rank: u32, rest: &str) -> io::Result<()> {
        let before = std::mem::replace(&mut self.before, ",\n");
        write!(self.out, "{before}{{\"name\":\"{name}\",\"ph\":\"{phase}\",\"pid\":{rank}{rest}}}")
    }

    /// When something happens, in which row.
    fn at(&self, row: usize, ns: u64) -> String {
        format!(",\"tid\":{row},\"ts\":{}", micros(ns.saturating_sub(self.origin)))
    }

    fn rank(&mut self, of: &Timeline) -> io::Result<()> {
        let rank = of.rank;
        self.event("process_name", 'M', rank, &format!(",\"args\":{{\"name\":\"rank {rank}\"}}"))?;
        self.event("process_sort_index", 'M', rank, &format!(",\"args\":{{\"sort_index\":{rank}}}"))?;
        let counts = vec![
            ("recorded", Value::Number(of.recorded)),
            ("lost", Value::Number(of.lost)),
            ("origin_ns", Value::Number(self.origin)),
        ];
        let rest = format!("{},\"s\":\"p\"{}", self.at(0, of.since), arguments(&counts));
        self.event("recording", 'i', rank, &rest)?;
        for (number, row) in of.rows.iter().enumerate() {
            self.row(rank, number, row)?;
        }
        for moment in &of.moments {
            let rest = format!("{},\"s\":\"t\"{}", self.at(0, moment.ns), arguments(&moment.details));
            self.event(moment.name, 'i', rank, &rest)?;
        }
        if !of.ends.is_empty() {
            self.row_name(rank, of.rows.len(), "messages")?;
        }
        of.ends.iter().try_for_each(|end| self.end(rank, of.rows.len(), end))
    }

    fn row_name(&mut self, rank: u32, number: usize, name: &str) -> io::Result<()> {
        let rest = format!(",\"tid\":{number},\"args\":{{\"name\":\"{name}\"}}");
        self.event("thread_name", 'M', rank, &rest)?;
        let rest = format!(",\"tid\":{number},\"args\":{{\"sort_index\":{number}}}");
        self.event("thread_sort_index", 'M', rank, &rest)
    }

    fn row(&mut self, rank: u32, number: usize, row: &Row) -> io::Result<()> {
        let name = match (row.shows, row.number) {
            (Shows::Thread, 0) => format!("rank {rank}"),
            (Shows::Thread, n) => format!("thread {n}"),
            (Shows::Collectives, n) => format!("collectives {n}"),
            (Shows::Steps, n) => format!("steps {n}"),
            (Shows::Copies, _) => "copies".to_owned(),
        };
        self.row_name(rank, number, &name)?;
        for slice in &row.slices {
            let (at, took) = (self.at(number, slice.begun), micros(slice.took));
            let rest = format!("{at},\"dur\":{took}{}", arguments(&slice.details));
            self.event(&slice.name, 'X', rank, &rest)?;
        }
        Ok(())
    }

    fn end(&mut self, rank: u32, row: usize, end: &End) -> io::Result<()> {
        let (name, phase, more) = if end.sent { ("send", 's', "") } else { ("arrive", 'f', ",\"bp\":\"e\"") };
        let at = self.at(row, end.ns);
        self.event(name, 'X', rank, &format!("{at},\"dur\":0.001{}", arguments(&end.details())))?;
        let rest = format!("{at},\"cat\":\"message\",\"id\":{}{more}", end.key(rank));
        self.event("message", phase, rank, &rest)
    }
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn arguments(details: &Details) -> String {
    let mut text = String::new();
    for (name, value) in details {
        let before = if text.is_empty() { ",\"args\":{" } else { "," };
        // Writing to a string does not fail.
        let _written = match value {
            // Names of this library's: none has to be escaped.
            Value::Text(word) => write!(text, "{before}\"{name}\":\"{word}\""),
            Value::Number(n) => write!(text, "{before}\"{name}\":{n}"),
            Value::Signed(n) => write!(text, "{before}\"{name}\":{n}"),
            Value::Flag(yes) => write!(text, "{before}\"{name}\":{yes}"),
        };
    }
    if text.is_empty() { text } else { text + "}" }
}
