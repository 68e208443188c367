//! What a rank has started and not waited for.

use std::sync::Arc;
use std::time::Duration;

use tocsin_sync::atomic::Ordering;
use tocsin_sync::atomic::real::AtomicU64;
use tocsin_world::{Error, RawRequest, Status};

use crate::memory::Buffer;
use crate::random::Random;
use crate::scenarios::collectives::Part;

/// What it is.
pub enum Thing {
    /// A message of the plan.
    Send(usize, Buffer),
    /// The number of a receive.
    Receive(usize, Buffer),
    /// On which communicator, and what it is.
    Collective(usize, Part, String),
}

/// One of them.
pub struct Pending {
    pub thing: Thing,
    pub request: RawRequest,
}

impl Pending {
    pub fn new(thing: Thing, request: RawRequest) -> Pending {
        Pending { thing, request }
    }

    pub fn is_collective(&self) -> bool {
        matches!(self.thing, Thing::Collective(..))
    }

    pub fn describe(&self) -> String {
        let over = if self.request.is_over() { " (over)" } else { "" };
        match &self.thing {
            Thing::Send(which, buffer) => format!("send {which} of {} bytes{over}", buffer.len()),
            Thing::Receive(which, buffer) => {
                format!("receive {which} by {} of {} bytes{over}", self.request.operation(), buffer.len())
            }
            Thing::Collective(at, _, what) => format!("on {at} {what}{over}"),
        }
    }
}

/// Counts how often completions were told of.
pub fn call(request: &mut RawRequest, called: &Arc<AtomicU64>) {
    let called = called.clone();
    request.on_complete(Box::new(move |_| {
        called.fetch_add(1, Ordering::Release);
    }));
}

/// Waits for it in one of the ways there are; `spins`: also by computing.
pub fn wait(one: &mut Pending, own: &mut Random, spins: bool) -> Result<Status, Error> {
    let request = &mut one.request;
    match own.below(6) {
        0 => loop {
            if let Some(outcome) = request.test() {
                return outcome;
            }
            if own.below(8) == 0 {
                std::thread::yield_now();
            }
        },
        1 => loop {
            if let Some(outcome) = request.wait_timeout(Duration::from_micros(50)) {
                return outcome;
            }
        },
        2 | 3 if spins => {
            while !request.is_done() {
                std::hint::spin_loop();
            }
        }
        _ => {}
    }
    request.wait()
}
