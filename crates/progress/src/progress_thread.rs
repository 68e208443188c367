//! A thread that exists to make progress: backend `thread`.

use crate::budget::{Context, Pass, Work};
use crate::engine::Engine;
use crate::schedule::crew::{Crew, Member};
use crate::schedule::turns::Turns;
use crate::schedule::{PRIORITY_MAX, Schedule};
use crate::stats;
use std::io;
use std::sync::{Arc, Condvar};
use std::thread::JoinHandle;
use tocsin_doorbell::Own;
use tocsin_sync::atomic::{AtomicBool, Ordering};

/// A core on which progress threads of this process run: what they need to share it.
#[derive(Debug)]
pub struct ProgressCore<W: Work> {
    crew: Crew<Engine<W>>,
    turns: Arc<Turns>,
    shared: bool,
}

impl<W: Work> ProgressCore<W> {
    /// A core without a progress thread yet. `shared`: it will be that of several ranks, of this process or of others, so that who has
    /// nothing to do must not look for it there. Not for handlers.
    pub fn new(shared: bool) -> ProgressCore<W> {
        ProgressCore { crew: Crew::new(), turns: Arc::default(), shared }
    }
}

/// A running progress thread. Dropping it stops and joins the thread; not in a handler.
#[derive(Debug)]
pub struct ProgressThread {
    stop: Arc<AtomicBool>,
    own: Own,
    /// Where it may wait for its turn, and what wakes it there.
    turns: Arc<Turns>,
    bell: Arc<Condvar>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressThread {
    /// Starts a thread that enters `engine` whenever there is something to do, and sleeps otherwise (spin
    /// and yield before it as the engine's configuration says). `cpu`: where it should run, as the kernel
    /// numbers them; a wish that the kernel refuses is ignored. It blocks all signals.
    ///
    /// The engine is kept alive until the thread is joined. User threads only.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn spawn<W: Work + 'static>(
        engine: Arc<Engine<W>>,
        cpu: Option<usize>,
    ) -> io::Result<ProgressThread> {
        ProgressThread::spawn_on(&Arc::new(ProgressCore::new(false)), engine, cpu, Schedule::Event)
    }

    /// [`spawn`](Self::spawn), on a core with others, scheduled as all of them must be.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn spawn_on<W: Work + 'static>(
        core: &Arc<ProgressCore<W>>,
        engine: Arc<Engine<W>>,
        cpu: Option<usize>,
        schedule: Schedule,
    ) -> io::Result<ProgressThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let bell = Arc::new(Condvar::new());
        let own = *engine.own();
        let thread = {
            let (core, stop, bell) = (core.clone(), stop.clone(), bell.clone());
            std::thread::Builder::new().name("tocsin-progress".into()).spawn(move || {
                crate::block_signals();
                if let Some(cpu) = cpu {
                    pin(cpu);
                }
                // SYNC POINT: Acquire pairs with the Release in `drop`. `wake_own` there fences before it asks whether this thread sleeps,
                // and this thread says so and fences before it asks for `stop`; who waits for a turn asks under the lock.
                let stop = || stop.load(Ordering::Acquire);
                match schedule {
                    Schedule::Event if core.shared => in_a_crew(&core.crew, &engine, stop),
                    Schedule::Event => {
                        engine.wait_in(Context::ProgressThread, true, stop, None);
                    }
                    Schedule::Semaphore => by_semaphore(&engine, stop),
                    Schedule::RoundRobin => in_turn(&core.turns, 0, &bell, &engine, stop),
                    Schedule::Priority(base) => {
                        in_turn(&core.turns, base.min(PRIORITY_MAX), &bell, &engine, stop);
                    }
                    Schedule::Suspend => while_busy(&core.turns, &bell, &engine, stop),
                }
            })?
        };
        Ok(ProgressThread { stop, own, turns: core.turns.clone(), bell, thread: Some(thread) })
    }
}

/// [`Schedule::Event`] on a core of several.
fn in_a_crew<W: Work>(crew: &Crew<Engine<W>>, engine: &Arc<Engine<W>>, stop: impl Fn() -> bool) {
    crew.join(engine.clone());
    crew.work(engine, stop, || stats::add(&engine.stats().turns, 1));
    crew.leave(engine);
}

/// [`Schedule::Semaphore`].
fn by_semaphore<W: Work>(engine: &Engine<W>, stop: impl Fn() -> bool) {
    while !stop() {
        engine.sleep_until_rung(&stop);
        let mut more = false;
        loop {
            more = engine.turn(more) == Some(Pass::More);
            Member::run_callbacks(engine);
            if !more || stop() {
                break;
            }
        }
    }
}

/// [`Schedule::RoundRobin`] and [`Schedule::Priority`].
fn in_turn<W: Work>(
    turns: &Arc<Turns>,
    base: u8,
    bell: &Arc<Condvar>,
    engine: &Engine<W>,
    stop: impl Fn() -> bool,
) {
    let mut turn = turns.join(base, bell, &stop);
    let mut polling = Polling::begin(engine.own());
    let mut more = false;
    while !stop() {
        (more, polling) = seen_turn(engine, more, polling);
        turn.hand_on(&stop);
    }
    drop(polling);
    // What was published while this thread was seen polling was not announced to anybody.
    engine.look_once_more();
}

/// [`Schedule::Suspend`].
fn while_busy<W: Work>(turns: &Arc<Turns>, bell: &Arc<Condvar>, engine: &Engine<W>, stop: impl Fn() -> bool) {
    while !stop() {
        let mut busy = false;
        // Whoever posts wakes the rank's sleepers.
        engine.own().sleep(None, || {
            busy = engine.has_operations() == Some(true);
            busy || stop() || engine.has_callbacks()
        });
        Member::run_callbacks(engine);
        if !busy {
            continue;
        }
        let mut turn = turns.join(0, bell, &stop);
        let mut polling = Polling::begin(engine.own());
        let mut more = false;
        while !stop() {
            (more, polling) = seen_turn(engine, more, polling);
            if engine.has_operations() == Some(false) {
                break;
            }
            turn.hand_on(&stop);
        }
        drop(polling);
        engine.look_once_more();
    }
}

/// A turn of a thread that is seen looking, but not while it runs callbacks: they may last, and the rank's other threads are woken. Whether work is left.
fn seen_turn<'a, W: Work>(engine: &'a Engine<W>, more: bool, polling: Polling<'a>) -> (bool, Polling<'a>) {
    let mut found = engine.turn(more);
    if !engine.has_callbacks() {
        return (found == Some(Pass::More), polling);
    }
    drop(polling);
    // What was published meanwhile was not announced to anybody.
    found = engine.look_once_more();
    (found == Some(Pass::More), Polling::begin(engine.own()))
}

/// "Somebody looks", withdrawn at the latest when a panic in the work ends the thread.
pub(crate) struct Polling<'a>(&'a Own);

impl Polling<'_> {
    pub(crate) fn begin(own: &Own) -> Polling<'_> {
        own.begin_poll();
        Polling(own)
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.0.end_poll();
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.own.wake_own();
        self.turns.ring(&self.bell);
        if let Some(thread) = self.thread.take() {
            // A callback that ran on the progress thread may be what drops its last owner.
            if thread.thread().id() != std::thread::current().id() {
                // A panic in the work has been reported by the hook.
                drop(thread.join());
            }
        }
    }
}

fn pin(cpu: usize) {
    if cpu >= libc::CPU_SETSIZE as usize {
        return;
    }
    // SAFETY: the set is plain memory, `cpu` lies inside it, and 0 is the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
