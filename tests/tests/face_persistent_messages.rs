//! Persistent sends and receives by the face: owned and scoped, restarted with other contents, by threads and by processes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tocsin_tests::worlds::everywhere; // Links the tripwire allocator, too.

use tocsin::{ANY_SOURCE, ANY_TAG, Comm, Error, Launch, Op, Persistent, PersistentReceive, Status, World};
use tocsin_sync::atomic::{AtomicUsize, Ordering};

fn neighbours(comm: &Comm) -> (u32, u32) {
    let (me, ranks) = (comm.rank(), comm.size());
    ((me + 1) % ranks, (me + ranks - 1) % ranks)
}

const LENGTHS: [usize; 5] = [0, 2, 70, 5000, 131_072];

/// A halo of so many elements goes both ways, a few times.
fn halo(comm: &Comm, len: usize) -> Result<(), Error> {
    let (next, last) = neighbours(comm);
    let me = u64::from(comm.rank());
    let mut up = comm.send_init(vec![0u64; len], next, 1)?;
    let mut down = comm.ssend_init(vec![0u64; len].into_boxed_slice(), last, 3)?;
    let mut from_last = comm.recv_init(vec![0u64; len], last, 1)?;
    let mut from_next = comm.recv_init(vec![0u64; len + 3], ANY_SOURCE, 3)?;
    for run in 1..=6 {
        up.buffer_mut()?.fill(run * 10 + me);
        down.buffer_mut()?.fill(run * 1000 + me);
        from_last.start()?;
        up.start()?;
        down.start()?;
        let sum = comm.iallreduce(vec![run], Op::Sum)?;
        from_next.start()?;
        assert!(up.is_active() && from_next.is_active());
        assert!(up.buffer().is_err() && from_last.buffer_mut().is_err() && up.start().is_err());
        assert_eq!(from_next.wait()?, Status { source: next, tag: 3, bytes: 8 * len });
        assert_eq!(from_last.wait()?, Status { source: last, tag: 1, bytes: 8 * len });
        let (): () = up.wait()?;
        while down.test().transpose()?.is_none() {}
        assert_eq!(sum.wait()?, [run * u64::from(comm.size())]);
        assert!(from_last.buffer()?.iter().all(|x| *x == run * 10 + u64::from(last)));
        assert!(from_next.buffer()?[..len].iter().all(|x| *x == run * 1000 + u64::from(next)));
        assert!(!up.is_active() && !from_last.is_active());
    }
    assert_eq!(up.into_buffers()?.0.len(), len);
    assert_eq!(from_last.into_buffers()?.0.len(), len);
    Ok(())
}

/// The same in a scope.
fn scoped_halo(comm: &Comm, len: usize) -> Result<(), Error> {
    let (next, last) = neighbours(comm);
    let (mut out, mut both, mut into) = (vec![0u32; len], vec![0u32; len], vec![0u32; len]);
    let mut other = vec![0u32; len];
    comm.scope(|s| {
        let mut send = s.send_init(&mut out, next, 1)?;
        let mut matched = s.ssend_init(&mut both, next, 2)?;
        let mut receive = s.recv_init(&mut into, last, 1)?;
        let mut any = s.recv_init(&mut other, last, 2)?;
        for run in 1..=6 {
            send.buffer_mut()?.fill(run + comm.rank());
            matched.buffer_mut()?.fill(run * 100 + comm.rank());
            send.start()?;
            matched.start()?;
            receive.start()?;
            any.start()?;
            assert!(send.buffer().is_err() && receive.buffer().is_err());
            let status = Status { source: last, tag: 1, bytes: 4 * len };
            assert_eq!((receive.wait()?, any.wait()?), (status, Status { tag: 2, ..status }));
            send.wait()?;
            matched.wait()?;
            assert!(receive.buffer()?.iter().all(|x| *x == run + last));
            assert!(any.buffer()?.iter().all(|x| *x == run * 100 + last));
        }
        assert_eq!(receive.into_buffer()?.len(), len);
        // What is left is complete: the scope ends well.
        Ok(())
    })?;
    assert!(into.iter().all(|x| *x == 6 + last));
    Ok(())
}

#[test]
fn halos_of_all_lengths() {
    everywhere(1..=4, |comm| LENGTHS.iter().try_for_each(|len| halo(&comm, *len)));
}

#[test]
fn halos_in_scopes() {
    everywhere(1..=4, |comm| LENGTHS.iter().try_for_each(|len| scoped_halo(&comm, *len)));
}

const CHILD: &str = "PERSISTENT_MESSAGES_CHILD";

#[test]
fn halos_of_processes() {
    for (backend, lmt) in [("signal", "auto"), ("poll", "cma"), ("thread", "double"), ("signal", "double")] {
        for ranks in [2, 3] {
            let mut launch = Launch::new(std::env::current_exe().unwrap(), ranks);
            launch.config.set("TOCSIN_BACKEND", backend).unwrap();
            launch.config.set("TOCSIN_LMT", lmt).unwrap();
            launch.args =
                ["--exact", "child_of_halos", "--ignored", "--test-threads=1"].map(Into::into).into();
            launch.env = vec![(CHILD.into(), "1".into())];
            let report = launch.run().unwrap();
            assert_eq!(report.status, 0, "{lmt}, {backend}, {ranks} ranks: {report:?}");
        }
    }
}

#[test]
#[ignore = "a rank of halos_of_processes"]
fn child_of_halos() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    // SAFETY: alarm has no memory effects; SIGALRM's default action ends a process that hangs.
    unsafe { libc::alarm(60) };
    let world = World::from_env().unwrap();
    let comm = world.comm();
    for len in LENGTHS {
        halo(&comm, len).unwrap();
        scoped_halo(&comm, len).unwrap();
    }
    drop(comm);
    world.finalize().unwrap();
}

#[test]
fn a_receive_is_cancelled_and_started_again() {
    everywhere(1..=4, |comm| {
        let me = comm.rank();
        let mut receive: PersistentReceive<Vec<u32>> = comm.recv_init(vec![0u32; 4], ANY_SOURCE, ANY_TAG)?;
        assert!(!receive.cancel());
        assert_eq!(receive.wait()?, Status { source: me, tag: 0, bytes: 0 });
        for run in 0..10 {
            receive.start()?;
            assert!(receive.cancel() && receive.is_active());
            assert!(matches!(receive.wait(), Err(Error::Cancelled { .. })));
            receive.start()?;
            comm.send(&[run; 3], me, 7)?;
            assert_eq!(receive.wait()?, Status { source: me, tag: 7, bytes: 12 });
            assert_eq!(receive.buffer()?[..3], [run; 3]);
        }
        let mut room = [0u32; 2];
        comm.scope(|s| {
            let mut receive = s.recv_init(&mut room, me, 1)?;
            receive.start()?;
            assert!(receive.cancel());
            assert!(matches!(receive.test(), Some(Err(Error::Cancelled { .. }))));
            Ok(())
        })?;
        // Any source may be one that has left.
        comm.barrier()
    });
}

#[test]
fn dropped_or_forgotten_while_active_it_goes_on() {
    everywhere(1..=4, |comm| {
        let (next, last) = neighbours(&comm);
        for run in 0..30u64 {
            let len = [3, 4000, 100_000][run as usize % 3];
            let mut send = comm.send_init(vec![run; len], next, 0)?;
            let mut lost = comm.recv_init(vec![0u64; 5], last, 1)?;
            send.start()?;
            lost.start()?;
            comm.send(&[run; 5], next, 1)?;
            if run % 5 == 0 {
                std::mem::forget(send);
                std::mem::forget(lost);
            } else {
                drop(send);
                drop(lost);
            }
            let mut receive = comm.recv_init(vec![0u64; len], last, 0)?;
            receive.start()?;
            assert_eq!(receive.into_buffers()?.0, vec![run; len]);
        }
        comm.barrier()
    });
}

#[test]
fn a_scope_left_with_a_run_ends_it() {
    everywhere(1..=4, |comm| {
        // What one revokes ends nothing of the others.
        let apart = comm.split(Some(comm.rank()), 0)?.unwrap();
        let mut room = [0u32; 1000];
        let ended = apart.scope(|s| {
            let mut receive = s.recv_init(&mut room, apart.rank(), 0)?;
            receive.start()?;
            if apart.rank() % 2 == 0 {
                std::mem::forget(receive);
            }
            Ok(())
        });
        assert!(matches!(ended, Err(Error::ScopeLeftPending { pending: 1 })));
        comm.barrier()
    });
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// Polls until it is ready, each time only when it was woken.
fn polled<T>(comm: &Comm, mut future: impl Future<Output = T> + Unpin) -> T {
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    let mut woken = 0;
    loop {
        if let Poll::Ready(outcome) = pin!(&mut future).poll(&mut context) {
            return outcome;
        }
        while count.0.load(Ordering::Acquire) == woken {
            comm.progress();
        }
        woken = count.0.load(Ordering::Acquire);
    }
}

#[test]
fn it_is_a_future_of_each_run() {
    everywhere(1..=4, |comm| {
        let (next, last) = neighbours(&comm);
        for len in [3usize, 60_000] {
            let mut send: Persistent<Vec<u64>> = comm.ssend_init(vec![0; len], next, 0)?;
            let mut receive = comm.recv_init(vec![0u64; len], last, 0)?;
            for run in 1..=10 {
                send.buffer_mut()?.fill(run);
                if run % 2 == 0 {
                    receive.start()?;
                }
                send.start()?;
                if run % 2 == 1 {
                    receive.start()?;
                }
                assert_eq!(polled(&comm, &mut receive)?.bytes, 8 * len);
                polled(&comm, &mut send)?;
                assert!(receive.buffer()?.iter().all(|x| *x == run));

                let told = Arc::new(Mutex::new(None));
                let theirs = told.clone();
                receive.start()?;
                receive.on_complete(move |outcome| *theirs.lock().unwrap() = Some(outcome));
                send.start()?;
                while told.lock().unwrap().is_none() {
                    comm.progress();
                }
                assert!(receive.is_active());
                let said = told.lock().unwrap().take().unwrap()?;
                assert_eq!((said, said.bytes), (receive.wait()?, 8 * len));
                send.wait()?;
            }
        }
        Ok(())
    });
}

/// A rank's operator may start nothing.
#[test]
fn not_in_an_operator() {
    static PREPARED: Mutex<Option<Persistent<Vec<u8>>>> = Mutex::new(None);
    fn starts(left: u32, right: u32) -> u32 {
        let mut prepared = PREPARED.lock().unwrap();
        let refused = prepared
            .as_mut()
            .is_none_or(|p| matches!(p.start(), Err(Error::InHandler { .. })) && !p.is_active());
        if refused { left + right } else { 1_000_000 }
    }
    let results = World::threads(2, |comm| {
        if comm.rank() == 0 {
            *PREPARED.lock().unwrap() = Some(comm.send_init(vec![1u8; 8], 0, 0)?);
        }
        comm.barrier()?;
        let mut sum = [1u32];
        comm.allreduce(&mut sum, Op::User(tocsin::UserOp::commutative(starts)))?;
        comm.barrier()?;
        if comm.rank() == 0 {
            drop(PREPARED.lock().unwrap().take());
        }
        Ok::<_, Error>(sum[0])
    });
    for result in results.unwrap() {
        assert_eq!(result.unwrap(), 2);
    }
}

#[test]
fn a_rank_that_leaves_after_its_sends_has_sent_them() {
    let ends = World::threads(2, |comm| {
        let mut total = 0;
        if comm.rank() == 0 {
            let mut send = comm.send_init(vec![0u64; 4], 1, 0)?;
            for run in 0..2000 {
                send.buffer_mut()?.fill(run);
                send.start()?;
                send.wait()?;
            }
        } else {
            let mut receive = comm.recv_init(vec![0u64; 4], 0, 0)?;
            for _ in 0..2000 {
                receive.start()?;
                receive.wait()?;
                total += receive.buffer()?[3];
            }
        }
        Ok::<_, Error>(total)
    });
    let ends: Result<Vec<u64>, Error> = ends.unwrap().into_iter().collect();
    assert_eq!(ends.unwrap(), [0, 1999 * 1000]);
}
