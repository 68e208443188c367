//! What is done when a request is complete, by nobody who waits for it: callbacks and wakers.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use super::{Callback, RawRequest};

/// What to do when a request is complete.
pub(super) enum Then {
    Call(Callback),
    Wake(Waker),
    /// It is complete, and this was done.
    Happened,
}

impl std::fmt::Debug for Then {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Then::Call(_) => "Call",
            Then::Wake(_) => "Wake",
            Then::Happened => "Happened",
        })
    }
}

impl RawRequest {
    /// Runs `callback` once when complete, outside handlers, on some thread of this process; at once if it is complete.
    /// Takes the place of an earlier callback or waker. If the thread that runs callbacks cannot be started, this waits
    /// and runs it here. It may start operations, and had better not wait for any: the thread that runs it may be the one that runs all of the rank's. A persistent one stays active until a wait or a test gives the outcome.
    pub fn on_complete(&mut self, callback: Callback) {
        match self.look_for_callback() {
            Some(result) => callback(result),
            None => self.afterwards(Then::Call(callback)),
        }
    }

    /// Wakes `waker` when complete; takes the place of an earlier one. Look again after it.
    pub fn set_waker(&mut self, waker: &Waker) {
        if !self.is_over() {
            self.afterwards(Then::Wake(waker.clone()));
        }
    }

    /// Has `then` done at the end, or now if that has come meanwhile.
    fn afterwards(&mut self, then: Then) {
        if let Some(after) = &self.after {
            // What it replaces is dropped outside the lock and the token: it may be anything.
            let (now, _replaced) = {
                let mut slot = after.lock().unwrap_or_else(PoisonError::into_inner);
                match *slot {
                    Then::Happened => (Some(then), Then::Happened),
                    _ => (None, std::mem::replace(&mut *slot, then)),
                }
            };
            if let Some(then) = now {
                self.now(then);
            }
            return;
        }
        // What was over when it was made needs nobody to wait.
        let (Some(slot), Some(meaning)) = (&self.slot, self.meaning()) else { return self.now(then) };
        // Somebody wants to hear of it without looking.
        self.want_in(&mut slot.rank().enter());
        let after = Arc::new(Mutex::new(then));
        let theirs = after.clone();
        let call = Box::new(move |outcome| {
            let then = {
                let mut slot = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *slot, Then::Happened)
            };
            match then {
                Then::Call(callback) => callback(meaning.read(outcome)),
                Then::Wake(waker) => waker.wake(),
                Then::Happened => {}
            }
        });
        self.after = Some(after.clone());
        let comm = slot.comm.clone();
        // From here on it may run, and it may free this request.
        let set = comm.shared().engine.callbacks().set(slot.completion(), call);
        comm.shared().look_for_wanted();
        if set.is_err() {
            let then = {
                let mut slot = after.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *slot, Then::Happened)
            };
            self.now(then);
        }
    }

    /// Without a callback thread, or after the end.
    fn now(&mut self, then: Then) {
        match then {
            Then::Call(callback) => loop {
                self.pass_time(None);
                if let Some(result) = self.look_for_callback() {
                    return callback(result);
                }
            },
            Then::Wake(waker) => waker.wake(),
            Then::Happened => {}
        }
    }
}
