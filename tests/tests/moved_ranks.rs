//! Ranks that had cores of their own when they joined, and are moved to one: they take turns on it, as on a crowded node, instead of keeping it from one another until they sleep.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tocsin::{Comm, Error, World};
use tocsin_tests::worlds::config; // Links the tripwire allocator, too.

const BATCH: u32 = 1000;

/// Where this thread may run.
fn cores() -> libc::cpu_set_t {
    // SAFETY: zero is the empty set, a live local of the size that is said.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0);
        set
    }
}

fn run_on(cores: &libc::cpu_set_t) {
    // SAFETY: a live set of the size that is said.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(cores), cores) }, 0);
}

/// The first of them.
fn first(of: &libc::cpu_set_t) -> libc::cpu_set_t {
    // SAFETY: live sets; the numbers are within them.
    unsafe {
        let mut one: libc::cpu_set_t = core::mem::zeroed();
        let core = (0..libc::CPU_SETSIZE as usize).find(|core| libc::CPU_ISSET(*core, of)).unwrap();
        libc::CPU_SET(core, &mut one);
        one
    }
}

/// So many messages go there and back; each says whether there is another batch.
fn batch(comm: &Comm, more: bool) -> Result<bool, Error> {
    let mut more = [u8::from(more)];
    for _ in 0..BATCH {
        if comm.rank() == 0 {
            comm.send(&more, 1, 1)?;
            comm.recv(&mut more, 1, 1)?;
        } else {
            comm.recv(&mut more, 0, 1)?;
            comm.send(&more, 0, 1)?;
        }
    }
    Ok(more == [1])
}

#[test]
fn they_take_turns() {
    for backend in ["signal", "poll"] {
        let settings = config(&[("TOCSIN_BACKEND", backend), ("TOCSIN_BIND", "none")]);
        let ends = World::threads_with(2, &settings, |comm| {
            let all = cores();
            batch(&comm, true)?;
            run_on(&first(&all));
            comm.barrier()?;
            if comm.rank() == 1 {
                while batch(&comm, true)? {}
            } else {
                // Other programs may have the core now and then.
                let until = Instant::now() + Duration::from_secs(300);
                let mut asleep = u64::from(BATCH);
                while asleep >= u64::from(BATCH) / 10 {
                    assert!(Instant::now() < until, "{asleep} sleeps for {BATCH} messages");
                    let before = comm.stats().sleeps;
                    batch(&comm, true)?;
                    asleep = comm.stats().sleeps - before;
                }
                batch(&comm, false)?;
            }
            run_on(&all);
            batch(&comm, true)?;
            comm.barrier()
        });
        ends.unwrap().into_iter().for_each(|end: Result<(), Error>| end.unwrap());
    }
}
