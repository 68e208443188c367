//! Several threads of one rank in the library at once, and threads that are never in it: who waits is woken, whoever
//! made the progress.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};
use tocsin_sync::atomic::{AtomicU64, Ordering};

use tocsin_world::{Comm, ConstBuf, Error, Mode, MutBuf, RawRequest, wait_all, wait_any};

use crate::memory::Buffer;
use crate::random::Random;
use crate::run::Arguments;

fn wait(request: Result<RawRequest, Error>) {
    if let Err(error) = request.and_then(|mut r| r.wait()) {
        panic!("{error}");
    }
}

fn send(comm: &Comm, bytes: &[u8], dest: u32, tag: i32, mode: Mode) -> RawRequest {
    let buffer = ConstBuf::contiguous(bytes.as_ptr(), bytes.len());
    // SAFETY: callers wait before they change or drop the bytes.
    unsafe { comm.isend_raw(buffer, dest, tag, mode) }.unwrap_or_else(|e| panic!("{e}"))
}

fn receive(comm: &Comm, bytes: &mut [u8], source: u32, tag: i32) -> RawRequest {
    let buffer = MutBuf::contiguous(bytes.as_mut_ptr(), bytes.len());
    // SAFETY: callers wait before they look at or drop the bytes.
    unsafe { comm.irecv_raw(buffer, Some(source), Some(tag)) }.unwrap_or_else(|e| panic!("{e}"))
}

/// Computes for some microseconds without a call of the library.
fn compute(random: &mut Random) {
    for _ in 0..random.below(100_000) {
        black_box(0);
    }
}

/// Brings both to their end by a way chosen at random.
fn complete(comm: &Comm, random: &mut Random, mut sending: RawRequest, mut receiving: RawRequest) {
    match random.below(6) {
        0 => wait_all(&mut [&mut receiving, &mut sending]).unwrap_or_else(|e| panic!("{e}")),
        1 => while receiving.test().is_none() || sending.test().is_none() {},
        2 => {
            let mut both = [&mut sending, &mut receiving];
            let first = wait_any(&mut both).unwrap_or_else(|| panic!("nothing to wait for"));
            both[1 - first].wait().unwrap_or_else(|e| panic!("{e}"));
        }
        3 => {
            while receiving.wait_timeout(Duration::from_micros(random.below(50))).is_none() {}
            sending.wait().unwrap_or_else(|e| panic!("{e}"));
        }
        4 => {
            let (done, ended) = mpsc::channel();
            receiving.on_complete(Box::new(move |outcome| drop(done.send(outcome))));
            sending.wait().unwrap_or_else(|e| panic!("{e}"));
            // Under `poll` callbacks run in calls.
            while !matches!(ended.recv_timeout(Duration::from_micros(100)), Ok(Ok(_))) {
                comm.progress();
            }
        }
        _ => {
            compute(random);
            sending.wait().unwrap_or_else(|e| panic!("{e}"));
        }
    }
    for mut request in [receiving, sending] {
        request.wait().unwrap_or_else(|e| panic!("{e}"));
    }
}

/// `seed`, `rounds`, `threads`, `max` (bytes): each rank's `threads` threads exchange messages around a ring, thread `t` with the
/// threads `t` of its neighbours.
pub fn post_wait_and_test(comm: &Comm, arguments: &Arguments) {
    let (seed, rounds, max) = (arguments.number("seed"), arguments.number("rounds"), arguments.number("max"));
    let (me, ranks) = (comm.rank(), comm.size());
    let (next, before) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let work = |thread: u64, comm: &Comm| {
        // What the neighbours know of each other's messages.
        let plan = |rank: u32| Random::new(seed ^ thread << 32 ^ u64::from(rank) << 40);
        let (mut mine, mut theirs) = (plan(me), plan(before));
        let mut own = Random::new(seed ^ 0xa5a5 ^ thread << 8 ^ u64::from(me));
        for round in 0..rounds {
            let message = |random: &mut Random| {
                let large = random.below(16) == 0;
                let mut bytes = vec![0; random.below(if large { max } else { 200 }) as usize];
                Random::fill(random.bits(), &mut bytes);
                bytes
            };
            let (out, expected) = (message(&mut mine), message(&mut theirs));
            let out = Buffer::from(out).share(comm, own.bits());
            let mut into = Buffer::from(vec![0; expected.len()]).share(comm, own.bits());
            let mode = if own.below(3) == 0 { Mode::Synchronous } else { Mode::Standard };
            let (sending, receiving) = if own.below(2) == 0 {
                let sending = send(comm, &out, next, thread as i32, mode);
                (sending, receive(comm, &mut into, before, thread as i32))
            } else {
                let receiving = receive(comm, &mut into, before, thread as i32);
                (send(comm, &out, next, thread as i32, mode), receiving)
            };
            complete(comm, &mut own, sending, receiving);
            assert!(
                into[..] == expected[..],
                "rank {me}, thread {thread}, round {round}: other bytes than were sent"
            );
        }
    };
    std::thread::scope(|scope| {
        for thread in 1..arguments.number("threads") {
            let (work, comm) = (&work, comm.clone());
            scope.spawn(move || work(thread, &comm));
        }
        work(0, comm);
    });
    wait(comm.ibarrier_raw(None));
}

/// `count`: rank 0 sends rank 1 that many messages which nobody receives yet, and one more; rank 1 only ever tests for the last.
pub fn test_behind_a_flood(comm: &Comm, arguments: &Arguments) {
    let count = arguments.number("count");
    flood(comm, count, || {
        let mut last = [0_u8; 8];
        let mut request = receive(comm, &mut last, 0, 2);
        let begun = Instant::now();
        while request.test().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20), "tests do not get past the flood");
        }
    });
}

/// `count`: while such a flood stands before rank 1, a wait of its for something else comes to rest.
pub fn rest_behind_a_flood(comm: &Comm, arguments: &Arguments) {
    flood(comm, arguments.number("count"), || {
        let mut never = [0_u8; 8];
        let mut request = receive(comm, &mut never, 1, 3);
        assert!(request.wait_timeout(Duration::from_millis(300)).is_none());
        let before = super::flow::cpu_seconds();
        assert!(request.wait_timeout(Duration::from_millis(300)).is_none());
        let used = super::flow::cpu_seconds() - before;
        assert!(request.cancel());
        println!("waited 300 ms behind a flood, with {:.1} ms of CPU time", used * 1e3);
        assert!(used < 0.1, "a waiter that cannot go on takes {used} s of 0.3 s");
    });
}

/// Rank 0 sends `count` messages of tag 1, then one of tag 2; rank 1 does `then`, and receives what is left.
fn flood(comm: &Comm, count: u64, then: impl FnOnce()) {
    if comm.rank() == 0 {
        let words: Vec<[u8; 8]> = (0..count).map(u64::to_le_bytes).collect();
        let mut sends: Vec<RawRequest> =
            words.iter().map(|word| send(comm, word, 1, 1, Mode::Standard)).collect();
        sends.push(send(comm, &[7; 8], 1, 2, Mode::Standard));
        wait(comm.ibarrier_raw(None));
        wait_all(&mut sends.iter_mut().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"));
    } else if comm.rank() == 1 {
        wait(comm.ibarrier_raw(None));
        then();
        for i in 0..count {
            let mut word = [0; 8];
            receive(comm, &mut word, 0, 1).wait().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(word, i.to_le_bytes());
        }
    } else {
        wait(comm.ibarrier_raw(None));
    }
    wait(comm.ibarrier_raw(None));
}

struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// `rounds`: callbacks and wakers of rank 0 run while it computes and calls nothing.
pub fn callbacks_while_computing(comm: &Comm, arguments: &Arguments) {
    const SIZES: [usize; 3] = [8, 16384, 100_000];
    let mut slowest = Duration::ZERO;
    for round in 0..arguments.number("rounds") {
        if comm.rank() == 0 {
            let buffer = |(lot, size): (u64, &usize)| Buffer::from(vec![0; *size]).share(comm, lot);
            let mut buffers: Vec<Buffer> = (round..).zip(SIZES.iter().chain(&SIZES)).map(buffer).collect();
            let seen = Arc::new(Woken(AtomicU64::new(0)));
            let waker = Waker::from(seen.clone());
            let mut requests: Vec<RawRequest> =
                (0..).zip(&mut buffers).map(|(tag, buffer)| receive(comm, buffer, 1, tag)).collect();
            for (i, request) in requests.iter_mut().enumerate() {
                if i < SIZES.len() {
                    request.set_waker(&waker);
                } else {
                    let (seen, text) = (seen.clone(), format!("round {round}, message {i}"));
                    request.on_complete(Box::new(move |outcome| {
                        outcome.unwrap_or_else(|e| panic!("{text}: {e}"));
                        seen.0.fetch_add(1, Ordering::Release);
                    }));
                }
            }
            wait(comm.ibarrier_raw(None));
            let begun = Instant::now();
            while seen.0.load(Ordering::Acquire) < requests.len() as u64 {
                assert!(
                    begun.elapsed() < Duration::from_secs(5),
                    "round {round}: {} of {} callbacks and wakers ran; {} are done",
                    seen.0.load(Ordering::Relaxed),
                    requests.len(),
                    requests.iter().filter(|r| r.is_done()).count(),
                );
            }
            slowest = slowest.max(begun.elapsed());
            assert!(requests.iter().all(RawRequest::is_done));
            wait_all(&mut requests.iter_mut().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"));
        } else {
            let buffer = |(lot, size): (u64, &usize)| Buffer::from(vec![round as u8; *size]).share(comm, lot);
            let buffers: Vec<Buffer> = (round / 2..).zip(SIZES.iter().chain(&SIZES)).map(buffer).collect();
            wait(comm.ibarrier_raw(None));
            if comm.rank() == 1 {
                let mut sends: Vec<RawRequest> = (0..)
                    .zip(&buffers)
                    .map(|(tag, bytes)| send(comm, bytes, 0, tag, Mode::Standard))
                    .collect();
                wait_all(&mut sends.iter_mut().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"));
            }
        }
        wait(comm.ibarrier_raw(None));
    }
    if comm.rank() == 0 {
        println!("callbacks and wakers ran within {:.2} ms of computing", slowest.as_secs_f64() * 1e3);
    }
}

/// `seed`, `rounds`: three threads of each rank make communicators at once, each from a parent of its own; the parents have
/// some ranks in common. No rank gets a context twice, and no message strays.
pub fn make_communicators(comm: &Comm, arguments: &Arguments) {
    let (seed, rounds, me) = (arguments.number("seed"), arguments.number("rounds"), comm.rank());
    let failed = |error: Error| -> ! { panic!("rank {me}: {error}") };
    // All ranks; all but the last; all but the first.
    let left_out = [None, Some(comm.size() - 1), Some(0)];
    let parents: Vec<Option<Comm>> = left_out
        .iter()
        .map(|out| comm.split((*out != Some(me)).then_some(0), 0).unwrap_or_else(|e| failed(e)))
        .collect();
    let make = |thread: u64, parent: &Comm| {
        // The same on all ranks of the parent, and one that is not.
        let mut plan = Random::new(seed ^ thread << 32);
        let mut own = Random::new(seed ^ 0x5a5a ^ thread << 32 ^ u64::from(me) << 40);
        let mut made = Vec::new();
        for round in 0..rounds {
            if own.below(4) == 0 {
                compute(&mut own);
            }
            let new = match plan.below(3) {
                0 => parent.dup().map(Some),
                1 => parent.split(Some(parent.rank() % 2), -(parent.rank() as i32)),
                _ => parent.split((u64::from(parent.rank()) != round % 2).then_some(7), 0),
            };
            let Some(new) = new.unwrap_or_else(|e| failed(e)) else { continue };
            let (here, ranks) = (new.rank(), new.size());
            let word = (thread << 32 | round).to_le_bytes();
            let mut got = [0; 8];
            let mut receiving = receive(&new, &mut got, (here + ranks - 1) % ranks, 1);
            let mut sending = send(&new, &word, (here + 1) % ranks, 1, Mode::Standard);
            wait_all(&mut [&mut receiving, &mut sending]).unwrap_or_else(|e| failed(e));
            assert_eq!(
                got, word,
                "rank {me}, thread {thread}, round {round}: a message of another communicator"
            );
            made.push(new.context());
        }
        made
    };
    let mut contexts = vec![comm.context()];
    contexts.extend(parents.iter().flatten().map(Comm::context));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(&parents)
            .filter_map(|(thread, parent)| {
                let (make, parent) = (&make, parent.as_ref()?);
                Some(scope.spawn(move || make(thread, parent)))
            })
            .collect();
        for thread in threads {
            contexts.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    let all = contexts.len();
    contexts.sort_unstable();
    contexts.dedup();
    assert_eq!(contexts.len(), all, "rank {me}: {} contexts came twice", all - contexts.len());
    wait(comm.ibarrier_raw(None));
}
