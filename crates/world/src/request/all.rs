//! Waiting for several requests at once, and testing them.

use std::time::Duration;

use super::at_end::{meet_ends, meet_shorts};
use super::{Kind, RawRequest, Slot};
use crate::asks;
use crate::error::Error;
use crate::operator::InsideOperator;
use crate::rank::Need;
use tocsin_p2p::Grown;
use tocsin_progress::Context;

/// Waits for all; each request keeps its own outcome for `test` or `wait`.
///
/// # Errors
/// The first failed request's error, by position, after all are complete.
pub fn wait_all(requests: &mut [&mut RawRequest]) -> Result<(), Error> {
    let mut first = Ok(());
    if let Some(request) = with_comm(requests) {
        request.note_wait();
    }
    let many = requests.len() >= TOGETHER;
    for some in requests.chunks_mut(TOGETHER) {
        meet_shorts(some);
        if some.iter().all(|request| request.comes_in_one_packet()) {
            // They come in the order in which they were posted, mostly: when the last is there, all are.
            some.iter_mut().rev().for_each(|request| match many {
                true => request.wait_announced(),
                false => request.wait_until_over(),
            });
        } else {
            meet_ends(some);
            some.iter_mut().for_each(|request| request.wait_until_over());
        }
        give_back(some);
        for request in some {
            let result = match request.seen {
                Some(Ok(_)) if !request.keeps_slot => continue,
                _ => request.wait(),
            };
            if first.is_ok() {
                first = result.map(drop);
            }
        }
    }
    first
}

/// One through which the rank can be reached: what was over when it was made knows none.
fn with_comm<'a>(requests: &'a [&mut RawRequest]) -> Option<&'a RawRequest> {
    requests.iter().find(|request| request.comm().is_some()).map(|request| &**request)
}

/// Requests whose slots are given back while this thread is inside once: nobody else waits long for it.
const TOGETHER: usize = 64;

impl RawRequest {
    /// Gives its slot back, inside the engine. Not in a child of fork(): the slot and the lanes are its parent's.
    pub(super) fn free(&self) {
        let Some(slot) = self.slot.as_ref().filter(|_| !tocsin_doorbell::fork::disowned()) else { return };
        let mut state = slot.rank().enter();
        self.free_in(&mut state);
        // Who waits for many one after the other, of which most are over, is in the library all the time.
        if state.p2p.owes_a_pass_for_one_more() {
            drop(state);
            slot.rank().engine.look_between();
        }
    }

    /// Waits until it is over, and says so to the others: of many messages some fill a lane, and whose lane is full interrupts a rank that says nothing.
    fn wait_announced(&mut self) {
        while !self.is_over() {
            if let (Some(slot), Some(Need::Message { id, .. })) = (&self.slot, self.need()) {
                slot.rank().wait_until(&[Need::Message { id, rings: true }], || self.is_complete(), None);
            } else {
                self.try_to_be_over(None);
            }
        }
    }

    /// Whether it is a receive of a message that comes in one packet, or over.
    pub(super) fn comes_in_one_packet(&self) -> bool {
        let short =
            |slot: &Slot| matches!(self.kind, Kind::Receive { room } if room <= slot.rank().eager_max);
        self.slot.as_ref().is_none_or(short) || self.seen.is_some()
    }
}

/// Gives back the slots of those that are complete: inside the engine once, rather than for each.
fn give_back(requests: &mut [&mut RawRequest]) {
    let has_slot = |request: &&&mut RawRequest| request.seen.is_none() && !request.keeps_slot;
    let slot = requests.iter().filter(has_slot).find_map(|request| request.slot.as_ref());
    let Some(comm) = slot.map(|slot| slot.comm.clone()) else { return };
    if comm.shared().is_closed() {
        return;
    }
    let mut state = comm.shared().enter();
    for request in requests {
        if request.slot.as_ref().is_some_and(|slot| std::ptr::eq(slot.rank(), comm.shared())) {
            request.look_in(&mut state);
        }
    }
}

/// How often who waits for any of several ranks' requests looks at those of the others.
const OTHERS: Duration = Duration::from_millis(1);

/// Waits until one is complete and gives its position; `None` if `requests` is empty. A persistent one that is not active
/// is complete.
pub fn wait_any(requests: &mut [&mut RawRequest]) -> Option<usize> {
    with_comm(requests).unwrap_or(requests.first()?).note_wait();
    let is_over = |requests: &[&mut RawRequest]| requests.iter().position(|request| request.is_over());
    loop {
        if let Some(done) = is_over(requests) {
            return Some(done);
        }
        meet_ends(requests);
        if let Some(done) = is_over(requests) {
            return Some(done);
        }
        // All have slots: what has none was over when it was made.
        let comm = requests.first()?.slot.as_ref()?.comm.clone();
        let is_own = |request: &RawRequest| {
            request.slot.as_ref().is_none_or(|slot| std::ptr::eq(slot.rank(), comm.shared()))
        };
        let needs: Vec<Need<'_>> =
            requests.iter().filter(|r| is_own(r)).filter_map(|request| request.need()).collect();
        // What is no collective rings who waits by itself.
        for request in requests.iter().filter(|r| r.kind == Kind::Collective && !r.is_over()) {
            if let Some(Ok(mut state)) = request.slot.as_ref().map(|slot| slot.rank().enter_open("wait_any"))
            {
                request.want_in(&mut state);
            }
        }
        // Those of other ranks of this process do not wake who sleeps here, and may have nobody else to go on with them.
        let mixed = !requests.iter().all(|request| is_own(request));
        let timeout = mixed.then_some(OTHERS);
        comm.shared().wait_until(&needs, || requests.iter().any(|r| r.is_complete()), timeout);
        for request in requests.iter().filter(|request| mixed && !is_own(request)) {
            request.advance();
        }
    }
}

/// Makes some progress, then gives the position of one that is complete, if there is one. It keeps its outcome for `test` or `wait`. A persistent one that is not active
/// is complete.
pub fn test_any(requests: &[&mut RawRequest]) -> Option<usize> {
    with_comm(requests).into_iter().for_each(RawRequest::open_gates);
    let is_over = || requests.iter().position(|request| request.is_over());
    is_over().or_else(|| {
        advance_until(requests, || is_over().is_some());
        is_over()
    })
}

/// Makes some progress, then says whether all are complete; each keeps its outcome.
pub fn test_all(requests: &[&mut RawRequest]) -> bool {
    with_comm(requests).into_iter().for_each(RawRequest::open_gates);
    let are_over = || requests.iter().all(|request| request.is_over());
    if !are_over() {
        advance_until(requests, are_over);
    }
    are_over()
}

/// One pass for all that are pending, and another one if the core was given away after it, because the program [only asks](RawRequest::asks).
fn advance_until(requests: &[&mut RawRequest], over: impl Fn() -> bool) {
    let first = requests.iter().find(|request| !request.is_over());
    let Some(engine) = first.and_then(|first| first.slot.as_ref()).map(|slot| &slot.rank().engine) else {
        return;
    };
    let again = engine.asks(asks::FOR_SEVERAL);
    advance(requests);
    if over() {
        engine.asked_well(asks::FOR_SEVERAL, first.is_some_and(|first| first.is_large()));
    } else if engine.asked_in_vain(again && !InsideOperator::is_here()) {
        advance(requests);
    }
}

/// One pass for all that are pending.
fn advance(requests: &[&mut RawRequest]) {
    let pending = || requests.iter().filter(|request| !request.is_over());
    let Some(comm) = pending().find_map(|request| request.slot.as_ref()).map(|slot| slot.comm.clone()) else {
        return;
    };
    let shared = comm.shared();
    let is_own = |request: &&&mut RawRequest| {
        request.slot.as_ref().is_some_and(|slot| std::ptr::eq(slot.rank(), shared))
    };
    shared.open_gates();
    shared.engine.poke(Context::User);
    // Who only tests waits, too.
    let needs: Vec<Need<'_>> = pending().filter(is_own).filter_map(|request| request.need()).collect();
    if !needs.is_empty() && shared.make_room(&needs) == Grown::Room {
        shared.engine.poke(Context::User);
    }
    shared.end_if_aborted();
    pending().filter(|request| !is_own(request)).for_each(|request| request.advance());
}
