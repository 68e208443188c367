//! The kernel, as the protocol sees it.

use crate::descriptor::Descriptor;
use core::time::Duration;
use tocsin_sync::errno;

/// The clock that marks are stamped by. Handler-safe.
#[inline]
pub(crate) fn now_ns(_target: &Descriptor) -> u64 {
    tocsin_sync::clock::now_ns()
}

/// tgkill(2). Handler-safe; may change errno.
#[inline]
pub(crate) fn signal(_target: &Descriptor, pid: i32, tid: i32, signal: i32) -> Result<(), i32> {
    // SAFETY: no memory is involved; the ids and the signal were checked by the caller.
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) };
    if answer == 0 { Ok(()) } else { Err(errno::get()) }
}

/// SENDUIPI, if this process is connected to the target. Handler-safe.
#[inline]
pub(crate) fn user_interrupt<V: crate::ring::Variant>(target: &Descriptor) -> bool {
    if V::CHECK_SERIAL { crate::uintr::ring::<true>(target) } else { crate::uintr::ring::<false>(target) }
}

/// futex(2) FUTEX_WAKE of everybody: not the private kind, sleepers' and wakers' processes differ.
/// Handler-safe; may change errno.
#[inline]
pub(crate) fn wake_all(target: &Descriptor) {
    // SAFETY: the word is aligned and mapped; FUTEX_WAKE does not write it. It cannot fail in a way that
    // the caller could do something about.
    unsafe { libc::syscall(libc::SYS_futex, target.wake_seq.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// futex(2) FUTEX_WAIT while the sequence is still `seen`. False: the time-out is over.
pub(crate) fn wait(target: &Descriptor, seen: u32, timeout: Option<Duration>) -> bool {
    let limit = timeout.map(|t| libc::timespec {
        tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: t.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the word is aligned and mapped; the time-out is null or points to a live timespec.
    let answer =
        unsafe { libc::syscall(libc::SYS_futex, target.wake_seq.as_ptr(), libc::FUTEX_WAIT, seen, limit) };
    // EAGAIN: the sequence has moved on. EINTR: a handler ran. Both: look again.
    answer == 0 || errno::get() != libc::ETIMEDOUT
}
