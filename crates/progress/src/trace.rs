//! A per-rank ring of timed events that overwrites its oldest.

use tocsin_sync::atomic::{AtomicU64, Ordering, fence};
use tocsin_sync::clock::now_ns;

/// Kinds the engine itself records. Layers above use numbers from [`kind::FIRST_FREE`] on.
pub mod kind {
    /// A handler entry began; a = cause.
    pub const INTERRUPT: u16 = 1;
    /// It ended; a = nanoseconds, b = the cause, and whether work was left: [`interrupt_end`].
    pub const INTERRUPT_END: u16 = 2;
    /// A handler found the engine busy.
    pub const DEFERRED: u16 = 3;
    /// Handlers reached their share; a = nanoseconds until they may go on.
    pub const THROTTLE: u16 = 4;
    /// A pass that did something; a = context, b = 1 when work was left.
    pub const PASS: u16 = 5;
    /// A thread went to sleep in a wait.
    pub const SLEEP: u16 = 6;
    /// It woke up; a = 1 when it was woken.
    pub const WAKE: u16 = 7;
    /// A user thread left the library, or a part of it that it had entered; a = nanoseconds since it came, b = the
    /// thread's [pointer](tocsin_sync::thread::pointer).
    pub const LIBRARY: u16 = 8;
    /// First number for other layers: `p2p` has 64 to 79, `nbc` 80 to 95.
    pub const FIRST_FREE: u16 = 64;

    /// What the b of an [`INTERRUPT_END`] says: the cause, and whether work was left.
    pub fn interrupt_end(b: u64) -> (u64, bool) {
        (b >> 1, b & 1 != 0)
    }

    /// The b of an [`INTERRUPT_END`]. Handler-safe.
    pub(crate) fn interrupt_ended(cause: u64, more: bool) -> u64 {
        cause << 1 | u64::from(more)
    }
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub ns: u64,
    /// See [`kind`].
    pub kind: u16,
    /// Depends on the kind.
    pub a: u64,
    /// Depends on the kind.
    pub b: u64,
}

/// 32 bytes: two events a cache line.
#[derive(Debug)]
struct Entry {
    /// Position + 1 in the upper 48 bits, kind in the lower 16; 0 while being written.
    stamp: AtomicU64,
    ns: AtomicU64,
    a: AtomicU64,
    b: AtomicU64,
}

/// The ring. Any number of threads and handlers record; the memory is 32 bytes an event.
///
/// Progress class: [`record`](Trace::record) is wait-free: one `xadd`, six plain stores, one clock read. An
/// event that is overwritten or half written while it is drained is left out, never mixed.
#[derive(Debug)]
pub struct Trace {
    next: AtomicU64,
    mask: u64,
    entries: Box<[Entry]>,
}

impl Trace {
    /// A ring for at least `events` events (rounded up to a power of two, at least 2). Not for handlers.
    pub fn new(events: usize) -> Trace {
        let capacity = events.max(2).next_power_of_two();
        let entries = (0..capacity)
            .map(|_| Entry {
                stamp: AtomicU64::new(0),
                ns: AtomicU64::new(0),
                a: AtomicU64::new(0),
                b: AtomicU64::new(0),
            })
            .collect();
        Trace { next: AtomicU64::new(0), mask: capacity as u64 - 1, entries }
    }

    /// Records an event now. Handlers may call it.
    #[inline]
    pub fn record(&self, kind: u16, a: u64, b: u64) {
        self.record_at(now_ns(), kind, a, b);
    }

    /// Records an event at a time already read. Handlers may call it.
    #[inline]
    pub fn record_at(&self, ns: u64, kind: u16, a: u64, b: u64) {
        let position = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(entry) = self.entries.get((position & self.mask) as usize) else { return };
        entry.stamp.store(0, Ordering::Relaxed);
        // SYNC POINT: Release fence: who sees one of the fields below sees the 0 above, so that `drain`'s
        // second look at the stamp notices a torn event.
        fence(Ordering::Release);
        entry.ns.store(ns, Ordering::Relaxed);
        entry.a.store(a, Ordering::Relaxed);
        entry.b.store(b, Ordering::Relaxed);
        let stamp = position.wrapping_add(1) << 16 | u64::from(kind);
        // SYNC POINT: Release pairs with `drain`'s Acquire: the stamp vouches for the fields.
        entry.stamp.store(stamp, Ordering::Release);
    }

    /// Events recorded so far, overwritten ones included.
    pub fn recorded(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The events still in the ring, oldest first, none older than its size says. Recording may go on meanwhile. Not
    /// for handlers.
    pub fn drain(&self) -> Vec<Event> {
        let mut found = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let stamp = entry.stamp.load(Ordering::Acquire);
            if stamp == 0 {
                continue;
            }
            let event = Event {
                ns: entry.ns.load(Ordering::Relaxed),
                kind: stamp as u16,
                a: entry.a.load(Ordering::Relaxed),
                b: entry.b.load(Ordering::Relaxed),
            };
            // SYNC POINT: Acquire fence, pairs with the Release fence in `record_at`.
            fence(Ordering::Acquire);
            if entry.stamp.load(Ordering::Relaxed) == stamp {
                found.push((stamp >> 16, event));
            }
        }
        // One that was lapped may have been the last to write.
        let overwritten = self.recorded().saturating_sub(self.entries.len() as u64);
        found.retain(|(number, _)| *number > overwritten);
        found.sort_unstable_by_key(|(position, _)| *position);
        found.into_iter().map(|(_, event)| event).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_in_order() {
        let trace = Trace::new(8);
        for i in 0..20 {
            trace.record(kind::FIRST_FREE, i, i * 2);
        }
        let events = trace.drain();
        assert_eq!(events.iter().map(|e| e.a).collect::<Vec<_>>(), (12..20).collect::<Vec<_>>());
        assert!(events.windows(2).all(|w| w[0].ns <= w[1].ns));
        assert!(events.iter().all(|e| e.b == e.a * 2 && e.kind == kind::FIRST_FREE));
        assert_eq!(trace.recorded(), 20);
    }

    #[test]
    fn what_a_lapped_writer_leaves_is_left_out() {
        let trace = Trace::new(4);
        for i in 0..6 {
            trace.record(kind::FIRST_FREE, i, 0);
        }
        // The second event's writer was interrupted before its last store, until the sixth had come to its place.
        trace.entries[1].stamp.store(2 << 16 | u64::from(kind::FIRST_FREE), Ordering::Relaxed);
        assert_eq!(trace.drain().iter().map(|e| e.a).collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn torn_events_are_left_out() {
        let trace = Trace::new(4);
        std::thread::scope(|scope| {
            for writer in 0..2u64 {
                let trace = &trace;
                scope.spawn(move || {
                    for i in 0..20_000u64 {
                        let value = writer << 32 | i;
                        trace.record_at(value + 1, 7, value, !value);
                    }
                });
            }
            for _ in 0..2000 {
                for event in trace.drain() {
                    assert_eq!(event.b, !event.a);
                    assert_eq!(event.ns, event.a + 1);
                }
            }
        });
    }
}
