//! One collective out of a trace: its steps on every rank, what the ranks' threads did meanwhile, its messages.

use crate::error::{Error, doing};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Which of a trace's collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// Of the operation and algorithm that took the most time in all, the one of median length.
    Typical,
    /// The last to begin.
    Last,
}

/// What is read of an event.
#[derive(Debug, Deserialize)]
struct Event<'a> {
    name: &'a str,
    ph: &'a str,
    pid: u32,
    #[serde(default)]
    tid: u32,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    id: Option<u64>,
    #[serde(borrow)]
    args: Option<Arguments<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Arguments<'a> {
    operation: Option<&'a str>,
    algorithm: Option<&'a str>,
    /// Members of its group, and the world rank of the first.
    ranks: Option<u32>,
    first_rank: Option<u32>,
    context: Option<u32>,
    sequence: Option<u32>,
    step: Option<&'a str>,
    peer: Option<u32>,
    bytes: Option<u64>,
}

impl Event<'_> {
    fn ends(&self) -> f64 {
        self.ts + self.dur
    }

    /// What names a collective on all its ranks.
    fn key(&self) -> Option<Key> {
        let args = self.args.as_ref()?;
        Some(Key {
            ranks: args.ranks?,
            first_rank: args.first_rank?,
            context: args.context?,
            sequence: args.sequence?,
        })
    }
}

/// A collective. Groups without a common member may have one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    ranks: u32,
    first_rank: u32,
    context: u32,
    sequence: u32,
}

/// A time from the collective's beginning to another, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub begun: f64,
    pub ends: f64,
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub span: Span,
    /// send, recv, copy, reduce, join
    pub kind: String,
    pub peer: Option<u32>,
    pub bytes: u64,
}

/// What one rank did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OfRank {
    pub rank: u32,
    /// From the start to the completion here.
    pub whole: Option<Span>,
    pub steps: Vec<Step>,
    /// What its thread did: computing, library, handler.
    pub states: Vec<(Span, String)>,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrow {
    /// Rank and time.
    pub from: (u32, f64),
    pub to: (u32, f64),
}

/// One collective.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Steps {
    pub operation: String,
    pub algorithm: String,
    /// From the first start to the last completion, microseconds.
    pub took: f64,
    pub ranks: Vec<OfRank>,
    pub arrows: Vec<Arrow>,
}

impl Steps {
    /// Reads a trace that the library has written as Chrome trace JSON.
    pub(crate) fn read(path: &Path, pick: Pick) -> Result<Steps, Error> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(doing(format!("reading the trace {name}")))?;
        let wrong = |why: serde_json::Error| Error::Failed(format!("the trace {name} does not read: {why}"));
        // The library writes an event a line, which need not all be in memory as values.
        let lines = text.lines().map(|line| line.trim_end_matches(',')).filter(|line| line.starts_with('{'));
        let events = lines.map(serde_json::from_str).collect::<Result<Vec<Event<'_>>, _>>().map_err(wrong)?;
        Steps::of(&events, pick).ok_or_else(|| {
            Error::Failed(format!(
                "the trace {name} has no collective that is whole: there is nothing to plot"
            ))
        })
    }

    fn of(events: &[Event<'_>], pick: Pick) -> Option<Steps> {
        let mut all: BTreeMap<Key, Vec<&Event<'_>>> = BTreeMap::new();
        for event in events.iter().filter(|e| e.ph == "X" && !is_step(e)) {
            if let Some(key) = event.key() {
                all.entry(key).or_default().push(event);
            }
        }
        // One that some rank has forgotten is not whole.
        all.retain(|key, members| members.len() == key.ranks as usize);
        let (key, members) = choose(all.into_iter().collect(), pick)?;
        let (begun, ends) = extent(&members);
        let args = members.first()?.args.as_ref()?;
        let span = |event: &Event<'_>| Span { begun: event.ts - begun, ends: event.ends() - begun };
        let clipped = |event: &Event<'_>| {
            let Span { begun: from, ends: to } = span(event);
            Span { begun: from.max(0.0), ends: to.min(ends - begun) }
        };
        let mut of_ranks: BTreeMap<u32, OfRank> = BTreeMap::new();
        for member in &members {
            let of = OfRank { rank: member.pid, whole: Some(span(member)), ..OfRank::default() };
            of_ranks.insert(member.pid, of);
        }
        let mut sent: BTreeMap<u64, (u32, f64)> = BTreeMap::new();
        let mut arrows = Vec::new();
        for event in events {
            let Some(of) = of_ranks.get_mut(&event.pid) else { continue };
            let inside = event.ts <= ends && event.ends() >= begun;
            match event.ph {
                "X" if is_step(event) && event.key() == Some(key) => {
                    let args = event.args.as_ref()?;
                    let (kind, bytes) = (args.step.unwrap_or_default().to_owned(), args.bytes.unwrap_or(0));
                    of.steps.push(Step { span: span(event), kind, peer: args.peer, bytes });
                }
                "X" if inside && event.tid == 0 => of.states.push((clipped(event), event.name.to_owned())),
                "s" if inside => {
                    sent.extend(event.id.map(|id| (id, (event.pid, event.ts - begun))));
                }
                _ => {}
            }
        }
        for event in events.iter().filter(|e| e.ph == "f" && e.ts <= ends && of_ranks.contains_key(&e.pid)) {
            if let Some(from) = event.id.and_then(|id| sent.remove(&id)) {
                arrows.push(Arrow { from, to: (event.pid, event.ts - begun) });
            }
        }
        Some(Steps {
            operation: args.operation.unwrap_or("collective").to_owned(),
            algorithm: args.algorithm.unwrap_or_default().to_owned(),
            took: ends - begun,
            ranks: of_ranks.into_values().collect(),
            arrows,
        })
    }
}

fn is_step(event: &Event<'_>) -> bool {
    event.args.as_ref().is_some_and(|args| args.step.is_some())
}

/// From the first beginning to the last end.
fn extent(members: &[&Event<'_>]) -> (f64, f64) {
    let begun = members.iter().map(|e| e.ts).fold(f64::INFINITY, f64::min);
    (begun, members.iter().map(|e| e.ends()).fold(0.0, f64::max))
}

type Instance<'e, 'a> = (Key, Vec<&'e Event<'a>>);

fn choose<'e, 'a>(mut all: Vec<Instance<'e, 'a>>, pick: Pick) -> Option<Instance<'e, 'a>> {
    let took = |instance: &Instance<'_, '_>| {
        let (begun, ends) = extent(&instance.1);
        ends - begun
    };
    if pick == Pick::Last {
        return all.into_iter().max_by(|a, b| extent(&a.1).0.total_cmp(&extent(&b.1).0));
    }
    let name = |instance: &Instance<'e, 'a>| {
        let args = instance.1.first().and_then(|event| event.args.as_ref());
        args.map_or((None, None), |args| (args.operation, args.algorithm))
    };
    let mut totals: BTreeMap<_, f64> = BTreeMap::new();
    all.iter().for_each(|instance| *totals.entry(name(instance)).or_default() += took(instance));
    let most = totals.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?.0;
    all.retain(|instance| name(instance) == most);
    all.sort_by(|a, b| took(a).total_cmp(&took(b)));
    let median = (all.len() - 1) / 2;
    all.into_iter().nth(median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str, pick: Pick) -> Option<Steps> {
        let events: Vec<Event<'_>> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Steps::of(&events, pick)
    }

    fn collective(rank: u32, sequence: u32, ts: f64, dur: f64, operation: &str) -> String {
        member(rank, (2, 0), sequence, ts, dur, operation)
    }

    /// Of a group of some ranks with a first.
    fn member(
        rank: u32,
        (ranks, first): (u32, u32),
        sequence: u32,
        ts: f64,
        dur: f64,
        operation: &str,
    ) -> String {
        format!(
            "{{\"name\":\"{operation}\",\"ph\":\"X\",\"pid\":{rank},\"tid\":1,\"ts\":{ts},\"dur\":{dur},\"args\":\
             {{\"operation\":\"{operation}\",\"algorithm\":\"tree\",\"ranks\":{ranks},\"first_rank\":{first},\"context\":1,\"sequence\":{sequence}}}}}\n"
        )
    }

    #[test]
    fn the_typical_and_the_last() {
        let mut text = String::new();
        // Of one a rank lacks its part.
        for (sequence, ts, dur, operation) in [
            (0, 0.0, 9.0, "a"),
            (1, 10.0, 1.0, "b"),
            (2, 20.0, 3.0, "b"),
            (3, 30.0, 200.0, "b"),
            (4, 400.0, 1.0, "c"),
        ] {
            text += &collective(0, sequence, ts, dur, operation);
            text += &collective(1, sequence, ts + 0.5, dur, operation);
        }
        text += &collective(0, 5, 900.0, 1000.0, "a");
        let typical = read(&text, Pick::Typical).unwrap();
        assert_eq!((typical.operation.as_str(), typical.took), ("b", 3.5));
        assert_eq!(read(&text, Pick::Last).unwrap().operation, "c");
        assert_eq!(read("", Pick::Last), None);
    }

    #[test]
    fn groups_that_share_a_context_are_apart() {
        let groups = [(0, (2, 0)), (2, (2, 0)), (1, (3, 1)), (3, (3, 1)), (4, (3, 1)), (5, (2, 5))];
        let text: String = groups.iter().map(|(rank, of)| member(*rank, *of, 0, 10.0, 3.0, "b")).collect();
        // Of the last group a rank lacks its part.
        for pick in [Pick::Typical, Pick::Last] {
            let ranks: Vec<u32> = read(&text, pick).unwrap().ranks.iter().map(|of| of.rank).collect();
            assert!(ranks == [0, 2] || ranks == [1, 3, 4], "{ranks:?}");
        }
        assert_eq!(read(&member(5, (2, 5), 0, 10.0, 3.0, "b"), Pick::Last), None);
    }

    #[test]
    fn what_belongs_to_it() {
        let step = "\"args\":{\"operation\":\"a\",\"ranks\":2,\"first_rank\":0,\"context\":1,\"sequence\":0,\"step\":\"send\",\"peer\":1,\"bytes\":7}}";
        let text = collective(0, 0, 100.0, 20.0, "a")
            + &collective(1, 0, 105.0, 25.0, "a")
            + &format!(
                "{{\"name\":\"a send\",\"ph\":\"X\",\"pid\":0,\"tid\":2,\"ts\":101,\"dur\":2,{step}\n"
            )
            + "{\"name\":\"library\",\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":90,\"dur\":1000}\n"
            + "{\"name\":\"library\",\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":200,\"dur\":10}\n"
            + "{\"name\":\"message\",\"ph\":\"s\",\"pid\":0,\"tid\":3,\"ts\":102,\"id\":5}\n"
            + "{\"name\":\"message\",\"ph\":\"s\",\"pid\":0,\"tid\":3,\"ts\":103,\"id\":6}\n"
            + "{\"name\":\"message\",\"ph\":\"f\",\"pid\":1,\"tid\":3,\"ts\":110,\"id\":5}";
        let steps = read(&text, Pick::Last).unwrap();
        assert_eq!(steps.took, 30.0);
        assert_eq!(steps.arrows, [Arrow { from: (0, 2.0), to: (1, 10.0) }]);
        let [first, second] = &steps.ranks[..] else { panic!("{steps:?}") };
        let span = Span { begun: 1.0, ends: 3.0 };
        assert_eq!(first.steps, [Step { span, kind: "send".into(), peer: Some(1), bytes: 7 }]);
        assert_eq!(second.states, [(Span { begun: 0.0, ends: 30.0 }, "library".to_owned())]);
        assert_eq!(second.whole, Some(Span { begun: 5.0, ends: 30.0 }));
    }
}
