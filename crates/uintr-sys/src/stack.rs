//! Stacks for handlers, and where the thread's own one lies.

use crate::error::{Call, Error, last};

/// A mapping with an inaccessible page at each end: whoever runs out of it, or over it, faults instead of corrupting
/// a neighbour.
#[derive(Debug)]
pub(crate) struct GuardedStack {
    mapping: *mut libc::c_void,
    mapped: usize,
    low: usize,
    size: usize,
}

fn page_size() -> usize {
    // SAFETY: no memory is involved.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(4096)
}

impl GuardedStack {
    pub(crate) fn new(size: usize) -> Result<GuardedStack, Error> {
        let page = page_size();
        let size = size.max(page).checked_next_multiple_of(page).ok_or(Error::BadStack)?;
        let mapped = size.checked_add(2 * page).ok_or(Error::BadStack)?;
        // SAFETY: a new anonymous mapping, nobody else's memory.
        let mapping = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                mapped,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(last(Call::System("mmap of the handler's stack")));
        }
        let inner = mapping.wrapping_byte_add(page);
        let it = GuardedStack { mapping, mapped, low: inner.expose_provenance(), size };
        // SAFETY: the inner part of the mapping made above.
        if unsafe { libc::mprotect(inner, size, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return Err(last(Call::System("mprotect of the handler's stack")));
        }
        for offset in (0..size).step_by(page) {
            // Touched now: a handler that faults its stack in is a slow handler.
            // SAFETY: inside the range made writable above; nobody uses it yet.
            unsafe { inner.wrapping_byte_add(offset).cast::<u8>().write_volatile(0) };
        }
        Ok(it)
    }

    /// The lowest usable address, and the size.
    pub(crate) fn range(&self) -> (usize, usize) {
        (self.low, self.size)
    }
}

impl Drop for GuardedStack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and, as the receiver sees to, nobody runs on it.
        unsafe { libc::munmap(self.mapping, self.mapped) };
    }
}

/// The calling thread's ordinary stack: lowest address and size, the part that it may still grow into included.
pub(crate) fn ordinary() -> Result<(usize, usize), Error> {
    // SAFETY: zeroed is valid memory for pthread_getattr_np to fill; all pointers are to live locals.
    unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        let answer = libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes);
        if answer != 0 {
            return Err(Error::Kernel(Call::System("pthread_getattr_np"), answer));
        }
        let (mut low, mut size) = (core::ptr::null_mut(), 0);
        let answer = libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
        if answer != 0 {
            return Err(Error::Kernel(Call::System("pthread_attr_getstack"), answer));
        }
        Ok((low.addr(), size))
    }
}

/// What is ordinary of a range when another, such as a signal stack that lies in it, is not: the part in which `here` is.
pub(crate) fn without(
    (low, size): (usize, usize),
    (hole, length): (usize, usize),
    here: usize,
) -> (usize, usize) {
    let (end, after) = (low.saturating_add(size), hole.saturating_add(length));
    if length == 0 || after <= low || hole >= end {
        (low, size)
    } else if here >= after {
        (after, end.saturating_sub(after))
    } else {
        (low, hole.saturating_sub(low))
    }
}

/// The calling thread's signal stack, as the kernel knows it: lowest address and size, 0 if it has none.
pub(crate) fn signal_range() -> (usize, usize) {
    match signal_stack() {
        Some(stack) if stack.ss_flags & libc::SS_DISABLE == 0 => (stack.ss_sp.addr(), stack.ss_size),
        _ => (0, 0),
    }
}

/// The calling thread's signal stack, as the kernel knows it.
pub(crate) fn signal_stack() -> Option<libc::stack_t> {
    // SAFETY: zeroed is a valid stack_t; asks only.
    unsafe {
        let mut now: libc::stack_t = core::mem::zeroed();
        (libc::sigaltstack(core::ptr::null(), &raw mut now) == 0).then_some(now)
    }
}

/// From linux/signal.h: the kernel forgets the signal stack while a handler runs on it, so that a signal that comes
/// in meanwhile stays on whatever stack it finds.
pub(crate) const SS_AUTODISARM: i32 = 1 << 31;

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_hole_leaves_the_part_where_the_thread_is() {
        let all = (1000, 500);
        for (hole, here, left) in [
            ((0, 0), 1200, all),
            ((1200, 0), 1100, all),
            ((400, 600), 1100, all),
            ((1500, 100), 1100, all),
            ((1200, 100), 1100, (1000, 200)),
            ((1200, 100), 1300, (1300, 200)),
            ((900, 200), 1300, (1100, 400)),
            ((1400, 200), 1100, (1000, 400)),
            ((900, 900), 1100, (1000, 0)),
            ((usize::MAX - 5, 100), 1100, all),
        ] {
            assert_eq!(without(all, hole, here), left, "{hole:?}, seen from {here}");
        }
    }

    #[test]
    fn the_signal_stack_is_found() {
        // The test harness's threads have the standard library's.
        std::thread::spawn(|| {
            let (low, size) = signal_range();
            assert!(low != 0 && size >= 2048, "{low:#x} {size}");
            let none = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: the thread does without until its end.
            let before = unsafe {
                let mut before: libc::stack_t = core::mem::zeroed();
                assert_eq!(libc::sigaltstack(&raw const none, &raw mut before), 0);
                before
            };
            assert_eq!(signal_range(), (0, 0));
            // SAFETY: as it was.
            assert_eq!(unsafe { libc::sigaltstack(&raw const before, core::ptr::null_mut()) }, 0);
        })
        .join()
        .unwrap();
    }
}
