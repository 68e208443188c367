//! Waiting for a collective on a board: a look at what the others have posted, before the wait that others must ring for.

use tocsin_progress::engine::Lingering;

use super::RawRequest;
use crate::comm::messages::{FEW_LOOKS, LOOKS};

impl RawRequest {
    /// Looks for a moment whether the parts of a collective on a board come, for which nobody need ring meanwhile.
    pub(super) fn look_on_board(&mut self) {
        let Some(slot) = &self.slot else { return };
        let (shared, id) = (slot.rank(), slot.id);
        let Ok(mut state) = shared.enter_open(self.operation) else { return };
        if !state.nbc.begin_look(id) {
            return self.want_in(&mut state);
        }
        let looks = if shared.engine.should_look() { LOOKS } else { FEW_LOOKS };
        state.linger(looks, |state| match state.nbc.look(id) {
            false => Lingering::Nothing,
            true => Lingering::Over,
        });
        let inside = &mut *state;
        inside.nbc.end_look(&mut inside.p2p, id);
        let Some(outcome) = self.outcome() else { return };
        shared.engine.note_met();
        if !self.persistent && self.seen.is_none() {
            // Released in the same stay.
            inside.nbc.release(&mut inside.p2p, id);
            drop(state);
            self.seen = self.read(outcome);
        }
    }
}
