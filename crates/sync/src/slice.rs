//! The calling thread's time slice, which Linux lets a thread choose since 6.12.
//!
//! Who is woken on a core that somebody has just got waits until that one's slice is over, and that is seen at the next tick of the
//! clock, milliseconds later, even if another core has fallen idle meanwhile. Who has the shorter slice of the two has the core at once. It
//! gets no more of the core by that, for what each of them gets in all is fair as before, but sooner.

use crate::atomic::real::{AtomicBool, Ordering};
use core::cell::Cell;
use core::marker::PhantomData;

/// The shortest slice that the kernel knows, nanoseconds.
const SHORT_NS: u64 = 100_000;

/// The kernel does not let threads choose, or not here: it is not asked again.
static REFUSED: AtomicBool = AtomicBool::new(false);

std::thread_local! {
    /// What the thread had before its slice was made short, nanoseconds; 0: it is not.
    static BEFORE: Cell<u64> = const { Cell::new(0) };
}

/// A short slice of the calling thread from [`begin`](Self::begin) on. Dropping it gives the thread back the slice that it had.
#[derive(Debug)]
#[must_use = "dropping it ends the short slice"]
pub struct ShortSlice {
    state: State,
    /// It stays on its thread.
    _not_send: PhantomData<*const ()>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Untried,
    Begun,
    /// Nothing is to be changed.
    Not,
}

impl ShortSlice {
    /// Changes nothing yet.
    #[allow(clippy::new_without_default)] // what begins nothing is no default of what is to be begun
    pub const fn new() -> ShortSlice {
        ShortSlice { state: State::Untried, _not_send: PhantomData }
    }

    /// Makes the slice of the calling thread 0.1 ms, anew if it was [given back](give_back) meanwhile. Does nothing if it is as short, if the thread's policy is
    /// not that of ordinary threads, and where the kernel does not let it choose.
    ///
    /// Not for handlers. Two system calls, and two more when this is dropped; none if it has begun.
    pub fn begin(&mut self) {
        // SYNC POINT: Relaxed: a hint, which saves calls that are refused; so is the other.
        if self.state == State::Not || BEFORE.get() > 0 || REFUSED.load(Ordering::Relaxed) {
            return;
        }
        self.state = State::Not;
        match get() {
            Some(a) if !is_ordinary(&a) || (1..=SHORT_NS).contains(&a.sched_runtime) => {}
            // Before 6.12 it is 0.
            Some(a) if a.sched_runtime > 0 && set(a, SHORT_NS) => {
                BEFORE.set(a.sched_runtime);
                self.state = State::Begun;
            }
            _ => REFUSED.store(true, Ordering::Relaxed),
        }
    }
}

impl Drop for ShortSlice {
    fn drop(&mut self) {
        if self.state == State::Begun {
            give_back();
        }
    }
}

/// Gives the calling thread back the slice that it had before a [`ShortSlice`] that has begun, which may begin again. To be called before what may start
/// threads or processes: they inherit the slice, and nobody would give theirs back.
///
/// Not for handlers. Two system calls if the slice is short; else none.
pub fn give_back() {
    let before = BEFORE.replace(0);
    // Whoever has changed it meanwhile wants it so.
    if before > 0
        && let Some(attributes) = get().filter(|a| is_ordinary(a) && a.sched_runtime == SHORT_NS)
    {
        set(attributes, before);
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

/// Changes the slice, the thread's niceness being what `get` has said, and its policy what it is by now. Whether it was changed.
fn set(attributes: libc::sched_attr, slice: u64) -> bool {
    set_all(libc::sched_attr {
        sched_flags: attributes.sched_flags | libc::SCHED_FLAG_KEEP_POLICY as u64,
        sched_runtime: slice,
        ..attributes
    })
}

fn set_all(attributes: libc::sched_attr) -> bool {
    let attributes = libc::sched_attr { size: size_of::<libc::sched_attr>() as u32, ..attributes };
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

    /// The slice of this thread, if the kernel has it choose, and it is not short yet.
    fn own() -> Option<u64> {
        let own = current().filter(|own| *own > SHORT_NS && !REFUSED.load(Ordering::Relaxed));
        if own.is_none() {
            println!("not tested: this thread cannot choose its slice, or has a short one");
        }
        own
    }

    #[test]
    fn a_thread_has_a_short_slice_and_then_its_own_again() {
        alone(|| {
            let Some(own) = own() else { return };
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
    fn what_is_started_after_it_was_given_back_inherits_none() {
        alone(|| {
            let Some(own) = own() else { return };
            let inherited = || std::thread::scope(|scope| scope.spawn(current).join().unwrap());
            let mut slice = ShortSlice::new();
            slice.begin();
            assert_eq!(inherited(), Some(SHORT_NS), "the kernel does not pass it on any more");
            give_back();
            assert_eq!((current(), inherited()), (Some(own), Some(own)));
            slice.begin();
            assert_eq!(current(), Some(SHORT_NS), "it may begin again");
            drop(slice);
            give_back();
            assert_eq!(current(), Some(own));
        });
    }

    #[test]
    fn what_somebody_else_has_changed_stays() {
        alone(|| {
            if own().is_none() {
                return;
            }
            let mut slice = ShortSlice::new();
            slice.begin();
            assert!(get().is_some_and(|a| set(a, 3 * SHORT_NS)));
            drop(slice);
            assert_eq!(current(), Some(3 * SHORT_NS));
        });
    }

    #[test]
    fn other_policies_are_left_alone() {
        alone(|| {
            let (Some(_), Some(attributes)) = (own(), get()) else { return };
            assert!(set_all(libc::sched_attr { sched_policy: libc::SCHED_BATCH as u32, ..attributes }));
            assert!(!set(attributes, SHORT_NS) || current().is_none(), "the policy stays");
            let mut slice = ShortSlice::new();
            slice.begin();
            assert_eq!((BEFORE.get(), current()), (0, None));
            assert!(!REFUSED.load(Ordering::Relaxed), "another thread may be an ordinary one");
        });
    }
}
