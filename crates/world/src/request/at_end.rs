//! Waits that are over in one stay inside the engine: for a large message whose time was hidden behind computing, and for a short one that comes at once.

use tocsin_p2p::Glance;
use tocsin_progress::engine::Lingering;
use tocsin_progress::{Entered, Outcome, Work};

use super::{Kind, RawRequest, Status};
use crate::comm::in_hand::LOOKS;
use crate::state::RankState;

impl RawRequest {
    /// Takes in what the peer has said of the end of a message, and gives the slot back, in one stay inside the engine and without a word to anybody. A wait
    /// says that it looks, and at its end that it does no more, after which it has to look again, and enters once more for the slot: several times as long,
    /// where the end is all that there is to wait for. If it is not over by that, nothing has changed for a wait.
    pub(super) fn meet_end(&mut self) {
        if !self.may_have_answer() {
            return;
        }
        let Some(Ok(mut state)) = self.slot.as_ref().map(|slot| slot.rank().enter_open(self.operation))
        else {
            return;
        };
        let End::Met(outcome) = self.end_in(&mut state) else { return };
        drop(state);
        let _went_well = self.has_met(outcome);
    }

    /// Looks for a short message, as a receive does that is waited for from the start, and gives the slot back in the same stay inside the engine: a wait says that it looks, looks at everything each
    /// time, and enters once more for the slot, which is a sixth to a third of what such a message takes. If it has not come after 3 us of looking, nothing has changed for a wait.
    /// The outcome, if it came and went well.
    #[inline]
    pub(super) fn meet_short(&mut self) -> Option<Status> {
        let slot = self.slot.as_ref().filter(|slot| {
            let short = matches!(self.kind, Kind::Receive { room } if room <= slot.rank().eager_max);
            short && !self.keeps_slot && !self.is_complete() && slot.rank().engine.should_look()
        })?;
        // As `enter_open`, but that what is entered stays where it is made.
        slot.rank().open(self.operation).ok()?;
        let mut state = slot.rank().engine.enter();
        if !slot.rank().is_open() {
            return None;
        }
        let mut is_there = true;
        let looked = state.linger(LOOKS, |state| match state.p2p.glance_for(slot.id) {
            Glance::Nothing => {
                is_there = false;
                Lingering::Nothing
            }
            Glance::Other => Lingering::Worked,
            Glance::Over => Lingering::Over,
        });
        let outcome = slot.completion().outcome();
        if let Some(outcome) = outcome {
            state.p2p.release(slot.id);
            if !is_there {
                slot.rank().engine.note_met();
            }
            // But for what comes next the same way, which its receive takes in sooner than it is kept for that.
            if state.p2p.owes_a_look(looked) && state.work_left_beside(outcome.source) {
                state.pass();
            }
        } else {
            // The thread waits next.
            state.stay();
        }
        drop(state);
        if outcome.is_some() { self.has_met(outcome) } else { None }
    }

    /// Whether its end is told by its peer and has not been met.
    fn may_have_answer(&self) -> bool {
        match (&self.slot, self.kind) {
            // What comes in one packet has no answers.
            (Some(slot), Kind::Receive { room }) => room > slot.rank().eager_max && !self.is_over(),
            (Some(_), Kind::Send { .. }) => !self.is_over(),
            _ => false,
        }
    }

    /// [`meet_end`](Self::meet_end), inside the engine of its rank. The slot of one that is met is somebody else's.
    fn end_in(&self, state: &mut Entered<'_, RankState>) -> End {
        let Some(slot) = self.slot.as_ref().filter(|slot| state.p2p.has_answer(slot.id)) else {
            return End::Untold;
        };
        if !state.p2p.meet_end(slot.id) {
            // The thread waits next.
            state.stay();
            return End::Pending;
        }
        let outcome = slot.completion().outcome();
        state.p2p.release(slot.id);
        End::Met(outcome)
    }
}

/// What a request's peer has said of its end.
enum End {
    /// Nothing.
    Untold,
    /// Something else.
    Pending,
    Met(Option<Outcome>),
}

/// Of so many receives at most each is looked for by itself; more are taken in by passes, which take several packets of a lane at once.
const FEW: usize = 8;
/// Looks for several at least: what comes out of turn takes one each.
const LEAST: u32 = 4;

/// [Looks](RawRequest::meet_short) for the messages of several, of one rank, and gives their slots back in the same stay, if there are few that have not come, all of which come in one packet.
pub(super) fn meet_shorts(requests: &mut [&mut RawRequest]) {
    let pending = || requests.iter().filter(|request| request.seen.is_none());
    let Some(slot) = pending().next().and_then(|request| request.slot.as_ref()) else { return };
    let is_short = |request: &&mut RawRequest| {
        let is_here = request.slot.as_ref().is_some_and(|other| std::ptr::eq(other.rank(), slot.rank()));
        is_here && !request.keeps_slot && request.comes_in_one_packet()
    };
    let are_few = pending().nth(FEW).is_none() && pending().all(is_short);
    if !are_few || !slot.rank().engine.should_look() {
        return;
    }
    // The requests are changed meanwhile.
    let comm = slot.comm.clone();
    let rank = comm.shared();
    if rank.open("wait_all").is_err() {
        return;
    }
    let mut state = rank.engine.enter();
    if !rank.is_open() {
        return;
    }
    let mut is_there = true;
    // For about as long as for one.
    let looks = LOOKS.checked_div(pending().count() as u32).unwrap_or(LOOKS).max(LEAST);
    let mut met = 0u32;
    let looked = state.linger(looks, |state| {
        let (mut found, before) = (Lingering::Over, met);
        let slots = requests.iter().filter(|request| request.seen.is_none());
        for slot in slots.filter_map(|request| request.slot.as_ref()) {
            if slot.completion().is_done() {
                continue;
            }
            match state.p2p.glance_for(slot.id) {
                Glance::Nothing if found == Lingering::Over => found = Lingering::Nothing,
                Glance::Nothing => {}
                Glance::Other => found = Lingering::Worked,
                Glance::Over if slot.completion().is_done() => met = met.wrapping_add(1),
                // A pass's to go on with.
                Glance::Over => return Lingering::Over,
            }
        }
        is_there &= found != Lingering::Nothing;
        if met != before && found == Lingering::Nothing {
            // Its sender may wait to hear of it, and what is left for its sender. Whoever would be interrupted for that hears it at the end.
            let _held_back = Work::leave_quietly(state);
        }
        found
    });
    let mut sources = pending().filter_map(|request| request.outcome()).map(|outcome| outcome.source);
    let source = sources.next().filter(|first| sources.all(|source| source == *first));
    let mut all = true;
    for request in requests.iter_mut().filter(|request| request.seen.is_none()) {
        request.look_in(&mut state);
        all &= request.seen.is_some();
    }
    if all {
        if !is_there {
            rank.engine.note_met();
        }
        // Each counts.
        let owed = (0..met).fold(false, |owed, _| state.p2p.owes_a_look(looked) || owed);
        // As in `meet_short`, where they are from one.
        if owed && source.map_or_else(|| state.work_left(), |source| state.work_left_beside(source)) {
            state.pass();
        }
    } else {
        // The thread waits next.
        state.stay();
    }
}

/// [Meets](RawRequest::meet_end) the ends of several, of one rank, in one stay.
pub(super) fn meet_ends(requests: &mut [&mut RawRequest]) {
    let Some(first) = requests.iter().position(|request| request.may_have_answer()) else { return };
    let Some((operation, slot)) = requests.get(first).and_then(|r| Some((r.operation, r.slot.as_ref()?)))
    else {
        return;
    };
    // The requests are changed meanwhile.
    let comm = slot.comm.clone();
    let Ok(mut state) = comm.shared().enter_open(operation) else { return };
    for request in requests.iter_mut().skip(first) {
        let is_here = request.slot.as_ref().is_some_and(|slot| std::ptr::eq(slot.rank(), comm.shared()));
        if !is_here || !request.may_have_answer() {
            continue;
        }
        match request.end_in(&mut state) {
            End::Untold => {}
            End::Pending => return,
            End::Met(outcome) => {
                let _went_well = request.has_met(outcome);
            }
        }
    }
}
