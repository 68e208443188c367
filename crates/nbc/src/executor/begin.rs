//! The beginning of collectives on boards, by a user's thread: what is over in the call that begins it takes no place in a line.

use super::list::StepList;
use super::long::Posts;
use super::run::record_end;
use super::seat::{Place, has_room};
use super::{Active, Nbc, Stage, or_death, record_start};
use crate::Error;
use crate::board::{Call, Look};
use crate::messages::Messages;
use crate::schedule::NONE;
use tocsin_progress::budget::{Budget, Context, Pass};
use tocsin_progress::completion::{Code, Outcome};
use tocsin_progress::slots::{Id, OutOfMemory};

/// What came of a [post on a board](Nbc::post_on_board).
#[derive(Clone, Copy, Debug)]
pub enum Posted {
    /// It has ended, well, and left nothing to release.
    Done,
    /// It has ended with an error, and left nothing to release.
    Failed(Outcome),
    /// It goes on, as any collective does.
    Waits(Id),
}

/// What came of the beginning of a collective on a board.
enum Begun {
    /// It has ended, well.
    Done,
    /// It has ended with an error.
    Failed(Outcome),
    /// It goes on: its instance in the trace and its start there; and under which number it is posted, if it is, and how many members' parts have been seen.
    Waits { traced: (u16, u64), posted: Option<(u32, u32)> },
}

impl Nbc {
    /// As [`post`](Self::post), of what is done on a board, without a schedule: where all parts that it needs are there
    /// already, it takes nothing but the look at them. `call` is [numbered](Call::number). User threads only.
    ///
    /// # Safety
    /// As [`post`](Self::post).
    ///
    /// # Errors
    /// Memory refused; nothing has been posted then.
    pub unsafe fn post_on_board<M: Messages>(
        &mut self,
        messages: &mut M,
        call: &Call,
        context: u32,
        sequence: u32,
    ) -> Result<Posted, Error> {
        self.collect(messages);
        self.prepare_rings(messages, call.board);
        if call.long {
            self.prepare_long(messages, call, Posts::Now)?;
        }
        let memory = |_| Error::OutOfMemory { bytes: size_of::<Active>() };
        self.slots.reserve(1).map_err(memory)?;
        if self.seats.len() <= call.board as usize {
            return Err(Error::BadSchedule("its group's board was never opened"));
        }
        // SAFETY: promised by the caller.
        let (traced, posted) = match unsafe { self.begin_on_board(messages, call, context, sequence) } {
            Begun::Done => return Ok(Posted::Done),
            Begun::Failed(outcome) => return Ok(Posted::Failed(outcome)),
            Begun::Waits { traced, posted } => (traced, posted),
        };
        // Reserved above.
        let Some(id) = self.slots.alloc() else { return Err(memory(OutOfMemory)) };
        let Some((active, completion)) = self.slots.both_mut(id) else { return Err(memory(OutOfMemory)) };
        completion.reset();
        active.schedule = None;
        active.kept = None;
        active.call = Some(*call);
        active.context = context;
        active.detached = false;
        active.ready = StepList::EMPTY;
        active.deferred = StepList::EMPTY;
        self.goes_on(messages, id, sequence, traced, posted);
        Ok(Posted::Waits(id))
    }

    /// As [`start`](Self::start), of what is prepared and does short things on a board. False: it is something else, or there is more to be said of it; nothing
    /// has been done.
    ///
    /// # Safety
    /// As [`post`](Self::post).
    #[inline]
    pub(super) unsafe fn start_short<M: Messages>(
        &mut self,
        messages: &mut M,
        id: Id,
        sequence: u32,
    ) -> bool {
        let Some((active, completion)) = self.slots.both_mut(id) else { return false };
        if active.stage != Stage::Resting || active.schedule.as_ref().is_none_or(|of| !of.steps.is_empty()) {
            return false;
        }
        let Some(call) = active.call.as_mut().filter(|call| !call.long) else { return false };
        if self.seats.get(call.board as usize).is_none_or(|seat| !seat.rings_ready) {
            return false;
        }
        call.number(sequence);
        let me = active.schedule.as_ref().map_or(0, |schedule| schedule.group.rank());
        // SAFETY: promised by the caller.
        unsafe { call.pack(me as usize) };
        let (call, context) = (*call, active.context);
        active.run = active.run.wrapping_add(1);
        completion.reset();
        // SAFETY: promised by the caller.
        let outcome = match unsafe { self.begin_on_board(messages, &call, context, sequence) } {
            Begun::Done => Outcome::default(),
            Begun::Failed(outcome) => outcome,
            Begun::Waits { traced, posted } => {
                self.goes_on(messages, id, sequence, traced, posted);
                return true;
            }
        };
        if let Some((active, completion)) = self.slots.both_mut(id) {
            active.sequence = sequence;
            completion.finish(outcome);
        }
        true
    }

    /// Posts on a board what nothing stands in line before, and ends it if all parts are there.
    ///
    /// # Safety
    /// As [`post`](Self::post).
    #[inline]
    unsafe fn begin_on_board<M: Messages>(
        &mut self,
        messages: &mut M,
        call: &Call,
        context: u32,
        sequence: u32,
    ) -> Begun {
        let Nbc { seats, slots, telling, scratch, trace, instance, copied, .. } = self;
        let Some(seat) = seats.get_mut(call.board as usize) else {
            return Begun::Failed(Outcome { code: Code::Protocol, ..Outcome::default() });
        };
        let traced = match trace {
            Some(trace) => record_start(trace, instance, (context, sequence, call.algorithm), &seat.group),
            None => (0, 0),
        };
        seat.begun = Some(sequence);
        seat.board.begin_here(sequence);
        let outcome = if let Some(outcome) = seat.ends_at_once(messages) {
            outcome
        } else if call.is_round() || seat.first != NONE || !has_room(seat, slots) {
            return Begun::Waits { traced, posted: None };
        } else {
            // SAFETY: - the part: promised by the caller; it fits, or else there would be no call.
            let number = unsafe { seat.post(call) };
            let mut seen = 0;
            let mut look = seat.look_for_a_moment(call, number, &mut seen);
            if look == Look::Ready && call.sees_all(&seat.board) {
                seat.tell_with_all(messages, call, number, telling);
            } else {
                look = seat.tell(messages, call, number, look, telling);
                seat.ask(call, number, sequence, look, telling);
            }
            match look {
                Look::Ready => {
                    // SAFETY: - the result and the part: promised by the caller.
                    let (bytes, outcome) = unsafe { seat.make(call, number, scratch) };
                    copied.add(Context::User, bytes);
                    if outcome.code == Code::Ok && trace.is_none() {
                        return Begun::Done;
                    }
                    outcome
                }
                Look::Wrong(member) => seat.found_wrong(messages, (number, member), sequence, slots, telling),
                Look::Waits => return Begun::Waits { traced, posted: Some((number, seen)) },
            }
        };
        self.over_at_once(messages, call, traced, outcome)
    }

    /// What was begun on a board, of which this slot tells, stands in line there, posted or not.
    fn goes_on<M: Messages>(
        &mut self,
        messages: &mut M,
        id: Id,
        sequence: u32,
        traced: (u16, u64),
        posted: Option<(u32, u32)>,
    ) {
        let Some(active) = self.slots.get_mut(id) else { return };
        let Some(at) = active.call.as_ref().map(|call| call.board) else { return };
        active.sequence = sequence;
        (active.instance, active.begun) = traced;
        active.stage = Stage::Running;
        self.running += 1;
        self.line_up(id, at);
        if let Some((number, seen)) = posted {
            self.is_posted(id, at, number, seen);
        }
        while self.advance(messages, at, &mut Budget::user(), true) == Pass::More {}
    }

    /// What was begun on a board is over in the call that began it.
    #[cold]
    fn over_at_once<M: Messages>(
        &mut self,
        messages: &mut M,
        call: &Call,
        traced: (u16, u64),
        outcome: Outcome,
    ) -> Begun {
        let seat = self.seats.get(call.board as usize);
        // Given up here: what others do by messages beside it ends, too, whoever is to blame.
        let gave_up = seat.is_some_and(|seat| seat.broken);
        let outcome = seat.map_or(outcome, |seat| match outcome.code {
            Code::PeerFinalized => {
                // It may have left because of a death that this rank has yet to hear of.
                let blamed = messages.blame(seat.group.world_ranks());
                blamed.map_or(outcome, |(source, code)| Outcome { code, source, ..outcome })
            }
            _ => or_death(messages, &seat.group, outcome),
        });
        if let Some(trace) = &self.trace {
            record_end(trace, traced, call.algorithm, outcome.code);
        }
        if gave_up {
            self.look_beside(messages, call.board);
        }
        if outcome.code == Code::Ok { Begun::Done } else { Begun::Failed(outcome) }
    }

    /// What was lined up, as the only one, is posted already, and waits.
    fn is_posted(&mut self, id: Id, at: u32, number: u32, seen: u32) {
        if let Some(active) = self.slots.get_mut(id) {
            active.place = Place { at, posted: true, number, seen, ..Place::NOWHERE };
        }
        if let Some(seat) = self.seats.get_mut(at as usize) {
            seat.unposted = NONE;
        }
    }
}
