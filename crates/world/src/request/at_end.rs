//! The wait for a large message that is over, as one is whose time was hidden behind computing.

use super::{Kind, RawRequest};

impl RawRequest {
    /// Takes in what the peer has said of the end of a message, and gives the slot back, in one stay inside the engine and without a word to anybody. A wait
    /// says that it looks, and at its end that it does no more, after which it has to look again, and enters once more for the slot: several times as long,
    /// where the end is all that there is to wait for. If it is not over by that, nothing has changed for a wait.
    pub(super) fn meet_end(&mut self) {
        let over = match (&self.slot, self.kind) {
            // What comes in one packet has no answers.
            (Some(slot), Kind::Receive { room }) if room <= slot.rank().eager_max => return,
            (Some(slot), Kind::Receive { .. } | Kind::Send { .. }) if !self.is_over() => {
                let Ok(mut state) = slot.rank().enter_open(self.operation) else { return };
                if !state.p2p.has_answer(slot.id) {
                    return;
                }
                if !state.p2p.meet_end(slot.id) {
                    // The thread waits next.
                    state.stay();
                    return;
                }
                let outcome = slot.completion().outcome();
                state.p2p.release(slot.id);
                outcome
            }
            _ => return,
        };
        self.seen = over.and_then(|outcome| self.read(outcome));
    }
}
