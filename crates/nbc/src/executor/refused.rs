//! A collective that this rank was to begin and was refused memory for. User threads only.
//!
//! The other members may have begun it, and would wait for what never comes. So this rank gives up on the communicator's board, as who sees that
//! the members disagree does, and says before that memory was refused, and to whom: who then lacks a part of it, on the board or by
//! messages, ends with that, and passes it on.

use super::Nbc;
use crate::messages::Messages;
use tocsin_progress::budget::{Budget, Pass};
use tocsin_transport::board::Why;

impl Nbc {
    /// This rank begins no more in a communicator, whose board this is, for want of memory: all its members are told. False: there is no such
    /// board, and nobody is. User threads only.
    #[cold]
    pub fn refuse<M: Messages>(&mut self, messages: &mut M, board: Option<u32>) -> bool {
        let Nbc { seats, slots, telling, .. } = self;
        let Some((at, seat)) = board.and_then(|at| Some((at, seats.get_mut(at as usize)?))) else {
            return false;
        };
        if !seat.board.gave_up() {
            seat.board.say_why(Why::Memory, seat.board.me());
            let me = seat.board.me() as u32;
            seat.give_up(me, slots, telling);
        }
        // What stands in line is never posted any more, and what goes by messages may be refused by others.
        while self.advance(messages, at, &mut Budget::user(), false) == Pass::More {}
        self.look_beside(messages, at);
        true
    }
}
