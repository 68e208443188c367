//! Boards that come and go: a seat for each, from the making of its communicator until all its members have left it.
//!
//! The argument why memory may go from one communicator to the next is `tocsin_transport`'s (`board/tenancy.rs`). A rank has no
//! more use for a board when its communicator is gone, all that was started on it has ended, and nobody is left to be rung for what
//! was posted: a seat then leaves, whoever runs the engine.

use super::Nbc;
use super::seat::{Seat, Tenancy};
use crate::schedule::Line;
use crate::{Error, Group};
use tocsin_transport::board::{Board, ROOM};

impl Nbc {
    /// Takes part in a board: `group` has its members, in the order of its areas. The number by which the group
    /// [names](Group::with_board) it. User threads only.
    ///
    /// # Errors
    /// Memory refused.
    pub fn open_board(&mut self, board: Board, group: &Group) -> Result<u32, Error> {
        if self.scratch.is_empty() {
            self.scratch = vec![Line([0; 64]); ROOM / 64].into_boxed_slice();
        }
        let seat = Seat::new(board, group);
        let mut seats = self.seats.iter_mut().zip(0..);
        if let Some((free, number)) = seats.find(|(seat, _)| seat.tenancy == Tenancy::Over) {
            *free = seat;
            return Ok(number);
        }
        if self.seats.try_reserve(1).is_err() {
            // It has posted nothing, so that nobody minds.
            seat.board.leave();
            return Err(Error::OutOfMemory { bytes: size_of::<Seat>() });
        }
        self.seats.push(seat);
        Ok(self.seats.len() as u32 - 1)
    }

    /// The communicator of a board is gone: nothing more is started there. The board is left when what was started has ended.
    /// Handler-safe.
    pub fn close_board(&mut self, number: u32) {
        if let Some(seat) = self.seats.get_mut(number as usize).filter(|seat| seat.tenancy == Tenancy::Open) {
            seat.tenancy = Tenancy::Closing;
            seat.leave_if_over();
        }
    }

    /// Whether a board that was [closed](Self::close_board) is over: this rank and all others have left it, but those that are
    /// gone. Its number is then another one's, and this rank's area of its memory may be another board's. Handler-safe.
    pub fn is_board_over(&mut self, number: u32, is_gone: impl Fn(u32) -> bool) -> bool {
        let is_left = |seat: &&mut Seat| seat.tenancy == Tenancy::Left && seat.telling == 0;
        let Some(seat) = self.seats.get_mut(number as usize).filter(is_left) else { return false };
        let group = &seat.group;
        let over = seat.board.all_have_left(|member| group.world_rank(member as u32).is_none_or(&is_gone));
        if over {
            seat.tenancy = Tenancy::Over;
            if seat.elsewhere.take().is_some() {
                self.exposed = self.exposed.wrapping_sub(1);
            }
        }
        over
    }
}
