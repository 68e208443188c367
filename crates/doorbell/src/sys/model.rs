//! The kernel as models see it: a pending-signal flag and a futex queue per descriptor.

use crate::descriptor::Descriptor;
use core::time::Duration;
use tocsin_sync::atomic::{AtomicU32, Ordering};
use tocsin_sync::model::sync::{Condvar, Mutex};

/// What the kernel knows about a thread.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The signal is pending: it will be delivered between any two steps of the thread.
    pending: AtomicU32,
    /// The futex's hash bucket.
    bucket: Mutex<()>,
    woken: Condvar,
}

impl Kernel {
    pub(crate) fn new() -> Self {
        Self { pending: AtomicU32::new(0), bucket: Mutex::new(()), woken: Condvar::new() }
    }
}

impl Descriptor {
    /// Delivers the pending signal, if there is one: true means that the handler runs now.
    #[doc(hidden)]
    pub fn model_deliver(&self) -> bool {
        self.kernel.pending.swap(0, Ordering::Acquire) != 0
    }

    /// Publishes a modelled interruptible thread.
    #[doc(hidden)]
    pub fn model_install(&self, backend: crate::BackendKind) {
        self.pid.store(1, Ordering::Relaxed);
        self.signal.store(libc::SIGURG as u32, Ordering::Relaxed);
        self.backend.store(backend as u32, Ordering::Relaxed);
        self.attention.fetch_or(1 << crate::Attention::TID_SHIFT, Ordering::Release);
    }
}

/// Time stands still: marks never grow old, the worst case for suppression.
pub(crate) fn now_ns() -> u64 {
    1
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
