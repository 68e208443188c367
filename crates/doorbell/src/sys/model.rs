//! The kernel as models see it: a pending-signal flag, a futex queue and a user-interrupt receiver per descriptor.

use crate::descriptor::Descriptor;
use core::time::Duration;
use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tocsin_sync::model::sync::{Condvar, Mutex};

/// What the kernel knows about a thread.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The signal is pending: it will be delivered between any two steps of the thread.
    pending: AtomicU32,
    /// A user interrupt is posted.
    posted: AtomicU32,
    /// The installation (serial number) whose user-interrupt receiver there is.
    installed: AtomicU64,
    /// The installation that the ringers are connected to; 0: none.
    connected: AtomicU64,
    /// The thread is blocked in a system call: user interrupts wait.
    blocked: AtomicU32,
    /// The clock.
    now: AtomicU64,
    /// The futex's hash bucket.
    bucket: Mutex<()>,
    woken: Condvar,
}

impl Kernel {
    pub(crate) fn new() -> Self {
        Self {
            pending: AtomicU32::new(0),
            posted: AtomicU32::new(0),
            installed: AtomicU64::new(0),
            connected: AtomicU64::new(0),
            blocked: AtomicU32::new(0),
            now: AtomicU64::new(1),
            bucket: Mutex::new(()),
            woken: Condvar::new(),
        }
    }
}

impl Descriptor {
    /// Delivers the pending signal or user interrupt, if there is one: true means that the handler runs now.
    #[doc(hidden)]
    pub fn model_deliver(&self) -> bool {
        let interrupts = self.backend() == Some(crate::BackendKind::Uintr)
            && self.kernel.blocked.load(Ordering::Relaxed) == 0
            && self.kernel.posted.swap(0, Ordering::Acquire) != 0;
        self.kernel.pending.swap(0, Ordering::Acquire) != 0 || interrupts
    }

    /// Publishes a modelled interruptible thread; ringers are connected to it if its backend is `uintr`.
    #[doc(hidden)]
    pub fn model_install(&self, backend: crate::BackendKind) {
        if backend == crate::BackendKind::Uintr {
            self.kernel.connected.store(1, Ordering::Relaxed);
        }
        self.model_publish(backend, 1);
    }

    /// Takes the thread's receiver away and installs another, to which nobody is connected.
    #[doc(hidden)]
    pub fn model_install_anew(&self, backend: crate::BackendKind) {
        self.unpublish(1, 1);
        self.kernel.installed.store(0, Ordering::Relaxed);
        self.kernel.posted.store(0, Ordering::Relaxed);
        self.model_publish(backend, 2);
    }

    fn model_publish(&self, backend: crate::BackendKind, serial: u64) {
        self.kernel.installed.store(serial, Ordering::Relaxed);
        let point = if backend == crate::BackendKind::Uintr { (serial, 1) } else { (0, 0) };
        let _nobody_else_is_there = self.publish(backend, 1, 1, libc::SIGURG as u32, point);
    }

    /// The thread blocks in a system call of its own.
    #[doc(hidden)]
    pub fn model_block(&self) {
        self.kernel.blocked.store(1, Ordering::Relaxed);
    }

    /// Moves the clock on.
    #[doc(hidden)]
    pub fn model_later(&self, ns: u64) {
        self.kernel.now.fetch_add(ns, Ordering::Relaxed);
    }
}

/// Time stands still unless a model moves it: marks never grow old, the worst case for suppression.
pub(crate) fn now_ns(target: &Descriptor) -> u64 {
    target.kernel.now.load(Ordering::Relaxed)
}

/// A post to an installation that is gone is silent.
pub(crate) fn user_interrupt<V: crate::ring::Variant>(target: &Descriptor) -> bool {
    let connected = target.kernel.connected.load(Ordering::Relaxed);
    if connected == 0 || V::CHECK_SERIAL && connected != target.serial() {
        return false;
    }
    if target.kernel.installed.load(Ordering::Relaxed) == connected {
        // SENDUIPI and the notification: locked read-modify-writes.
        target.kernel.posted.swap(1, Ordering::AcqRel);
    }
    true
}

pub(crate) fn signal(target: &Descriptor, _pid: i32, _tid: i32, _signal: i32) -> Result<(), i32> {
    // The kernel's own locks give release/acquire from sender to handler, no more is assumed.
    target.kernel.pending.swap(1, Ordering::AcqRel);
    Ok(())
}

pub(crate) fn wake_all(target: &Descriptor) {
    if let Ok(_bucket) = target.kernel.bucket.lock() {
        target.kernel.woken.notify_all();
    }
}

pub(crate) fn wait(target: &Descriptor, seen: u32, _timeout: Option<Duration>) -> bool {
    let Ok(bucket) = target.kernel.bucket.lock() else { return true };
    if target.wake_seq.load(Ordering::Relaxed) == seen {
        // Nobody wakes it: loom reports a deadlock.
        drop(target.kernel.woken.wait(bucket));
    }
    true
}
