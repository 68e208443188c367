//! What handlers reach: arrivals, ready steps, ends. Nothing here allocates, frees, waits or panics; a pass is bounded
//! by its budget, an end by the schedule's number of steps, a failure by the number of schedules and their members.

use super::list::Link;
use super::slices::{Step, copy, reduce, spread};
use super::{Active, Nbc, Stage, failed_member, is_handler};
use crate::Group;
use crate::messages::{Envelope, Messages};
use crate::schedule::{Kind, NONE, Schedule, Status, tag};
use crate::trace::{self, Ended, Stepped};
use tocsin_progress::Trace;
use tocsin_progress::budget::{Budget, Context, Pass};
use tocsin_progress::completion::{Code, Outcome};
use tocsin_progress::slots::Id;
use tocsin_sync::clock::now_ns;

/// Marks cookies as the executor's, so that none is 0.
const COOKIE: u64 = 1 << 63;
const INDEX_MASK: u64 = (1 << 24) - 1;
const RUN_MASK: u64 = (1 << 15) - 1;

/// Cookie of a step's request.
fn cookie(slot: u32, run: u16, step: u32) -> u64 {
    COOKIE
        | (u64::from(run) & RUN_MASK) << 48
        | (u64::from(slot) & INDEX_MASK) << 24
        | u64::from(step) & INDEX_MASK
}

impl Nbc {
    /// Takes up what the layer below has completed, makes exactly its dependants ready, and runs ready steps within the
    /// budget. Call it after the layer below has made progress. Handler-safe.
    ///
    /// [`Pass::More`]: the budget ended with steps left to run. Steps that only wait for a context outside handlers are
    /// not counted: see [`has_deferred_user_steps`](Self::has_deferred_user_steps).
    pub fn progress<M: Messages>(&mut self, messages: &mut M, budget: &mut Budget) -> Pass {
        let mut pass = Pass::Idle;
        if !is_handler(budget.context()) {
            self.recall_deferred();
        }
        match self.advance_all(messages, budget) {
            Pass::More => return Pass::More,
            Pass::Worked => pass = Pass::Worked,
            Pass::Idle => {}
        }
        loop {
            while let Some((cookie, outcome)) = messages.next_completed() {
                self.arrived(messages, cookie, outcome);
                pass = Pass::Worked;
            }
            if self.failures != messages.failures() {
                self.failures = messages.failures();
                self.fail_dead(messages);
                pass = Pass::Worked;
            }
            // Something has ended by its messages: what stands behind it on a board waits for nothing else, perhaps. At most once for each collective.
            while self.moved_up {
                if self.advance_all(messages, budget) == Pass::More {
                    return Pass::More;
                }
            }
            let Some(slot) = self.ready.front() else { return pass };
            if budget.exhausted() {
                return Pass::More;
            }
            budget.begin();
            self.run_one(messages, slot, budget);
            pass = Pass::Worked;
        }
    }

    /// Fails every running collective that has this world rank as a member. [`progress`](Self::progress) does it by
    /// itself when [`Messages::failures`] changes. Handler-safe.
    pub fn fail_group<M: Messages>(&mut self, messages: &mut M, dead: u32) {
        let outcome = Outcome { code: Code::PeerDead, source: dead, ..Outcome::default() };
        self.fail_where(messages, |_, group, _| group.contains(dead).then_some(outcome));
    }

    /// Fails every running collective of a context: its communicator was revoked. Handler-safe.
    pub fn fail_context<M: Messages>(&mut self, messages: &mut M, context: u32) {
        let revoked = Outcome { code: Code::Revoked, ..Outcome::default() };
        self.fail_where(messages, |_, _, of| (of == context).then_some(revoked));
    }

    /// Ends every running collective with `outcome`, and those that close as they would have: this rank leaves. No buffer is touched any more, if no peer
    /// copies any more: the caller has waited for that.
    pub fn end_all<M: Messages>(&mut self, messages: &mut M, outcome: Outcome) {
        self.fail_where(messages, |_, _, _| Some(outcome));
        for index in 0..self.slots.capacity() as u32 {
            let Some(id) = self.slots.by_index(index) else { continue };
            let closing = self.slots.get(id).filter(|active| active.stage == Stage::Closing);
            if let Some(failed) = closing.map(|active| active.failed) {
                self.fail(messages, id, failed);
            }
        }
    }

    fn fail_dead<M: Messages>(&mut self, messages: &mut M) {
        self.fail_where(messages, |messages, group, _| failed_member(messages, group));
    }

    fn fail_where<M: Messages>(
        &mut self,
        messages: &mut M,
        outcome: impl Fn(&M, &Group, u32) -> Option<Outcome>,
    ) {
        for index in 0..self.slots.capacity() as u32 {
            let Some(id) = self.slots.by_index(index) else { continue };
            let Some(active) = self.slots.get(id) else { continue };
            if active.stage != Stage::Running {
                continue;
            }
            let on_board = || self.seats.get(active.call?.board as usize).map(|seat| seat.group());
            let group = active.schedule.as_deref().map(|schedule| &schedule.group).or_else(on_board);
            let Some(group) = group else { continue };
            if let Some(outcome) = outcome(messages, group, active.context) {
                self.fail(messages, id, outcome);
            }
        }
    }

    /// Steps that a handler has put aside become ready again.
    fn recall_deferred(&mut self) {
        while let Some(slot) = self.deferred.pop(&mut self.slots, Link::Deferred) {
            let Some(active) = self.slots.by_index(slot).and_then(|id| self.slots.get_mut(id)) else {
                continue;
            };
            if let Some(schedule) = active.schedule.as_mut() {
                active.ready.append(&mut schedule.state, &mut active.deferred);
            }
            self.ready.push(&mut self.slots, slot, Link::Ready);
        }
    }

    /// A request has ended.
    fn arrived<M: Messages>(&mut self, messages: &mut M, cookie: u64, outcome: Outcome) {
        let slot = (cookie >> 24 & INDEX_MASK) as u32;
        let step = (cookie & INDEX_MASK) as u32;
        let Some(id) = self.slots.by_index(slot) else { return };
        let Some(active) = self.slots.get_mut(id) else { return };
        let is_of_this_run = cookie >> 48 & RUN_MASK == u64::from(active.run) & RUN_MASK;
        if active.stage == Stage::Resting || !is_of_this_run {
            return;
        }
        let Some(schedule) = active.schedule.as_mut() else { return };
        let Some(state) = schedule.state.get_mut(step as usize) else { return };
        if state.status != Status::Started {
            return;
        }
        // The request is reserved again: nothing to abandon.
        state.status = Status::Waiting;
        if active.stage == Stage::Closing {
            active.closing = active.closing.saturating_sub(1);
            let (left, failed) = (active.closing, active.failed);
            if left == 0 {
                self.end(id, failed);
            }
            return;
        }
        let expected = match schedule.steps.get(step as usize).map(|s| s.kind) {
            Some(Kind::Recv { bytes, .. }) => bytes as u64,
            _ => outcome.bytes,
        };
        if outcome.code == Code::Cancelled {
            // Another member has given up. Its reason may be a death that this rank has yet to hear of.
            let blamed = messages.blame(schedule.group.world_ranks());
            let blamed = blamed.map(|(source, code)| Outcome { code, source, ..outcome });
            let outcome = blamed.unwrap_or_else(|| self.given_up_by(id, outcome));
            self.fail(messages, id, outcome);
        } else if !matches!(outcome.code, Code::Ok | Code::Truncated) {
            self.fail(messages, id, outcome);
        } else if outcome.bytes != expected {
            // Less, or too much. The ranks disagree about sizes: an erroneous program, or a lying peer; or one that has heard of a death.
            let disagreed = Outcome { code: Code::Protocol, detail: expected, ..outcome };
            let outcome = super::or_death(messages, &schedule.group, disagreed);
            self.fail(messages, id, outcome);
        } else {
            self.done(id, step);
        }
    }

    /// Runs the first ready step of the first schedule, which then goes to the end of the queue.
    fn run_one<M: Messages>(&mut self, messages: &mut M, slot: u32, budget: &mut Budget) {
        self.ready.pop(&mut self.slots, Link::Ready);
        let Some(id) = self.slots.by_index(slot) else { return };
        let Some(active) = self.slots.get_mut(id) else { return };
        if active.stage != Stage::Running || active.ready.is_empty() {
            return;
        }
        let step = active.ready.front();
        let Some(schedule) = active.schedule.as_mut() else { return };
        let (Some(&crate::schedule::Step { kind, dependants, .. }), Some(state)) =
            (schedule.steps.get(step as usize), schedule.state.get_mut(step as usize))
        else {
            active.ready.pop(&schedule.state);
            return;
        };
        // No other step waits for its end, if it is a send.
        let ends_here = dependants == 0;
        let envelope = |peer: u32, round: u32, ends_there: bool| Envelope {
            context: active.context,
            peer,
            tag: tag(active.sequence, round),
            cookie: cookie(slot, active.run, step),
            ends_there,
            ends_here,
            at_once: schedule.at_once,
        };
        if self.trace.is_some() && state.begun == 0 {
            state.begun = now_ns();
        }
        let before = budget.bytes_left();
        let at_once = match kind {
            Kind::Send { bytes, .. } | Kind::Recv { bytes, .. } if bytes <= messages.eager_max() => bytes,
            _ => 0,
        };
        if at_once > before && before < messages.eager_max() {
            // A message goes whole: it waits for a fresh budget.
            budget.take_bytes(before);
            // Put back: it has not begun.
            state.begun = 0;
            self.ready.push(&mut self.slots, slot, Link::Ready);
            return;
        }
        let copied = messages.copied();
        let begun_at = state.done;
        let came = match (kind, state.request) {
            (Kind::Send { peer, round, from, bytes, last }, Some(request)) => {
                budget.packet();
                state.status = Status::Started;
                // SAFETY: - the memory is the user's, alive and unwritten by the promise to `post`, or the arena's
                //         - no step that writes it runs before this one has ended: dependencies of the algorithm.
                unsafe { messages.start_send(request, &envelope(peer, round, last), from, bytes) };
                budget.take_bytes(messages.copied().wrapping_sub(copied) as usize);
                Step::Away
            }
            (Kind::Recv { peer, round, to, bytes }, Some(request)) => {
                budget.packet();
                state.status = Status::Started;
                // SAFETY: - as above; nobody else uses the memory until this step has ended.
                unsafe { messages.start_recv(request, &envelope(peer, round, false), to, bytes) };
                budget.take_bytes(messages.copied().wrapping_sub(copied) as usize);
                Step::Away
            }
            (Kind::Copy { from, to, bytes }, _) => copy(from, to, bytes, &mut state.done, budget),
            (kind @ (Kind::Pack { .. } | Kind::Unpack { .. }), _) => spread(&kind, &mut state.done, budget),
            (Kind::Reduce { operator, .. }, _)
                if is_handler(budget.context()) && !operator.is_handler_safe() =>
            {
                state.begun = 0;
                active.ready.pop(&schedule.state);
                active.deferred.push(&mut schedule.state, step);
                let more = !active.ready.is_empty();
                self.deferred.push(&mut self.slots, slot, Link::Deferred);
                if more {
                    self.ready.push(&mut self.slots, slot, Link::Ready);
                }
                return;
            }
            (kind @ Kind::Reduce { .. }, _) => reduce(&kind, &mut state.done, budget),
            (Kind::Join, _) => Step::Done,
            // A message without a request: `prepare` reserves one for each.
            (Kind::Send { .. } | Kind::Recv { .. }, None) => {
                Step::Failed(Outcome { code: Code::Protocol, ..Outcome::default() })
            }
        };
        let copied = match kind {
            // Short pieces are charged more than they copy.
            Kind::Pack { .. } | Kind::Unpack { .. } => state.done.wrapping_sub(begun_at),
            _ => before.saturating_sub(budget.bytes_left()),
        };
        if !matches!(came, Step::Sliced) {
            active.ready.pop(&schedule.state);
        }
        let more = !active.ready.is_empty();
        if !matches!(came, Step::Away) {
            self.count(budget.context(), copied);
        }
        if more {
            self.ready.push(&mut self.slots, slot, Link::Ready);
        }
        match came {
            Step::Done => self.done(id, step),
            Step::Failed(outcome) => self.fail(messages, id, outcome),
            Step::Away | Step::Sliced => {}
        }
    }

    /// A step is done: each of its dependants has one dependency less.
    fn done(&mut self, id: Id, step: u32) {
        let Some(active) = self.slots.get_mut(id) else { return };
        let Some(schedule) = active.schedule.as_mut() else { return };
        let Schedule { steps, state, dependants, remaining, algorithm, .. } = &mut **schedule;
        let Some(this) = steps.get(step as usize) else { return };
        if let Some(state) = state.get_mut(step as usize) {
            state.status = Status::Done;
            if let Some(trace) = &self.trace {
                record_step(trace, this, state.begun, active.instance, *algorithm);
            }
        }
        let first = this.first_dependant as usize;
        let range = first..first.saturating_add(this.dependants as usize);
        for &next in dependants.get(range).unwrap_or_default() {
            let Some(entry) = state.get_mut(next as usize) else { continue };
            entry.pending = entry.pending.saturating_sub(1);
            if entry.pending == 0 {
                active.ready.push(state, next);
            }
        }
        *remaining = remaining.saturating_sub(1);
        if *remaining == 0 {
            let place = &active.place;
            // What is not posted would leave a gap in the line.
            let waits = place.is_somewhere() && (active.takes_out || !place.posted);
            if !waits {
                self.end(id, Outcome::default());
            }
        } else if !active.ready.is_empty() {
            self.ready.push(&mut self.slots, id.index, Link::Ready);
        }
    }

    /// Ends a collective that cannot go on, or lets it close until no peer copies from or to its memory any more.
    pub(super) fn fail<M: Messages>(&mut self, messages: &mut M, id: Id, outcome: Outcome) {
        // A part that is never posted leaves a gap, of which nobody else knows the reason, unless it is one that ends theirs, too.
        // (Who takes a message back for a reason of which this rank has yet to hear has told it before.)
        let ends_all = matches!(
            outcome.code,
            Code::PeerDead | Code::Revoked | Code::Aborted | Code::Finalized | Code::Cancelled
        );
        let is_lined_up = |active: &Active| active.place.is_somewhere() && !active.place.posted;
        let leaves_gap = !ends_all && self.slots.get(id).is_some_and(is_lined_up);
        if leaves_gap || matches!(outcome.code, Code::Protocol | Code::UserOperatorPanicked) {
            self.give_up_beside(id, outcome);
        }
        let Some(active) = self.slots.get_mut(id) else { return };
        let states = active.schedule.iter_mut().flat_map(|schedule| schedule.state.iter_mut());
        let mut closing = 0u32;
        for state in states.filter(|state| state.status == Status::Started) {
            if state.request.is_none_or(|request| messages.abandon(request)) {
                state.status = Status::Waiting;
            } else {
                closing = closing.wrapping_add(1);
            }
        }
        if closing == 0 {
            return self.end(id, outcome);
        }
        (active.stage, active.failed, active.closing) = (Stage::Closing, outcome, closing);
        // Nothing of it begins any more.
        (active.ready, active.deferred) = (super::StepList::EMPTY, super::StepList::EMPTY);
        if active.place.is_somewhere() {
            self.leave_line(id);
        }
    }

    /// What a collective has on its board is over, well: ends it, if nothing of it goes by messages beside that.
    pub(super) fn end_on_board(&mut self, id: Id) {
        if self.slots.get(id).is_some_and(Active::has_messages) {
            self.leave_line(id);
        } else {
            self.end(id, Outcome::default());
        }
    }

    /// Ends a collective: whoever waits sees it; if nobody does, it is put where a user's call will free it.
    pub(super) fn end(&mut self, id: Id, outcome: Outcome) {
        let Some((active, completion)) = self.slots.both_mut(id) else { return };
        if let Some(trace) = &self.trace {
            let of_call = active.call.map_or(0, |call| call.algorithm);
            let algorithm = active.schedule.as_ref().map_or(of_call, |schedule| schedule.algorithm);
            record_end(trace, (active.instance, active.begun), algorithm, outcome.code);
        }
        active.stage = Stage::Resting;
        if let Some(split) = active.schedule.as_mut().and_then(|schedule| schedule.split.as_mut()) {
            split.over(now_ns());
        }
        let on_board = active.place.is_somewhere();
        if std::mem::take(&mut active.wanted) {
            self.wanting = self.wanting.saturating_sub(1);
        }
        active.ready = super::StepList::EMPTY;
        active.deferred = super::StepList::EMPTY;
        if active.detached {
            active.next_garbage = std::mem::replace(&mut self.garbage, id.index);
        } else {
            active.next_garbage = NONE;
        }
        self.running = self.running.saturating_sub(1);
        completion.finish(outcome);
        if on_board {
            self.leave_line(id);
        }
    }

    pub(super) fn count(&mut self, context: Context, bytes: usize) {
        self.copied.add(context, bytes);
    }
}

/// Says in the trace that a collective (instance, start) has ended.
#[cold]
pub(super) fn record_end(trace: &Trace, (instance, begun): (u16, u64), algorithm: u16, code: Code) {
    let (now, failed) = (now_ns(), code != Code::Ok);
    let [a, b] = Ended { instance, algorithm, failed, took: now.saturating_sub(begun) }.words();
    trace.record_at(now, trace::ENDED, a, b);
}

/// Says in the trace that a step is done.
#[cold]
fn record_step(trace: &Trace, step: &crate::schedule::Step, begun: u64, instance: u16, algorithm: u16) {
    let now = now_ns();
    let (kind, peer, bytes) = trace::describe(step);
    let [a, b] = Stepped { instance, algorithm, peer, bytes, took: now.saturating_sub(begun) }.words();
    trace.record_at(now, kind, a, b);
}
