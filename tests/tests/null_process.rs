//! The null process: at both ends of a line the neighbour that is none, in every call of a message.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tocsin::{
    ANY_SOURCE, ANY_TAG, Comm, Error, Op, PROC_NULL, Source, Status, Tag, World, wait_all, wait_any,
};
use tocsin_sync::atomic::{AtomicU32, Ordering};
use tocsin_tests::worlds::{config, everywhere}; // Links the tripwire allocator, too.

const RANKS: u32 = 3;
/// In one packet, and announced.
const SIZES: [usize; 3] = [1, 3_000, 300_000];
const NOTHING: Status = Status { source: PROC_NULL, tag: -1, bytes: 0 };

fn each(rank: impl Fn(&Comm) -> Result<(), Error> + Sync) {
    everywhere(RANKS..=RANKS, |comm| {
        rank(&comm)?;
        // Nothing was sent that is still to be received.
        comm.barrier()?;
        assert!(comm.iprobe(ANY_SOURCE, ANY_TAG)?.is_none());
        comm.barrier()
    });
}

/// Those before and after in the line.
fn neighbours(comm: &Comm) -> (u32, u32) {
    let before = comm.rank().checked_sub(1).unwrap_or(PROC_NULL);
    let after = if comm.rank() + 1 < comm.size() { comm.rank() + 1 } else { PROC_NULL };
    (before, after)
}

/// What has come from `source`, and into what: as it was from none.
fn check(source: u32, status: Status, came: &[u8]) {
    if source == PROC_NULL {
        assert_eq!(status, NOTHING);
        assert!(came.iter().all(|byte| *byte == 0xEE));
    } else {
        assert_eq!((status.source, status.bytes), (source, came.len()));
        assert!(came.iter().all(|byte| u32::from(*byte) == source));
    }
}

#[test]
fn a_line_shifts_by_every_call() {
    each(|comm| {
        let (before, after) = neighbours(comm);
        for bytes in SIZES {
            let out = vec![comm.rank() as u8; bytes];
            let blank = || vec![0xEE; bytes];

            let mut into = blank();
            let status = comm.sendrecv(&out, after, 1, &mut into, before, 1)?;
            check(before, status, &into);

            let mut both = out.clone();
            let status = comm.sendrecv_replace(&mut both, before, 2, after, 2)?;
            match after {
                PROC_NULL => assert_eq!((status, both), (NOTHING, out.clone())),
                _ => check(after, status, &both),
            }

            let receive = comm.irecv(blank(), before, 3)?;
            let send = comm.issend(out.clone(), after, 3)?;
            let (into, status) = receive.wait_with_status()?;
            check(before, status, &into);
            send.wait()?;

            // From the end of the line on, one after the other.
            let mut into = blank();
            let status = comm.recv(&mut into, after, ANY_TAG)?;
            comm.send(&out, before, 4)?;
            check(after, status, &into);

            let (message, status) = comm.mprobe(before, 5)?;
            let mut request = comm.mrecv(message, blank())?;
            comm.send(&out, after, 5)?;
            let received = request.wait_timeout(Duration::from_secs(60)).unwrap()?;
            assert_eq!(received, status);
            check(before, status, &request.wait()?);
        }
        Ok(())
    });
}

#[test]
fn prepared_ones_start_as_often_as_others() {
    each(|comm| {
        let (before, after) = neighbours(comm);
        for bytes in SIZES {
            let mut send = comm.send_init(vec![comm.rank() as u8; bytes], after, 1)?;
            let mut synchronous = comm.ssend_init(vec![comm.rank() as u8; bytes], before, 2)?;
            let mut first = comm.recv_init(vec![0xEE_u8; bytes], before, 1)?;
            let mut second = comm.recv_init(vec![0xEE_u8; bytes], after, ANY_TAG)?;
            for _ in 0..5 {
                first.start()?;
                second.start()?;
                send.start()?;
                synchronous.start()?;
                assert!(first.is_active() && second.is_active() && send.is_active());
                let (from_before, from_after) = (first.wait()?, second.wait()?);
                send.wait()?;
                synchronous.wait()?;
                check(before, from_before, first.buffer()?);
                check(after, from_after, second.buffer()?);
            }
        }
        Ok(())
    });
}

#[test]
fn requests_are_over_when_they_are_made() {
    each(|comm| {
        let null = || Source::from(PROC_NULL);
        assert_eq!(comm.iprobe(null(), ANY_TAG)?, Some(NOTHING));
        assert_eq!(comm.probe(null(), 7)?, NOTHING);
        let (message, status) = comm.improbe(null(), Tag::from(7))?.unwrap();
        assert_eq!(status, NOTHING);
        drop(message);

        let sent = Status { source: comm.rank(), tag: 8, bytes: 0 };
        assert_eq!(comm.isend(vec![1_u8; 9], PROC_NULL, 8)?.wait_with_status()?.1, sent);
        assert_eq!(comm.issend(vec![1_u8; 9], PROC_NULL, 8)?.wait_with_status()?.1, sent);

        let mut receive = comm.irecv(vec![0xEE_u8; 9], PROC_NULL, 1)?;
        assert!(receive.is_done());
        assert!(!receive.cancel());
        assert_eq!(receive.test().unwrap()?, NOTHING);
        check(PROC_NULL, NOTHING, &receive.wait()?);

        let mut some =
            vec![comm.irecv(vec![0xEE_u8; 9], 0, 99)?, comm.irecv(vec![0xEE_u8; 9], PROC_NULL, 99)?];
        assert_eq!(wait_any(&mut some), Some(1));
        assert!(some[0].cancel());
        drop(some);
        let sends = (0..100)
            .map(|n| comm.isend(vec![n as u8; 1 << (n % 20)], PROC_NULL, n))
            .collect::<Result<Vec<_>, _>>()?;
        assert_eq!(wait_all(sends)?.len(), 100);

        let (tell, told) = std::sync::mpsc::channel();
        comm.irecv(vec![0xEE_u8; 9], PROC_NULL, 1)?.on_complete(move |end| tell.send(end.unwrap()).unwrap());
        comm.progress();
        let (buffer, status) = told.recv().unwrap();
        check(PROC_NULL, status, &buffer);

        let mut into = [0xEE_u8; 9];
        comm.scope(|scope| {
            let receive = scope.irecv(&mut into, PROC_NULL, ANY_TAG)?;
            scope.isend(&[1_u8; 9], PROC_NULL, 1)?.wait()?;
            let (into, status) = receive.wait_with_status()?;
            check(PROC_NULL, status, into);
            Ok(())
        })
    });
}

#[test]
fn what_is_wrong_elsewhere_is_wrong_here() {
    each(|comm| {
        assert!(matches!(comm.isend(vec![1_u8], PROC_NULL, -1), Err(Error::NegativeTag { tag: -1, .. })));
        assert!(matches!(comm.recv(&mut [1_u8], PROC_NULL, -3), Err(Error::NegativeTag { tag: -3, .. })));
        // What comes of counting beyond either end is a mistake.
        for none in [u32::MAX, u32::MAX - 1, comm.size()] {
            assert!(
                matches!(comm.send(&[1_u8], none, 1), Err(Error::RankOutOfRange { rank, .. }) if rank == none)
            );
            assert!(comm.recv(&mut [1_u8], none, 1).is_err());
            assert!(comm.recv_init(vec![1_u8], none, 1).is_err());
        }
        assert!(matches!(comm.send_init(vec![1_u8], PROC_NULL, -1), Err(Error::NegativeTag { tag: -1, .. })));
        assert!(matches!(comm.recv_init(vec![1_u8], PROC_NULL, -3), Err(Error::NegativeTag { tag: -3, .. })));
        assert!(matches!(comm.bcast(&mut [1_u8], PROC_NULL), Err(Error::RootOutOfRange { .. })));

        let other = comm.dup()?;
        comm.barrier()?;
        other.revoke();
        assert!(matches!(other.send(&[1_u8], PROC_NULL, 1), Err(Error::Revoked { operation: "send" })));
        assert!(matches!(other.irecv(vec![1_u8], PROC_NULL, 1), Err(Error::Revoked { operation: "irecv" })));
        assert!(matches!(other.isend(vec![1_u8], PROC_NULL, 1), Err(Error::Revoked { operation: "isend" })));
        assert!(matches!(other.iprobe(PROC_NULL, 1), Err(Error::Revoked { operation: "iprobe" })));
        assert!(matches!(other.mprobe(PROC_NULL, 1), Err(Error::Revoked { operation: "mprobe" })));
        // A message goes by the communicator where it was probed.
        let (of_another, _) = comm.mprobe(PROC_NULL, 1)?;
        check(PROC_NULL, NOTHING, &other.mrecv(of_another, vec![0xEE_u8; 9])?.wait()?);
        let third = comm.dup()?;
        let (late, _) = third.mprobe(PROC_NULL, 1)?;
        comm.barrier()?;
        third.revoke();
        assert!(matches!(comm.mrecv(late, vec![0_u8]), Err(Error::Revoked { operation: "mrecv" })));
        Ok(())
    });
    let ends = World::threads(1, |comm| comm).unwrap();
    assert!(matches!(ends[0].send(&[1_u8], PROC_NULL, 1), Err(Error::Finalized { .. })));
    assert!(matches!(ends[0].recv(&mut [1_u8], PROC_NULL, 1), Err(Error::Finalized { .. })));
}

/// What a call owes others it owes with nobody as its peer, too: without interrupts it is all that makes progress.
#[test]
fn calls_make_progress() {
    type Call = fn(&Comm) -> Result<(), Error>;
    let calls: [Call; 4] = [
        |comm| comm.send(&[1_u8], PROC_NULL, 1),
        |comm| comm.recv(&mut [1_u8], PROC_NULL, 1).map(drop),
        |comm| comm.irecv(vec![1_u8], PROC_NULL, 1)?.wait().map(drop),
        |comm| comm.iprobe(PROC_NULL, 1).map(drop),
    ];
    let poll = config(&[("TOCSIN_BACKEND", "poll")]);
    for call in calls {
        let ends = World::threads_with(2, &poll, |comm| {
            let other = comm.dup()?;
            if comm.rank() == 1 {
                comm.send(&vec![1_u8; 4 << 20], 0, 1)?;
                comm.barrier()?;
                other.revoke();
                return comm.barrier();
            }
            let message = comm.irecv(vec![0_u8; 4 << 20], 1, 1)?;
            let until = Instant::now() + Duration::from_secs(60);
            while !message.is_done() {
                call(&comm)?;
                assert!(Instant::now() < until, "a message waits for a call that makes progress");
            }
            assert!(message.wait()?.iter().all(|byte| *byte == 1));
            comm.barrier()?;
            while !matches!(call(&other), Err(Error::Revoked { .. })) {
                assert!(Instant::now() < until, "no call hears of the revocation");
            }
            comm.barrier()
        });
        ends.unwrap().into_iter().for_each(|end| end.unwrap());
    }
}

/// What others of a `split-tree` wait for is done in the next call that waits or looks.
#[test]
fn calls_open_gates() {
    type Call = fn(&Comm) -> Result<(), Error>;
    let calls: [Call; 3] = [
        |comm| comm.recv(&mut [1_u8], PROC_NULL, 1).map(drop),
        |comm| comm.irecv(vec![1_u8], PROC_NULL, 1)?.wait().map(drop),
        |comm| comm.probe(PROC_NULL, 1).map(drop),
    ];
    for call in calls {
        let others = AtomicU32::new(0);
        let ends = World::threads_with(4, &config(&[("TOCSIN_BACKEND", "signal")]), |comm| {
            let sum = comm.with_algorithm("split-tree").iallreduce(vec![1_u64; 1000], Op::Sum)?;
            if comm.rank() == 0 {
                call(&comm)?;
                let until = Instant::now() + Duration::from_secs(60);
                while others.load(Ordering::Acquire) < 3 {
                    assert!(Instant::now() < until, "the others wait for a call that opens gates");
                    std::thread::yield_now();
                }
            }
            assert!(sum.wait()?.iter().all(|sum| *sum == 4));
            others.fetch_add(1, Ordering::Release);
            comm.barrier()
        });
        ends.unwrap().into_iter().for_each(|end: Result<(), Error>| end.unwrap());
    }
}
