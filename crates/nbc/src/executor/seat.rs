//! A board with the collectives that stand in line for it, and what its members have to be told. Handler-safe but where it
//! says otherwise.

use super::{Active, failed_member};
use crate::Group;
use crate::board::{Call, Look, Made};
use crate::messages::Messages;
use crate::schedule::{Line, NONE};
use core::ops::Range;
use tocsin_progress::budget::Budget;
use tocsin_progress::completion::{Code, Completion, Outcome};
use tocsin_progress::slots::Slots;
use tocsin_transport::board::{ALL_PLACES, Board, Part, Why};

pub(super) type Table = Slots<Active, Completion>;

/// Where a reduction puts a part before it combines it.
pub(super) type Scratch = Box<[Line]>;

/// Where a collective stands in its board's line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The board's number, or [`NONE`] for what stands in no line.
    pub(super) at: u32,
    /// Whether its part is posted, and under which number.
    pub(super) posted: bool,
    pub(super) number: u32,
    /// How many of its rounds behind that one are posted, too.
    pub(super) ahead: u32,
    /// Whether those were rung who owe what it waits for.
    pub(super) called: bool,
    /// Whether somebody waits for its end, or is to hear of it without a call: others are to ring for the last part.
    pub(super) wanted: bool,
    /// Whether this rank has said so to them.
    pub(super) waits: bool,
    /// Members whose parts have been seen.
    pub(super) seen: u32,
    /// A member whose part is about something else, though this rank does not need it; or [`NONE`].
    pub(super) odd: u32,
    /// Of a long part: how much is copied in, before it is posted; and of the result, how much is made.
    pub(super) filled: usize,
    pub(super) made: Made,
    pub(super) before: u32,
    pub(super) next: u32,
}

impl Place {
    #[inline]
    pub(super) fn is_somewhere(&self) -> bool {
        self.at != NONE
    }

    pub(super) const NOWHERE: Place = Place {
        at: NONE,
        posted: false,
        number: 0,
        ahead: 0,
        called: false,
        wanted: false,
        waits: false,
        seen: 0,
        odd: NONE,
        filled: 0,
        made: Made::NOTHING,
        before: NONE,
        next: NONE,
    };

    /// What there is of the parts.
    #[inline]
    pub(super) fn look(&self, call: &Call, board: &Board, seen: &mut u32) -> Look {
        if self.odd == NONE { call.look(board, self.number, seen) } else { Look::Wrong(self.odd as usize) }
    }
}

/// Whether the board is of use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tenancy {
    /// To its communicator.
    Open,
    /// To what its communicator has left in line, and to those who have to be told.
    Closing,
    /// To the other members, perhaps.
    Left,
    /// To nobody: the seat is free.
    Over,
}

/// A board and its line.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) board: Board,
    pub(super) group: Group,
    pub(super) first: u32,
    pub(super) last: u32,
    /// The first of which something is to be posted.
    pub(super) unposted: u32,
    /// The last number that was a round of several here: as it is for all, who owes any has posted none after it.
    pub(super) round: Option<u32>,
    /// Members that are to be rung, if they still wait for `told`.
    pub(super) telling: u64,
    pub(super) told: u32,
    /// The numbers of this rank are no longer those of the others, or one of them has lied. No more is posted.
    pub(super) broken: bool,
    pub(super) tenancy: Tenancy,
    /// All members have joined, and how each is rung is known.
    pub(super) rings_ready: bool,
    /// Value of [`Messages::failures`] at which all members were found alive.
    pub(super) alive_at: Option<u64>,
    /// How often the next post looks.
    pub(super) moment: u32,
    /// The last collective of the communicator that was begun here, on the board or not.
    pub(super) begun: Option<u32>,
    /// The context of what has gone by messages, if anything has: then others may ask this rank to look.
    pub(super) elsewhere: Option<u32>,
    /// Members that are to be rung because they are asked to look, among those in `telling`.
    pub(super) asking: u64,
    /// The member for whose sake this rank has given up.
    pub(super) blamed: u32,
    /// From which collective on it refuses, if it has.
    pub(super) refuses_from: Option<u32>,
    /// By place: so many bytes are allocated of this rank's long memory.
    pub(super) long: [usize; ALL_PLACES],
}

/// How often a post looks for what others post at the same time, before it leaves a request that is ended by another call: at most some
/// 200 ns, about what such a call takes. Less where it was in vain.
const MOMENT: u32 = 64;
const LEAST: u32 = 4;

impl Seat {
    /// Nobody stands in line. `group` has the board's members. User threads only: may allocate.
    pub(super) fn new(board: Board, group: &Group) -> Seat {
        Seat {
            board,
            group: group.clone(),
            first: NONE,
            last: NONE,
            unposted: NONE,
            round: None,
            telling: 0,
            told: 0,
            broken: false,
            tenancy: Tenancy::Open,
            rings_ready: false,
            alive_at: None,
            moment: MOMENT,
            begun: None,
            elsewhere: None,
            asking: 0,
            blamed: 0,
            refuses_from: None,
            long: [0; ALL_PLACES],
        }
    }

    /// The last number with which this rank is done.
    pub(super) fn done(&self, slots: &Table) -> u32 {
        match active(slots, self.first) {
            Some(first) if first.place.posted => first.place.number.wrapping_sub(1),
            _ => self.board.posted(),
        }
    }

    /// How all that is begun ends from the beginning: a member is dead, or this rank has given up.
    #[inline]
    pub(super) fn ends_at_once<M: Messages>(&mut self, messages: &M) -> Option<Outcome> {
        let failures = Some(messages.failures());
        if self.alive_at != failures {
            let dead = failed_member(messages, &self.group);
            if dead.is_some() {
                return dead;
            }
            self.alive_at = failures;
        }
        if self.broken { Some(self.disagree(self.blamed)) } else { None }
    }

    /// Whether a member waits for what was posted under `told`.
    pub(super) fn still_waits(&self, member: usize) -> bool {
        let asked = self.asking >> (member & 63) & 1 == 1;
        asked
            || self.board.gave_up()
            || self.board.waits(member, self.told)
            || self.board.is_stuck(member, self.told)
    }

    pub(super) fn group(&self) -> &Group {
        &self.group
    }

    /// Posts this rank's part, whole, on a user's thread: its number.
    ///
    /// # Safety
    /// The part is readable. There is room for it.
    #[inline]
    pub(super) unsafe fn post(&mut self, call: &Call) -> u32 {
        // SAFETY: promised by the caller; what fits into no slot is long.
        unsafe {
            match call.long {
                false => self.board.post(call.about, call.from, call.bytes),
                true => {
                    let mut filled = 0;
                    call.next_place(&mut self.board);
                    while !call.fill(&mut self.board, &mut filled, &mut Budget::user()) {}
                    call.post_long(&mut self.board)
                }
            }
        }
    }

    /// Makes the result of a call [in parts](Call::is_made_in_parts), which are there, as far as the budget allows: bytes copied and combined, and how that ended if it
    /// has.
    ///
    /// # Safety
    /// As [`make`](Self::make).
    pub(super) unsafe fn make_long(
        &mut self,
        call: &Call,
        number: u32,
        (made, scratch): (&mut Made, &mut Scratch),
        budget: &mut Budget,
    ) -> (usize, Option<Outcome>) {
        let (before, made_before) = (budget.bytes_left(), *made);
        // SAFETY: promised by the caller; scratch: as in `make`.
        let result =
            unsafe { call.make_long(&self.board, number, (&mut *made, scratch.as_mut_ptr().cast()), budget) };
        let bytes = made.bytes_since(&made_before, call, before.saturating_sub(budget.bytes_left()));
        if call.has_long_parts() && !matches!(result, Ok(false)) {
            self.board.exchange(number);
            self.board.note_long_done(number);
        }
        let outcome = match result {
            Ok(false) => return (bytes, None),
            Ok(true) => Outcome::default(),
            Err(_panicked) => Outcome { code: Code::UserOperatorPanicked, ..Outcome::default() },
        };
        if call.sees_all(&self.board) {
            self.board.note_done_with_all(number);
        }
        (bytes, Some(outcome))
    }

    /// Makes the result of a call whose parts are there, on a user's thread if that is made in parts: bytes copied and combined, and how that ended.
    ///
    /// # Safety
    /// The memory of the result is valid, and nobody else uses it. This rank's part is readable, and has not changed since it was posted.
    #[inline]
    pub(super) unsafe fn make(
        &mut self,
        call: &Call,
        number: u32,
        scratch: &mut Scratch,
    ) -> (usize, Outcome) {
        if call.is_made_in_parts() {
            let (mut made, mut whole) = (Made::default(), 0usize);
            loop {
                // SAFETY: promised by the caller.
                let (bytes, outcome) =
                    unsafe { self.make_long(call, number, (&mut made, &mut *scratch), &mut Budget::user()) };
                whole = whole.saturating_add(bytes);
                if let Some(outcome) = outcome {
                    return (whole, outcome);
                }
            }
        }
        // SAFETY: - the result and the part: promised by the caller; how they may lie was checked with the arguments
        //         - scratch: ROOM bytes, made when the first board was opened.
        let made = unsafe { call.make(&self.board, number, scratch.as_mut_ptr().cast()) };
        if call.sees_all(&self.board) {
            self.board.note_done_with_all(number);
        }
        match made {
            Ok(()) => (call.work(&self.board), Outcome::default()),
            Err(_panicked) => (0, Outcome { code: Code::UserOperatorPanicked, ..Outcome::default() }),
        }
    }

    /// Looks for the parts of what was just posted, on a user's thread.
    #[inline]
    pub(super) fn look_for_a_moment(&mut self, call: &Call, number: u32, seen: &mut u32) -> Look {
        let mut look = call.look(&self.board, number, seen);
        if look == Look::Waits {
            look = self.look_again(call, number, seen);
        }
        self.moment = match look {
            Look::Waits => (self.moment / 2).max(LEAST),
            _ => self.moment.wrapping_mul(2).min(MOMENT),
        };
        look
    }

    #[inline(never)]
    fn look_again(&self, call: &Call, number: u32, seen: &mut u32) -> Look {
        let looks = (0..self.moment).map(|_| call.look(&self.board, number, seen));
        looks.into_iter().find(|look| *look != Look::Waits).unwrap_or(Look::Waits)
    }

    /// Notes whom a post leaves to be rung. What the look at the parts has found, or a member that was found on the way whose part is
    /// about something else.
    #[inline]
    pub(super) fn tell<M: Messages>(
        &mut self,
        messages: &mut M,
        call: &Call,
        number: u32,
        look: Look,
        telling: &mut u32,
    ) -> Look {
        if look == Look::Ready && call.sees_all(&self.board) {
            self.tell_with_all(messages, call, number, telling);
            return look;
        }
        let (owed, odd) = owed(&self.board, call, number, look);
        if owed != 0 {
            self.tell_those(messages, owed, number, telling);
        }
        odd.map_or(look, Look::Wrong)
    }

    /// [`tell`](Self::tell) where this rank has seen the parts of all.
    #[inline]
    pub(super) fn tell_with_all<M: Messages>(
        &mut self,
        messages: &mut M,
        call: &Call,
        number: u32,
        telling: &mut u32,
    ) {
        let owed = owed_with_all(&self.board, call, number);
        if owed != 0 {
            self.tell_those(messages, owed, number, telling);
        }
    }

    #[inline]
    fn tell_those<M: Messages>(&mut self, messages: &mut M, owed: u64, number: u32, telling: &mut u32) {
        if self.telling == 0 {
            *telling = telling.wrapping_add(1);
        } else {
            // Seldom: those of an older number are rung, whether they still wait or not.
            ring(self, messages);
            self.asking = 0;
        }
        (self.telling, self.told) = (owed, number);
    }

    /// How it ends for what a member has shown of a number that this rank has just posted: the member may have given up because of one that has left. `sequence`: which
    /// collective that is.
    #[cold]
    pub(super) fn found_wrong<M: Messages>(
        &mut self,
        messages: &M,
        (number, member): (u32, usize),
        sequence: u32,
        slots: &Table,
        telling: &mut u32,
    ) -> Outcome {
        // Who does something else is to blame for that himself.
        let place = Place { posted: true, number, ..Place::NOWHERE };
        let gave_up = self.board.part(member, number) == Part::Never;
        let left =
            if gave_up { self.lacks_for_ever(messages, &place, 0..self.board.members()) } else { None };
        let position = |left| self.group.world_ranks().iter().position(|rank| Some(*rank) == left);
        let outcome = self.blame_from(position(left).unwrap_or(member), Some(sequence), slots, telling);
        left.map_or(outcome, |source| Outcome { code: Code::PeerFinalized, source, ..Outcome::default() })
    }

    /// How it ends for what a member has shown; [gives up](Self::give_up_from) for that.
    #[cold]
    pub(super) fn blame_from(
        &mut self,
        member: usize,
        from: Option<u32>,
        slots: &Table,
        telling: &mut u32,
    ) -> Outcome {
        self.give_up_from(member as u32, from, slots, telling);
        self.disagree(member as u32)
    }

    /// How it ends where a member does something else, or has given up.
    pub(super) fn disagree(&self, member: u32) -> Outcome {
        let (code, member) = match self.board.why(member as usize) {
            Some((Why::Memory, short)) => (Code::OutOfMemory, short as u32),
            Some((Why::Panic, panicked)) => (Code::UserOperatorPanicked, panicked as u32),
            None => (Code::Protocol, member),
        };
        let source = self.group.world_rank(member).unwrap_or(u32::MAX);
        Outcome { code, source, ..Outcome::default() }
    }

    /// Posts and begins no more, for a member's sake, and has all members rung: whoever needs what does not come is to hear of it.
    #[cold]
    pub(super) fn give_up(&mut self, member: u32, slots: &Table, telling: &mut u32) {
        self.give_up_from(member, None, slots, telling);
    }

    /// The same where what was begun has failed from this collective on: others may wait for the rest of its messages, or have some for what they do in its place. That may
    /// be said of an older one when this rank has given up already.
    #[cold]
    pub(super) fn give_up_from(&mut self, member: u32, from: Option<u32>, slots: &Table, telling: &mut u32) {
        self.broken = true;
        // Numbers wrap.
        let is_before = |number: u32, other: u32| (number.wrapping_sub(other) as i32) < 0;
        let first = match self.refuses_from {
            Some(refused) => match from.filter(|from| is_before(*from, refused)) {
                Some(from) => from,
                None => return,
            },
            None => {
                self.blamed = member;
                if let Some((why, whom)) = self.board.why(member as usize) {
                    self.board.say_why(why, whom);
                }
                // What stands in line is never posted, whatever was begun behind it.
                let next = self.begun.map_or(0, |begun| begun.wrapping_add(1));
                let unposted = active(slots, self.unposted).map_or(next, |first| first.sequence);
                from.filter(|from| is_before(*from, unposted)).unwrap_or(unposted)
            }
        };
        self.refuses_from = Some(first);
        self.board.refuse(first);
        self.board.give_up();
        if self.telling == 0 {
            *telling = telling.wrapping_add(1);
        }
        let me = self.board.me();
        for other in (0..self.board.members()).filter(|member| *member != me) {
            self.telling |= 1 << (other & 63);
            // Who has left writes in no other's area. Nothing is begun after that either.
            if matches!(self.tenancy, Tenancy::Open | Tenancy::Closing) {
                self.board.ask(other);
            }
        }
        self.asking = self.telling;
    }

    /// Leaves the board when its communicator is gone, nothing stands in line, and nobody is to be told anything.
    #[inline]
    pub(super) fn leave_if_over(&mut self) {
        if self.tenancy == Tenancy::Closing && self.first == NONE && self.telling == 0 {
            self.board.leave();
            self.tenancy = Tenancy::Left;
        }
    }

    /// A world rank that has left without the part that the first of the line waits for: one of those that it needs,
    /// or where it is not posted, of those that its room needs.
    pub(super) fn lacks_for_ever<M: Messages>(
        &self,
        messages: &M,
        first: &Place,
        needed: Range<usize>,
    ) -> Option<u32> {
        let (members, number) = match first.posted {
            true => (needed.start.max(first.seen as usize)..needed.end, first.number),
            false => (0..self.board.members(), self.board.lacking()),
        };
        members.filter(|member| *member != self.board.me()).find_map(|member| {
            let rank = self.group.world_rank(member as u32)?;
            // In this order: whoever is seen to have left has posted before all that it ever will.
            let left = messages.has_finalized(rank);
            (left && self.board.part(member, number) == Part::Missing).then_some(rank)
        })
    }

    /// Has a member rung, whether it waits or not.
    pub(super) fn have_look(&mut self, member: usize, telling: &mut u32) {
        if self.telling == 0 {
            *telling = telling.wrapping_add(1);
        }
        let bit = 1 << (member & 63);
        (self.telling, self.asking) = (self.telling | bit, self.asking | bit);
    }

    /// Whether a pass would find something.
    pub(super) fn work_left(&self, slots: &Table) -> bool {
        let first = active(slots, self.first);
        let ends = first.is_some_and(|first| {
            let Place { posted, mut seen, number, made, .. } = first.place;
            let call = first.call.as_ref();
            let looks = |call: &Call| {
                first.place.look(call, &self.board, &mut seen) != Look::Waits
                    || call.is_ahead(&self.board, number, &made)
            };
            if posted { call.is_some_and(looks) } else { self.broken }
        });
        ends || !self.broken && may_post(self, slots, true) && self.board.would_have_room(self.done(slots))
    }
}

pub(super) fn active(slots: &Table, slot: u32) -> Option<&Active> {
    // The end of a line is met most often.
    if slot == NONE { None } else { slots.get(slots.by_index(slot)?) }
}

pub(super) fn active_mut(slots: &mut Table, slot: u32) -> Option<&mut Active> {
    let id = if slot == NONE { None } else { slots.by_index(slot) };
    slots.get_mut(id?)
}

/// Whether something in line is to be posted as soon as there is room. What goes in rounds posts one when it has made those in front of it; and `ahead` of that when another
/// member has posted that one, which may wait for it.
#[inline]
pub(super) fn may_post(seat: &Seat, slots: &Table, ahead: bool) -> bool {
    active(slots, seat.unposted).is_some_and(|next| !next.place.posted || ahead && seat.is_behind())
}

/// Whether the next may be posted. If not, who posts what is lacking will ring.
#[inline]
pub(super) fn has_room(seat: &mut Seat, slots: &Table) -> bool {
    let done = seat.done(slots);
    if seat.board.has_room(done) {
        return true;
    }
    loop {
        let lacking = seat.board.lacking();
        seat.board.be_stuck();
        if seat.board.has_room(done) {
            return true;
        }
        if seat.board.lacking() == lacking {
            return false;
        }
    }
}

/// The members that the post of a number leaves to be rung, where this rank has seen the parts of all: those that wait for the last.
#[inline]
fn owed_with_all(board: &Board, call: &Call, number: u32) -> u64 {
    let (me, members) = (board.me(), board.members());
    let mut owed = 0;
    for member in 0..members {
        let needs = call.needs(member, members).contains(&me);
        if member != me && (needs && board.waits(member, number) || board.is_stuck(member, number)) {
            owed |= 1 << (member & 63);
        }
    }
    owed
}

/// The members that the post of a number leaves to be rung: those that wait for this part, or for it as the last of all. And a
/// member, if the look has not found one already, whose part is about something else.
fn owed(board: &Board, call: &Call, number: u32, look: Look) -> (u64, Option<usize>) {
    let (me, members) = (board.me(), board.members());
    let others = || (0..members).filter(|member| *member != me);
    let mut odd = None;
    let mut is_here = |member| match board.part(member, number) {
        Part::Here { about } if about == call.about => true,
        Part::Missing => false,
        Part::Here { .. } | Part::Never | Part::Corrupt => {
            odd = Some(member);
            true
        }
    };
    // So many are here, from the first on. Who lacks some of the first ones need not look for more: nobody who needs its part has all that he needs.
    let lacks = look == Look::Waits && call.needs(me, members).start == 0;
    let here = if lacks { 0 } else { others().find(|member| !is_here(*member)).unwrap_or(members) };
    let is_last = |member: usize| {
        let needed = call.needs(member, members);
        needed.contains(&me) && (needed.len() == 1 || needed.end <= here)
    };
    let rung = |member: &usize| {
        is_last(*member) && board.waits(*member, number) || here == members && board.is_stuck(*member, number)
    };
    (others().filter(rung).fold(0, |owed, member| owed | 1 << (member & 63)), odd)
}

#[cold]
pub(super) fn ring<M: Messages>(seat: &Seat, messages: &mut M) {
    let mut left = seat.telling;
    while left != 0 {
        if let Some(rank) = seat.group.world_rank(left.trailing_zeros()) {
            messages.announce(rank);
        }
        left &= left.wrapping_sub(1);
    }
}
