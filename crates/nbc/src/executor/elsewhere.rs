//! Collectives by messages on a communicator that has a board: whether the others do them likewise. Handler-safe.
//!
//! The protocol is [`tocsin_transport::board`]'s (`board/elsewhere.rs`). Who is asked to look, or looks because it has begun something, compares what
//! another member's next part is about with what it has begun itself: if it has posted all that it has lined up, the part is about something
//! that it has yet to begin, or else the ranks disagree. Who has given up refuses what comes later by messages, too; who waits for it by messages
//! hears of that likewise.

use super::seat::{Seat, Tenancy};
use super::{Nbc, Stage, or_death};
use crate::board::{Call, Look, number_of};
use crate::messages::Messages;
use crate::schedule::NONE;
use tocsin_progress::budget::{Budget, Pass};
use tocsin_progress::completion::{Code, Outcome};
use tocsin_progress::slots::Id;
use tocsin_transport::board::{Part, SLOTS, Why};

impl Seat {
    /// Asks those to look whose part of what was just posted is missing and who have begun that, or something later, by messages.
    #[inline]
    pub(super) fn ask(&mut self, call: &Call, number: u32, sequence: u32, look: Look, telling: &mut u32) {
        let me = self.board.me();
        // Who has seen the parts of all has nobody to ask.
        if look == Look::Ready && call.sees_all(&self.board) {
            return;
        }
        for member in (0..self.board.members()).filter(|member| *member != me) {
            if self.board.has_gone_elsewhere(member, sequence)
                && self.board.part(member, number) == Part::Missing
            {
                self.ask_one(member, telling);
            }
        }
    }

    #[cold]
    fn ask_one(&mut self, member: usize, telling: &mut u32) {
        self.board.ask(member);
        self.have_look(member, telling);
    }

    /// Whether a member wants this rank to look.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.elsewhere.is_some() && self.board.is_asked()
    }

    /// Begins a collective by messages: how it ends if this rank has given up, because the others cannot know any more what it does.
    pub(super) fn begin_elsewhere(&mut self, sequence: u32) -> Option<Outcome> {
        if self.board.gave_up() {
            return Some(self.disagree(self.blamed));
        }
        self.begun = Some(sequence);
        None
    }

    /// Whether the communicator of a context still has the board. What was dropped while it went on may end after its communicator.
    fn is_still_of(&self, context: u32) -> bool {
        matches!(self.tenancy, Tenancy::Open | Tenancy::Closing) && self.board.is_of(context)
    }

    /// A member whose next part is about something that this rank has begun, by messages then, with its number, or that refuses what this rank has begun. Nobody
    /// where something is lined up: that is posted first, lest nobody else hears what it was.
    fn odd_one(&self) -> Option<(usize, Option<u32>)> {
        let begun = self.begun.filter(|_| self.unposted == NONE)?;
        let me = self.board.me();
        // Numbers wrap.
        let is_odd = |about| number_of(about).wrapping_sub(begun) as i32 <= 0;
        let mut others = (0..self.board.members()).filter(|member| *member != me);
        others.find_map(|member| match self.board.next_part(member) {
            // It may have posted what comes after what it has given up.
            Part::Here { about } if is_odd(about) => Some((member, Some(number_of(about)))),
            Part::Here { .. } | Part::Never => self.board.refuses(member, begun).then_some((member, None)),
            Part::Missing | Part::Corrupt => None,
        })
    }

    /// Who refuses the collective of this number; itself, if nobody else does.
    #[cold]
    fn refuses(&self, number: u32) -> Option<u32> {
        let me = self.board.me();
        let others = (0..self.board.members()).filter(|member| *member != me);
        let other =
            others.filter(|member| self.board.refuses(*member, number)).map(|member| member as u32).next();
        other.or_else(|| self.board.refuses(me, number).then_some(self.blamed))
    }

    /// A member that has posted a part of the collective of this number, which this rank does by messages alone.
    #[cold]
    fn does(&self, number: u32) -> Option<usize> {
        let posted = self.board.posted();
        let is_here = |member, at| match self.board.part(member, at) {
            Part::Here { about } => number_of(about) == number,
            Part::Missing | Part::Never | Part::Corrupt => false,
        };
        let me = self.board.me();
        (0..self.board.members()).filter(|member| *member != me).find(|member| {
            // All that slots may hold.
            let mut numbers =
                (0..2 * SLOTS as u32).map(|n| posted.wrapping_sub(SLOTS as u32).wrapping_add(n));
            numbers.any(|at| is_here(*member, at))
        })
    }
}

impl Nbc {
    /// Something of a communicator that has a board goes by messages: others may ask this rank to look.
    pub(super) fn expose(&mut self, at: u32, context: u32) {
        if let Some(seat) = self.seats.get_mut(at as usize)
            && seat.elsewhere.replace(context).is_none()
        {
            self.exposed = self.exposed.wrapping_add(1);
        }
    }

    /// A collective of a communicator that has a board was begun by messages. Says so there, and looks whether the others do likewise. It
    /// may have ended already.
    pub(super) fn go_elsewhere<M: Messages>(
        &mut self,
        messages: &mut M,
        at: u32,
        context: u32,
        sequence: u32,
    ) {
        self.expose(at, context);
        let Some(seat) = self.seats.get_mut(at as usize) else { return };
        seat.begun = Some(sequence);
        seat.board.go_elsewhere(sequence);
        if self.look_elsewhere(messages, at) {
            // What stands in line is never posted any more.
            while self.advance(messages, at, &mut Budget::user(), false) == Pass::More {}
        }
    }

    /// Looks where this rank was asked to.
    #[cold]
    pub(super) fn look_where_asked<M: Messages>(&mut self, messages: &mut M) {
        for at in 0..self.seats.len() as u32 {
            if let Some(seat) = self.seats.get(at as usize).filter(|seat| seat.is_asked()) {
                seat.board.take_asked();
                self.look_elsewhere(messages, at);
            }
        }
    }

    /// Looks, if anything has gone by messages: this rank may have given up, and what goes by messages here may then never end.
    #[inline]
    pub(super) fn look_beside<M: Messages>(&mut self, messages: &mut M, at: u32) {
        if self.exposed > 0 {
            self.look_elsewhere(messages, at);
        }
    }

    /// Whether this rank was asked to look at any board.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.exposed > 0 && self.seats.iter().any(Seat::is_asked)
    }

    /// Ends what others do on the board and this rank by messages. Whether this rank has given up, now or before.
    #[inline]
    pub(super) fn look_elsewhere<M: Messages>(&mut self, messages: &mut M, at: u32) -> bool {
        let Nbc { seats, slots, telling, .. } = self;
        let Some(seat) = seats.get_mut(at as usize) else { return false };
        if let Some((member, from)) = seat.odd_one().filter(|_| !seat.broken) {
            seat.blame_from(member, from, slots, telling);
        }
        let broken = seat.broken;
        if broken {
            self.fail_beside(messages, at);
        }
        broken
    }

    /// What goes by messages fails here for a reason that nobody else knows: those who wait for the rest of it are to hear of that. (Where
    /// its communicator has no board, its user revokes it.)
    #[cold]
    pub(super) fn give_up_beside(&mut self, id: Id, outcome: Outcome) {
        let Nbc { seats, slots, telling, .. } = self;
        let Some(active) = slots.get(id).filter(|active| active.has_messages()) else { return };
        let at = active.schedule.as_ref().and_then(|schedule| schedule.group.board());
        let Some(seat) = at.and_then(|at| seats.get_mut(at as usize)) else { return };
        if !seat.is_still_of(active.context) {
            return;
        }
        let (from, me) = (active.sequence, seat.board.me());
        let panicked = outcome.code == Code::UserOperatorPanicked;
        let other = seat.group.world_ranks().iter().position(|rank| !panicked && *rank == outcome.source);
        if panicked && !seat.board.gave_up() {
            seat.board.say_why(Why::Panic, me);
        }
        // Who refuses it already has all hear of that, and is to blame.
        let is_refused =
            (0..seat.board.members()).any(|member| member != me && seat.board.refuses(member, from));
        let from = (!is_refused).then_some(from);
        seat.give_up_from(other.unwrap_or(me) as u32, from, slots, telling);
    }

    /// How what goes by messages ends where a member has given it up, and took a message back for that: as that member says on the board.
    /// Where there is none, it has its user revoke the communicator.
    #[cold]
    pub(super) fn given_up_by(&self, id: Id, cancelled: Outcome) -> Outcome {
        let Some(active) = self.slots.get(id) else { return cancelled };
        let at = active.schedule.as_ref().and_then(|schedule| schedule.group.board());
        let Some(at) = at else { return Outcome { code: Code::Revoked, ..cancelled } };
        let Some(seat) = self.seats.get(at as usize).filter(|seat| seat.is_still_of(active.context)) else {
            return cancelled;
        };
        let member = seat.group.world_ranks().iter().position(|rank| *rank == cancelled.source);
        // Who gave up said so before. Else it knows of an end of which this rank has yet to hear.
        match member.filter(|member| seat.board.refuses(*member, active.sequence)) {
            Some(member) => seat.disagree(member as u32),
            None => cancelled,
        }
    }

    /// The ranks disagree about something: ends what goes by messages here and stands on the board elsewhere, or is refused.
    #[cold]
    fn fail_beside<M: Messages>(&mut self, messages: &mut M, at: u32) {
        for index in 0..self.slots.capacity() as u32 {
            let Some(id) = self.slots.by_index(index) else { continue };
            let (Some(active), Some(seat)) = (self.slots.get(id), self.seats.get(at as usize)) else {
                continue;
            };
            let beside = active.has_messages() && Some(active.context) == seat.elsewhere;
            if active.stage != Stage::Running || !beside {
                continue;
            }
            // What has a part on the board is ended from there, if it has yet to be posted.
            let alone = active.call.is_none();
            let does = if alone { seat.does(active.sequence) } else { None };
            let does = does.map(|member| member as u32);
            if let Some(member) = does.or_else(|| seat.refuses(active.sequence)) {
                let outcome = or_death(messages, &seat.group, seat.disagree(member));
                self.fail(messages, id, outcome);
            }
        }
    }
}
