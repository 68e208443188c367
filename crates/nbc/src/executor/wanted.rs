//! Who is to be rung for a collective on a board: who waits for it, and nobody else.
//!
//! A rank that has posted its part, all rounds of it, and computes is needed by nobody: the others have its part, and what it lacks it finds when it
//! waits. So a post says nothing, and no other rank interrupts this one for it. What makes a difference is said here: somebody waits
//! where he does not look by himself, or wants to hear of the end without a call; or more is lined up than the board has room
//! for, so that others may wait for what this rank can post only when the first ones have ended.

use super::seat::{Seat, Table, active_mut};
use super::{Active, Nbc, Stage};
use crate::messages::Messages;
use crate::schedule::NONE;
use tocsin_progress::budget::{Budget, Pass};
use tocsin_progress::slots::Id;

/// Says to the others that this rank is to be rung for what stands in line, up to `last`: nothing ends before what stands in front of it.
/// The caller looks once more. Handler-safe: bounded by the length of the line.
#[cold]
pub(super) fn have_rung(seat: &Seat, slots: &mut Table, last: u32) {
    let mut next = seat.first;
    while let Some(active) = active_mut(slots, next) {
        let place = &mut active.place;
        place.wanted = true;
        if place.posted && !place.waits {
            // Whoever posts later sees it; who has posted before is found by the caller's look.
            seat.board.wait_for(place.number);
            place.waits = true;
        }
        if next == last {
            return;
        }
        next = place.next;
    }
}

impl Nbc {
    /// Has this rank rung for the end of a collective, which else is found by the next call that looks. Collectives that go by messages ring
    /// by themselves. Handler-safe. [`Pass::More`]: the budget ended before what had come was looked at; call it again.
    ///
    /// Who waits is here to do its own levels of split trees, too.
    pub fn want<M: Messages>(&mut self, messages: &mut M, id: Id, budget: &mut Budget) -> Pass {
        if self.is_gated() && self.recall_gated() && self.progress(messages, budget) == Pass::More {
            return Pass::More;
        }
        let Nbc { seats, slots, .. } = self;
        let Some(active) = slots.get(id).filter(|active| active.stage != Stage::Resting) else {
            return Pass::Idle;
        };
        let (at, by_messages) = (active.place.at, active.has_messages());
        let seat = seats.get(at as usize);
        if let Some(seat) = seat {
            have_rung(seat, slots, id.index);
        }
        let on_board = seat.is_some();
        if by_messages {
            self.want_messages(id);
        }
        if on_board { self.advance(messages, at, budget, false) } else { Pass::Idle }
    }

    /// The same of what goes by messages: the last of them, which no other rank depends on, ring nobody else.
    fn want_messages(&mut self, id: Id) {
        if let Some(active) = self.slots.get_mut(id).filter(|active| !active.wanted) {
            active.wanted = true;
            self.wanting = self.wanting.wrapping_add(1);
        }
    }

    /// Whether plain messages should ring, because somebody is to hear of the end of what goes by messages. Handler-safe.
    #[inline]
    pub fn wants_plain(&self) -> bool {
        self.wanting > 0
    }

    /// Has it rung for all that run. User threads only.
    pub fn want_all<M: Messages>(&mut self, messages: &mut M) {
        for index in 0..self.slots.capacity() as u32 {
            let Some(id) = self.slots.by_index(index) else { continue };
            let runs = |active: &Active| active.stage != Stage::Resting && active.has_messages();
            if self.slots.get(id).is_some_and(runs) {
                self.want_messages(id);
            }
        }
        for at in 0..self.seats.len() {
            let Nbc { seats, slots, .. } = self;
            let Some(seat) = seats.get(at).filter(|seat| seat.first != NONE) else { continue };
            have_rung(seat, slots, NONE);
            while self.advance(messages, at as u32, &mut Budget::user(), false) == Pass::More {}
        }
    }
}
