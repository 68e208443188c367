//! Collectives on boards, waited for in each of the ways there are: by whoever posts them, in any order, on several communicators, so that each
//! rank waits for another one while the others compute or wait for something else.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tocsin_tests as _; // Links the tripwire allocator.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tocsin::{Comm, Config, Error, Op, Request, World};
use tocsin_sync::atomic::{AtomicBool, Ordering};

/// So long nobody waits who is not forgotten.
const FOR_EVER: Duration = Duration::from_secs(60);

/// What a rank decides, by itself.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

struct Flag(AtomicBool);

impl Flag {
    fn new() -> Arc<Flag> {
        Arc::new(Flag(AtomicBool::new(false)))
    }

    /// Computes until it is set.
    fn compute(&self, what: &str) {
        until(what, || self.0.load(Ordering::Acquire));
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < FOR_EVER, "it waits for ever: {what}");
        std::hint::spin_loop();
    }
}

/// Waits for one of them, in one way; what was not taken stays.
fn end_one(
    random: &mut Random,
    requests: &mut Vec<(Request<Vec<u64>>, u64)>,
    polls: bool,
) -> Result<(), Error> {
    let at = random.below(requests.len());
    // Without handlers and threads nothing ends between two calls.
    let way = random.below(if polls { 4 } else { 7 });
    let what = format!("way {way}");
    if way == 0 {
        let mut all: Vec<Request<Vec<u64>>> = Vec::new();
        let mut right = Vec::new();
        for (request, expected) in requests.drain(..) {
            all.push(request);
            right.push(expected);
        }
        let done = tocsin::wait_any(&mut all).expect("there are some");
        requests.extend(all.into_iter().zip(right));
        let (request, expected) = requests.swap_remove(done);
        assert_eq!(request.wait()?, [expected]);
        return Ok(());
    }
    let (mut request, expected) = requests.swap_remove(at);
    let got = match way {
        1 => request.wait()?,
        2 => {
            until(&what, || request.test().is_some_and(|end| end.is_ok()));
            request.wait()?
        }
        3 => {
            until(&what, || request.wait_timeout(Duration::from_micros(50)).is_some());
            request.wait()?
        }
        4 => {
            until(&what, || request.is_done());
            request.wait()?
        }
        5 => {
            let flag = Flag::new();
            let theirs = flag.clone();
            let end = Arc::new(Mutex::new(None));
            let its = end.clone();
            request.on_complete(move |how| {
                *its.lock().unwrap() = Some(how);
                theirs.wake();
            });
            flag.compute(&what);
            let how = end.lock().unwrap().take();
            how.expect("it was called")?.0
        }
        _ => loop {
            let flag = Flag::new();
            let waker = Waker::from(flag.clone());
            match Pin::new(&mut request).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(got) => break got?,
                Poll::Pending => flag.compute(&what),
            }
        },
    };
    assert_eq!(got, [expected]);
    Ok(())
}

fn rank(comm: &Comm, seed: u64, polls: bool) -> Result<(), Error> {
    let comms = [comm.dup()?, comm.dup()?, comm.dup()?];
    let size = u64::from(comm.size());
    let me = u64::from(comm.rank());
    // What is posted is the same everywhere, who waits when is not.
    let (mut agreed, mut own) = (Random(seed), Random(seed ^ ((me + 1) << 32)));
    let mut requests = Vec::new();
    for n in 0..400u64 {
        let comm = &comms[agreed.below(comms.len())];
        let posted = match agreed.below(3) {
            0 => (comm.ibcast(vec![n * 10 + me], (n % size) as u32)?, n * 10 + n % size),
            // By messages.
            1 if n % 5 == 0 => {
                let comm = comm.with_algorithm("recursive-doubling");
                (comm.iallreduce(vec![n], Op::Sum)?, n * size)
            }
            _ => (comm.iallreduce(vec![n], Op::Sum)?, n * size),
        };
        requests.push(posted);
        // All that came before is posted, so that it ends whatever this rank waits for.
        while requests.len() > 12 || !requests.is_empty() && own.below(3) == 0 {
            end_one(&mut own, &mut requests, polls)?;
        }
    }
    while !requests.is_empty() {
        end_one(&mut own, &mut requests, polls)?;
    }
    comm.barrier()
}

#[test]
fn nobody_is_forgotten_whichever_way_it_waits() {
    for backend in ["signal", "thread", "poll"] {
        for (size, seed) in [(2, 0x9E37_79B9), (3, 0xC2B2_AE35), (4, 0x85EB_CA6B)] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            for end in
                World::threads_with(size, &config, |comm| rank(&comm, seed, backend == "poll")).unwrap()
            {
                end.unwrap();
            }
        }
    }
}
