//! The one clock.

/// `CLOCK_MONOTONIC` in nanoseconds, by the vDSO. The same for all processes of a machine. Never 0.
///
/// Progress class: wait-free except for the vDSO's retry while the kernel updates its clock page (a few
/// reads). Handlers may call it. A tick takes about 25 ns.
#[inline]
pub fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to; CLOCK_MONOTONIC exists on every Linux, so the call
    // cannot fail, and if it did, `now` would still be initialised.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let ns = (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64);
    // 0 means "clear" in words that hold a time; the machine has been up for longer than 0 ns.
    if ns == 0 { 1 } else { ns }
}
