//! The signal's disposition, which is the whole process's: ours while any receiver needs it, then as before.
//!
//! # Implementation details
//! There are several copies of the handler function, one per [`Slot`], each with the disposition it replaced
//! beside it. Usually one is used. When other code has put its handler on top of ours and kept it after our
//! last receiver went, that code may still call ours as "the one before"; the slot is then *orphaned*: it goes
//! on passing signals to what it replaced, and the next receiver takes another slot, on top of that code's
//! handler. So chains never form a circle.

use super::handler;
use crate::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tocsin_sync::atomic::real::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// Copies of the handler function.
pub(crate) const SLOTS: usize = 8;

/// What a copy of the handler replaced. Read by handlers of any thread while it may be written: each field
/// alone is whole, and it is only written before the copy is (or again becomes) the disposition.
pub(crate) struct Slot {
    pub(crate) handler: AtomicUsize,
    pub(crate) flags: AtomicI32,
    /// The kernel's 64 bits of the mask.
    pub(crate) mask: AtomicU64,
}

static PREVIOUS: [Slot; SLOTS] = [const {
    Slot { handler: AtomicUsize::new(libc::SIG_DFL), flags: AtomicI32::new(0), mask: AtomicU64::new(0) }
}; SLOTS];

/// The slot with this number. Handler-safe.
pub(crate) fn slot(number: usize) -> &'static Slot {
    // Masked rather than checked: no panic in handlers.
    &PREVIOUS[number & (SLOTS - 1)]
}

#[derive(Clone, Copy, Default)]
struct Use {
    /// 0: never used.
    signal: i32,
    receivers: usize,
}

static USES: Mutex<[Use; SLOTS]> = Mutex::new([Use { signal: 0, receivers: 0 }; SLOTS]);

/// One receiver's share in a signal's disposition.
pub(crate) struct Disposition {
    number: usize,
    signal: i32,
}

impl Disposition {
    pub(crate) fn install(signal: i32) -> Result<Disposition, Error> {
        let mut uses = USES.lock().unwrap_or_else(PoisonError::into_inner);
        let current = ask(signal)?;
        // In use, or orphaned and back in its old place: nothing to change.
        let in_place = (0..SLOTS).find(|&n| {
            uses[n].signal == signal
                && (uses[n].receivers > 0 || current.sa_sigaction == handler::COPIES[n] as usize)
        });
        if let Some(number) = in_place {
            if uses[number].receivers == 0 {
                // The previous one is still right: nothing but our handler has been there since.
                set(signal, number)?;
            }
            uses[number].receivers += 1;
            return Ok(Disposition { number, signal });
        }
        let number = (0..SLOTS).find(|&n| uses[n].signal == 0).ok_or(Error::Replaced(signal))?;
        remember(number, &current);
        let replaced = set(signal, number)?;
        // Other code may have been quicker between the question and the change.
        remember(number, &replaced);
        uses[number] = Use { signal, receivers: 1 };
        Ok(Disposition { number, signal })
    }
}

impl Drop for Disposition {
    fn drop(&mut self) {
        let Some(mut uses) = lock_if_possible() else { return };
        let Some(mine) = uses.get_mut(self.number) else { return };
        mine.receivers = mine.receivers.saturating_sub(1);
        if mine.receivers > 0 {
            return;
        }
        let Ok(current) = ask(self.signal) else { return };
        if current.sa_sigaction != handler::COPIES[self.number] as usize {
            return; // orphaned: theirs stays, and the slot stays this signal's
        }
        let previous = slot(self.number);
        // SAFETY: zeroed is a valid sigaction; what is filled in came from the kernel, and the signal is
        // valid. `sa_mask` starts with the kernel's 64 bits in this C library's layout.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = previous.handler.load(Ordering::Relaxed);
            action.sa_flags = previous.flags.load(Ordering::Relaxed);
            (&raw mut action.sa_mask).cast::<u64>().write(previous.mask.load(Ordering::Relaxed));
            libc::sigaction(self.signal, &raw const action, core::ptr::null_mut());
        }
        mine.signal = 0;
    }
}

/// In a child of fork() the lock may be held by a thread that does not exist there: then everything stays.
fn lock_if_possible() -> Option<MutexGuard<'static, [Use; SLOTS]>> {
    if !crate::fork::disowned() {
        return Some(USES.lock().unwrap_or_else(PoisonError::into_inner));
    }
    match USES.try_lock() {
        Ok(uses) => Some(uses),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}

fn ask(signal: i32) -> Result<libc::sigaction, Error> {
    // SAFETY: zeroed is a valid sigaction to overwrite; a null new action only asks.
    unsafe {
        let mut current: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(signal, core::ptr::null(), &raw mut current) != 0 {
            return Err(Error::last("sigaction"));
        }
        Ok(current)
    }
}

fn set(signal: i32, number: usize) -> Result<libc::sigaction, Error> {
    // SAFETY: zeroed is a valid sigaction (an empty mask); the handler has the three-argument form that
    // SA_SIGINFO promises and obeys the rules of handlers.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler::COPIES[number] as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        let mut replaced: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(signal, &raw const action, &raw mut replaced) != 0 {
            return Err(Error::last("sigaction"));
        }
        Ok(replaced)
    }
}

fn remember(number: usize, action: &libc::sigaction) {
    if action.sa_sigaction == handler::COPIES[number] as usize {
        return; // never itself
    }
    let slot = slot(number);
    // SAFETY: the mask is at least 8 bytes long and starts with the kernel's 64 bits.
    let mask = unsafe { (&raw const action.sa_mask).cast::<u64>().read() };
    slot.flags.store(action.sa_flags, Ordering::Relaxed);
    slot.mask.store(mask, Ordering::Relaxed);
    slot.handler.store(action.sa_sigaction, Ordering::Release);
}
