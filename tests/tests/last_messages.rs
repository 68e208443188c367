//! The last message to a rank that passes nothing on, and the end of one that nothing waits for: neither interrupts who computes and has not asked for that.
#![allow(clippy::unwrap_used)]

use tocsin_nbc::{DataType, Op};
use tocsin_sync::atomic::{AtomicU32, Ordering};
use tocsin_tests as _; // its allocator
use tocsin_world::{BackendKind, Comm, Config, RawRequest, threads};

/// What rank 1, a leaf, does meanwhile.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Leaf {
    /// It computes, and waits when all is sent.
    Computes,
    /// It computes until a callback has told it of the end.
    IsCalled,
    /// It asks without a call of the library's whether it is done.
    Asks,
}

/// Numbers in a message that goes in one packet, and in one that does not.
const SHORT: usize = 100;
const LONG: usize = 200_000;

fn post(comm: &Comm, numbers: &mut [u64], operation: &str, algorithm: &str) -> RawRequest {
    let (at, algorithm) = (numbers.as_mut_ptr(), Some(algorithm));
    // SAFETY: the caller keeps the numbers until the request is over.
    let posted = unsafe {
        match operation {
            "ibcast" => comm.ibcast_raw(at.cast(), size_of_val(numbers), 0, algorithm),
            "iallgather" => comm.iallgather_raw(None, at.cast(), size_of_val(numbers) / 2, algorithm),
            "ialltoall" => comm.ialltoall_raw(None, at.cast(), size_of_val(numbers) / 2, algorithm),
            _ => comm.iallreduce_raw(None, at.cast(), numbers.len(), DataType::U64, Op::Sum, algorithm),
        }
    };
    posted.unwrap()
}

/// Spins, as who computes does.
fn until(flag: &AtomicU32, value: u32) {
    while flag.load(Ordering::Acquire) < value {
        std::hint::spin_loop();
    }
}

/// How often the root has rung the leaf by signal, and how many bytes the leaf's handlers have copied.
fn rings(operation: &str, algorithm: &str, length: usize, leaf: Leaf) -> [u64; 2] {
    let mut config = Config::default();
    config.backend = Some(BackendKind::Signal);
    let (posted, sent) = (AtomicU32::new(0), AtomicU32::new(0));
    let called: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let rings = threads(2, &config, |comm| {
        let mut numbers = vec![u64::from(comm.rank() == 0) + 1; length];
        if comm.rank() == 0 {
            until(&posted, 1);
            let before = comm.stats().rings_by_signal;
            post(&comm, &mut numbers, operation, algorithm).wait().unwrap();
            let rings = comm.stats().rings_by_signal - before;
            sent.store(1, Ordering::Release);
            return rings;
        }
        let mut request = post(&comm, &mut numbers, operation, algorithm);
        if leaf == Leaf::IsCalled {
            request.on_complete(Box::new(|end| {
                end.unwrap();
                called.store(1, Ordering::Release);
            }));
        }
        if leaf == Leaf::Asks {
            assert!(!request.is_done());
        }
        posted.store(1, Ordering::Release);
        match leaf {
            Leaf::Computes => until(&sent, 1),
            Leaf::IsCalled => until(called, 1),
            Leaf::Asks => while !request.is_done() {},
        }
        request.wait().unwrap();
        let (first, second) = numbers.split_at(length / 2);
        let expected = match operation {
            "ibcast" => (2, 2),
            "iallreduce" => (3, 3),
            _ => (2, 1),
        };
        assert!(first.iter().all(|n| *n == expected.0) && second.iter().all(|n| *n == expected.1));
        comm.stats().bytes_copied_handler
    });
    rings.unwrap().try_into().unwrap()
}

#[test]
fn who_computes_is_not_interrupted_for_what_nobody_else_depends_on() {
    for (operation, algorithm) in [
        ("ibcast", "binomial"),
        ("ibcast", "linear"),
        ("ibcast", "4-ary"),
        ("ibcast", "topology-aware"),
        ("iallreduce", "reduce-bcast"),
        ("iallreduce", "topology-aware"),
        ("iallgather", "linear"),
        ("iallgather", "ring"),
        ("ialltoall", "linear"),
        ("ialltoall", "pairwise"),
    ] {
        // Ends a test that hangs.
        // SAFETY: no memory effects.
        unsafe { libc::alarm(60) };
        assert_eq!(rings(operation, algorithm, SHORT, Leaf::Computes)[0], 0, "{operation} {algorithm}");
        for leaf in [Leaf::IsCalled, Leaf::Asks] {
            assert_ne!(rings(operation, algorithm, SHORT, leaf)[0], 0, "{operation} {algorithm} {leaf:?}");
        }
        // SAFETY: as above.
        unsafe { libc::alarm(0) };
    }
}

/// A long message has to be announced to who has posted its receive: its sender waits for that. Nothing else of it is: who waits copies, in both directions.
#[test]
fn who_computes_is_interrupted_once_for_a_long_one() {
    for (operation, algorithm) in [
        ("ibcast", "binomial"),
        ("ibcast", "linear"),
        ("iallgather", "linear"),
        ("iallgather", "ring"),
        ("ialltoall", "linear"),
        ("ialltoall", "pairwise"),
    ] {
        // SAFETY: as above.
        unsafe { libc::alarm(60) };
        // Who is off its core for long is rung once more, and who does not wait yet is not waited for.
        let fewest = (0..5).map(|_| rings(operation, algorithm, LONG, Leaf::Computes)).min().unwrap();
        assert_eq!(fewest, [1, 0], "{operation} {algorithm}");
        // SAFETY: as above.
        unsafe { libc::alarm(0) };
    }
}
