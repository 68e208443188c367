//! Intrusive FIFO lists through slot indices: linking and unlinking is O(1) and allocates nothing.
//!
//! Everything here is handler-safe.

use tocsin_progress::{Id, Slots};

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Neighbours in a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    next: u32,
    prev: u32,
}

impl Link {
    pub(crate) const UNLINKED: Link = Link { next: NONE, prev: NONE };

    /// The slot of the next one, or none's.
    #[inline]
    pub(crate) fn next_index(self) -> u32 {
        self.next
    }
}

/// What can be in lists: it has one link per list that it may be in at the same time.
pub(crate) trait Linked {
    fn link(&self, which: usize) -> Link;
    fn set_link(&mut self, which: usize, link: Link);
}

/// First and last slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { head: NONE, tail: NONE };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// The slot of the oldest, or none's. With [`Link::next_index`] and [`Slots::at`], a walk that looks each slot up once.
    #[inline]
    pub(crate) fn first_index(&self) -> u32 {
        self.head
    }

    /// The oldest.
    #[inline]
    pub(crate) fn first<T, S>(&self, slots: &Slots<T, S>) -> Option<Id> {
        if self.is_empty() { None } else { slots.by_index(self.head) }
    }

    /// The one after `id`.
    #[inline]
    pub(crate) fn next<T: Linked, S>(slots: &Slots<T, S>, which: usize, id: Id) -> Option<Id> {
        let next = slots.get(id)?.link(which).next;
        if next == NONE { None } else { slots.by_index(next) }
    }

    /// Appends.
    #[inline]
    pub(crate) fn push<T: Linked, S>(&mut self, slots: &mut Slots<T, S>, which: usize, id: Id) {
        let Some(item) = slots.get_mut(id) else { return };
        item.set_link(which, Link { next: NONE, prev: self.tail });
        Self::relink(slots, which, self.tail, |link| link.next = id.index);
        self.tail = id.index;
        if self.head == NONE {
            self.head = id.index;
        }
    }

    /// Takes out the oldest, whose link this was.
    #[inline(always)]
    pub(crate) fn take_first<T: Linked, S>(&mut self, slots: &mut Slots<T, S>, which: usize, link: Link) {
        self.head = link.next;
        if link.next == NONE {
            self.tail = NONE;
        } else {
            Self::relink(slots, which, link.next, |after| after.prev = NONE);
        }
    }

    /// Takes out a member.
    #[inline]
    pub(crate) fn remove<T: Linked, S>(&mut self, slots: &mut Slots<T, S>, which: usize, id: Id) {
        let Some(item) = slots.get_mut(id) else { return };
        let link = item.link(which);
        item.set_link(which, Link::UNLINKED);
        if link.prev == NONE {
            self.head = link.next;
        } else {
            Self::relink(slots, which, link.prev, |before| before.next = link.next);
        }
        if link.next == NONE {
            self.tail = link.prev;
        } else {
            Self::relink(slots, which, link.next, |after| after.prev = link.prev);
        }
    }

    #[inline]
    fn relink<T: Linked, S>(
        slots: &mut Slots<T, S>,
        which: usize,
        index: u32,
        change: impl FnOnce(&mut Link),
    ) {
        if index == NONE {
            return;
        }
        if let Some(item) = slots.at_mut(index) {
            let mut link = item.link(which);
            change(&mut link);
            item.set_link(which, link);
        }
    }
}
