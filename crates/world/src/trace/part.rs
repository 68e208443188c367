//! What a rank leaves for who joins the traces: its events as they were recorded, one a line.

use std::io::{self, Write};

use tocsin_progress::trace::Event;

/// The first word of the file.
const MARK: &str = "tocsin-trace-part";

/// A rank's events.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub rank: u32,
    /// How many events there were.
    pub recorded: u64,
    /// [Pointer](tocsin_sync::thread::pointer) of the thread that joined.
    pub thread: u64,
    /// When it joined and left, nanoseconds.
    pub since: u64,
    pub until: u64,
    /// The last of the events, oldest first.
    pub events: Vec<Event>,
}

impl Part {
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Part { rank, recorded, thread, since, until, events } = self;
        writeln!(out, "{MARK} {rank} {recorded} {thread} {since} {until} {}", events.len())?;
        for Event { ns, kind, a, b } in events {
            writeln!(out, "{ns} {kind} {a} {b}")?;
        }
        Ok(())
    }

    /// None: it is none, or not whole.
    pub(super) fn read(text: &str) -> Option<Part> {
        let mut lines = text.lines();
        let head: Vec<u64> = numbers(lines.next()?.strip_prefix(MARK)?)?;
        let [rank, recorded, thread, since, until, events] = head[..] else { return None };
        let read = lines.map(|line| match numbers(line)?[..] {
            [ns, kind, a, b] => Some(Event { ns, kind: u16::try_from(kind).ok()?, a, b }),
            _ => None,
        });
        let part = Part {
            rank: u32::try_from(rank).ok()?,
            recorded,
            thread,
            since,
            until,
            events: read.collect::<Option<_>>()?,
        };
        (part.events.len() as u64 == events).then_some(part)
    }
}

fn numbers(line: &str) -> Option<Vec<u64>> {
    line.split_whitespace().map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_comes_back_or_not_at_all() {
        let event = Event { ns: u64::MAX, kind: u16::MAX, a: u64::MAX, b: 0 };
        let part = Part { rank: 3, recorded: 9, thread: 7, since: 1, until: 2, events: vec![event; 2] };
        let mut text = Vec::new();
        part.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(Part::read(&text), Some(part));
        let cut = text.trim_end().rsplit_once('\n').unwrap().0;
        assert_eq!(Part::read(cut), None);
        assert_eq!(Part::read(&format!("{text}x")), None);
        assert_eq!(Part::read(""), None);
    }
}
