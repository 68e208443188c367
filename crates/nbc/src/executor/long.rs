//! Long memory of boards is allocated where a user's thread posts, place by place, as far as parts come to reach there: many programs make few collectives.

use super::Nbc;
use super::seat::{Seat, has_room};
use crate::Error;
use crate::board::Call;
use crate::messages::Messages;
use crate::schedule::NONE;
use core::ops::Range;
use tocsin_transport::board::{LONG, PLACES};

/// A place is allocated in such steps, bytes.
const STEP: usize = 64 << 10;

/// When a call is posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Posts {
    /// At once, if it can be.
    Now,
    /// When it is started, as often as one likes, with others of its communicator's under way or not: it may come to any place.
    Later,
}

impl Nbc {
    /// Allocates what a call needs of this rank's long memory: its place, if that is known now, or all, where it stands in line and a handler may post it,
    /// or it is posted later, by a start that asks the system for nothing. User threads only.
    pub(super) fn prepare_long<M: Messages>(
        &mut self,
        messages: &mut M,
        call: &Call,
        posts: Posts,
    ) -> Result<(), Error> {
        let Nbc { seats, slots, .. } = self;
        let Some(seat) = seats.get_mut(call.board as usize) else {
            return Err(Error::BadSchedule("its group's board was never opened"));
        };
        if !seat.board.has_long() {
            return Err(Error::BadSchedule("its group's board has no long memory"));
        }
        // Rounds are posted later, too.
        let posts = if call.is_round() { Posts::Later } else { posts };
        let now = posts == Posts::Now && seat.first == NONE && has_room(seat, slots);
        for round in [*call, call.last_round()] {
            // One that passes is the others' next, whatever they post there.
            let passing = round.passes(&seat.board);
            let place = now.then(|| round.next_place(&mut seat.board));
            let bytes = round.long_bytes();
            match (passing, place) {
                (Some((_, whole)), Some(place)) => allocate(messages, seat, place..place + 1, whole)?,
                (Some((all, whole)), None) => allocate(messages, seat, all, whole)?,
                (None, Some(place)) => {
                    let reach = steps(seat.board.next_reach(bytes));
                    if allocate(messages, seat, place..place + 1, reach).is_err() {
                        // It comes back to where it has been, if that is free.
                        seat.board.narrow(true);
                        let place = round.next_place(&mut seat.board);
                        allocate(messages, seat, place..place + 1, steps(bytes))?;
                    }
                }
                (None, None) => {
                    allocate(messages, seat, 0..PLACES, steps(bytes))?;
                    let reach = steps(round.reach(&seat.board));
                    if allocate(messages, seat, 0..PLACES, reach).is_err() {
                        seat.board.narrow(false);
                    }
                }
            }
            if !call.is_round() {
                break;
            }
        }
        Ok(())
    }
}

fn steps(bytes: usize) -> usize {
    bytes.next_multiple_of(STEP).min(LONG)
}

/// Allocates so many bytes of each of these places.
fn allocate<M: Messages>(
    messages: &mut M,
    seat: &mut Seat,
    places: Range<usize>,
    bytes: usize,
) -> Result<(), Error> {
    for place in places {
        let Some(allocated) = seat.long.get_mut(place).filter(|allocated| **allocated < bytes) else {
            continue;
        };
        let more = bytes - *allocated;
        // SAFETY: within the place, which has as many bytes.
        let at = seat.board.own_place(place).map(|place| unsafe { place.add(*allocated) });
        if !at.is_some_and(|at| messages.allocate_long(at, more)) {
            return Err(Error::NoLongMemory { bytes: more });
        }
        *allocated = bytes;
    }
    Ok(())
}
