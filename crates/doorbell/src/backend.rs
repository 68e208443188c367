//! The receiving side: one trait, one implementation per backend.

use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::kind::BackendKind;
use crate::{block::Block, poll, signal, thread, uintr};
use core::marker::PhantomData;

/// How to be notified.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Config {
    /// By what.
    pub backend: BackendKind,
    /// The `signal` backend's signal: SIGURG unless there is a reason. Its default action is to ignore, so
    /// that a late ring harms nobody, and it needs no place in a queue.
    pub signal: i32,
    /// The `uintr` backend's ringers take a descriptor from this process (`pidfd_getfd`). Where the Yama security
    /// module lets only ancestors do that (`ptrace_scope` 1), the receiver lets this process and its descendants do
    /// it (`PR_SET_PTRACER`): the launcher's id, whose descendants all ranks are. 0: the parent's. It also lets them
    /// debug this process, as any process of the same user may without Yama.
    pub ancestor: i32,
}

impl Default for Config {
    fn default() -> Self {
        Config { backend: BackendKind::Signal, signal: libc::SIGURG, ancestor: 0 }
    }
}

impl Config {
    /// The default configuration of a backend.
    pub fn new(backend: BackendKind) -> Config {
        Config { backend, ..Config::default() }
    }
}

/// Why the owner's entry function runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Somebody rang, by signal, or the runs of an earlier entry go on.
    Ring,
    /// The timer that [`Control::arm`] set went off. (Rings may have come in, too.)
    Timer,
    /// The last [`crate::Masked`] was dropped, and rings had come in meanwhile.
    Unmask,
    /// Somebody rang by user interrupt.
    UserInterrupt,
}

/// The owner's entry function. It runs on the interruptible thread between two of its instructions: inside a
/// [`tocsin_sync::thread::HandlerScope`], with `errno` saved and the default floating-point state, on the
/// alternate stack (`Cause::Unmask`: on the thread's own). Never nested in itself. It must obey the handler
/// rules and be bounded.
pub type Run = unsafe fn(context: *const (), cause: Cause);

/// What an installation is about.
pub struct Place {
    pub(crate) descriptor: *const Descriptor,
    pub(crate) signal: i32,
    #[cfg_attr(not(all(target_arch = "x86_64", not(miri), not(loom))), allow(dead_code))]
    pub(crate) ancestor: i32,
    pub(crate) run: Run,
    pub(crate) context: *const (),
}

/// One way to be notified. The ringer's half is a branch of [`crate::ring`]: it must not depend on what is
/// installed in the ringing process.
pub trait Backend: Sized {
    /// Which one it is.
    const KIND: BackendKind;
    /// Makes the calling thread the one to notify, up to but not including the publication of its id.
    ///
    /// # Errors
    /// When the kernel or the machine refuses; then everything is as before.
    fn install(place: &Place) -> Result<Self, Error>;
    /// What the engine may do from anywhere.
    fn control(&self) -> Control;
    /// The signal to publish; 0 for none.
    fn signal(&self) -> i32 {
        0
    }
    /// What [`crate::connect`] needs: the installation's serial number, and the number of a file descriptor plus 1.
    /// Zeros where there is nothing to connect to.
    fn connection_point(&self) -> (u64, u32) {
        (0, 0)
    }
}

/// An installed backend of whichever kind, kept for its drop.
trait Held {}
impl<B: Backend> Held for B {}

struct Installed {
    _held: Box<dyn Held>,
    control: Control,
    signal: i32,
    connection_point: (u64, u32),
}

impl Installed {
    fn new<B: Backend + 'static>(place: &Place) -> Result<Installed, Error> {
        let backend = B::install(place)?;
        Ok(Installed {
            control: backend.control(),
            signal: backend.signal(),
            connection_point: backend.connection_point(),
            _held: Box::new(backend),
        })
    }
}

/// Makes the calling thread the one that rings to a descriptor reach. Stays on that thread.
///
/// Dropping it unpublishes the thread and gives back whatever was changed: the alternate stack, the signal
/// mask, the timer and, with the process's last receiver, the signal's disposition (unless other code has
/// replaced ours meanwhile: then theirs stays). In a child of fork(), the drop leaves the descriptor alone:
/// it names the parent.
#[must_use = "dropping it makes the thread uninterruptible again"]
pub struct Receiver {
    descriptor: *const Descriptor,
    backend: BackendKind,
    pid: u32,
    tid: u32,
    // Dropped after `drop` has run: ringers no longer find the thread, then what catches late rings goes.
    installed: Installed,
    _not_send: PhantomData<*const ()>,
}

impl Receiver {
    /// Installs the receiver. From the return on, `run` may be called at any instruction of this thread.
    /// The caller must look at its lanes once after it: what was published before was not announced.
    ///
    /// Not from a handler.
    ///
    /// # Errors
    /// See [`Error`]; then everything is as before.
    ///
    /// # Safety
    /// - `descriptor` is aligned, initialised (zeroed) and stays mapped until the receiver is dropped;
    /// - `run` may be called with `context` on this thread until the receiver is dropped, and obeys the
    ///   handler rules;
    /// - the receiver is dropped before its thread ends (it is not forgotten).
    pub unsafe fn install(
        descriptor: *const Descriptor,
        config: &Config,
        run: Run,
        context: *const (),
    ) -> Result<Receiver, Error> {
        // SAFETY: valid by the caller's promise; it consists of atomics.
        let shared = unsafe { &*descriptor };
        match shared.attention().tid() {
            0 => {}
            tid => return Err(Error::Taken(tid)),
        }
        let place = Place { descriptor, signal: config.signal, ancestor: config.ancestor, run, context };
        let installed = match config.backend {
            BackendKind::Signal => Installed::new::<signal::Signal>(&place)?,
            BackendKind::Thread => Installed::new::<thread::Thread>(&place)?,
            BackendKind::Poll => Installed::new::<poll::Poll>(&place)?,
            BackendKind::Uintr => Installed::new::<uintr::Uintr>(&place)?,
        };
        // SAFETY: neither call has a precondition.
        let (pid, tid) = unsafe { (libc::getpid() as u32, libc::gettid() as u32) };
        let (backend, signal, point) = (config.backend, installed.signal, installed.connection_point);
        let receiver = Receiver { descriptor, backend, pid, tid, installed, _not_send: PhantomData };
        crate::fork::installed();
        shared.publish(backend, pid, tid, signal as u32, point)?;
        Ok(receiver)
    }

    /// What the engine may do from anywhere.
    pub fn control(&self) -> Control {
        self.installed.control
    }

    /// Which backend this is.
    pub fn backend(&self) -> BackendKind {
        self.backend
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // SAFETY: no precondition.
        let here = unsafe { libc::getpid() } as u32;
        if here == self.pid {
            // SAFETY: `install`'s caller keeps it mapped until after this.
            unsafe { &*self.descriptor }.unpublish(self.pid, self.tid);
            crate::fork::removed();
        }
    }
}

impl core::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Receiver")
            .field("backend", &self.backend())
            .field("pid", &self.pid)
            .field("tid", &self.tid)
            .finish()
    }
}

/// What the engine may do from anywhere, handlers included, while its receiver is installed.
#[derive(Clone, Copy)]
pub struct Control {
    pub(crate) block: Option<(&'static Block, u64)>,
}

impl Control {
    /// A control that controls nothing: for engines whose thread is not interruptible.
    pub const fn none() -> Control {
        Control { block: None }
    }

    /// Has the entry function run with [`Cause::Timer`] on the interruptible thread `delay_ns` from now, once;
    /// a later call replaces an earlier one. False when there is no timer (backends that do not interrupt,
    /// a receiver that was dropped): then nothing will come.
    ///
    /// Progress class: wait-free, one system call (`timer_settime`). Handlers may call it; it may change
    /// `errno`. Any thread of the rank may.
    pub fn arm(&self, delay_ns: u64) -> bool {
        match self.block {
            Some((block, serial)) => block.arm(serial, delay_ns),
            None => false,
        }
    }

    /// Has the entry function, which calls this, run once more as soon as it is over: by a signal that the thread sends itself,
    /// for a small part of what a timer takes that goes off soon. The thread does nothing of its own in between. False outside of handlers, on other threads,
    /// and where [`arm`](Self::arm) answers false: then nothing will come.
    ///
    /// Progress class: wait-free; one system call when the entry is over. For handlers.
    pub fn again(&self) -> bool {
        self.block.is_some_and(|(block, serial)| block.again(serial))
    }
}

impl core::fmt::Debug for Control {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Control").field("timer", &self.block.is_some()).finish()
    }
}
