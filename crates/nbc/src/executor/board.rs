//! Collectives on boards: who has posted what, who waits, who is rung. What handlers reach is handler-safe: nothing
//! allocates, waits or panics; a pass is bounded by its budget and by the number of collectives and members.
//!
//! # Implementation details
//!
//! What was started on a board and has not ended stands in a line, in the order of the starts. Of these, as many are posted as
//! the board has room for, and the first alone may end: what all must post in one order, all post, and so each line moves on.
//! A rank that waits for parts has said so on the board before it sleeps, so that it is rung for the last of them; while it looks by
//! itself ([`Nbc::begin_look`]) it takes that back. One that computes says nothing (`wanted.rs`): what others need of it is posted, but for
//! rounds that it owes, for which those have it rung who wait (`board/rounds.rs`).
//!
//! Of what goes by messages beside its board both halves begin at once, and it ends with the later one; where the board has nothing for this rank, with its
//! messages, once its part is posted ([`Nbc::end_on_board`]).
//!
//! Whom a post leaves to be rung is kept until the token is released ([`Nbc::announce`]): who looks by himself by then, or has
//! looked, needs no ring.

use super::seat::{Place, active_mut, has_room, may_post};
use super::wanted::have_rung;
use super::{Nbc, or_death};
use crate::board::{Look, MOST};
use crate::messages::Messages;
use crate::schedule::NONE;
use tocsin_progress::budget::{Budget, Context, Pass};
use tocsin_progress::completion::{Code, Outcome};
use tocsin_progress::slots::Id;

/// What the first of a line needs.
pub(super) enum First {
    /// There is none, or it waits.
    Waits,
    /// It waits for a part, and something can be copied before.
    Ahead,
    /// All parts are there, of which so many bytes are read.
    Ready(Id, usize),
    /// It is not for a handler: a user operator, or what nobody waits for.
    Deferred,
    Wrong(Id, Outcome),
}

impl Nbc {
    /// Makes rings to the members of a schedule's board as fast as they can be. User threads only.
    #[inline]
    pub(super) fn prepare_rings<M: Messages>(&mut self, messages: &mut M, at: u32) {
        if self.seats.get(at as usize).is_some_and(|seat| !seat.rings_ready) {
            self.prepare_rings_of(messages, at);
        }
    }

    #[cold]
    fn prepare_rings_of<M: Messages>(&mut self, messages: &mut M, at: u32) {
        let Some(seat) = self.seats.get_mut(at as usize) else { return };
        // All of them, even when one has yet to join.
        seat.rings_ready =
            seat.group.world_ranks().iter().fold(true, |all, rank| messages.prepare_ring(*rank) & all);
    }

    /// Lines up a collective that has been started. True: it cannot be done on this board any more.
    pub(super) fn line_up(&mut self, id: Id, at: u32) -> bool {
        let Nbc { seats, slots, waiting, .. } = self;
        let Some(seat) = seats.get_mut(at as usize).filter(|seat| !seat.broken) else { return true };
        let before = seat.last;
        match active_mut(slots, before) {
            Some(last) => last.place.next = id.index,
            None => {
                seat.first = id.index;
                *waiting = waiting.wrapping_add(1);
            }
        }
        seat.last = id.index;
        if seat.unposted == NONE {
            seat.unposted = id.index;
        }
        if let Some(active) = slots.get_mut(id) {
            active.place = Place { at, before, ..Place::NOWHERE };
            seat.begun = Some(active.sequence);
            seat.board.begin_here(active.sequence);
        }
        false
    }

    /// Takes a collective that has ended out of its line. Handler-safe.
    pub(super) fn leave_line(&mut self, id: Id) {
        let Nbc { seats, slots, waiting, moved_up, .. } = self;
        let Some(left) = slots.get_mut(id) else { return };
        let place = std::mem::replace(&mut left.place, Place::NOWHERE);
        let Some(seat) = seats.get_mut(place.at as usize) else { return };
        // What was lined up and never posted, or not all of it, leaves a gap that the others do not have. What ended it (a revocation, a death)
        // ends theirs, or else this rank has given up.
        seat.broken |= !left.is_posted_whole(&place);
        if place.waits {
            seat.board.look_for(place.number);
        }
        if seat.unposted == id.index {
            seat.unposted = place.next;
        }
        match active_mut(slots, place.before) {
            Some(before) => before.place.next = place.next,
            None => seat.first = place.next,
        }
        match active_mut(slots, place.next) {
            Some(next) => next.place.before = place.before,
            None => seat.last = place.before,
        }
        if seat.first == NONE {
            *waiting = waiting.wrapping_sub(1);
            seat.leave_if_over();
        } else {
            *moved_up = true;
        }
    }

    /// Posts what there is room for, and ends what has all its parts, on all boards. Handler-safe.
    #[inline]
    pub(super) fn advance_all<M: Messages>(&mut self, messages: &mut M, budget: &mut Budget) -> Pass {
        self.deferred_on_board = false;
        self.moved_up = false;
        let mut pass = Pass::Idle;
        if self.is_asked() {
            self.look_where_asked(messages);
            pass = Pass::Worked;
        }
        if self.waiting == 0 {
            return pass;
        }
        for at in 0..self.seats.len() as u32 {
            match self.advance(messages, at, budget, false) {
                Pass::More => return Pass::More,
                Pass::Worked => pass = Pass::Worked,
                Pass::Idle => {}
            }
        }
        pass
    }

    /// The same on one board. `starts`: on a user's thread that has just started something. Handler-safe.
    pub(super) fn advance<M: Messages>(
        &mut self,
        messages: &mut M,
        at: u32,
        budget: &mut Budget,
        starts: bool,
    ) -> Pass {
        let (mut pass, mut looked) = (Pass::Idle, false);
        // Handlers post first what others wait for. Others post ahead when there is nothing to make.
        let mut ahead = super::is_handler(budget.context());
        loop {
            match self.post_lined_up(messages, at, (starts, ahead), budget) {
                Pass::Idle => {}
                posted => {
                    pass = Pass::Worked;
                    // What has gone by messages behind it was no use looking for before.
                    self.look_beside(messages, at);
                    if posted == Pass::More {
                        return posted;
                    }
                }
            }
            match self.first_of(at, budget.context()) {
                First::Waits if !ahead && self.has_unposted(at) => {
                    ahead = true;
                    continue;
                }
                First::Waits => match self.in_vain(messages, at) {
                    Some((id, outcome)) => {
                        self.give_up_with(at, outcome);
                        self.fail(messages, id, outcome);
                        self.look_beside(messages, at);
                    }
                    // Once: who asks without end is answered by later passes.
                    None if !looked && self.is_asked() => {
                        looked = true;
                        self.look_where_asked(messages);
                    }
                    None => {
                        if !starts {
                            self.call_those_behind(at, budget.context());
                        }
                        return pass;
                    }
                },
                First::Ahead => {
                    if budget.exhausted() {
                        return Pass::More;
                    }
                    budget.begin();
                    if self.copy_ahead(at, budget) == 0 {
                        return pass;
                    }
                }
                First::Deferred => {
                    self.deferred_on_board = true;
                    return pass;
                }
                First::Wrong(id, outcome) => {
                    // A member may have given up because of what this rank has yet to hear of.
                    let (id, outcome) = self.in_vain(messages, at).unwrap_or_else(|| {
                        let seat = self.seats.get(at as usize);
                        (id, seat.map_or(outcome, |seat| or_death(messages, &seat.group, outcome)))
                    });
                    self.fail(messages, id, outcome);
                    self.look_beside(messages, at);
                }
                First::Ready(id, bytes) => {
                    // A result of short parts is made in one piece: it waits for a fresh budget.
                    let left = budget.bytes_left();
                    if budget.exhausted() || bytes > left && left < MOST {
                        return Pass::More;
                    }
                    budget.begin();
                    if !self.make(id, at, budget) {
                        return Pass::More;
                    }
                }
            }
            pass = Pass::Worked;
        }
    }

    /// Before the first of a line ends that was never posted: those who wait for it and hear nothing of the reason are to
    /// hear that it never comes.
    fn give_up_with(&mut self, at: u32, outcome: Outcome) {
        let Nbc { seats, slots, telling, .. } = self;
        let Some(seat) = seats.get_mut(at as usize) else { return };
        let posted = active_mut(slots, seat.first).is_some_and(|first| first.is_posted_whole(&first.place));
        if !posted && outcome.code == Code::PeerFinalized {
            let member = seat.group().world_ranks().iter().position(|rank| *rank == outcome.source);
            seat.give_up(member.unwrap_or(0) as u32, slots, telling);
        }
    }

    pub(super) fn first_of(&mut self, at: u32, context: Context) -> First {
        let Nbc { seats, slots, telling, .. } = self;
        let Some(seat) = seats.get_mut(at as usize) else { return First::Waits };
        if seat.first == NONE {
            return First::Waits;
        }
        let Some(id) = slots.by_index(seat.first) else { return First::Waits };
        let Some(active) = slots.get_mut(id) else { return First::Waits };
        let Some(call) = active.call.as_ref() else {
            return First::Waits;
        };
        if !active.place.posted {
            return First::Waits;
        }
        let mut seen = active.place.seen;
        let look = active.place.look(call, &seat.board, &mut seen);
        active.place.seen = seen;
        // A handler that posts rounds for those who wait makes none where nobody waits here: the rank that computes makes them when it waits.
        let leaves = super::is_handler(context) && call.is_round() && !active.place.wanted;
        match look {
            Look::Waits if !leaves && call.is_ahead(&seat.board, active.place.number, &active.place.made) => {
                First::Ahead
            }
            Look::Waits => First::Waits,
            Look::Ready if leaves || super::is_handler(context) && !call.is_handler_safe(seat.board.me()) => {
                First::Deferred
            }
            Look::Ready => First::Ready(id, call.work_left(&seat.board, &active.place.made)),
            Look::Wrong(member) => {
                let from = Some(active.sequence);
                First::Wrong(id, seat.blame_from(member, from, slots, telling))
            }
        }
    }

    /// Whether the first of a line waits for what never comes, and how it ends then.
    fn in_vain<M: Messages>(&self, messages: &M, at: u32) -> Option<(Id, Outcome)> {
        let seat = self.seats.get(at as usize).filter(|seat| seat.first != NONE)?;
        let id = self.slots.by_index(seat.first)?;
        let first = self.slots.get(id)?;
        if messages.is_revoked(first.context) {
            return Some((id, Outcome { code: Code::Revoked, ..Outcome::default() }));
        }
        let (me, members) = (seat.board.me(), seat.board.members());
        let needed = first.call.as_ref().map_or(0..0, |call| call.needs(me, members));
        let Some(left) = seat.lacks_for_ever(messages, &first.place, needed) else {
            // Nor is anything posted any more.
            let ends = seat.broken && !first.place.posted;
            return ends.then(|| (id, or_death(messages, &seat.group, seat.disagree(seat.blamed))));
        };
        // It may have left because of a death that this rank has yet to hear of.
        let blamed = messages.blame(seat.group.world_ranks());
        let (source, code) = blamed.unwrap_or((left, Code::PeerFinalized));
        Some((id, Outcome { code, source, ..Outcome::default() }))
    }

    /// Copies what the first of a line can copy before all parts are there, as far as the budget allows: so many bytes.
    pub(super) fn copy_ahead(&mut self, at: u32, budget: &mut Budget) -> usize {
        let Nbc { seats, slots, scratch, .. } = self;
        let Some(seat) = seats.get(at as usize) else { return 0 };
        let Some(active) = active_mut(slots, seat.first) else { return 0 };
        let (place, Some(call)) = (&mut active.place, active.call.as_ref()) else { return 0 };
        // SAFETY: - the result's memory: valid and nobody else's by the promise to `post`.
        let bytes = unsafe {
            let made = (&mut place.made, scratch.as_mut_ptr().cast());
            call.copy_ahead(&seat.board, place.number, made, budget)
        };
        self.count(budget.context(), bytes);
        bytes
    }

    /// Makes the result of a collective whose parts are there, and ends it. False: the budget ended before that.
    pub(super) fn make(&mut self, id: Id, at: u32, budget: &mut Budget) -> bool {
        let Nbc { seats, slots, scratch, .. } = self;
        let Some(seat) = seats.get_mut(at as usize) else { return true };
        let Some(active) = slots.get_mut(id) else { return true };
        let Some(call) = active.call.as_ref() else { return true };
        let place = &mut active.place;
        if place.waits {
            seat.board.look_for(place.number);
            place.waits = false;
            // Who waits does so for all rounds.
            place.wanted |= call.is_followed();
        }
        if call.is_made_in_parts() {
            // SAFETY: - the result's memory: valid and nobody else's by the promise to `post`
            //         - this rank's part: readable and unwritten, by the same promise.
            let (bytes, outcome) =
                unsafe { seat.make_long(call, place.number, (&mut place.made, scratch), budget) };
            self.count(budget.context(), bytes);
            return match outcome {
                Some(outcome) => self.is_made(id, outcome),
                None => false,
            };
        }
        // SAFETY: - as above.
        let (bytes, outcome) = unsafe { seat.make(call, place.number, scratch) };
        budget.take_bytes(bytes);
        self.count(budget.context(), bytes);
        self.is_made(id, outcome)
    }

    fn is_made(&mut self, id: Id, outcome: Outcome) -> bool {
        match outcome.code {
            Code::Ok if self.next_round(id) => {}
            Code::Ok => self.end_on_board(id),
            _ => {
                self.give_up_rounds(id);
                self.end(id, outcome);
            }
        }
        true
    }

    /// Posts what is lined up, as far as there is room. Whether anything was, or this rank has given up; [`Pass::More`]: a long part is not all there.
    #[inline]
    fn post_lined_up<M: Messages>(
        &mut self,
        messages: &mut M,
        at: u32,
        (starts, ahead): (bool, bool),
        budget: &mut Budget,
    ) -> Pass {
        let Nbc { seats, slots, telling, copied, .. } = self;
        let Some(seat) = seats.get_mut(at as usize) else { return Pass::Idle };
        let mut pass = Pass::Idle;
        while !seat.broken && may_post(seat, slots, ahead) {
            if !has_room(seat, slots) {
                if let Some(member) = seat.board.spoilt_by() {
                    seat.give_up(member as u32, slots, telling);
                    pass = Pass::Worked;
                }
                // Others wait for what cannot be posted before those have ended that are.
                have_rung(seat, slots, seat.unposted);
                break;
            }
            let Some(active) = active_mut(slots, seat.unposted) else { break };
            let Some(call) = active.call.as_ref() else { break };
            let place = &mut active.place;
            // Rounds in front of it wait for others.
            let is_ahead = place.posted;
            let later = is_ahead.then(|| call.rounds_later(place.ahead.wrapping_add(1)));
            let call = later.as_ref().unwrap_or(call);
            // SAFETY: - the part: the user's memory, readable and unwritten by the promise to `post`.
            let number = unsafe {
                match call.long {
                    false => seat.board.post(call.about, call.from, call.bytes),
                    true => {
                        let before = budget.bytes_left();
                        call.next_place(&mut seat.board);
                        let is_there = call.fill(&mut seat.board, &mut place.filled, budget);
                        copied.add(budget.context(), before.saturating_sub(budget.bytes_left()));
                        if !is_there {
                            return Pass::More;
                        }
                        call.post_long(&mut seat.board)
                    }
                }
            };
            place.filled = 0;
            if call.is_round() {
                seat.round = Some(number);
            }
            // What stands behind it is posted after its last round.
            if !call.is_followed() {
                seat.unposted = place.next;
            }
            pass = Pass::Worked;
            let mut seen = 0;
            let look = if starts && !is_ahead {
                seat.look_for_a_moment(call, number, &mut seen)
            } else {
                call.look(&seat.board, number, &mut seen)
            };
            if is_ahead {
                place.ahead = place.ahead.wrapping_add(1);
            } else {
                (place.posted, place.number, place.seen, place.called) = (true, number, seen, false);
            }
            if look == Look::Waits && place.wanted && !is_ahead {
                // Whoever posts later sees it; who has posted before is found by the look that follows.
                seat.board.wait_for(number);
                place.waits = true;
            }
            let look = seat.tell(messages, call, number, look, telling);
            seat.ask(call, number, active.sequence, look, telling);
            if let Look::Wrong(member) = look {
                place.odd = member as u32;
                let from = Some(active.sequence);
                seat.give_up_from(member as u32, from, slots, telling);
            }
        }
        pass
    }

    /// Has everybody rung who still waits for what was posted. Before the token is released; handler-safe.
    #[inline]
    pub fn announce<M: Messages>(&mut self, messages: &mut M) {
        if self.telling > 0 {
            self.announce_where(messages, |_, _| true);
        }
    }

    /// [`announce`](Self::announce), but for those whom a ring would interrupt by signal: whether there are any. Called
    /// again, it forgets those who no longer wait. User threads only.
    #[inline]
    pub fn announce_quietly<M: Messages>(&mut self, messages: &mut M) -> bool {
        self.telling > 0 && self.announce_where(messages, |messages, rank| !messages.would_signal(rank))
    }

    #[cold]
    fn announce_where<M: Messages>(&mut self, messages: &mut M, now: impl Fn(&M, u32) -> bool) -> bool {
        for seat in self.seats.iter_mut().filter(|seat| seat.telling != 0) {
            let mut left = seat.telling;
            while left != 0 {
                let member = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                let rank = seat.group.world_rank(member).filter(|_| seat.still_waits(member as usize));
                match rank {
                    Some(rank) if !now(messages, rank) => continue,
                    Some(rank) => messages.announce(rank),
                    None => {}
                }
                let others = !(1u64 << (member & 63));
                (seat.telling, seat.asking) = (seat.telling & others, seat.asking & others);
            }
            if seat.telling == 0 {
                self.telling = self.telling.wrapping_sub(1);
                seat.leave_if_over();
            }
        }
        self.telling > 0
    }

    /// Whether a pass would find something on a board. Handler-safe.
    #[inline]
    pub(super) fn boards_left(&self) -> bool {
        self.is_asked()
            || self.waiting > 0
                && self.seats.iter().any(|seat| seat.first != NONE && seat.work_left(&self.slots))
    }
}
