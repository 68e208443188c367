//! Which stores a member copies its parts in by.
//!
//! Where it comes back to a place the others' cores have what they read there last, and plain stores have to take that from each of them; unless so much else was read since
//! that it has left their caches: then plain stores are the quicker ones. So a member [compares](crate::stores) by what its own copies take. Who reads what was streamed gets it from
//! memory, which takes about as long as to stream it: streaming is to take half of the time, then.

use crate::stores::{Compared, Stores};
use tocsin_sync::clock::now_ns;

/// By how much streaming must be faster.
const HANDICAP: u64 = 2;
/// Parts of at most so many bytes are compared with each other, and longer ones: what has left the caches is another matter for each.
const LENGTHS: [usize; 2] = [128 << 10, 512 << 10];

/// What a member knows of its copies, and of the part that it copies in.
#[derive(Debug)]
pub(super) struct Storing {
    compared: [Compared; LENGTHS.len() + 1],
    stores: Stores,
    /// What is timed: the part's bytes, and what copying has taken until now.
    timed: Option<(usize, u64)>,
}

impl Storing {
    pub(super) const fn new() -> Storing {
        Storing {
            compared: [const { Compared::new(HANDICAP) }; LENGTHS.len() + 1],
            stores: Stores::Plain,
            timed: None,
        }
    }

    /// A part of so many bytes is begun, where other cores have read last.
    #[inline]
    pub(super) fn begin(&mut self, whole: usize) {
        (self.stores, self.timed) = (Stores::Plain, None);
        // A model is to run the same way each time.
        if cfg!(loom) {
            return;
        }
        if let Some(compared) = self.compared(whole) {
            let (stores, timed) = compared.choose();
            (self.stores, self.timed) = (stores, timed.then_some((whole, 0)));
        }
    }

    fn compared(&mut self, whole: usize) -> Option<&mut Compared> {
        let length = LENGTHS.iter().filter(|length| whole > **length).count();
        self.compared.get_mut(length)
    }

    /// By which the part is copied in.
    #[inline]
    pub(super) fn stores(&self) -> Stores {
        self.stores
    }

    /// The time, if it counts.
    #[inline]
    pub(super) fn copy_begins(&self) -> u64 {
        if self.timed.is_some() { now_ns() } else { 0 }
    }

    /// Some of the part was copied since then.
    #[inline]
    pub(super) fn copied(&mut self, begun: u64) {
        if let Some((_, ns)) = &mut self.timed {
            *ns = ns.saturating_add(now_ns().wrapping_sub(begun));
        }
    }

    /// All of it is there.
    #[inline]
    pub(super) fn end(&mut self) {
        let Some((whole, ns)) = self.timed.take() else { return };
        let stores = self.stores;
        if let Some(compared) = self.compared(whole) {
            compared.times(stores).0.note(ns, whole);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Parts of all lengths, each of which takes so many ns for 64 KiB by either stores: how many are streamed.
    fn streamed(storing: &mut Storing, parts: usize, (plain, streaming): (u64, u64)) -> usize {
        let mut count = 0;
        for part in 0..parts {
            let whole = [64 << 10, 256 << 10, 1 << 20][part % 3];
            storing.begin(whole);
            let ns = match storing.stores() {
                Stores::Plain => plain,
                Stores::Streaming => streaming,
            };
            count += usize::from(storing.stores() == Stores::Streaming);
            if let Some((_, taken)) = &mut storing.timed {
                *taken += ns * (whole >> 16) as u64;
            }
            storing.end();
        }
        count
    }

    #[test]
    fn what_takes_less_than_half_is_streamed() {
        assert!(streamed(&mut Storing::new(), 3000, (7000, 2300)) > 2700);
        assert!(streamed(&mut Storing::new(), 3000, (2000, 1200)) < 300);
    }
}
