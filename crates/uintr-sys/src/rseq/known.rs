//! Sections that handlers of a receiver have seen.

use super::Section;
use core::cell::Cell;

/// How many are remembered: the last ones that were interrupted. Memory allocators and tracers have one for each kind of
/// operation, or for each place where it is inlined.
pub(crate) const KNOWN: usize = 16;

/// One thread's; its handlers alone use it, with user interrupts masked.
pub(crate) struct Known {
    sections: [Cell<Section>; KNOWN],
    /// Which place the next one takes.
    next: Cell<usize>,
    /// All of them lie from `low` up to, not including, `high`: what most programs' handlers ask is two comparisons.
    low: Cell<u64>,
    high: Cell<u64>,
}

impl Known {
    pub(crate) const fn new() -> Known {
        const NONE: Section = Section { version: 0, flags: 0, start: 0, length: 0, abort: 0 };
        Known {
            sections: [const { Cell::new(NONE) }; KNOWN],
            next: Cell::new(0),
            low: Cell::new(u64::MAX),
            high: Cell::new(0),
        }
    }

    /// Whether [`find`](Self::find) may find something.
    #[inline]
    pub(super) fn may_contain(&self, rip: u64) -> bool {
        rip >= self.low.get() && rip < self.high.get()
    }

    /// The section around an address. At most [`KNOWN`] looks.
    pub(super) fn find(&self, rip: u64) -> Option<Section> {
        self.sections.iter().map(Cell::get).find(|s| s.contains(rip))
    }

    /// Remembers a sound section; one of the same bounds, or the oldest, makes room. At most [`KNOWN`] looks.
    pub(super) fn note(&self, section: Section) {
        let same = |s: &Section| s.start == section.start && s.length == section.length;
        let place = match self.sections.iter().find(|place| same(&place.get())) {
            Some(place) if place.get() == section => return,
            Some(place) => place,
            None => {
                let next = self.next.get() % KNOWN;
                self.next.set(next.wrapping_add(1));
                // Less than its length.
                let Some(place) = self.sections.get(next) else { return };
                place
            }
        };
        place.set(section);
        self.low.set(self.low.get().min(section.start));
        self.high.set(self.high.get().max(section.start.saturating_add(section.length)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(start: u64, length: u64) -> Section {
        Section { version: 0, flags: 0, start, length, abort: start + length + 100 }
    }

    #[test]
    fn what_was_noted_is_found_by_any_address_inside() {
        let known = Known::new();
        assert!(!known.may_contain(0) && known.find(0).is_none());
        known.note(section(1000, 10));
        known.note(section(5000, 1));
        for (rip, start) in
            [(999, None), (1000, Some(1000)), (1009, Some(1000)), (1010, None), (5000, Some(5000))]
        {
            assert_eq!(known.find(rip).map(|s| s.start), start, "{rip}");
            assert!(start.is_none() || known.may_contain(rip));
        }
        assert!(!known.may_contain(999) && !known.may_contain(5001));
    }

    #[test]
    fn the_same_takes_one_place_and_the_oldest_goes() {
        let known = Known::new();
        let all = KNOWN as u64;
        for _ in 0..100 {
            known.note(section(10, 5));
        }
        for n in 1..all {
            known.note(section(100 * n, 5));
        }
        assert!(known.find(10).is_some() && known.find(100).is_some());
        // Changed, not added.
        known.note(Section { flags: 2, ..section(10, 5) });
        assert_eq!(known.find(12).map(|s| s.flags), Some(2));
        known.note(section(100 * all, 5));
        assert!(known.find(10).is_none() && known.find(100).is_some() && known.find(100 * all).is_some());
    }
}
