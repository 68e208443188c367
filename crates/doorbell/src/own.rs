//! The owner's side: what any thread of the rank, and its handler, may do with the rank's own descriptor.

use crate::attention::Attention;
use crate::descriptor::Descriptor;
use crate::ring::{Real, Variant, wake_sleepers};
use crate::{fork, sys};
use core::time::Duration;
use tocsin_sync::HandlerSafe;
use tocsin_sync::atomic::{Ordering, fence};

/// A rank's own descriptor.
#[derive(Debug, Clone, Copy)]
pub struct Own {
    descriptor: *const Descriptor,
}

// SAFETY: only atomics are reached through the pointer, which `new`'s caller keeps valid.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}
// SAFETY: every method but `sleep` (which says so) is a bounded number of atomic operations and at most one
// non-blocking system call; none depends on the interrupted one's progress.
unsafe impl HandlerSafe for Own {}

impl Own {
    /// # Safety
    /// `descriptor` is aligned, initialised (zeroed) and stays mapped for as long as this or a copy of it is
    /// used.
    pub const unsafe fn new(descriptor: *const Descriptor) -> Own {
        Own { descriptor }
    }

    /// The descriptor itself. Handlers may call it.
    #[inline]
    pub fn descriptor(&self) -> &Descriptor {
        // SAFETY: `new`'s caller keeps it valid; it consists of atomics, so others may write it.
        unsafe { &*self.descriptor }
    }

    /// "I look by myself from now on." Not for short spins: writing the word costs every ringer a miss.
    ///
    /// Wait-free (one `lock add`); handlers may call it. At most 4095 threads of a rank at a time.
    #[inline]
    pub fn begin_poll(&self) {
        if fork::disowned() {
            return;
        }
        // SYNC POINT: Relaxed: a ringer that misses it rings once more than needed.
        self.descriptor().attention.fetch_add(Attention::POLLER, Ordering::Relaxed);
    }

    /// Takes [`begin_poll`](Self::begin_poll) back. The caller must look at its lanes once more: what was
    /// published before a ringer could see this was not announced.
    ///
    /// Wait-free (one `lock sub`, one fence); handlers may call it.
    #[inline]
    pub fn end_poll(&self) {
        self.end_poll_as::<Real>();
    }

    /// [`begin_poll`](Self::begin_poll) of who looks for a moment only, and then mostly goes away: so [say](crate::Descriptor::is_in_wait) the descriptors to
    /// peers. Wait-free (two `lock add`); handlers may call it.
    pub fn begin_brief_poll(&self) {
        if !fork::disowned() {
            // SYNC POINT: Relaxed: a hint.
            self.descriptor().brief.fetch_add(1, Ordering::Relaxed);
        }
        self.begin_poll();
    }

    /// [`end_poll`](Self::end_poll) of that.
    pub fn end_brief_poll(&self) {
        self.end_poll();
        if !fork::disowned() {
            // SYNC POINT: Relaxed: as above.
            self.descriptor().brief.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// [`end_poll`](Self::end_poll) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn end_poll_as<V: Variant>(&self) {
        if fork::disowned() {
            return;
        }
        self.descriptor().attention.fetch_sub(Attention::POLLER, Ordering::Relaxed);
        if V::OWNER_FENCE {
            // SYNC POINT: pairs with the ringer's fence between its data and its look at the attention.
            fence(Ordering::SeqCst);
        }
    }

    /// Sleeps until a ringer or [`wake_own`](Self::wake_own) wakes it, the time-out is over, or a signal
    /// comes; unless `look`, called after everybody can see that this thread sleeps, says that there is
    /// something already. Returns whether to look again (false: the time-out is over).
    ///
    /// Blocks; never in a handler. Wakes may be spurious. Nothing is lost if `look` looks at all that rings
    /// announce.
    pub fn sleep(&self, timeout: Option<Duration>, look: impl FnMut() -> bool) -> bool {
        self.sleep_as::<Real>(timeout, look)
    }

    /// [`sleep`](Self::sleep) by a thread that only rings need wake, and [`wake_own`](Self::wake_own), but not
    /// [`wake_waiters_after_fence`](Self::wake_waiters_after_fence): one that waits for nothing that others complete. At most 31 of a rank at a time.
    pub fn attend(&self, timeout: Option<Duration>, look: impl FnMut() -> bool) -> bool {
        self.sleep_counted::<Real>(Attention::SLEEPER + Attention::ATTENDANT, timeout, look)
    }

    /// [`sleep`](Self::sleep) with variation points.
    #[doc(hidden)]
    pub fn sleep_as<V: Variant>(&self, timeout: Option<Duration>, look: impl FnMut() -> bool) -> bool {
        self.sleep_counted::<V>(Attention::SLEEPER, timeout, look)
    }

    /// `count`: what the attention word counts the thread as, all of it in one step.
    fn sleep_counted<V: Variant>(
        &self,
        count: u64,
        timeout: Option<Duration>,
        mut look: impl FnMut() -> bool,
    ) -> bool {
        if fork::disowned() {
            return true;
        }
        let descriptor = self.descriptor();
        // SYNC POINT: read before "I sleep" is visible: any waker that saw it changes the value after this.
        let seen = descriptor.wake_seq.load(Ordering::Acquire);
        descriptor.attention.fetch_add(count, Ordering::Relaxed);
        if V::SLEEPER_FENCE {
            // SYNC POINT: pairs with the ringer's fence between its data and its look at the attention.
            fence(Ordering::SeqCst);
        }
        let woken = look() || sys::wait(descriptor, seen, timeout);
        descriptor.attention.fetch_sub(count, Ordering::Relaxed);
        if V::OWNER_FENCE {
            // SYNC POINT: as in `end_poll`; the caller looks once more.
            fence(Ordering::SeqCst);
        }
        woken
    }

    /// Wakes the threads of this rank that sleep: something they wait for was done by a handler or another
    /// thread. The caller has published it. Costs a fence and a load when nobody sleeps.
    ///
    /// Wait-free, at most one system call; handlers may call it; it may change `errno`.
    #[inline]
    pub fn wake_own(&self) {
        // SYNC POINT: pairs with the sleeper's fence between "I sleep" and its last look.
        fence(Ordering::SeqCst);
        self.wake_own_after_fence();
    }

    /// [`wake_own`](Self::wake_own) by a caller who has executed `fence(SeqCst)`, or
    /// [`fence_after_rmw`](tocsin_sync::atomic::fence_after_rmw), since it published.
    #[inline]
    pub fn wake_own_after_fence(&self) {
        let descriptor = self.descriptor();
        if descriptor.attention().sleepers() > 0 && !fork::disowned() {
            let _never_stops = wake_sleepers(&Real, descriptor);
        }
    }

    /// [`wake_own_after_fence`](Self::wake_own_after_fence), unless all that sleep [attend](Self::attend): something is complete, and
    /// nobody has to come for anything else.
    ///
    /// Wait-free, at most one system call; handlers may call it; it may change `errno`.
    #[inline]
    pub fn wake_waiters_after_fence(&self) {
        let descriptor = self.descriptor();
        let attention = descriptor.attention();
        if attention.sleepers() > attention.attendants() && !fork::disowned() {
            let _never_stops = wake_sleepers(&Real, descriptor);
        }
    }

    /// Says whether plain messages should ring, and whether offers ([`Urgency::Offer`](crate::Urgency::Offer)) should.
    /// True if this call switched one of them on: then the caller must `fence(SeqCst)` and look once more. One caller at
    /// a time (whoever holds the engine).
    ///
    /// Wait-free (a load, at most one locked operation); handlers may call it.
    #[inline]
    pub fn set_wants(&self, plain: bool, offers: bool) -> bool {
        let wanted =
            if plain { Attention::WANTS_PLAIN } else { 0 } | if offers { Attention::WANTS_OFFERS } else { 0 };
        let word = &self.descriptor().attention;
        // These flags have one writer at a time, so the plain load decides, and an exclusive or may follow it: two writers
        // that found the same change due would undo it. The common "no change" writes nothing.
        let was = word.load(Ordering::Relaxed) & (Attention::WANTS_PLAIN | Attention::WANTS_OFFERS);
        let changed = was ^ wanted;
        if changed == 0 || fork::disowned() {
            return false;
        }
        // The result is unused, so this is `lock xor`, not a compare-and-swap loop.
        // SYNC POINT: Relaxed: the caller's fence orders it before the look that must follow.
        word.fetch_xor(changed, Ordering::Relaxed);
        changed & wanted != 0
    }

    /// Throttles: while `on`, ringers leave the thread alone (sleepers are still woken). After `false` the
    /// caller must `fence(SeqCst)` and look once more. Any thread of the rank and its handler, at any time: who enters the
    /// engine lifts a throttle that is over before it holds it. The last one decides.
    ///
    /// Wait-free (a load, at most one locked operation); handlers may call it.
    #[inline]
    pub fn suppress(&self, on: bool) {
        let word = &self.descriptor().attention;
        let was = word.load(Ordering::Relaxed) & Attention::THROTTLED != 0;
        if was == on || fork::disowned() {
            return;
        }
        // Two may do the same at once, so no exclusive or.
        // SYNC POINT: Relaxed: the caller's fence orders it before the look that must follow.
        if on {
            word.fetch_or(Attention::THROTTLED, Ordering::Relaxed);
        } else {
            word.fetch_and(!Attention::THROTTLED, Ordering::Relaxed);
        }
    }

    /// Takes the posted vectors. Wait-free (one load, one `xchg` if there are any); handlers may call it.
    #[inline]
    pub fn take(&self) -> u64 {
        let pir = &self.descriptor().pir;
        if pir.load(Ordering::Relaxed) == 0 || fork::disowned() {
            return 0;
        }
        // SYNC POINT: Acquire pairs with the ringer's Release.
        pir.swap(0, Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Descriptor;

    /// Who looks for a moment before it rings is in no wait, whoever else is.
    #[test]
    fn a_moment_is_no_wait() {
        let descriptor = Descriptor::new();
        // SAFETY: the descriptor lives longer.
        let own = unsafe { Own::new(&descriptor) };
        assert!(!descriptor.is_in_wait());
        own.begin_brief_poll();
        assert!(descriptor.attention().pollers() == 1 && !descriptor.is_in_wait());
        own.begin_poll();
        assert!(descriptor.is_in_wait());
        own.end_brief_poll();
        assert!(descriptor.attention().pollers() == 1 && descriptor.is_in_wait());
        own.end_poll();
        assert!(!descriptor.is_in_wait());
    }
}
