//! Waiting for many requests at once: each keeps its own outcome, whichever rank of this process it is of, and the first that has
//! failed is told.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Barrier, Mutex};

use tocsin_tests as _; // Links the tripwire allocator.
use tocsin_tests::run::BACKENDS;
use tocsin_world::{Comm, Config, ConstBuf, Error, Mode, MutBuf, RawRequest, wait_all};

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
