//! Waiting for several requests at once.

use super::{Kind, RawRequest};
use crate::error::Error;
use crate::rank::Need;

/// Waits for all; each request keeps its own outcome for `test` or `wait`.
///
/// # Errors
/// The first failed request's error, by position, after all are complete.
pub fn wait_all(requests: &mut [&mut RawRequest]) -> Result<(), Error> {
    let mut first = Ok(());
    for some in requests.chunks_mut(TOGETHER) {
        some.iter_mut().for_each(|request| request.wait_until_over());
        give_back(some);
        for request in some {
            let result = request.wait();
            if first.is_ok() {
                first = result.map(drop);
            }
        }
    }
    first
}

/// Requests whose slots are given back while this thread is inside once: nobody else waits long for it.
const TOGETHER: usize = 64;

/// Gives back the slots of those that are complete: inside the engine once, rather than for each.
fn give_back(requests: &mut [&mut RawRequest]) {
    let has_slot = |request: &RawRequest| request.seen.is_none() && !request.persistent;
    if requests.iter().filter(|request| has_slot(request)).count() < 2 {
        return;
    }
    let Some(comm) = requests.first().map(|request| request.meaning.comm.clone()) else { return };
    if comm.shared().is_closed() {
        return;
    }
    let mut state = comm.shared().enter();
    let of_rank = |request: &&mut &mut RawRequest| std::ptr::eq(request.meaning.comm.shared(), comm.shared());
    requests.iter_mut().filter(of_rank).for_each(|request| request.look_in(&mut state));
}

/// Waits until one is complete and gives its position; `None` if `requests` is empty. A persistent one that is not active
/// is complete.
pub fn wait_any(requests: &mut [&mut RawRequest]) -> Option<usize> {
    let comm = requests.first()?.meaning.comm.clone();
    loop {
        if let Some(done) = requests.iter().position(|r| r.is_over()) {
            return Some(done);
        }
        let needs: Vec<Need> = requests.iter().map(|r| r.need()).collect();
        // What is no collective rings who waits by itself.
        for request in requests.iter().filter(|r| r.meaning.kind == Kind::Collective && !r.is_over()) {
            if let Ok(mut state) = request.meaning.comm.shared().enter_open("wait_any") {
                request.want_in(&mut state);
            }
        }
        comm.shared().wait_until(&needs, || requests.iter().any(|r| r.is_complete()), None);
    }
}
