//! A thread that looks by itself for what it lacks of a collective on a board. User threads only.

use super::board::First;
use super::{Nbc, Stage};
use crate::board::Look;
use crate::messages::Messages;
use crate::schedule::NONE;
use tocsin_progress::budget::{Budget, Context, Pass};
use tocsin_progress::slots::Id;

impl Nbc {
    /// Says that a thread is about to look for the parts of a collective by itself ([`look`](Self::look)), so that it need
    /// not be rung. False: that is of no use. The token is held from here to [`end_look`](Self::end_look). User threads
    /// only.
    #[inline]
    pub fn begin_look(&mut self, id: Id) -> bool {
        let Nbc { seats, slots, .. } = self;
        let Some(active) = slots.get_mut(id).filter(|active| active.stage == Stage::Running) else {
            return false;
        };
        let Some(seat) = seats.get(active.place.at as usize) else { return false };
        let lacks = active.takes_out || !active.has_messages();
        // What has yet to be posted is for a pass to post.
        let looks = active.is_posted_whole(&active.place) && seat.first == id.index && lacks;
        // What others look at is not written for nothing.
        if looks && active.place.waits {
            seat.board.look_for(active.place.number);
            active.place.waits = false;
        }
        if looks {
            let at = active.place.at;
            self.call_those_behind(at, Context::User);
        }
        looks
    }

    /// Looks, and ends the collective if all its parts are there. Whether it has ended. What can be copied before they are is.
    #[inline]
    pub fn look(&mut self, id: Id) -> bool {
        let Some(active) = self.slots.get(id).filter(|active| active.stage == Stage::Running) else {
            return true;
        };
        let at = active.place.at;
        let mut budget = Budget::user();
        loop {
            match self.first_of(at, Context::User) {
                First::Ready(id, _) => {
                    while !self.make(id, at, &mut Budget::user()) {}
                    let Some(active) = self.slots.get(id).filter(|active| active.stage == Stage::Running)
                    else {
                        return true;
                    };
                    // If not, messages go beside it.
                    if !active.place.is_somewhere() {
                        return false;
                    }
                }
                First::Ahead if !budget.exhausted() && self.copy_ahead(at, &mut budget) > 0 => {}
                _ => return false,
            }
        }
    }

    /// Whether a collective on a board lacks the part of any rank of the world of which that `is` so.
    pub fn lacks_any(&self, id: Id, mut is: impl FnMut(u32) -> bool) -> bool {
        let Some(active) = self.slots.get(id).filter(|active| active.stage == Stage::Running) else {
            return false;
        };
        let place = &active.place;
        let seat = self.seats.get(place.at as usize);
        seat.zip(active.call.as_ref()).is_some_and(|(seat, call)| {
            let ranks = seat.group.world_ranks();
            call.lacks(&seat.board, place.number, place.seen, |member| {
                ranks.get(member).is_some_and(|&rank| is(rank))
            })
        })
    }

    /// Whether there is something to copy of a collective on a board, though not all its parts were there when they were [looked](Self::look) for.
    #[inline]
    pub fn has_grown(&self, id: Id) -> bool {
        let active =
            self.slots.get(id).filter(|active| active.stage == Stage::Running && active.place.posted);
        active.is_some_and(|active| {
            let place = &active.place;
            let seat = self.seats.get(place.at as usize);
            let call = active.call.as_ref();
            let mut seen = place.seen;
            seat.zip(call).is_some_and(|(seat, call)| {
                // What is wrong with it a pass sees to.
                call.is_ahead(&seat.board, place.number, &place.made)
                    && !matches!(place.look(call, &seat.board, &mut seen), Look::Wrong(_))
            })
        })
    }

    /// The thread looks no more. If the collective has not ended, this rank is rung for what it lacks, from here on; if it
    /// has, others may have room now.
    #[inline]
    pub fn end_look<M: Messages>(&mut self, messages: &mut M, id: Id) {
        let Nbc { seats, slots, .. } = self;
        let Some(active) = slots.get_mut(id) else { return };
        let Some(at) = active.call.map(|call| call.board) else { return };
        let Some(seat) = seats.get(at as usize) else { return };
        if active.place.posted {
            active.place.waits = true;
            seat.board.wait_for(active.place.number);
        }
        // What came before that was not rung for.
        if seat.first != NONE {
            while self.advance(messages, at, &mut Budget::user(), false) == Pass::More {}
        }
    }
}
