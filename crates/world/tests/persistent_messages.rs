//! Persistent messages: posted again and again by the calls that post one, alone and among others.
#![allow(missing_docs, clippy::unwrap_used)] // a test

use std::sync::Arc;

use tocsin_sync::atomic::{AtomicU32, Ordering};
use tocsin_world::{
    Arguments, Comm, Config, ConstBuf, Error, Mode, MutBuf, RawRequest, Status, test_all, test_any, wait_all,
    wait_any,
};

/// Runs `f` on so many ranks as threads over each backend, also where none may copy from another.
fn everywhere(ranks: u32, f: impl Fn(Comm) -> Result<(), Error> + Sync) {
    for backend in ["signal", "thread", "poll"] {
        for lmt in ["auto", "double"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            config.set("TOCSIN_LMT", lmt).unwrap();
            for result in tocsin_world::threads(ranks, &config, &f).unwrap() {
                result.unwrap_or_else(|e| panic!("{backend}, {lmt}, {ranks} ranks: {e}"));
            }
        }
    }
}

fn out(buf: &[u8]) -> ConstBuf {
    ConstBuf::contiguous(buf.as_ptr(), buf.len())
}

fn into(buf: &mut [u8]) -> MutBuf {
    MutBuf::contiguous(buf.as_mut_ptr(), buf.len())
}

/// Starts one whose buffers live until the end of its test.
fn start(request: &mut RawRequest) -> Result<(), Error> {
    // SAFETY: - the tests wait for their requests, or end their ranks, before their buffers end.
    unsafe { request.start() }
}

/// Ends it by a wait, tests, or a look and a wait, in turn.
fn end(comm: &Comm, run: u32, request: &mut RawRequest) -> Result<Status, Error> {
    assert!(request.is_active());
    let outcome = match run % 3 {
        0 => request.wait(),
        1 => loop {
            match request.test() {
                Some(outcome) => break outcome,
                None => assert!(request.is_active()),
            }
        },
        _ => {
            while !request.is_done() {
                assert!(request.is_active());
                comm.progress();
                if run.is_multiple_of(4) {
                    break;
                }
            }
            request.wait()
        }
    };
    assert!(!request.is_active() && request.is_persistent());
    outcome
}

/// In one packet, inline and not; in several; announced; as long as is copied by both.
const LENGTHS: [usize; 6] = [0, 8, 300, 5000, 100_000, 1 << 20];

fn ring(comm: &Comm, len: usize, mode: Mode, any: bool, runs: u32) -> Result<(), Error> {
    let (me, ranks) = (comm.rank(), comm.size());
    let (next, last) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let (mut from, mut to) = (vec![0u8; len], vec![0u8; len + 1]);
    let mut send = comm.send_init_raw(out(&from), next, 5, mode)?;
    let (source, tag) = if any { (None, None) } else { (Some(last), Some(5)) };
    let mut receive = comm.recv_init_raw(into(&mut to), source, tag)?;
    for request in [&mut send, &mut receive] {
        assert!(request.is_persistent() && !request.is_active() && request.is_done());
        assert_eq!(request.wait()?.bytes, 0);
    }
    for run in 0..runs {
        let (at, got) = (from.as_mut_ptr(), to.as_mut_ptr());
        // SAFETY: - no run is active; by address, since the requests have the buffers.
        unsafe {
            std::ptr::write_bytes(at, (run + me) as u8, len);
            std::ptr::write_bytes(got, 255, len + 1);
        }
        if (run + me) % 2 == 0 {
            start(&mut receive)?;
            start(&mut send)?;
        } else {
            start(&mut send)?;
            start(&mut receive)?;
        }
        assert!(matches!(start(&mut send), Err(Error::InvalidArgument { .. })));
        assert!(matches!(start(&mut receive), Err(Error::InvalidArgument { .. })));
        let said = end(comm, run, &mut receive)?;
        assert_eq!(said, Status { source: last, tag: 5, bytes: len });
        assert_eq!(end(comm, run + 1, &mut send)?, Status { source: me, tag: 5, bytes: len });
        // What is inactive repeats itself.
        assert_eq!(receive.wait()?, said);
        assert_eq!(receive.test().unwrap()?, said);
        assert!(to[..len].iter().all(|byte| *byte == (run + last) as u8) && to[len] == 255);
    }
    Ok(())
}

#[test]
fn messages_of_all_lengths_go_round() {
    for ranks in [1, 2, 3] {
        everywhere(ranks, |comm| {
            for len in LENGTHS {
                for mode in [Mode::Standard, Mode::Synchronous] {
                    for any in [false, true] {
                        ring(&comm, len, mode, any, 7)?;
                    }
                }
            }
            Ok(())
        });
    }
}

/// A slot that was not given back would be missed: there are not so many.
#[test]
fn thousands_of_starts_leave_nothing() {
    everywhere(2, |comm| {
        for len in [8, 300, 20_000] {
            ring(&comm, len, Mode::Standard, false, 5_000)?;
        }
        ring(&comm, 8, Mode::Synchronous, true, 5_000)
    });
}

#[test]
fn arguments_are_looked_at_when_it_is_prepared() {
    everywhere(2, |comm| {
        let mut buf = [0u8; 4];
        let (nowhere, word) = (comm.send_init_raw(out(&buf), 2, 0, Mode::Standard), into(&mut buf));
        assert!(matches!(nowhere, Err(Error::RankOutOfRange { operation: "send_init", rank: 2, size: 2 })));
        let tag = comm.send_init_raw(out(&buf), 0, -1, Mode::Synchronous);
        assert!(matches!(tag, Err(Error::NegativeTag { operation: "ssend_init", tag: -1 })));
        assert!(matches!(comm.recv_init_raw(word, Some(9), None), Err(Error::RankOutOfRange { .. })));
        assert!(matches!(comm.recv_init_raw(word, None, Some(-3)), Err(Error::NegativeTag { .. })));
        let endless = ConstBuf::contiguous(buf.as_ptr(), usize::MAX);
        assert!(comm.send_init_raw(endless, 0, 0, Mode::Standard).is_err());
        comm.ibarrier_raw(None)?.wait()?;
        Ok(())
    });
}

#[test]
fn a_cancelled_receive_is_started_again() {
    everywhere(2, |comm| {
        let mut word = [0u8; 8];
        if comm.rank() == 1 {
            comm.ibarrier_raw(None)?.wait()?;
            // SAFETY: - the buffer outlives the call.
            unsafe { comm.send_raw(out(&[9; 8]), 0, 4, Mode::Standard)? };
            return Ok(());
        }
        let mut receive = comm.recv_init_raw(into(&mut word), None, Some(4))?;
        assert!(!receive.cancel());
        for _ in 0..100 {
            start(&mut receive)?;
            assert!(receive.cancel());
            assert!(receive.is_active() && !receive.cancel());
            assert!(matches!(receive.wait(), Err(Error::Cancelled { .. })));
            assert!(matches!(receive.test(), Some(Err(Error::Cancelled { .. }))));
        }
        start(&mut receive)?;
        comm.ibarrier_raw(None)?.wait()?;
        assert_eq!(receive.wait()?, Status { source: 1, tag: 4, bytes: 8 });
        assert_eq!(word, [9; 8]);
        Ok(())
    });
}

#[test]
fn an_error_of_a_run_is_of_that_run() {
    everywhere(2, |comm| {
        let mut word = [0u8; 8];
        let other = 1 - comm.rank();
        let mut receive = comm.recv_init_raw(into(&mut word), Some(other), Some(1))?;
        for bytes in [8, 200, 8, 1 << 18, 8] {
            start(&mut receive)?;
            let long = vec![1; bytes];
            // SAFETY: - the buffer outlives the call.
            let sent = unsafe { comm.isend_raw(out(&long), other, 1, Mode::Standard) }?.wait();
            match receive.wait() {
                Ok(status) => assert_eq!((status.bytes, bytes), (8, 8)),
                Err(error) => {
                    assert!(matches!(error, Error::Truncated { message, .. } if message == bytes as u64))
                }
            }
            sent?;
        }
        Ok(())
    });
}

/// What is dropped while it is active goes on; its buffer lives until the end of the world.
#[test]
fn dropped_while_active_it_goes_on() {
    for len in [8, 5000, 300_000] {
        let bufs: Vec<Vec<u8>> = (0..2).map(|rank| vec![rank + 1; len]).collect();
        everywhere(2, |comm| {
            let other = 1 - comm.rank();
            for _ in 0..50 {
                let mut send =
                    comm.send_init_raw(out(&bufs[comm.rank() as usize]), other, 0, Mode::Standard)?;
                start(&mut send)?;
                drop(send);
                let mut word = vec![0u8; len];
                let mut receive = comm.recv_init_raw(into(&mut word), Some(other), Some(0))?;
                start(&mut receive)?;
                assert_eq!(receive.wait()?.bytes, len);
                assert!(word.iter().all(|byte| u32::from(*byte) == other + 1));
            }
            // Receives are matched in order, also by those that nobody has any more.
            let (mut lost, mut kept) = (vec![0u8; len], vec![0u8; len]);
            let mut dropped = comm.recv_init_raw(into(&mut lost), Some(other), Some(0))?;
            start(&mut dropped)?;
            drop(dropped);
            let mut receive = comm.recv_init_raw(into(&mut kept), Some(other), Some(0))?;
            start(&mut receive)?;
            let mut send = comm.send_init_raw(out(&bufs[comm.rank() as usize]), other, 0, Mode::Standard)?;
            for _ in 0..2 {
                start(&mut send)?;
                send.wait()?;
            }
            receive.wait()?;
            assert!(lost.iter().chain(&kept).all(|byte| u32::from(*byte) == other + 1));
            comm.ibarrier_raw(None)?.wait().map(drop)
        });
    }
}

#[test]
fn a_start_that_fails_leaves_it_as_it_was() {
    everywhere(2, |comm| {
        let mut word = [7u8; 8];
        let other = 1 - comm.rank();
        let apart = comm.dup()?;
        let mut send = apart.send_init_raw(out(&[1; 8]), other, 0, Mode::Standard)?;
        let mut receive = apart.recv_init_raw(into(&mut word), Some(other), Some(0))?;
        start(&mut receive)?;
        start(&mut send)?;
        let said = receive.wait()?;
        send.wait()?;
        comm.ibarrier_raw(None)?.wait()?;
        apart.revoke();
        for _ in 0..3 {
            for request in [&mut send, &mut receive] {
                assert!(matches!(start(request), Err(Error::Revoked { .. })));
                assert!(!request.is_active() && request.is_persistent() && request.is_done());
            }
            assert_eq!(receive.wait()?, said);
        }
        assert!(matches!(apart.recv_init_raw(into(&mut word), None, None), Err(Error::Revoked { .. })));
        comm.ibarrier_raw(None)?.wait().map(drop)
    });
}

#[test]
fn of_a_rank_that_has_died_or_left_it_is_refused() {
    for backend in ["poll", "signal"] {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", backend).unwrap();
        let kept = std::sync::Mutex::new(None);
        let ends = tocsin_world::threads_each(2, &config, |comm| {
            if comm.rank() == 1 {
                std::panic::resume_unwind(Box::new("dies"));
            }
            let (word, mut room) = ([1u8; 8], [0u8; 8]);
            let mut send = comm.send_init_raw(out(&word), 1, 0, Mode::Synchronous).unwrap();
            let mut receive = comm.recv_init_raw(into(&mut room), Some(1), None).unwrap();
            // Until it is known, a run ends with it.
            for request in [&mut send, &mut receive] {
                loop {
                    match start(request) {
                        Ok(()) => assert!(matches!(request.wait(), Err(Error::PeerDead { rank: 1, .. }))),
                        Err(error) => break assert!(matches!(error, Error::PeerDead { rank: 1, .. })),
                    }
                    assert!(!request.is_active());
                }
                assert!(!request.is_active());
            }
            *kept.lock().unwrap() = Some(send);
        });
        assert!(ends.unwrap()[0].is_ok());
        let mut send = kept.lock().unwrap().take().unwrap();
        assert!(matches!(start(&mut send), Err(Error::Finalized { .. })));
        assert!(!send.is_active());
    }
}

/// One-shot messages, persistent ones and persistent collectives in one list.
#[test]
fn among_others_each_is_ended_once() {
    everywhere(2, |comm| {
        let other = 1 - comm.rank();
        for len in [8usize, 3000, 200_000] {
            let from = vec![comm.rank() as u8; len];
            let mut rooms = vec![vec![9u8; len]; 3];
            let mut sends = Vec::new();
            for tag in 0..2 {
                sends.push(comm.send_init_raw(out(&from), other, tag, Mode::Standard)?);
            }
            sends.push(comm.send_init_raw(out(&from), other, 2, Mode::Synchronous)?);
            let mut receives = Vec::new();
            for (room, tag) in rooms.iter_mut().zip(0..) {
                receives.push(comm.recv_init_raw(into(room), Some(other), Some(tag))?);
            }
            let mut barrier = comm.prepare_raw(&Arguments::Ibarrier, None)?;
            for run in 0..40 {
                let mut word = [0u8; 4];
                // SAFETY: - both are waited for below.
                let mut once = unsafe { comm.irecv_raw(into(&mut word), Some(other), Some(9))? };
                let mut all: Vec<&mut RawRequest> =
                    receives.iter_mut().chain(&mut sends).chain([&mut barrier]).collect();
                for request in &mut all {
                    start(request)?;
                }
                // SAFETY: - as above.
                let mut sent = unsafe { comm.isend_raw(out(&[5; 4]), other, 9, Mode::Standard)? };
                all.insert((run % 8) as usize, &mut once);
                all.insert((run % 5) as usize, &mut sent);
                match run % 4 {
                    0 => wait_all(&mut all)?,
                    1 => {
                        while !test_all(&all) {}
                        assert!(all.iter().filter(|request| request.is_active()).count() >= 7);
                        wait_all(&mut all)?;
                    }
                    turn => {
                        while !all.is_empty() {
                            let which = if turn == 2 { wait_any(&mut all) } else { test_any(&all) };
                            let Some(which) = which else { continue };
                            let request = all.remove(which);
                            assert!(request.is_active() || !request.is_persistent());
                            assert!(request.test().is_some());
                            // Nobody else was ended by that.
                            assert!(all.iter().all(|r| r.is_active() || !r.is_persistent()));
                        }
                    }
                }
                for request in receives.iter_mut().chain(&mut sends).chain([&mut barrier]) {
                    assert!(!request.is_active());
                    request.wait()?;
                }
                assert_eq!((once.wait()?.bytes, sent.wait()?.bytes, word), (4, 4, [5; 4]));
                for room in &mut rooms {
                    assert!(room.iter().all(|byte| u32::from(*byte) == other));
                    // SAFETY: - no run is active; by address, since the requests have it.
                    unsafe { std::ptr::write_bytes(room.as_mut_ptr(), 9, len) };
                }
            }
        }
        Ok(())
    });
}

#[test]
fn a_callback_is_for_one_run() {
    everywhere(2, |comm| {
        let other = 1 - comm.rank();
        for len in [8usize, 200_000] {
            let (from, mut to) = (vec![1u8; len], vec![0u8; len]);
            let mut send = comm.send_init_raw(out(&from), other, 0, Mode::Standard)?;
            let mut receive = comm.recv_init_raw(into(&mut to), Some(other), Some(0))?;
            let told = Arc::new(AtomicU32::new(0));
            let tell = |times: u32| {
                let told = told.clone();
                Box::new(move |outcome: Result<Status, Error>| {
                    let bytes = outcome.map_or(0, |status| status.bytes);
                    told.fetch_add(times * u32::from(bytes == len), Ordering::SeqCst);
                })
            };
            for run in 0..30 {
                start(&mut receive)?;
                if run % 3 > 0 {
                    receive.on_complete(tell(1));
                }
                start(&mut send)?;
                send.on_complete(tell(100));
                let expected = 100 + u32::from(run % 3 > 0);
                while told.load(Ordering::SeqCst) < expected {
                    comm.progress();
                }
                while !receive.is_done() {
                    comm.progress();
                }
                assert!(send.is_active() && receive.is_active());
                receive.on_complete(tell(10_000));
                assert_eq!(told.swap(0, Ordering::SeqCst), expected + 10_000);
                send.wait()?;
                receive.wait()?;
            }
        }
        Ok(())
    });
}
