//! What a rank's events mean: rows of slices in time, moments, ends of messages. The two formats write the same.

use std::collections::{BTreeMap, HashMap};

use tocsin_nbc::trace as nbc;
use tocsin_p2p::trace as p2p;
use tocsin_progress::trace::{Event, kind};

use super::EVENTS;
use super::part::Part;

/// [`tocsin_doorbell::Cause`] in order.
const CAUSES: [&str; 4] = ["ring", "timer", "unmask", "user interrupt"];
/// [`tocsin_progress::Context`] in order.
const CONTEXTS: [&str; 3] = ["user", "handler", "progress thread"];

/// States of a thread.
pub(super) const COMPUTING: &str = "computing";
const LIBRARY: &str = "library";
const HANDLER: &str = "handler";

/// More to know of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(&'static str),
    Number(u64),
    Signed(i64),
    Flag(bool),
}

/// Names and values.
pub(super) type Details = Vec<(&'static str, Value)>;

/// Something that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub begun: u64,
    pub took: u64,
    pub name: String,
    pub details: Details,
}

impl Slice {
    pub(super) fn ends(&self) -> u64 {
        self.begun.saturating_add(self.took)
    }
}

/// What a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shows {
    /// States of a thread; the first is the one that joined.
    Thread,
    Collectives,
    Steps,
    Copies,
}

/// Slices that lie inside each other or apart, in order of their beginning.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub shows: Shows,
    /// Among those that show the same.
    pub number: usize,
    pub slices: Vec<Slice>,
}

/// Something that happens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub ns: u64,
    pub name: &'static str,
    pub details: Details,
}

/// One end of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    pub ns: u64,
    pub sent: bool,
    pub passed: p2p::Passed,
    /// Operation and algorithm of the collective that it is of, if that is known here.
    pub of: Option<(&'static str, &'static str)>,
}

impl End {
    /// What is known of the message.
    pub(super) fn details(&self) -> Details {
        let passed = &self.passed;
        let mut details = vec![
            ("peer", Value::Number(passed.peer.into())),
            ("bytes", Value::Number(passed.bytes)),
            ("tag", Value::Signed(passed.tag.into())),
        ];
        details.extend(passed.context.map(|context| ("context", Value::Number(context.into()))));
        details.extend(self.of.map(|(operation, _)| ("operation", Value::Text(operation))));
        details.extend(self.of.map(|(_, algorithm)| ("algorithm", Value::Text(algorithm))));
        details.push(("announced", Value::Flag(passed.announced)));
        details.push(("collective", Value::Flag(passed.collective)));
        details
    }

    /// What both ends of a message have in common and no other message has.
    pub(super) fn key(&self, rank: u32) -> u64 {
        let (me, peer) = (u64::from(rank), u64::from(self.passed.peer));
        let (from, to) = if self.sent { (me, peer) } else { (peer, me) };
        // 1024 ranks at most: 53 bits, which any JSON reader keeps.
        (from << 10 | to) << 33 | u64::from(self.passed.collective) << 32 | u64::from(self.passed.number)
    }
}

/// A rank's part of the trace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Timeline {
    pub rank: u32,
    /// Nothing is known of the time before and after.
    pub since: u64,
    pub until: u64,
    pub recorded: u64,
    /// Events that others took the place of.
    pub lost: u64,
    pub rows: Vec<Row>,
    pub moments: Vec<Moment>,
    pub ends: Vec<End>,
}

fn of(names: &[&'static str], at: u64) -> Value {
    Value::Text(usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or("other"))
}

impl Timeline {
    pub(super) fn of(part: &Part) -> Timeline {
        let mut reader = Reader::default();
        reader.threads.insert(part.thread, Vec::new());
        reader.order.push(part.thread);
        for event in &part.events {
            reader.take(event, part.thread);
        }
        // A message may arrive before its collective is started here.
        for end in reader.ends.iter_mut().filter(|end| end.passed.collective) {
            let of = end.passed.context.map(|context| nbc::of_message(context, end.passed.tag));
            let algorithm = of.and_then(|of| reader.calls.get(&of).copied()).and_then(nbc::algorithm);
            end.of = algorithm.map(|algorithm| (algorithm.operation.name(), algorithm.name));
        }
        let lost = part.recorded.saturating_sub(EVENTS as u64);
        let since = match part.events.first() {
            Some(first) if lost > 0 => first.ns.max(part.since),
            _ => part.since,
        };
        let mut rows = Vec::new();
        for (number, thread) in reader.order.iter().enumerate() {
            let mut slices = joined(reader.threads.remove(thread).unwrap_or_default());
            if number == 0 {
                let computing = gaps(&slices, since, part.until);
                slices.extend(computing);
            }
            sort(&mut slices);
            rows.push(Row { shows: Shows::Thread, number, slices });
        }
        let apart = [
            (Shows::Collectives, reader.collectives),
            (Shows::Steps, reader.steps),
            (Shows::Copies, reader.copies),
        ];
        for (shows, slices) in apart {
            rows.extend(lanes(shows, slices));
        }
        Timeline {
            rank: part.rank,
            since,
            until: part.until,
            recorded: part.recorded,
            lost,
            rows,
            moments: reader.moments,
            ends: reader.ends,
        }
    }
}

/// Events so far.
#[derive(Default)]
struct Reader {
    threads: HashMap<u64, Vec<Slice>>,
    /// Threads in the order in which they came.
    order: Vec<u64>,
    /// Collectives that have started, by their instance.
    started: BTreeMap<u16, nbc::Started>,
    /// Their algorithms, by what their messages have in common.
    calls: HashMap<(u32, i32), u16>,
    collectives: Vec<Slice>,
    steps: Vec<Slice>,
    copies: Vec<Slice>,
    moments: Vec<Moment>,
    ends: Vec<End>,
}

impl Reader {
    fn take(&mut self, event: &Event, joined: u64) {
        let Event { ns, kind, a, b } = *event;
        let ended = |took: u64, name: &str, details| Slice {
            begun: ns.saturating_sub(took),
            took: took.min(ns),
            name: name.to_owned(),
            details,
        };
        match kind {
            // (Its beginning is not shown but by its end.)
            kind::INTERRUPT_END => {
                let (cause, more) = kind::interrupt_end(b);
                let cause = usize::try_from(cause).ok().and_then(|at| CAUSES.get(at));
                let mut details: Details =
                    cause.map(|cause| ("cause", Value::Text(cause))).into_iter().collect();
                details.push(("work_left", Value::Flag(more)));
                self.on(joined, ended(a, HANDLER, details));
            }
            kind::LIBRARY => self.on(b, ended(a, LIBRARY, Vec::new())),
            kind::DEFERRED => self.moment(ns, "deferred", Vec::new()),
            kind::THROTTLE => self.moment(ns, "throttle", vec![("for_ns", Value::Number(a))]),
            kind::PASS => {
                let details = vec![("by", of(&CONTEXTS, a)), ("work_left", Value::Flag(b != 0))];
                self.moment(ns, "pass", details);
            }
            kind::SLEEP => self.moment(ns, "sleep", Vec::new()),
            kind::WAKE => self.moment(ns, "wake", vec![("woken", Value::Flag(a != 0))]),
            p2p::SENT | p2p::TAKEN => {
                let passed = p2p::Passed::from_words([a, b]);
                self.ends.push(End { ns, sent: kind == p2p::SENT, passed, of: None });
            }
            p2p::COPIED => {
                let copied = p2p::Copied::from_words([a, b]);
                let details =
                    vec![("peer", Value::Number(copied.peer.into())), ("bytes", Value::Number(copied.bytes))];
                self.copies.push(ended(copied.took, "copy", details));
            }
            nbc::STARTED => {
                let started = nbc::Started::from_words([a, b]);
                self.started.insert(started.instance, started);
                self.calls.insert(started.messages(), started.algorithm);
            }
            nbc::ENDED => {
                let end = nbc::Ended::from_words([a, b]);
                let (name, mut details) = self.collective(end.instance, end.algorithm);
                details.push(("failed", Value::Flag(end.failed)));
                self.collectives.push(ended(end.took, name, details));
            }
            nbc::STEPPED.. => {
                let Some(what) = nbc::STEPS.get(usize::from(kind - nbc::STEPPED)) else { return };
                let step = nbc::Stepped::from_words([a, b]);
                let (name, mut details) = self.collective(step.instance, step.algorithm);
                details.push(("step", Value::Text(what)));
                details.extend(step.peer.map(|peer| ("peer", Value::Number(peer.into()))));
                details.push(("bytes", Value::Number(step.bytes)));
                self.steps.push(ended(step.took, &format!("{name} {what}"), details));
            }
            _ => {}
        }
    }

    fn on(&mut self, thread: u64, slice: Slice) {
        let slices = self.threads.entry(thread).or_insert_with(|| {
            self.order.push(thread);
            Vec::new()
        });
        slices.push(slice);
    }

    fn moment(&mut self, ns: u64, name: &'static str, details: Details) {
        self.moments.push(Moment { ns, name, details });
    }

    /// A collective's operation, and what names it. Its beginning may have been overwritten.
    fn collective(&self, instance: u16, algorithm: u16) -> (&'static str, Details) {
        let algorithm = nbc::algorithm(algorithm);
        let name = algorithm.map_or("collective", |a| a.operation.name());
        let mut details = vec![("operation", Value::Text(name))];
        details.extend(algorithm.map(|a| ("algorithm", Value::Text(a.name))));
        if let Some(started) = self.started.get(&instance) {
            details.push(("ranks", Value::Number(started.ranks.into())));
            details.push(("first_rank", Value::Number(started.first_rank.into())));
            details.push(("context", Value::Number(started.context.into())));
            details.push(("sequence", Value::Number(started.sequence.into())));
        }
        (name, details)
    }
}

/// In order of their beginning; what encloses comes first.
fn sort(slices: &mut [Slice]) {
    slices.sort_by_key(|slice| (slice.begun, std::cmp::Reverse(slice.took)));
}

/// A thread's slices, of which stays in the library that overlap are one: who posts something and looks by himself is there twice, and neither stay lies within the other.
fn joined(slices: Vec<Slice>) -> Vec<Slice> {
    let (mut stays, mut all): (Vec<_>, Vec<_>) = slices.into_iter().partition(|slice| slice.name == LIBRARY);
    sort(&mut stays);
    for stay in stays {
        match all.last_mut().filter(|last: &&mut Slice| last.name == LIBRARY && last.ends() > stay.begun) {
            Some(last) => last.took = last.ends().max(stay.ends()) - last.begun,
            None => all.push(stay),
        }
    }
    all
}

/// What is between slices.
fn gaps(slices: &[Slice], since: u64, until: u64) -> Vec<Slice> {
    let mut busy: Vec<(u64, u64)> = slices.iter().map(|s| (s.begun, s.ends())).collect();
    busy.sort_unstable();
    let (mut gaps, mut at) = (Vec::new(), since);
    for (begun, ends) in busy.into_iter().chain([(until, until)]) {
        if begun > at {
            let (name, details) = (COMPUTING.to_owned(), Vec::new());
            gaps.push(Slice { begun: at, took: begun - at, name, details });
        }
        at = at.max(ends);
    }
    gaps
}

/// Rows for slices that overlap: each goes to the first row that is free.
fn lanes(shows: Shows, mut slices: Vec<Slice>) -> Vec<Row> {
    sort(&mut slices);
    let mut rows: Vec<Row> = Vec::new();
    for slice in slices {
        let is_free = |row: &&mut Row| row.slices.last().is_none_or(|last| last.ends() <= slice.begun);
        match rows.iter_mut().find(is_free) {
            Some(row) => row.slices.push(slice),
            None => rows.push(Row { shows, number: rows.len(), slices: vec![slice] }),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(begun: u64, took: u64) -> Slice {
        Slice { begun, took, name: "x".into(), details: Vec::new() }
    }

    #[test]
    fn what_is_between_is_computing() {
        let times = |gaps: Vec<Slice>| gaps.iter().map(|s| (s.begun, s.took)).collect::<Vec<_>>();
        // The second lies inside the first.
        assert_eq!(
            times(gaps(&[slice(10, 20), slice(12, 3), slice(40, 5)], 5, 50)),
            [(5, 5), (30, 10), (45, 5)]
        );
        assert_eq!(times(gaps(&[], 5, 50)), [(5, 45)]);
        assert_eq!(times(gaps(&[slice(0, 60)], 5, 50)), []);
    }

    #[test]
    fn stays_that_overlap_are_one() {
        let stay = |begun, took| Slice { name: LIBRARY.into(), ..slice(begun, took) };
        let times = |slices: Vec<Slice>| slices.iter().map(|s| (s.begun, s.took)).collect::<Vec<_>>();
        let all = vec![stay(30, 5), stay(10, 10), slice(12, 2), stay(15, 10), stay(16, 1), stay(25, 5)];
        assert_eq!(times(joined(all)), [(12, 2), (10, 15), (25, 5), (30, 5)]);
    }

    #[test]
    fn lost_is_what_was_overwritten() {
        let lost = |recorded: u64| {
            let part = Part { rank: 0, recorded, thread: 7, since: 1, until: 9, events: Vec::new() };
            Timeline::of(&part).lost
        };
        // What was half written when the ring was read is not here either.
        assert_eq!([2, EVENTS as u64, EVENTS as u64 + 3].map(lost), [0, 0, 3]);
    }

    #[test]
    fn what_overlaps_has_rows_of_its_own() {
        let rows = lanes(Shows::Steps, vec![slice(8, 4), slice(0, 10), slice(10, 2), slice(11, 1)]);
        let begun = |row: &Row| row.slices.iter().map(|s| s.begun).collect::<Vec<_>>();
        assert_eq!(rows.iter().map(begun).collect::<Vec<_>>(), [vec![0, 10], vec![8], vec![11]]);
    }

    fn passed(peer: u16) -> p2p::Passed {
        let (number, collective, announced, context) = (0, false, false, Some(0));
        p2p::Passed { peer, number, collective, announced, context, tag: 0, bytes: 0 }
    }

    /// Of two collectives the second is started after its message has come, and the start of another is not known any more.
    #[test]
    fn messages_are_of_the_collective_that_their_tag_says() {
        const COLLECTIVE: u32 = 1 << 31;
        let number =
            |name: &str| (1..).find(|n| nbc::algorithm(*n).unwrap().operation.name() == name).unwrap();
        let event = |kind, [a, b]: [u64; 2]| Event { ns: 3, kind, a, b };
        let started = |name, sequence| {
            let algorithm = number(name);
            let of = nbc::Started {
                instance: sequence as u16,
                algorithm,
                ranks: 2,
                first_rank: 0,
                context: COLLECTIVE | 5,
                sequence,
            };
            event(nbc::STARTED, of.words())
        };
        let taken = |context, collective, tag| {
            let of = p2p::Passed { collective, context: Some(context), tag, ..passed(1) };
            event(p2p::TAKEN, of.words())
        };
        let events = vec![
            started("ibcast", 7),
            taken(COLLECTIVE | 5, true, 7 << 12 | 3),
            taken(COLLECTIVE | 5, true, 8 << 12),
            started("igather", 8),
            taken(COLLECTIVE | 5, true, 9 << 12),
            taken(COLLECTIVE | 6, true, 7 << 12),
            taken(5, false, 7 << 12),
        ];
        let part = Part { rank: 0, recorded: 7, thread: 7, since: 1, until: 9, events };
        let ends = Timeline::of(&part).ends;
        let names: Vec<_> = ends.iter().map(|end| end.of.map(|(operation, _)| operation)).collect();
        assert_eq!(names, [Some("ibcast"), Some("igather"), None, None, None]);
        assert_eq!(
            ends[0].details()[2..5],
            [
                ("tag", Value::Signed(7 << 12 | 3)),
                ("context", Value::Number((COLLECTIVE | 5).into())),
                ("operation", Value::Text("ibcast"))
            ]
        );
    }

    #[test]
    fn both_ends_of_a_message_have_its_key_and_no_other_has() {
        let end = |sent, peer, collective, number| End {
            ns: 0,
            sent,
            passed: p2p::Passed { number, collective, ..passed(peer) },
            of: None,
        };
        let mut keys = Vec::new();
        for (from, to) in [(0u16, 0u16), (0, 1023), (1023, 0), (1, 2), (1023, 1023)] {
            for collective in [false, true] {
                for number in [0, 1, (1 << 20) - 1] {
                    let key = end(true, to, collective, number).key(from.into());
                    assert_eq!(key, end(false, from, collective, number).key(to.into()));
                    keys.push(key);
                }
            }
        }
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert!(keys.len() == all && keys.iter().all(|key| *key < 1 << 53));
    }
}
