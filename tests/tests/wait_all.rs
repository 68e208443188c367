//! Waiting for many requests at once, and testing them: each keeps its own outcome, whichever rank of this process it is of, and the first that has
//! failed is told.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Barrier, Mutex};

use tocsin_tests as _; // Links the tripwire allocator.
use tocsin_tests::random::Random;
use tocsin_tests::run::BACKENDS;
use tocsin_world::{Comm, Config, ConstBuf, Error, Mode, MutBuf, RawRequest, wait_all, wait_any};

/// Of each rank: more than are given back at once.
const COUNT: usize = 150;
/// The message with this tag is longer than its receive.
const TOO_LONG: usize = 70;
/// Rank 0's receive of this tag is cancelled: nobody sends that.
const CANCELLED: usize = 90;
/// Its outcome is seen before.
const SEEN: usize = 3;

fn receive_all(comm: &Comm, from: u32, blocks: &mut [[u8; 8]]) -> Vec<RawRequest> {
    let post = |(tag, block): (usize, &mut [u8; 8])| {
        let buf = MutBuf::contiguous(block.as_mut_ptr(), 8);
        // SAFETY: the blocks live, untouched, until all requests are complete: the caller waits for the barrier after that.
        unsafe { comm.irecv_raw(buf, Some(from), Some(tag as i32)) }.unwrap()
    };
    blocks.iter_mut().enumerate().map(post).collect()
}

fn send_all(comm: &Comm, to: u32) {
    for tag in (0..COUNT).filter(|tag| to != 0 || *tag != CANCELLED) {
        let payload = [tag as u8; 16];
        let buf = ConstBuf::contiguous(payload.as_ptr(), if tag == TOO_LONG { 16 } else { 8 });
        // SAFETY: the payload lives until the request is complete.
        unsafe { comm.isend_raw(buf, to, tag as i32, Mode::Standard) }.unwrap().wait().unwrap();
    }
}

#[test]
fn all_of_two_ranks() {
    for backend in BACKENDS {
        let mut config = Config::default();
        config.backend = Some(backend);
        let (barrier, of_other) = (Barrier::new(2), Mutex::new(Vec::new()));
        let rank = |comm: Comm| {
            let (me, other) = (comm.rank(), 1 - comm.rank());
            let mut blocks = vec![[0xa5; 8]; COUNT];
            let mut requests = receive_all(&comm, other, &mut blocks);
            barrier.wait();
            send_all(&comm, other);
            if me == 1 {
                of_other.lock().unwrap().append(&mut requests);
            }
            barrier.wait();
            if me == 0 {
                assert!(requests[CANCELLED].cancel());
                requests[SEEN].wait().unwrap();
                let mut theirs = std::mem::take(&mut *of_other.lock().unwrap());
                let mut all: Vec<&mut RawRequest> =
                    requests.iter_mut().zip(&mut theirs).flat_map(|(mine, theirs)| [mine, theirs]).collect();
                let first = wait_all(&mut all).unwrap_err();
                assert!(matches!(first, Error::Truncated { .. }), "{backend}: {first}");
                for (tag, pair) in all.chunks_mut(2).enumerate() {
                    for (of, request) in pair.iter_mut().enumerate() {
                        match request.test().unwrap() {
                            Err(Error::Truncated { .. }) => assert_eq!(tag, TOO_LONG),
                            Err(Error::Cancelled { .. }) => assert_eq!((tag, of), (CANCELLED, 0)),
                            result => {
                                let status = result.unwrap();
                                let source = 1 - of as u32;
                                assert_eq!(
                                    (status.source, status.tag, status.bytes),
                                    (source, tag as i32, 8)
                                );
                            }
                        }
                    }
                }
                // Once more: it has what it had.
                assert_eq!(wait_all(&mut all).unwrap_err().to_string(), first.to_string());
            }
            barrier.wait();
            for (tag, block) in blocks.iter().enumerate() {
                let right = if (me, tag) == (0, CANCELLED) { 0xa5 } else { tag as u8 };
                assert_eq!(*block, [right; 8], "{backend}: rank {me}, tag {tag}");
            }
        };
        tocsin_world::threads(2, &config, rank).unwrap();
    }
}

/// Longer than what travels in one packet.
const LARGE: usize = 200_000;
/// Large messages at once.
const FEW: usize = 5;

/// Large messages, of some of which the ends may have been told before anybody waits, mixed with short ones: all are waited for, or one after the other.
#[test]
fn large_ones_that_are_over_before_the_wait() {
    for (backend, all) in BACKENDS.into_iter().flat_map(|backend| [(backend, false), (backend, true)]) {
        let mut config = Config::default();
        config.backend = Some(backend);
        let rank = |comm: Comm| {
            let (me, other) = (comm.rank(), 1 - comm.rank());
            let mut memory = vec![vec![me as u8 + 1; LARGE]; FEW];
            let mut short = [[me as u8; 8]; FEW];
            let mut requests = Vec::new();
            for (tag, (large, short)) in (0i32..).zip(memory.iter_mut().zip(&mut short)) {
                let bufs = [(large.as_mut_ptr(), LARGE), (short.as_mut_ptr(), 8)];
                for (kind, (base, bytes)) in (0i32..).zip(bufs) {
                    let tag = 2 * tag + kind;
                    // SAFETY: the memory lives until all requests are complete, and is not used before.
                    let request = unsafe {
                        if me == 0 {
                            comm.isend_raw(ConstBuf::contiguous(base, bytes), other, tag, Mode::Standard)
                        } else {
                            comm.irecv_raw(MutBuf::contiguous(base, bytes), Some(other), Some(tag))
                        }
                    };
                    requests.push(request.unwrap());
                }
            }
            if me == 0 {
                // What is copied, and told, before the other waits.
                requests[0].wait().unwrap();
            }
            // The sender's end may be all that the receiver has to hear.
            let mut pending: Vec<&mut RawRequest> = requests.iter_mut().collect();
            if all {
                wait_all(&mut pending).unwrap();
            }
            let mut ended = 0;
            while let Some(at) = wait_any(&mut pending) {
                let status = pending.swap_remove(at).wait().unwrap();
                assert_eq!((status.source, status.bytes == LARGE), (0, status.tag % 2 == 0), "{backend}");
                ended += 1;
            }
            assert_eq!(ended, 2 * FEW, "{backend}");
            assert!(memory.iter().all(|block| block.iter().all(|byte| *byte == 1)), "{backend}: rank {me}");
            assert!(short.iter().all(|block| *block == [0; 8]), "{backend}: rank {me}");
        };
        tocsin_world::threads(2, &config, rank).unwrap();
    }
}

/// Windows of short messages, one of which comes out of its turn.
#[test]
fn windows_in_another_order() {
    const WINDOW: usize = 64;
    for backend in BACKENDS {
        let mut config = Config::default();
        config.backend = Some(backend);
        let rank = |comm: Comm| {
            let mut blocks = [[0u8; 8]; WINDOW];
            for round in 0..20u8 {
                let post = |(at, block): (usize, &mut [u8; 8])| {
                    let tag = if at == WINDOW / 2 { 2 } else { 1 };
                    let buf = MutBuf::contiguous(block.as_mut_ptr(), 8);
                    // SAFETY: the blocks live until all are waited for.
                    unsafe { comm.irecv_raw(buf, Some(0), Some(tag)) }.unwrap()
                };
                if comm.rank() == 1 {
                    let mut requests: Vec<RawRequest> = blocks.iter_mut().enumerate().map(post).collect();
                    wait_all(&mut requests.iter_mut().collect::<Vec<_>>()).unwrap();
                    let statuses = requests.iter_mut().map(|request| request.wait().unwrap());
                    assert!(
                        statuses
                            .enumerate()
                            .all(|(at, s)| (s.tag == 2) == (at == WINDOW / 2) && s.bytes == 8)
                    );
                    let expected = |at: usize| if at == WINDOW / 2 { [255; 8] } else { [round; 8] };
                    assert!((0..WINDOW).all(|at| blocks[at] == expected(at)), "{backend}: {blocks:?}");
                    continue;
                }
                for at in 0..WINDOW {
                    // The one of the other tag comes last.
                    let (tag, payload) = if at == WINDOW - 1 { (2, [255u8; 8]) } else { (1, [round; 8]) };
                    let buf = ConstBuf::contiguous(payload.as_ptr(), 8);
                    // SAFETY: the payload lives until the request is complete.
                    unsafe { comm.isend_raw(buf, 1, tag, Mode::Standard) }.unwrap().wait().unwrap();
                    if at % 16 == 0 {
                        std::thread::yield_now();
                    }
                }
            }
        };
        tocsin_world::threads(2, &config, rank).unwrap();
    }
}

/// Few short messages between two or three, in any order, from a named source or whichever, some of them synchronous, some longer than their receive: all are waited for at once, beside what sends them.
#[test]
fn few_short_ones_in_any_order() {
    /// Of one round: by sender, receiver and place.
    struct Message {
        from: u32,
        to: u32,
        tag: i32,
        any_source: bool,
        synchronous: bool,
        too_long: bool,
    }
    fn messages(ranks: u32, round: i32, random: &mut Random) -> Vec<Message> {
        let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        let mut all = Vec::new();
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            for _ in 0..random.below(5) {
                let tag = round * 100 + all.len() as i32;
                let mut one_in = |n| random.below(n) == 0;
                let [any_source, synchronous, too_long] = [one_in(4), one_in(5), one_in(40)];
                all.push(Message { from, to, tag, any_source, synchronous, too_long });
            }
        }
        all
    }
    for (backend, ranks) in BACKENDS.into_iter().flat_map(|backend| [(backend, 2), (backend, 3)]) {
        let mut config = Config::default();
        config.backend = Some(backend);
        let rank = |comm: Comm| {
            let me = comm.rank();
            let (mut common, mut own) = (Random::new(5), Random::new(100 + u64::from(me)));
            for round in 0..150 {
                let all = messages(ranks, round, &mut common);
                let mut blocks = vec![[0xa5u8; 16]; all.len()];
                let payloads: Vec<[u8; 16]> = all.iter().map(|message| [message.tag as u8; 16]).collect();
                let mut posts: Vec<usize> =
                    (0..all.len()).filter(|at| all[*at].to == me || all[*at].from == me).collect();
                own.shuffle(&mut posts);
                let mut requests = Vec::new();
                for at in posts.iter().copied() {
                    let Message { from, to, tag, any_source, synchronous, too_long } = all[at];
                    let bytes = if too_long { 16 } else { 8 };
                    // SAFETY: blocks and payloads live until all requests are complete.
                    requests.push(unsafe {
                        if to == me {
                            let buf = MutBuf::contiguous(blocks[at].as_mut_ptr(), 8);
                            comm.irecv_raw(buf, (!any_source).then_some(from), Some(tag)).unwrap()
                        } else {
                            let mode = if synchronous { Mode::Synchronous } else { Mode::Standard };
                            comm.isend_raw(ConstBuf::contiguous(payloads[at].as_ptr(), bytes), to, tag, mode)
                                .unwrap()
                        }
                    });
                    if own.below(3) == 0 {
                        std::thread::yield_now();
                    }
                }
                let first = wait_all(&mut requests.iter_mut().collect::<Vec<_>>());
                let mut failed = false;
                for (at, request) in posts.iter().copied().zip(&mut requests) {
                    let Message { from, to, tag, too_long, .. } = all[at];
                    let outcome = request.wait();
                    if to != me {
                        outcome.unwrap();
                        continue;
                    }
                    assert_eq!(blocks[at][8..], [0xa5; 8], "{backend} {tag}");
                    assert_eq!(blocks[at][..8], [tag as u8; 8], "{backend} {tag}");
                    if too_long {
                        let error = outcome.unwrap_err();
                        assert!(matches!(error, Error::Truncated { tag: of, .. } if of == tag), "{error}");
                        if !failed {
                            assert_eq!(first.as_ref().unwrap_err().to_string(), error.to_string());
                        }
                        failed = true;
                    } else {
                        let got = outcome.unwrap();
                        assert_eq!((got.source, got.tag, got.bytes), (from, tag, 8), "{backend}");
                    }
                }
                assert_eq!(first.is_err(), failed, "{backend}");
            }
        };
        tocsin_world::threads(ranks, &config, rank).unwrap();
    }
}

#[test]
fn some_of_those_that_are_pending() {
    for backend in BACKENDS {
        let mut config = tocsin::Config::default();
        config.backend = Some(backend);
        let ends = tocsin::World::threads_with(2, &config, |comm| {
            let other = 1 - comm.rank();
            let mut receives: Vec<_> =
                (0..4).map(|tag| comm.irecv(vec![9u8; 3], other, tag)).collect::<Result<_, _>>()?;
            assert!(!tocsin::test_all(&mut receives) && tocsin::test_any(&mut receives).is_none());
            comm.barrier()?;
            comm.send(&[2u8; 3], other, 2)?;
            assert_eq!(tocsin::wait_some(&mut receives), [2]);
            assert_eq!(tocsin::test_any(&mut receives), Some(2));
            assert_eq!(receives.remove(2).wait()?, [2; 3]);
            assert!(!tocsin::test_all(&mut receives));
            comm.barrier()?;
            for tag in [0u8, 1, 3] {
                comm.send(&[tag; 3], other, i32::from(tag))?;
            }
            while !tocsin::test_all(&mut receives) {
                std::thread::yield_now();
            }
            assert_eq!(tocsin::wait_some(&mut receives), [0, 1, 2]);
            assert_eq!(tocsin::wait_all(receives)?, [[0; 3], [1; 3], [3; 3]]);
            let nothing: &mut [tocsin::Request<Vec<u8>>] = &mut [];
            assert!(tocsin::wait_some(nothing).is_empty() && tocsin::test_all(nothing));
            assert_eq!(tocsin::test_any(nothing), None);
            Ok::<(), tocsin::Error>(())
        });
        ends.unwrap().into_iter().for_each(|end| end.unwrap());
    }
}
