//! Schedules of calls that are over, for the next call of the same kind: most programs make the same ones again and again.
//!
//! Such a schedule is what a persistent collective restarts: compiled, its temporaries mapped, its requests reserved, its peers connected. It
//! serves a call with the same arguments, buffers' addresses included, and no other. Few are kept, and not the large ones; the one that
//! has not been of use for longest goes first. It holds addresses of buffers that may be gone, and is not run before somebody vouches for
//! the same ones anew.

use super::release::give_back;
use crate::messages::Messages;
use crate::schedule::Schedule;
use crate::table::Origin;

/// Schedules kept at most, by one rank.
const MOST: usize = 8;
/// The longest in steps.
const MOST_STEPS: usize = 256;
/// Bytes of temporaries of all of them together at most.
const MOST_BYTES: usize = 4 << 20;

/// The oldest first.
#[derive(Default)]
pub(super) struct Kept {
    #[allow(clippy::vec_box)] // they come and go boxed
    schedules: Vec<Box<Schedule>>,
    bytes: usize,
}

impl Kept {
    /// Keeps a schedule that no run needs any more, or frees it. User threads only.
    pub(super) fn put<M: Messages>(&mut self, messages: &mut M, mut schedule: Box<Schedule>) {
        let bytes = schedule.temporary_bytes();
        let fits = schedule.origin.is_some()
            && (schedule.board.is_none() || !schedule.blocks.is_empty())
            && schedule.len() <= MOST_STEPS
            && bytes <= MOST_BYTES;
        if !fits || self.schedules.try_reserve(1).is_err() {
            return give_back(messages, &mut schedule);
        }
        self.schedules.push(schedule);
        self.bytes += bytes;
        while self.schedules.len() > MOST || self.bytes > MOST_BYTES {
            self.drop_oldest(messages);
        }
    }

    /// Frees all of them. User threads only.
    pub(super) fn clear<M: Messages>(&mut self, messages: &mut M) {
        while !self.schedules.is_empty() {
            self.drop_oldest(messages);
        }
    }

    fn drop_oldest<M: Messages>(&mut self, messages: &mut M) {
        let mut oldest = self.remove(0);
        give_back(messages, &mut oldest);
    }

    /// The one that was compiled for such a call.
    pub(super) fn take(&mut self, origin: &Origin) -> Option<Box<Schedule>> {
        let at = self.schedules.iter().rposition(|schedule| schedule.origin.as_ref() == Some(origin))?;
        Some(self.remove(at))
    }

    fn remove(&mut self, at: usize) -> Box<Schedule> {
        let schedule = self.schedules.remove(at);
        self.bytes -= schedule.temporary_bytes();
        schedule
    }
}
