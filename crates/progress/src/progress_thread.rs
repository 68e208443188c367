//! A thread that exists to make progress: backend `thread`.

use crate::budget::{Context, Work};
use crate::engine::Engine;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tocsin_doorbell::Own;
use tocsin_sync::atomic::{AtomicBool, Ordering};

/// A running progress thread. Dropping it stops and joins the thread; not in a handler.
#[derive(Debug)]
pub struct ProgressThread {
    stop: Arc<AtomicBool>,
    own: Own,
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
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let own = *engine.own();
        let thread = std::thread::Builder::new().name("tocsin-progress".into()).spawn(move || {
            crate::block_signals();
            if let Some(cpu) = cpu {
                pin(cpu);
            }
            // SYNC POINT: Acquire pairs with the Release in `drop`; `wake_own` there fences before it asks
            // whether this thread sleeps, and this thread says so and fences before it asks for `stop`.
            engine.wait_in(Context::ProgressThread, true, || seen.load(Ordering::Acquire), None);
        })?;
        Ok(ProgressThread { stop, own, thread: Some(thread) })
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.own.wake_own();
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
