//! Backend `signal`: rings are `tgkill`; the handler runs the owner's entry function.
//!
//! # What a process that uses it sees
//! - The disposition of the signal (SIGURG unless configured otherwise) is ours while any receiver of the
//!   process is installed. A signal that is none of ours (its thread is not interruptible, or nobody rang, or
//!   it was sent by other means than ours) goes to the disposition that was there before, with
//!   the arguments, mask and one-shot flag it asked for. It runs on our alternate stack; `SA_RESTART` is
//!   ours. A foreign standard signal that is sent while one of ours is pending is dropped, because the kernel
//!   keeps one; so a handler that was there before is called for ours, too, as if by `tgkill`, but one that
//!   is for one signal only. Real-time signals are queued, and ours stay ours.
//! - With `SA_RESTART` most interrupted calls go on; the exceptions (`poll`, `nanosleep`, ...) return EINTR
//!   and must be repeated. ([`crate::Masked`] defers the work, not the signal.)
//! - The interruptible thread has an alternate stack of ours and the signal unblocked.

mod alternate_stack;
mod disposition;
mod handler;
pub(crate) mod timer;

use crate::backend::{Backend, Control, Place};
use crate::block::Block;
use crate::error::Error;
use crate::kind::BackendKind;
use alternate_stack::AlternateStack;
use core::cell::Cell;
use disposition::Disposition;
use timer::Timer;
use tocsin_sync::thread::{self, Registration};

/// The signal, if a rank may be rung by it: one whose users expect to share it or that is free to choose.
pub(crate) fn permitted(signal: u32) -> Option<i32> {
    let signal = i32::try_from(signal).ok()?;
    let classic =
        matches!(signal, libc::SIGURG | libc::SIGIO | libc::SIGUSR1 | libc::SIGUSR2 | libc::SIGWINCH);
    // The C library keeps the real-time signals below 34 for itself.
    (classic || (34..=64).contains(&signal)).then_some(signal)
}

/// An installed receiver's belongings, in the order in which they go.
pub(crate) struct Signal {
    block: &'static Block,
    signal: i32,
    /// Installed by this process: a child of fork() has no timer.
    pid: i32,
    timer: Option<Timer>,
    registration: Option<Registration>,
    disposition: Option<Disposition>,
    unblocked: Option<Unblocked>,
    stack: Option<AlternateStack>,
}

impl Signal {
    /// What the handler needs.
    #[cfg_attr(not(all(target_arch = "x86_64", not(miri), not(loom))), allow(dead_code))]
    pub(crate) fn block(&self) -> &'static Block {
        self.block
    }

    /// The signal stack: lowest address and size.
    #[cfg_attr(not(all(target_arch = "x86_64", not(miri), not(loom))), allow(dead_code))]
    pub(crate) fn stack(&self) -> (usize, usize) {
        self.stack.as_ref().map_or((0, 0), AlternateStack::range)
    }
}

impl Backend for Signal {
    const KIND: BackendKind = BackendKind::Signal;

    fn install(place: &Place) -> Result<Self, Error> {
        let signal =
            u32::try_from(place.signal).ok().and_then(permitted).ok_or(Error::BadSignal(place.signal))?;
        let block = Block::take(place.descriptor, place.run, place.context);
        block.set_signal(signal);
        // Filled step by step, so that a failure half-way gives back what was done.
        let mut it = Signal {
            block,
            signal,
            // SAFETY: no precondition.
            pid: unsafe { libc::getpid() },
            timer: None,
            registration: None,
            disposition: None,
            unblocked: None,
            stack: None,
        };
        it.stack = Some(AlternateStack::install()?);
        it.registration = Some(thread::register(core::ptr::from_ref(block).cast())?);
        it.disposition = Some(Disposition::install(signal)?);
        it.timer = Some(Timer::create(signal, block.serial())?);
        if let Some(timer) = &it.timer {
            block.set_timer(timer.id());
        }
        it.unblocked = Some(Unblocked::unblock(signal)?);
        Ok(it)
    }

    fn control(&self) -> Control {
        self.block.control()
    }

    fn signal(&self) -> i32 {
        self.signal
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.block.mask_for_ever();
        // SAFETY: no precondition.
        let child = unsafe { libc::getpid() } != self.pid;
        match self.timer.take() {
            // Timers are not inherited; the id may be that of a timer of the child's own.
            Some(timer) if child => core::mem::forget(timer),
            timer => drop(timer),
        }
        self.block.set_timer(-1);
        self.unblocked = None;
        self.registration = None;
        self.disposition = None;
        self.stack = None;
        self.block.give_back();
    }
}

thread_local! {
    /// Signals that guards have blocked on this thread: bit 0 is signal 1.
    static GUARDED: Cell<u64> = const { Cell::new(0) };
}

/// Why no thread of this process can be rung by signal: the system refuses the timer that goes with it.
pub fn refusal() -> Option<String> {
    Timer::create(libc::SIGURG, 0).err().map(|why| why.to_string())
}

fn bit(signal: i32) -> u64 {
    u32::try_from(signal).ok().and_then(|signal| 1u64.checked_shl(signal.wrapping_sub(1))).unwrap_or(0)
}

/// Notes that a guard has blocked a signal on this thread, and is going to unblock it: who leaves a world meanwhile does not take it
/// for one that was blocked before. Not for handlers.
pub fn note_guard(signal: i32) {
    GUARDED.set(GUARDED.get() | bit(signal));
}

/// Takes that back. False: a world that was joined or left meanwhile has done with the signal as it has to be, and the guard leaves it alone.
/// Not for handlers.
pub fn take_guard(signal: i32) -> bool {
    let all = GUARDED.get();
    GUARDED.set(all & !bit(signal));
    all & bit(signal) != 0
}

/// The signal is unblocked on this thread; dropping it blocks it again if it was, but for a guard's sake.
struct Unblocked {
    signal: i32,
    was_blocked: bool,
}

impl Unblocked {
    fn unblock(signal: i32) -> Result<Unblocked, Error> {
        // SAFETY: an all-zero signal set is valid memory for sigemptyset to fill; all pointers are to live
        // locals; the signal number was checked.
        unsafe {
            let mut set: libc::sigset_t = core::mem::zeroed();
            let mut old: libc::sigset_t = core::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal);
            let guarded = take_guard(signal);
            // What rang for a world that has ended is nobody's, and might end the process.
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            while guarded
                && libc::sigtimedwait(&raw const set, core::ptr::null_mut(), &raw const at_once) == signal
            {
            }
            if libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, &raw mut old) != 0 {
                return Err(Error::last("pthread_sigmask"));
            }
            let was_blocked = libc::sigismember(&raw const old, signal) == 1;
            Ok(Unblocked { signal, was_blocked: was_blocked && !guarded })
        }
    }
}

impl Drop for Unblocked {
    fn drop(&mut self) {
        if self.was_blocked {
            // A guard that lives on has nothing to unblock any more.
            take_guard(self.signal);
            // SAFETY: as in `unblock`. Blocking a valid signal cannot fail.
            unsafe {
                let mut set: libc::sigset_t = core::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, self.signal);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, core::ptr::null_mut());
            }
        }
    }
}
