//! Collectives on a board that are made in rounds (`board/rounds.rs`): which is whose turn, and who is rung for those that others owe. Handler-safe.

use super::Nbc;
use super::seat::{Seat, active_mut};
use crate::board::{Call, Made, is_followed};
use crate::schedule::NONE;
use core::ops::Range;
use tocsin_progress::budget::Context;
use tocsin_progress::slots::Id;
use tocsin_transport::board::{OUTSTANDING, Part, Why};

impl Seat {
    /// Whether another member has posted what is this one's next.
    #[cold]
    pub(super) fn is_behind(&self) -> bool {
        let me = self.board.me();
        let mut others = (0..self.board.members()).filter(|member| *member != me);
        others.any(|member| matches!(self.board.next_part(member), Part::Here { .. }))
    }

    /// Whether somebody may owe a round that is to come before a number.
    #[inline]
    pub(super) fn follows_rounds(&self, number: u32) -> bool {
        // Numbers wrap.
        self.round.is_some_and(|round| number.wrapping_sub(round) as i32 <= OUTSTANDING as i32)
    }

    /// Has those rung, among some, who have yet to post a number and owe rounds in front of it, or that one: nobody else will do it for them.
    #[cold]
    pub(super) fn call_those_behind(&mut self, number: u32, among: Range<usize>, telling: &mut u32) {
        let me = self.board.me();
        for member in among.filter(|member| *member != me) {
            if self.board.part(member, number) == Part::Missing && self.owes_rounds(member, number) {
                self.have_look(member, telling);
            }
        }
    }

    /// Whether the last that a member has posted before a number is a round that others follow. It is no further back than room is.
    fn owes_rounds(&self, member: usize, number: u32) -> bool {
        let mut before = (1..=OUTSTANDING).map(|back| self.board.part(member, number.wrapping_sub(back)));
        let last = before.find_map(|part| match part {
            Part::Here { about } => Some(about),
            Part::Missing | Part::Never | Part::Corrupt => None,
        });
        last.is_some_and(is_followed)
    }
}

impl Nbc {
    /// Whether something in line is to be posted, now or later.
    pub(super) fn has_unposted(&self, at: u32) -> bool {
        self.seats.get(at as usize).is_some_and(|seat| seat.unposted != NONE)
    }

    /// Has those rung who owe what the first of a line waits for, or room for it, if a user's call has found that it waits, or somebody is to hear of its end. Once for each
    /// number.
    #[inline]
    pub(super) fn call_those_behind(&mut self, at: u32, context: Context) {
        let Nbc { seats, slots, telling, .. } = self;
        let Some(seat) = seats.get_mut(at as usize) else { return };
        let Some(active) = active_mut(slots, seat.first) else { return };
        let place = &mut active.place;
        if place.called || !place.wanted && super::is_handler(context) {
            return;
        }
        place.called = true;
        let (me, members) = (seat.board.me(), seat.board.members());
        let (number, among) = match active.call.as_ref() {
            Some(call) if place.posted => (place.number, call.needs(me, members)),
            _ => (seat.board.lacking(), 0..members),
        };
        if seat.follows_rounds(number) {
            seat.call_those_behind(number, among, telling);
        }
    }

    /// A user operator has panicked in a round of a collective: who waits for those behind it, of which not all are posted, is to hear of that.
    #[cold]
    pub(super) fn give_up_rounds(&mut self, id: Id) {
        let Nbc { seats, slots, telling, .. } = self;
        let Some(active) = slots.get(id).filter(|active| !active.is_posted_whole(&active.place)) else {
            return;
        };
        let Some(seat) = seats.get_mut(active.place.at as usize) else { return };
        let (from, me) = (active.sequence, seat.board.me());
        if !seat.board.gave_up() {
            seat.board.say_why(Why::Panic, me);
        }
        seat.give_up_from(me as u32, Some(from), slots, telling);
    }

    /// What was made of a collective on a board was a round: the next is its turn, posted or not. False: there is none.
    #[inline]
    pub(super) fn next_round(&mut self, id: Id) -> bool {
        let Nbc { seats, slots, .. } = self;
        let Some(active) = slots.get_mut(id) else { return false };
        if !active.call.as_mut().is_some_and(Call::next_round) {
            return false;
        }
        let place = &mut active.place;
        // Nothing else is posted between two rounds.
        place.number = place.number.wrapping_add(1);
        (place.seen, place.made, place.called) = (0, Made::NOTHING, false);
        match place.ahead.checked_sub(1) {
            Some(ahead) => place.ahead = ahead,
            None => place.posted = false,
        }
        if place.posted
            && place.wanted
            && let Some(seat) = seats.get(place.at as usize)
        {
            // The look that follows sees what came before that.
            seat.board.wait_for(place.number);
            place.waits = true;
        }
        true
    }
}
