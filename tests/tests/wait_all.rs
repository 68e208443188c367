//! Waiting for many requests at once, and testing them: each keeps its own outcome, whichever rank of this process it is of, and the first that has
//! failed is told.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Barrier, Mutex};

use tocsin_tests as _; // Links the tripwire allocator.
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
