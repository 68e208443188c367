//! Waiting for a collective on a board: looks at what the others have posted, before the wait that others must ring for.

use tocsin_progress::Work;
use tocsin_progress::engine::{Lingering, Turns};
use tocsin_sync::clock::now_ns;

use super::RawRequest;
use crate::comm::in_hand::{FEW_LOOKS, LOOKS};
use crate::state::RankState;

/// Whether others may have to ring this rank for anything but the one collective that it looks for by itself.
fn has_others(state: &RankState) -> bool {
    state.p2p.has_requests() || state.nbc.outstanding() > 1
}

impl RawRequest {
    /// Looks whether the parts of a collective on a board come, for which nobody need ring meanwhile: for a moment, and `patiently`, where ranks share cores, whenever
    /// the core comes back, as long as it pays to give that away and nothing else comes.
    pub(super) fn look_on_board(&mut self, patiently: bool) {
        let Some(slot) = &self.slot else { return };
        let (shared, id) = (slot.rank(), slot.id);
        if shared.open(self.operation).is_err() {
            return;
        }
        let mut state = shared.engine.enter();
        if !shared.is_open() {
            return;
        }
        let begun = shared.engine.is_crowded().then(now_ns);
        let by_itself = begun.is_some_and(|now| !shared.engine.follows(now));
        // What it lacks does not come while it looks, or others have the core first.
        let mut beside = by_itself || begun.is_some_and(|now| shared.lacks_from_beside(&state, id, now));
        let mut looks = if !beside && shared.engine.should_look() { LOOKS } else { FEW_LOOKS };
        let (mut turns, mut is_there): (Option<Turns<'_, RankState>>, _) = (None, true);
        let (over, looked) = loop {
            if !state.nbc.begin_look(id) {
                return self.want_in(&mut state);
            }
            let looked = state.linger(looks, |state| match state.nbc.look(id) {
                false => {
                    is_there = false;
                    Lingering::Nothing
                }
                true => Lingering::Over,
            });
            let over = self.is_complete();
            if !over && state.nbc.has_grown(id) {
                // What is there of a part is no work for others.
                continue;
            }
            if over || !patiently || !shared.engine.is_crowded() || state.work_left() {
                break (over, looked);
            }
            let turns = turns.get_or_insert_with(|| shared.engine.turns(has_others(&state), beside));
            state.stay();
            turns.leave(state);
            shared.open_gates_quietly();
            let came_back = turns.give_way();
            let Ok(inside) = shared.enter_open(self.operation) else { return };
            state = inside;
            if !came_back {
                break (false, false);
            }
            beside = by_itself || shared.lacks_from_beside(&state, id, now_ns());
            looks = if turns.stays(beside) { LOOKS } else { FEW_LOOKS };
        };
        let inside = &mut *state;
        inside.nbc.end_look(&mut inside.p2p, id);
        let Some(outcome) = self.outcome() else { return };
        shared.engine.has_ended();
        match &turns {
            Some(turns) if over => turns.note_met(looked),
            None if !beside && !is_there => shared.engine.note_met(),
            _ => {}
        }
        if !self.keeps_slot && self.seen.is_none() {
            // Released in the same stay.
            inside.nbc.release(&mut inside.p2p, id);
            match &turns {
                Some(turns) => turns.leave(state),
                None => drop(state),
            }
            slot.see(self.kind, self.operation, outcome, &mut self.seen);
        }
    }
}
