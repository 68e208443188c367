//! How the progress threads that share a core are scheduled there. Source: Taboada's thesis, chapter 6 (the first four) and chapter 7.
//!
//! | policy | a progress thread runs |
//! |---|---|
//! | [`RoundRobin`](Schedule::RoundRobin) | in its turn, for ever: one look at its rank, then the next one's, ranks that have nothing to do included |
//! | [`Suspend`](Schedule::Suspend) | the same, but a rank whose operations are all complete has no turn before it posts again |
//! | [`Semaphore`](Schedule::Semaphore) | when what its rank depends on has arrived, or its rank has posted; then it sleeps again |
//! | [`Priority`](Schedule::Priority) | in its turn, for ever, several times for each turn of everything else on the core |
//! | [`Event`](Schedule::Event) | when something has arrived for any rank of its core: the one that is woken runs the steps that this made ready, of all ranks of its process there, while the others sleep |
//!
//! # Implementation details
//! The thesis changes a scheduler of user-level threads that are never preempted. Here progress threads are the kernel's, and the
//! three policies with turns keep a list of their own ([`turns`]), one per core and process: of the threads in it one runs, the others
//! sleep. What else there is on the core, computing ranks and the progress threads of other processes, stands in the list as
//! one entry, whose turn is a `sched_yield`: between processes the kernel decides who is next.

pub mod crew;
pub mod turns;

use core::fmt;
use core::str::FromStr;

/// The highest base priority ([`Schedule::Priority`]).
pub const PRIORITY_MAX: u8 = 20;

/// How progress threads that share a core are scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Schedule {
    /// An arrival makes exactly the steps ready that depend on it, and wakes one thread. A thread that has its core to itself looks
    /// for a moment before it sleeps.
    #[default]
    Event,
    /// Everybody in turn, for ever.
    RoundRobin,
    /// Everybody in turn who has an operation under way.
    Suspend,
    /// Whoever is woken by an event, and for that event.
    Semaphore,
    /// By priority, with this base for progress threads and 0 for everything else on the core. The thread of the highest current
    /// priority runs, of equals the one that has waited for longest. Each time that a thread is chosen its current priority goes
    /// down by one; from 0 it goes back to the base. So, once all have come down to 0, each progress thread in its turn has base + 1
    /// turns in a row, and after all of them everything else has one; with base 0 this is [`RoundRobin`](Schedule::RoundRobin).
    /// 0 to [`PRIORITY_MAX`]; more counts as that.
    Priority(u8),
}

/// No schedule has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no schedule of progress threads is called `{0}`: use event, round-robin, suspend, semaphore or priority:<0-20>"
)]
pub struct UnknownSchedule(String);

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Event => f.write_str("event"),
            Schedule::RoundRobin => f.write_str("round-robin"),
            Schedule::Suspend => f.write_str("suspend"),
            Schedule::Semaphore => f.write_str("semaphore"),
            Schedule::Priority(base) => write!(f, "priority:{}", base.min(&PRIORITY_MAX)),
        }
    }
}

impl FromStr for Schedule {
    type Err = UnknownSchedule;
    fn from_str(text: &str) -> Result<Schedule, UnknownSchedule> {
        let unknown = || UnknownSchedule(text.to_owned());
        match text {
            "event" => Ok(Schedule::Event),
            "round-robin" => Ok(Schedule::RoundRobin),
            "suspend" => Ok(Schedule::Suspend),
            "semaphore" => Ok(Schedule::Semaphore),
            _ => {
                let base = text.strip_prefix("priority:").filter(|n| n.bytes().all(|c| c.is_ascii_digit()));
                let base = base.and_then(|n| n.parse().ok()).filter(|base| *base <= PRIORITY_MAX);
                base.map(Schedule::Priority).ok_or_else(unknown)
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for schedule in [
            Schedule::Event,
            Schedule::RoundRobin,
            Schedule::Suspend,
            Schedule::Semaphore,
            Schedule::Priority(0),
            Schedule::Priority(PRIORITY_MAX),
        ] {
            assert_eq!(schedule.to_string().parse::<Schedule>().unwrap(), schedule);
        }
        for wrong in
            ["", "fifo", "priority", "priority:", "priority:21", "priority:-1", "priority:+1", "Event"]
        {
            let error = wrong.parse::<Schedule>().unwrap_err().to_string();
            assert!(error.contains("round-robin") && error.contains("priority:<0-20>"), "{error}");
        }
    }
}
