//! Which communicator an area is for: the end of a board, and the beginning of the next one in the same memory.
//!
//! # Who may write an area anew
//! An area is written by its owner alone, for one communicator after the other. Stamps bear the communicator's context, which
//! is never used twice, so that what one has left there means nothing to the next, and nobody needs to clear anything. But
//! what is written for the next overwrites what a member of the last may still have to read: one that is done with a number
//! (the root of a broadcast, say) knows nothing of those that are not. So who has no more use for a board [leaves](Board::leave)
//! it: he writes its context into his area, after all that he has read. An owner writes his area for another communicator only when
//! [all members](Board::all_have_left) of its last have left that, or are gone; and that is his own affair. It is no part of
//! it what the others' areas are used for: none of them is written by him, and a part of another context is no part. In their long memory he writes where a [place has
//! passed](super) to him, and no more after he has left; its owner takes it for another communicator only when he has.
//!
//! # Not yet come is not left
//! A member may be done with all that it has to do before another one has so much as begun. So it does not do to see no
//! sign of that one. Let `before` be what stood in q's area as left when member m began. q offers memory for a communicator
//! only when it has no use for it, so that when it offered it for this one it had left all those before; m begins after it has
//! seen q's offer, and so sees in `before` that or something later. Later than that, q leaves nothing before this one.
//! Hence: if `before` is this context, q has left already; if not, q has left it as soon as another word stands there, whatever
//! it is, since contexts are not used twice. Nobody waits for the others in this, and nobody tells them anything.
//!
//! Who is a member by the agreement but could not begin leaves nothing, unless it does so for that purpose; those who did begin cannot
//! use their areas any more until it leaves another one or is gone. That costs boards, and breaks nothing.

use super::{Area, Board, Part, Real, Slot, Variant};
use tocsin_sync::atomic::{Ordering, fence};

/// Beside a context: its owner posts no more. Contexts have 31 bits.
const GIVEN_UP: u64 = 1 << 63;

impl Area {
    /// The last context that its owner has left here, in the place that it has in a stamp; 0 at first.
    fn left(&self) -> u64 {
        // SYNC POINT: Acquire pairs with the Release of `leave`: what the owner has read there he has read before.
        self.head.left.load(Ordering::Acquire)
    }
}

impl Board {
    /// What each member has left; nothing for those that have left this board, so that a look finds something else.
    pub(super) fn all_left(&self) -> Box<[u64]> {
        let left = |member| self.area(member).map_or(0, Area::left);
        let left = (0..self.members()).map(left);
        left.map(|left| if left == self.context { u64::MAX } else { left }).collect()
    }

    /// Says that this member neither reads nor posts any more on this board, nor writes in a place that has passed to it. Handler-safe.
    pub fn leave(&self) {
        if let Some(area) = self.area(self.me) {
            // SYNC POINT: Release after all that was read here; pairs with the Acquire of `left`.
            area.head.left.store(self.context, Ordering::Release);
        }
    }

    /// Whether all other members have left: then the area of this member, once it has left, too, may be another
    /// board's. `is_gone`: whether a member has ended, and reads nothing any more. Handler-safe if that is.
    pub fn all_have_left(&self, is_gone: impl FnMut(usize) -> bool) -> bool {
        self.all_have_left_as::<Real>(is_gone)
    }

    /// [`all_have_left`](Self::all_have_left) with variation points.
    #[doc(hidden)]
    pub fn all_have_left_as<V: Variant>(&self, mut is_gone: impl FnMut(usize) -> bool) -> bool {
        let has_left = |(member, before): (usize, &u64)| {
            let before = if V::SEE_BEFORE { *before } else { 0 };
            let moved = || self.area(member).is_some_and(|area| area.left() != before);
            member == self.me || moved() || is_gone(member)
        };
        !V::SEE_LEFT || self.before.iter().enumerate().all(has_left)
    }

    /// What stands in the slots of a member that has given up.
    #[inline]
    pub(super) fn given_up(&self) -> u64 {
        self.context | GIVEN_UP
    }

    /// Says that this member posts no more, because the members disagree; what it has posted stays. The caller then rings
    /// all members, who look. Handler-safe: bounded by the number of slots.
    #[cold]
    pub fn give_up(&mut self) {
        self.give_up_as::<Real>();
    }

    /// [`give_up`](Self::give_up) with variation points.
    #[doc(hidden)]
    pub fn give_up_as<V: Variant>(&mut self) {
        self.gave_up = true;
        let Some(area) = self.area(self.me) else { return };
        for slot in &area.slots {
            // SYNC POINT: Release after all that was posted; pairs with the fence of `last_part`.
            slot.waits.store(self.given_up(), V::GIVE_UP);
        }
        // SYNC POINT: as in `post`: given up, fence, ring; others say that they wait, fence, look.
        fence(Ordering::SeqCst);
    }

    /// Whether this member has given up.
    #[inline]
    pub fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// The part of a number in a slot whose owner has given up: it is there by now, or it never is.
    #[cold]
    pub(super) fn last_part(&self, slot: &Slot, number: u32) -> Part {
        // SYNC POINT: Acquire pairs with the Release of `give_up`: all that was posted before is seen by the load that follows.
        fence(Ordering::Acquire);
        match slot.stamp.load(Ordering::Acquire) == self.stamp(number) {
            true => Part::Here { about: slot.about.load(Ordering::Relaxed) },
            false => Part::Never,
        }
    }

    /// A member for whose sake this one will never have room again: it has given up, or does not keep to the protocol.
    #[cold]
    pub fn spoilt_by(&self) -> Option<usize> {
        let number = self.lacking();
        (0..self.members()).find(|member| matches!(self.part(*member, number), Part::Never | Part::Corrupt))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::tests::{Memory, post};
    use super::*;

    fn nobody(_: usize) -> bool {
        false
    }

    #[test]
    fn an_area_is_free_when_all_others_have_left() {
        let memory = Memory::new(3);
        let boards = [0, 1, 2].map(|me| memory.board(me, 5));
        assert!(!boards[0].all_have_left(nobody));
        boards[1].leave();
        assert!(!boards[0].all_have_left(nobody) && !boards[1].all_have_left(nobody));
        assert!(boards[0].all_have_left(|member| member == 2), "who is gone needs not leave");
        boards[2].leave();
        assert!(boards[0].all_have_left(nobody));
        // It has not left itself.
        assert!(!boards[1].all_have_left(nobody));
        boards[0].leave();
        assert!(boards.iter().all(|board| board.all_have_left(nobody)));
    }

    #[test]
    fn who_has_yet_to_begin_has_not_left() {
        let memory = Memory::new(2);
        let first = [0, 1].map(|me| memory.board(me, 5));
        first.iter().for_each(Board::leave);
        // Member 0 begins, and is done, before member 1 begins.
        let early = memory.board(0, 3);
        early.leave();
        assert!(!early.all_have_left(nobody));
        let late = memory.board(1, 3);
        // It sees that member 0 has left, which is not what was there before.
        assert!(!early.all_have_left(nobody) && late.all_have_left(nobody));
        late.leave();
        assert!(early.all_have_left(nobody));
        // And goes on elsewhere.
        memory.board(1, 9).leave();
        assert!(early.all_have_left(nobody) && late.all_have_left(nobody));
    }

    #[test]
    fn what_another_communicator_has_left_in_the_slots_is_missing() {
        let memory = Memory::new(2);
        let mut first = [0, 1].map(|me| memory.board(me, 5));
        first.iter_mut().for_each(|board| assert_eq!(post(board, 1, &[1; 8]), 1));
        first[0].give_up();
        let mut second = [0, 1].map(|me| memory.board(me, 6));
        assert!((0..2).all(|member| second[1 - member].part(member, 1) == Part::Missing));
        assert_eq!(post(&mut second[0], 2, &[2; 8]), 1);
        assert_eq!(second[1].part(0, 1), Part::Here { about: 2 });
        assert!(!second[1].waits(0, 1));
    }

    #[test]
    fn what_was_posted_before_giving_up_stays_and_no_more_comes() {
        let memory = Memory::new(2);
        let mut boards = [0, 1].map(|me| memory.board(me, 5));
        assert_eq!(post(&mut boards[0], 7, &[]), 1);
        boards[0].wait_for(1);
        boards[0].give_up();
        assert_eq!(boards[1].part(0, 1), Part::Here { about: 7 });
        assert_eq!(boards[1].part(0, 2), Part::Never);
        // It may wait for parts still, says nothing any more, and is rung.
        boards[0].wait_for(1);
        boards[0].look_for(1);
        assert!(boards[1].waits(0, 1) && boards[1].part(0, 2) == Part::Never);
        // For want of that part, the other has room for a while and then never again.
        for number in 1..=super::super::OUTSTANDING + 1 {
            assert!(boards[1].has_room(number - 1));
            assert_eq!(post(&mut boards[1], 7, &[]), number);
        }
        assert!(!boards[1].has_room(super::super::OUTSTANDING + 1));
        assert_eq!(boards[1].spoilt_by(), Some(0));
    }
}
