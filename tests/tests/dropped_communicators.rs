//! Communicators and worlds that come and go: what is kept of them goes with them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Mutex, PoisonError};

use tocsin::{Comm, Config, Error, Op, World};
use tocsin_sync::atomic::{AtomicI64, Ordering};

/// Counts the bytes that are allocated.
struct Counting;

static BYTES: AtomicI64 = AtomicI64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: each method passes its arguments, whose obligations the caller has met, to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes that all ranks have allocated, at a moment at which none of them allocates.
fn bytes(comm: &Comm) -> Result<i64, Error> {
    comm.barrier()?;
    let now = BYTES.load(Ordering::Relaxed);
    comm.barrier()?;
    Ok(now)
}

/// What is counted is the process's.
static ONE: Mutex<()> = Mutex::new(());

/// Runs `body` on three ranks many times, and finds that this leaves nothing behind but what the first times did.
fn leaves_nothing(rounds: u32, body: impl Fn(&Comm, u32) -> Result<(), Error> + Sync) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", "poll").unwrap();
    let all = World::threads_with(3, &config, |comm| {
        let run = |from, to| (from..to).try_for_each(|round| body(&comm, round));
        run(0, rounds)?;
        let before = bytes(&comm)?;
        run(rounds, 10 * rounds)?;
        let after = bytes(&comm)?;
        Ok::<_, Error>((before, after))
    });
    for end in all.unwrap() {
        let (before, after) = end.unwrap();
        // Less than a byte for each.
        assert!(after - before < 9 * i64::from(rounds), "{before} bytes, then {after}");
    }
}

#[test]
fn duplicates_leave_nothing() {
    leaves_nothing(200, |comm, round| {
        let dup = comm.dup()?;
        let sum = dup.iallreduce(vec![round], Op::Sum)?.wait()?;
        assert_eq!(sum, [round * 3]);
        Ok(())
    });
}

#[test]
fn parts_leave_nothing() {
    leaves_nothing(200, |comm, round| {
        // Another rank is left out each time, and those two may be in another order.
        let rank = comm.rank();
        let part = comm.split((rank != round % 3).then_some(7), -(rank as i32))?;
        part.map_or(Ok(()), |part| part.barrier())
    });
}

#[test]
fn what_nobody_receives_goes_with_its_communicator() {
    leaves_nothing(100, |comm, _| {
        let dup = comm.dup()?;
        // Some come before the other drops the communicator, some after.
        for peer in (0..3).filter(|peer| *peer != comm.rank()) {
            dup.send(&[1u8; 600], peer, 0)?;
        }
        Ok(())
    });
}

#[test]
fn revoked_ones_leave_nothing() {
    leaves_nothing(100, |comm, round| {
        let dup = comm.dup()?;
        if round % 3 == comm.rank() {
            dup.revoke();
        }
        match dup.barrier() {
            Err(Error::Revoked { .. }) | Ok(()) => Ok(()),
            Err(other) => Err(other),
        }
    });
}

/// Worlds of one rank, whose other threads drop requests while it leaves.
fn worlds_left_by_droppers(worlds: u32) {
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", "poll").unwrap();
    for world in 0..worlds {
        let droppers = World::threads_with(1, &config, |comm| {
            let droppers = [(); 2].map(|()| {
                let comm = comm.clone();
                std::thread::spawn(move || {
                    while let Ok(request) = comm.irecv(vec![0u8; 8], 0, 1) {
                        drop(request);
                    }
                })
            });
            // So that it does not always leave at the same point of theirs.
            (0..world % 16).for_each(|_| std::thread::yield_now());
            droppers
        });
        droppers.unwrap().into_iter().flatten().for_each(|dropper| dropper.join().unwrap());
    }
}

#[test]
fn requests_dropped_while_the_rank_leaves_go_with_it() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    worlds_left_by_droppers(100);
    let before = BYTES.load(Ordering::Relaxed);
    worlds_left_by_droppers(1000);
    let after = BYTES.load(Ordering::Relaxed);
    // One rank is more.
    assert!(after - before < 8 * 1024, "{before} bytes, then {after}");
}
