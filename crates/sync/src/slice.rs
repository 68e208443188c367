//! The calling thread's time slice, which Linux lets a thread choose since 6.12.
//!
//! Who is woken on a core that somebody has just got waits until that one's slice is over, and that is seen at the next tick of the
//! clock, milliseconds later, even if another core has fallen idle meanwhile. Who has the shorter slice of the two has the core at once. It
//! gets no more of the core by that, for what each of them gets in all is fair as before, but sooner.

use crate::atomic::real::{AtomicBool, Ordering};
use core::marker::PhantomData;

/// The shortest slice that the kernel knows, nanoseconds.
const SHORT_NS: u64 = 100_000;

/// The kernel does not let threads choose, or not here: it is not asked again.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// A short slice of the calling thread from [`begin`](Self::begin) on. Dropping it gives the thread back the slice that it had.
#[derive(Debug)]
#[must_use = "dropping it ends the short slice"]
pub struct ShortSlice {
    /// What the thread had, nanoseconds; 0: nothing was changed.
    before: u64,
    /// It stays on its thread.
    _not_send: PhantomData<*const ()>,
}

impl ShortSlice {
    /// Changes nothing yet.
    #[allow(clippy::new_without_default)] // what begins nothing is no default of what is to be begun
    pub const fn new() -> ShortSlice {
        ShortSlice { before: 0, _not_send: PhantomData }
    }

    /// Makes the slice of the calling thread 0.1 ms. Does nothing if it is as short, if the thread's policy is not that of ordinary threads, and where the
    /// kernel does not let it choose.
    ///
    /// Not for handlers. Two system calls, and two more when this is dropped; none if it has begun.
    pub fn begin(&mut self) {
        // SYNC POINT: Relaxed: a hint, which saves calls that are refused; so is the other.
        if self.before > 0 || REFUSED.load(Ordering::Relaxed) {
            return;
        }
        match get() {
            Some(a) if !is_ordinary(&a) || (1..=SHORT_NS).contains(&a.sched_runtime) => {}
            // Before 6.12 it is 0.
            Some(a) if a.sched_runtime > 0 && set(a, SHORT_NS) => self.before = a.sched_runtime,
            _ => REFUSED.store(true, Ordering::Relaxed),
        }
    }
}

impl Drop for ShortSlice {
    fn drop(&mut self) {
        // Whoever has changed it meanwhile wants it so.
        if self.before > 0
            && let Some(attributes) = get().filter(|a| is_ordinary(a) && a.sched_runtime == SHORT_NS)
        {
            set(attributes, self.before);
        }
    }
}

/// The calling thread's slice, nanoseconds. None: the kernel does not say, or the thread's policy is not that of ordinary threads. Not for handlers.
pub fn current() -> Option<u64> {
    get().filter(is_ordinary).map(|a| a.sched_runtime).filter(|slice| *slice > 0)
}

fn is_ordinary(attributes: &libc::sched_attr) -> bool {
    attributes.sched_policy == libc::SCHED_OTHER as u32
}

fn get() -> Option<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: integers, for which zeros are valid.
    let mut attributes: libc::sched_attr = unsafe { core::mem::zeroed() };
    // SAFETY: the attributes live across the call, which writes no more than `size` bytes; 0 is the calling thread.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    (got == 0).then_some(attributes)
}

/// Changes the slice, all else being what `get` has said. Whether it was changed.
fn set(attributes: libc::sched_attr, slice: u64) -> bool {
    let attributes =
        libc::sched_attr { size: size_of::<libc::sched_attr>() as u32, sched_runtime: slice, ..attributes };
    // SAFETY: the attributes live across the call, which reads as many bytes as they say; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// On a thread of its own, whose slice is nobody else's.
    fn alone(test: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            scope.spawn(test);
        });
    }

    /// What a kernel that knows slices says, and nothing where it does not.
    #[test]
    fn a_thread_has_a_short_slice_and_then_its_own_again() {
        alone(|| {
            let Some(own) = current().filter(|_| !REFUSED.load(Ordering::Relaxed)) else { return };
            assert!(own > SHORT_NS);
            let mut slice = ShortSlice::new();
            assert_eq!(current(), Some(own), "not begun");
            slice.begin();
            slice.begin();
            assert_eq!(current(), Some(SHORT_NS));
            let mut inner = ShortSlice::new();
            inner.begin();
            drop(inner);
            assert_eq!(current(), Some(SHORT_NS), "it was as short");
            drop(slice);
            assert_eq!(current(), Some(own));
        });
    }

    #[test]
    fn what_somebody_else_has_changed_stays() {
        alone(|| {
            let mut slice = ShortSlice::new();
            slice.begin();
            if slice.before > 0 {
                assert!(get().is_some_and(|a| set(a, 3 * SHORT_NS)));
                drop(slice);
                assert_eq!(current(), Some(3 * SHORT_NS));
            }
        });
    }

    #[test]
    fn other_policies_are_left_alone() {
        alone(|| {
            let mut attributes = get().expect("any kernel since 3.14");
            attributes.sched_policy = libc::SCHED_BATCH as u32;
            assert!(set(attributes, attributes.sched_runtime));
            let mut slice = ShortSlice::new();
            slice.begin();
            assert_eq!((slice.before, current()), (0, None));
            assert!(!REFUSED.load(Ordering::Relaxed), "another thread may be an ordinary one");
        });
    }
}
