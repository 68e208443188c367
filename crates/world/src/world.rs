//! The world of one rank.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::bootstrap::{Bootstrap, LauncherSocket, Singleton};
use crate::comm::Comm;
use crate::config::Config;
use crate::error::Error;
use crate::operator::InsideOperator;
use crate::rank::{self, Bound, Rank};
use crate::{BackendKind, Snapshot};

thread_local! {
    /// Worlds that user operators have ended.
    static STAYING: RefCell<Vec<Staying>> = const { RefCell::new(Vec::new()) };
}

/// A world that a user operator has ended: its rank leaves when this is dropped.
struct Staying {
    world: World,
    /// The operator was panicking.
    dies: bool,
}

impl Drop for Staying {
    fn drop(&mut self) {
        // The thread is ending by another world's operator, which this one cannot wait for.
        if InsideOperator::is_here() {
            self.world.rank.leave_dead();
            std::mem::forget(self.world.bound.take());
        } else if self.dies
            && let Some(bound) = self.world.bound.take()
        {
            self.world.rank.die(bound);
        }
    }
}

/// Membership of a world. It is bound to the thread that made it, which is the one that is interrupted.
///
/// Dropping it finalizes; dropping it while unwinding leaves this rank dead to the others.
#[derive(Debug)]
pub struct World {
    rank: Arc<Rank>,
    comm: Comm,
    /// Taken when it leaves.
    bound: Option<Bound>,
    _thread: PhantomData<*const ()>,
}

impl World {
    /// Joins the world of the launcher that started this process, or makes a world of one.
    ///
    /// # Errors
    /// [`Error::Environment`] and [`Error::UnknownVariable`] for wrong `TOCSIN_*` variables, and those of
    /// [`World::join`].
    pub fn from_env() -> Result<World, Error> {
        World::with_config(Config::from_env()?)
    }

    /// As [`World::from_env`] with a configuration in place of the variables that people set.
    ///
    /// # Errors
    /// As [`World::join`].
    pub fn with_config(config: Config) -> Result<World, Error> {
        match LauncherSocket::from_env()? {
            Some(socket) => World::join(socket, &config),
            None => World::join(Singleton { heap: config.arena(1) }, &config),
        }
    }

    /// Joins the world that `bootstrap` finds.
    ///
    /// # Errors
    /// [`Error::Bootstrap`], [`Error::JoinedBefore`] (a process joins its launcher's world once, and a thread that is interrupted is a rank
    /// of one world at a time), [`Error::Version`], [`Error::OtherTable`], [`Error::BackendUnusable`], refusals of the system.
    pub fn join(bootstrap: impl Bootstrap, config: &Config) -> Result<World, Error> {
        // Before the place is taken: a wrong backend must not cost the world a rank.
        config.usable_backend()?;
        let (rank, bound) = rank::join(bootstrap.place()?, config)?;
        let comm = Comm::world(rank.clone())?;
        Ok(World { rank, comm, bound: Some(bound), _thread: PhantomData })
    }

    /// This rank's number.
    pub fn rank(&self) -> u32 {
        self.rank.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.rank.segment.ranks()
    }

    /// The communicator of all ranks.
    pub fn comm(&self) -> Comm {
        self.comm.clone()
    }

    /// Backend in use.
    pub fn backend(&self) -> BackendKind {
        self.rank.backend
    }

    /// Statistics of this rank so far.
    pub fn stats(&self) -> Snapshot {
        self.rank.stats()
    }

    /// Drains what is pending, dropped requests included, then leaves the world. What a dead or finalized rank would
    /// have to take is given up.
    ///
    /// # Errors
    /// [`Error::Aborted`]; [`Error::NeverReceived`] for what was still to be taken by ranks that have finalized, or do so, too, and have no receive for it: this
    /// rank has left then; [`Error::InvalidArgument`] in a child of `fork`, whose parent's world goes on; [`Error::InHandler`] in a user operator: the rank stays in the world, and does
    /// this when its thread ends, or the process exits on it.
    pub fn finalize(mut self) -> Result<(), Error> {
        match self.bound.take() {
            Some(bound) if InsideOperator::is_here() && !tocsin_doorbell::fork::disowned() => {
                self.stay(bound);
                Err(Error::InHandler { operation: "finalize" })
            }
            Some(bound) => self.rank.finalize(bound),
            None => Ok(()),
        }
    }

    /// Leaves the rank in the world until its thread ends: this thread runs a user operator, and may be inside its engine.
    #[cold]
    fn stay(&self, bound: Bound) {
        let (rank, comm) = (self.rank.clone(), self.comm.clone());
        let world = World { rank, comm, bound: Some(bound), _thread: PhantomData };
        let mut staying = Some(Staying { world, dies: std::thread::panicking() });
        // Where the thread is ending already, it is dropped here.
        let _kept = STAYING.try_with(|all| all.borrow_mut().extend(staying.take()));
    }

    /// Ends every rank of the world; `code` becomes the launcher's status.
    pub fn abort(&self, code: i32) -> ! {
        self.rank.abort(code)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let Some(bound) = self.bound.take() else { return };
        if InsideOperator::is_here() {
            self.stay(bound);
        } else if std::thread::panicking() {
            self.rank.die(bound);
        } else {
            // An abort is reported by who called it.
            let _aborted = self.rank.finalize(bound);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use tocsin_progress::{Completion, Outcome};
    use tocsin_shm_transport::Life;

    /// Whether `holds` does in a child of fork().
    fn in_a_child(holds: impl FnOnce() -> bool) -> bool {
        // SAFETY: - no pointers
        //         - other tests' threads are not in the child: what it runs takes no lock of theirs but the allocator's,
        //           which the C library has free in a child.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // What waits for ever ends by SIGALRM.
            // SAFETY: - no pointers.
            unsafe { libc::alarm(30) };
            let held = catch_unwind(AssertUnwindSafe(holds)).unwrap_or(false);
            // SAFETY: - no pointers.
            unsafe { libc::_exit(i32::from(!held)) };
        }
        let mut status = -1;
        // SAFETY: - the status is a local, the child our own.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        status == 0
    }

    #[test]
    fn a_thread_that_is_interrupted_is_a_rank_of_one_world_at_a_time() {
        for backend in ["signal", "poll"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let join = || World::join(Singleton::default(), &config);
            let world = join().unwrap();
            let second = join();
            assert_eq!(second.is_err(), backend == "signal");
            if let Err(error) = second {
                assert!(matches!(error, Error::JoinedBefore { .. }), "{error}");
                assert!(error.to_string().contains("this thread is a rank of another world"), "{error}");
            }
            // The first one is as it was.
            world.comm().ibarrier_raw(None).unwrap().wait().unwrap();
            world.finalize().unwrap();
            join().unwrap().finalize().unwrap();
        }
    }

    /// A user operator that ends its own world, by one way or another: the requests under way are not forgotten.
    #[test]
    fn what_a_world_that_an_operator_ends_has_under_way_goes_on() {
        use crate::bootstrap::InProcess;
        for backend in ["signal", "poll"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            for (way, life) in
                [("finalize", Life::Finalized), ("drop", Life::Finalized), ("panic", Life::Dead)]
            {
                let segment = std::sync::Arc::new(tocsin_shm_transport::Segment::create(1).unwrap());
                let (place, config) = (InProcess { segment: segment.clone(), rank: 0 }, config.clone());
                let run = std::thread::spawn(move || {
                    let world = World::join(place, &config).unwrap();
                    let comm = world.comm();
                    let inside = InsideOperator::enter();
                    match way {
                        "finalize" => {
                            let end = world.finalize();
                            assert!(
                                matches!(end, Err(Error::InHandler { operation: "finalize" })),
                                "{end:?}"
                            );
                        }
                        "drop" => drop(world),
                        _ => {
                            let unwound = catch_unwind(AssertUnwindSafe(|| {
                                let _world = world;
                                resume_unwind(Box::new(()));
                            }));
                            assert!(unwound.is_err());
                        }
                    }
                    drop(inside);
                    comm.ibarrier_raw(None).unwrap().wait().unwrap();
                });
                run.join().unwrap();
                assert_eq!(segment.life(0), life, "{backend} {way}");
            }
        }
    }

    /// A thread that ends ends such worlds, and an operator of one of them another world: nobody waits for that.
    #[test]
    fn a_world_that_an_operator_ends_when_its_thread_ends_is_dead() {
        use crate::bootstrap::InProcess;
        let segment = std::sync::Arc::new(tocsin_shm_transport::Segment::create(1).unwrap());
        let place = InProcess { segment: segment.clone(), rank: 0 };
        std::thread::spawn(move || {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", "poll").unwrap();
            let world = World::join(place, &config).unwrap();
            let _inside = InsideOperator::enter();
            drop(Staying { world, dies: false });
        })
        .join()
        .unwrap();
        assert_eq!(segment.life(0), Life::Dead);
    }

    /// Each of a circle leaves while its large message to the next has no receive.
    #[test]
    fn a_circle_of_leaving_ranks_ends_with_what_nobody_received() {
        use crate::bootstrap::InProcess;
        use tocsin_p2p::{ConstBuf, Mode, MutBuf};
        const RANKS: u32 = 3;
        const BYTES: usize = 1 << 20;
        for backend in ["signal", "thread", "poll"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let segment = std::sync::Arc::new(tocsin_shm_transport::Segment::create(RANKS).unwrap());
            // Ends a test that hangs.
            // SAFETY: - no pointers.
            unsafe { libc::alarm(60) };
            let leave = |rank: u32| {
                let world = World::join(InProcess { segment: segment.clone(), rank }, &config).unwrap();
                let comm = world.comm();
                let next = (rank + 1) % RANKS;
                let (taken, lost) = (vec![1u8; BYTES], vec![2u8; BYTES]);
                let mut got = vec![0u8; BYTES];
                let from = (rank + RANKS - 1) % RANKS;
                let buffer = MutBuf::contiguous(got.as_mut_ptr(), BYTES);
                // SAFETY: - the buffers live until the rank has finalized.
                let mut received = unsafe { comm.irecv_raw(buffer, Some(from), Some(1)) }.unwrap();
                let sent = [(1, &taken), (2, &lost), (3, &lost)].map(|(tag, buffer)| {
                    let buffer = ConstBuf::contiguous(buffer.as_ptr(), BYTES);
                    // SAFETY: - as above.
                    unsafe { comm.isend_raw(buffer, next, tag, Mode::Standard) }.unwrap()
                });
                let mut idle = vec![0u8; BYTES];
                let buffer = MutBuf::contiguous(idle.as_mut_ptr(), BYTES);
                // SAFETY: - as above. Nothing meets it.
                let _idle = unsafe { comm.irecv_raw(buffer, Some(from), Some(77)) }.unwrap();
                // None leaves before all have sent.
                received.wait().unwrap();
                comm.ibarrier_raw(None).unwrap().wait().unwrap();
                let end = world.finalize();
                assert!(got == taken, "{backend}");
                let [_delivered, never @ ..] = sent;
                match end {
                    Err(Error::NeverReceived { rank: to, tag, bytes, others, .. }) => {
                        assert_eq!((to, bytes), (next, BYTES as u64), "{backend}");
                        assert!((2..=3).contains(&tag) && others <= 1, "{backend} {tag} {others}");
                        1
                    }
                    // The next one has left, or says that it leaves, before this one began to: that is the requests' end.
                    Ok(()) => {
                        for mut never in never {
                            match never.test() {
                                Some(Err(Error::PeerFinalized { rank: to, .. })) => assert_eq!(to, next),
                                Some(Err(Error::NeverReceived { rank: to, bytes, others: 0, .. })) => {
                                    assert_eq!((to, bytes), (next, BYTES as u64));
                                }
                                end => panic!("{backend} {end:?}"),
                            }
                        }
                        0
                    }
                    Err(other) => panic!("{backend} {other}"),
                }
            };
            let told: u32 = std::thread::scope(|scope| {
                let ranks: Vec<_> = (0..RANKS).map(|rank| scope.spawn(move || leave(rank))).collect();
                ranks.into_iter().map(|rank| rank.join().unwrap()).sum()
            });
            assert_ne!(told, 0, "{backend}");
            // SAFETY: - as above.
            unsafe { libc::alarm(0) };
        }
    }

    /// Nor is what a rank has sent to itself, and waits to be received.
    #[test]
    fn what_a_rank_sent_itself_and_never_received_is_told_at_the_end() {
        use tocsin_p2p::{ConstBuf, Mode, MutBuf};
        const BYTES: usize = 1 << 20;
        let large = (BYTES, Mode::Standard);
        for (backend, (bytes, mode), received) in [
            ("signal", large, false),
            ("signal", large, true),
            ("signal", (8, Mode::Synchronous), false),
            ("thread", large, false),
            ("poll", large, false),
            ("poll", (8, Mode::Synchronous), false),
            ("poll", (8, Mode::Synchronous), true),
        ] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let (data, mut got) = (vec![1u8; bytes], vec![0u8; bytes]);
            let world = World::join(Singleton::default(), &config).unwrap();
            let comm = world.comm();
            let buffer = ConstBuf::contiguous(data.as_ptr(), bytes);
            // SAFETY: - the buffers live until the rank has finalized.
            let mut send = unsafe { comm.isend_raw(buffer, 0, 1, mode) }.unwrap();
            let probed = (!received).then(|| comm.improbe(Some(0), Some(1)).unwrap());
            // SAFETY: - as above.
            let receive = received.then(|| unsafe {
                comm.irecv_raw(MutBuf::contiguous(got.as_mut_ptr(), bytes), Some(0), Some(1)).unwrap()
            });
            let (end, sent) = (world.finalize(), send.wait());
            if received {
                assert!(end.is_ok() && sent.is_ok() && receive.unwrap().wait().is_ok(), "{backend} {end:?}");
                assert_eq!(got, data);
                continue;
            }
            for (end, of) in [(end.map(drop), "finalize"), (sent.map(drop), "isend")] {
                let is_told = matches!(
                    &end,
                    Err(Error::NeverReceived { operation, rank: 0, tag: 1, bytes: b, others: 0 })
                        if *b == bytes as u64 && (*operation == of || of == "isend")
                );
                assert!(is_told, "{backend} {bytes} {of}: {end:?}");
            }
            drop(probed);
        }
    }

    /// And no other rank is to blame, though one of the communicator has died.
    #[test]
    fn what_a_rank_sent_itself_is_told_at_the_end_beside_a_dead_one() {
        use crate::bootstrap::InProcess;
        use tocsin_p2p::{ConstBuf, Mode};
        for backend in ["signal", "poll"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let segment = std::sync::Arc::new(tocsin_shm_transport::Segment::create(2).unwrap());
            let join = |rank| World::join(InProcess { segment: segment.clone(), rank }, &config).unwrap();
            std::thread::scope(|scope| {
                let dies = scope.spawn(|| {
                    let _world = join(1);
                    resume_unwind(Box::new(()));
                });
                let world = join(0);
                assert!(dies.join().is_err() && segment.life(1) == Life::Dead);
                let data = [1u8; 8];
                let buffer = ConstBuf::contiguous(data.as_ptr(), data.len());
                // SAFETY: - the buffer lives until the rank has finalized.
                let mut send = unsafe { world.comm().isend_raw(buffer, 0, 1, Mode::Synchronous) }.unwrap();
                for end in [world.finalize(), send.wait().map(drop)] {
                    let is_told = matches!(end, Err(Error::NeverReceived { rank: 0, tag: 1, bytes: 8, .. }));
                    assert!(is_told, "{backend} {end:?}");
                }
            });
        }
    }

    /// What it has taken of that and dropped is received.
    #[test]
    fn what_a_rank_sent_itself_and_dropped_is_over_at_the_end() {
        use tocsin_p2p::{ConstBuf, Mode};
        const BYTES: usize = 1 << 20;
        for backend in ["signal", "poll"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let data = vec![1u8; BYTES];
            let world = World::join(Singleton::default(), &config).unwrap();
            let comm = world.comm();
            let buffer = ConstBuf::contiguous(data.as_ptr(), BYTES);
            // SAFETY: - the buffer lives until the rank has finalized.
            let mut send = unsafe { comm.isend_raw(buffer, 0, 1, Mode::Standard) }.unwrap();
            drop(comm.mprobe(Some(0), Some(1)).unwrap());
            let end = world.finalize();
            assert!(end.is_ok() && send.wait().is_ok(), "{backend} {end:?}");
        }
    }

    /// Whose request was dropped is told when it leaves, though it was known before that nobody receives its message.
    #[test]
    fn what_was_dropped_and_never_received_is_told_at_the_end() {
        use crate::bootstrap::InProcess;
        use tocsin_p2p::{ConstBuf, Mode, MutBuf};
        const BYTES: usize = 1 << 20;
        for (backend, keeps) in [("signal", false), ("signal", true), ("poll", false), ("poll", true)] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let segment = std::sync::Arc::new(tocsin_shm_transport::Segment::create(2).unwrap());
            let data: &'static [u8] = Box::leak(vec![1u8; BYTES].into_boxed_slice());
            let run = |rank: u32| {
                let world = World::join(InProcess { segment: segment.clone(), rank }, &config).unwrap();
                let comm = world.comm();
                let send = |tag| {
                    let buffer = ConstBuf::contiguous(data.as_ptr(), BYTES);
                    // SAFETY: - nobody frees or writes the bytes.
                    unsafe { comm.isend_raw(buffer, 1 - rank, tag, Mode::Standard) }.unwrap()
                };
                if rank == 0 {
                    drop(send(1));
                    return world.finalize();
                }
                let dropped = send(2);
                match keeps {
                    true => dropped.detach(Some(Box::new(()))),
                    false => drop(dropped),
                }
                // Behind the other.
                let told = send(3).wait();
                assert!(
                    matches!(told, Err(Error::NeverReceived { rank: 0, tag: 3, .. })),
                    "{backend} {told:?}"
                );
                let mut got = vec![0u8; BYTES];
                let buffer = MutBuf::contiguous(got.as_mut_ptr(), BYTES);
                // SAFETY: - the buffer lives until the request is over.
                unsafe { comm.irecv_raw(buffer, Some(0), Some(1)) }.unwrap().wait().unwrap();
                assert_eq!(got, data);
                world.finalize()
            };
            // Ends a test that hangs.
            // SAFETY: - no pointers.
            unsafe { libc::alarm(60) };
            let [first, second] = std::thread::scope(|scope| {
                [0, 1].map(|rank| scope.spawn(move || run(rank))).map(|rank| rank.join().unwrap())
            });
            // SAFETY: - as above.
            unsafe { libc::alarm(0) };
            assert!(first.is_ok(), "{backend} {first:?}");
            assert!(
                matches!(second, Err(Error::NeverReceived { rank: 0, tag: 2, others: 0, .. })),
                "{backend} {keeps} {second:?}"
            );
        }
    }

    #[test]
    fn a_fork_leaves_its_parents_world_alone() {
        for backend in ["signal", "thread", "poll"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let mut world = Some(World::join(Singleton::default(), &config).unwrap());
            let segment = world.as_ref().unwrap().rank.segment.clone();
            let lives = |how: &str| assert_eq!(segment.life(0), Life::Alive, "{backend}, {how}");

            assert!(in_a_child(|| {
                drop(world.take());
                true
            }));
            lives("dropped");
            assert!(in_a_child(|| {
                let refused = world.take().unwrap().finalize();
                matches!(refused, Err(Error::InvalidArgument { operation: "finalize", .. }))
            }));
            lives("finalized");
            assert!(in_a_child(|| {
                let unwound = catch_unwind(AssertUnwindSafe(|| {
                    let _world = world.take();
                    // No hook, which would write to standard error.
                    resume_unwind(Box::new(()));
                }));
                unwound.is_err()
            }));
            lives("unwound");

            world.take().unwrap().finalize().unwrap();
            assert_eq!(segment.life(0), Life::Finalized);
        }
    }

    /// A child has no callback thread, and its parent's callbacks are not its own.
    #[test]
    fn a_fork_runs_none_of_its_parents_callbacks() {
        use tocsin_sync::atomic::real::{AtomicU32, Ordering};

        for backend in ["signal", "poll"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let mut world = Some(World::join(Singleton::default(), &config).unwrap());
            let called = Arc::new(AtomicU32::new(0));
            let finish = |callbacks: &tocsin_progress::Callbacks, completion: &Completion| {
                let called = called.clone();
                let call = Box::new(move |_| {
                    called.fetch_add(1, Ordering::Relaxed);
                });
                callbacks.set(completion, call).unwrap();
                completion.finish(Outcome::default());
            };
            let completion = Completion::new();
            finish(world.as_ref().unwrap().rank.engine.callbacks(), &completion);
            assert!(in_a_child(|| {
                let before = called.load(Ordering::Relaxed);
                drop(world.take());
                called.load(Ordering::Relaxed) == before
            }));
            world.take().unwrap().finalize().unwrap();
            assert_eq!(called.load(Ordering::Relaxed), 1, "{backend}");
        }
    }
}
