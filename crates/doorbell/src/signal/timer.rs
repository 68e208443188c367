//! A one-shot timer whose signal goes to one thread: timer_create(2) with `SIGEV_THREAD_ID`.
//!
//! By raw system calls: the C library's timer ids need not be the kernel's, and its wrappers are not
//! documented as async-signal-safe.

use crate::error::Error;

/// A kernel timer; dropping it deletes it.
pub(crate) struct Timer {
    id: i32,
}

impl Timer {
    /// A timer for the calling thread; its signals carry `value`.
    pub(crate) fn create(signal: i32, value: u64) -> Result<Timer, Error> {
        let mut id: i32 = -1;
        // SAFETY: zeroed is a valid sigevent; the kernel reads it and writes `id`, both live locals.
        let answer = unsafe {
            let mut event: libc::sigevent = core::mem::zeroed();
            event.sigev_value.sival_ptr = core::ptr::without_provenance_mut(value as usize);
            event.sigev_signo = signal;
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_notify_thread_id = libc::gettid();
            libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw const event, &raw mut id)
        };
        if answer != 0 {
            return Err(Error::last_with(
                "timer_create",
                "; it needs one pending signal per rank: raise `ulimit -i` (RLIMIT_SIGPENDING)",
            ));
        }
        Ok(Timer { id })
    }

    pub(crate) fn id(&self) -> i32 {
        self.id
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: no memory is involved; the id is this timer's.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.id) };
    }
}

/// Has the timer go off once, `delay_ns` from now. Handler-safe; may change errno.
pub(crate) fn arm(id: i32, delay_ns: u64) -> bool {
    if id < 0 {
        return false;
    }
    // 0 would disarm it.
    let delay_ns = delay_ns.max(1);
    let when = libc::itimerspec {
        it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: libc::timespec {
            tv_sec: (delay_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (delay_ns % 1_000_000_000) as libc::c_long,
        },
    };
    let nowhere = core::ptr::null_mut::<libc::itimerspec>();
    // SAFETY: `when` is a live local; the old value is not asked for.
    unsafe { libc::syscall(libc::SYS_timer_settime, id, 0, &raw const when, nowhere) == 0 }
}
