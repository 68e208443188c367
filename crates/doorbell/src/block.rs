//! What the handler of an interruptible thread needs, and the masking of that thread.
//!
//! # Implementation details
//! A block is static once made (recycled, never freed), so that a late signal, a late [`crate::Control`] or
//! a [`Masked`] that outlived its receiver finds memory it may read. Its serial says whose it is now.

use crate::backend::{Cause, Control, Run};
use crate::descriptor::Descriptor;
use crate::kind::RingOutcome;
use core::marker::PhantomData;
use std::sync::{Mutex, PoisonError};
use tocsin_sync::atomic::compiler_fence;
use tocsin_sync::atomic::real::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use tocsin_sync::{errno, fpenv, thread};

/// The upper 16 bits of every serial: tells our timers' signals from others'.
pub(crate) const SERIAL_MAGIC: u64 = 0x70C5 << 48;
const SERIAL_BITS: u64 = (1 << 48) - 1;
/// Passes of one entry before it leaves and has itself interrupted again.
const PASSES: u32 = 8;

/// How often one interrupts its thread again, where that comes at once and on top of it.
const KICKS: u32 = 64;
/// When an entry is run again that cannot, or no more: long after the call that sets the timer, which takes 9 us on some virtual machines.
const SOON_NS: u64 = 50_000;

const DEFERRED_RING: u32 = 1;
const DEFERRED_TIMER: u32 = 2;

/// The signal that interrupts the calling thread; `None` on one that is not interruptible. Handler-safe.
pub fn signal_here() -> Option<i32> {
    let signal = Block::of_this_thread()?.signal.load(Ordering::Relaxed);
    (signal != 0).then_some(signal)
}

/// The state of one interruptible thread. Everything but `serial` and `timer` is used by that thread and its
/// handlers alone, hence plain loads and stores, Relaxed.
pub(crate) struct Block {
    /// 0: free.
    serial: AtomicU64,
    /// The kernel's timer id; -1: none.
    timer: AtomicI32,
    /// The number of the signal that rings it. 0: none yet.
    signal: AtomicI32,
    pub(crate) descriptor: AtomicPtr<Descriptor>,
    /// A [`Run`], as a number.
    run: AtomicUsize,
    context: AtomicPtr<()>,
    /// [`Descriptor::rung`] when the handler last ran.
    rung_seen: AtomicU32,
    masked: AtomicU32,
    deferred: AtomicU32,
    /// The entry under way has asked to be run again as soon as it is over.
    again: AtomicU32,
    /// An entry below is about that.
    kicking: AtomicU32,
}

/// What a signal may be about.
pub(crate) struct Arrived {
    /// A ringer has sent a signal.
    pub(crate) signal: bool,
    /// There is something to look at.
    pub(crate) work: bool,
}

static FREE: Mutex<Vec<&'static Block>> = Mutex::new(Vec::new());
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

impl Block {
    /// A block for the calling thread. Allocates.
    pub(crate) fn take(descriptor: *const Descriptor, run: Run, context: *const ()) -> &'static Block {
        let recycled = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let block: &'static Block = recycled.unwrap_or_else(|| {
            Box::leak(Box::new(Block {
                serial: AtomicU64::new(0),
                timer: AtomicI32::new(-1),
                signal: AtomicI32::new(0),
                descriptor: AtomicPtr::new(core::ptr::null_mut()),
                run: AtomicUsize::new(0),
                context: AtomicPtr::new(core::ptr::null_mut()),
                rung_seen: AtomicU32::new(0),
                masked: AtomicU32::new(0),
                deferred: AtomicU32::new(0),
                again: AtomicU32::new(0),
                kicking: AtomicU32::new(0),
            }))
        });
        // SAFETY: `Receiver::install`'s caller keeps the descriptor mapped.
        let rung = unsafe { &*descriptor }.rung();
        block.descriptor.store(descriptor.cast_mut(), Ordering::Relaxed);
        block.run.store(run as usize, Ordering::Relaxed);
        block.context.store(context.cast_mut(), Ordering::Relaxed);
        block.rung_seen.store(rung, Ordering::Relaxed);
        block.masked.store(0, Ordering::Relaxed);
        block.deferred.store(0, Ordering::Relaxed);
        block.again.store(0, Ordering::Relaxed);
        block.kicking.store(0, Ordering::Relaxed);
        block.timer.store(-1, Ordering::Relaxed);
        block.signal.store(0, Ordering::Relaxed);
        let count = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed) & SERIAL_BITS;
        // SYNC POINT: Release: who reads the serial (another thread's `Control`) reads what is above.
        block.serial.store(SERIAL_MAGIC | count, Ordering::Release);
        block
    }

    /// Gives the block back; its timer is deleted before.
    pub(crate) fn give_back(&'static self) {
        self.serial.store(0, Ordering::Release);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial.load(Ordering::Acquire)
    }

    pub(crate) fn set_timer(&self, timer: i32) {
        self.timer.store(timer, Ordering::Release);
    }

    pub(crate) fn timer(&self) -> i32 {
        self.timer.load(Ordering::Acquire)
    }

    pub(crate) fn set_signal(&self, signal: i32) {
        self.signal.store(signal, Ordering::Relaxed);
    }

    pub(crate) fn control(&'static self) -> Control {
        Control { block: Some((self, self.serial())) }
    }

    /// See [`Control::arm`].
    pub(crate) fn arm(&self, serial: u64, delay_ns: u64) -> bool {
        self.serial() == serial && crate::signal::timer::arm(self.timer(), delay_ns)
    }

    /// The calling thread's block; `None` on a thread that is not interruptible. Handler-safe.
    #[inline]
    pub(crate) fn of_this_thread() -> Option<&'static Block> {
        let block = thread::context().cast::<Block>();
        // SAFETY: the table's contexts are set by `signal::Signal::install` alone, from a `&'static Block`.
        unsafe { block.as_ref() }
    }

    /// What has come since the last call. Handler-safe.
    pub(crate) fn arrived(&self) -> Arrived {
        // SAFETY: the descriptor is mapped while the receiver is installed, and a handler finds this block
        // only while it is.
        let Some(descriptor) = (unsafe { self.descriptor.load(Ordering::Relaxed).as_ref() }) else {
            return Arrived { signal: false, work: false };
        };
        let rung = descriptor.rung();
        let signal = rung != self.rung_seen.load(Ordering::Relaxed);
        self.rung_seen.store(rung, Ordering::Relaxed);
        // A signal without work: a poller has taken its vectors. Work without a signal: nobody rang for it
        // (unwanted plain messages), or two rings overlapped and the first handler counted both.
        let work = signal || descriptor.posted() != 0 || self.deferred.load(Ordering::Relaxed) != 0;
        Arrived { signal, work }
    }

    /// From now on nothing runs on this thread. Before the block's end.
    pub(crate) fn mask_for_ever(&self) {
        self.masked.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// The way into the owner's entry function, from the signal handler and from the last unmask alike.
    ///
    /// On its own thread. Bounded: [`PASSES`] runs; where the signal is not blocked, as often as it is run [again](Self::again), [`KICKS`] times that.
    pub(crate) fn enter(&self, cause: Cause) {
        let _fp = fpenv::DefaultFp::enter();
        self.enter_in_default_fp(cause);
    }

    /// [`enter`](Self::enter) by who has set the default floating-point environment.
    #[inline]
    pub(crate) fn enter_in_default_fp(&self, cause: Cause) {
        let mut cause = cause;
        let _errno = errno::Saved::save();
        for _ in 0..PASSES {
            if self.masked.load(Ordering::Relaxed) != 0 {
                self.defer(cause);
                return;
            }
            {
                let scope = thread::HandlerScope::enter();
                if scope.depth() > 1 {
                    // An entry is under way below this one; it looks at `deferred` after its scope ends.
                    self.defer(cause);
                    return;
                }
                self.run(cause);
            }
            // The scope is closed: who comes from here on runs by itself. Who came before left a note.
            compiler_fence(Ordering::SeqCst);
            match self.take_deferred(Cause::Ring) {
                Some(next) => cause = next,
                None if self.again.load(Ordering::Relaxed) == 0 => return,
                None => return self.interrupt_again(),
            }
        }
        // Enough for one entry. The note goes back to where the next entry finds it, and that entry is
        // asked for: as soon as this one is over.
        self.defer(cause);
        self.again.store(1, Ordering::Relaxed);
        self.interrupt_again();
    }

    /// See [`Control::again`].
    pub(crate) fn again(&self, serial: u64) -> bool {
        let here = Block::of_this_thread().is_some_and(|block| core::ptr::eq(block, self));
        let asked = here && self.serial() == serial && thread::in_handler();
        if asked {
            self.again.store(1, Ordering::Relaxed);
        }
        asked
    }

    /// The end of an entry that has asked to be run again, its scope closed: interrupts this thread.
    ///
    /// Mostly that comes when the signal handler is over, which has the signal blocked. Where it has not (a handler of the program's
    /// that calls ours, installed with `SA_NODEFER`; a user interrupt), it comes here and now, on top of this entry, and leaves to
    /// this one what it asks for itself: the stack does not grow with the number of runs.
    #[cold]
    fn interrupt_again(&self) {
        if self.kicking.load(Ordering::Relaxed) != 0 {
            return;
        }
        let mut kicks = 0u32;
        while self.again.load(Ordering::Relaxed) != 0 {
            self.kicking.store(1, Ordering::Relaxed);
            while self.again.load(Ordering::Relaxed) != 0 {
                self.again.store(0, Ordering::Relaxed);
                if kicks == KICKS {
                    self.run_soon();
                    break;
                }
                kicks = kicks.wrapping_add(1);
                self.kick_self();
            }
            self.kicking.store(0, Ordering::Relaxed);
            // Who comes from here on interrupts by itself. Who came before has left it to this one.
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// Has the entry function run by the timer.
    #[cold]
    fn run_soon(&self) {
        let _armed = crate::signal::timer::arm(self.timer(), SOON_NS);
    }

    /// The last unmask. Wait-free but for what it runs.
    fn unmasked(&self) {
        if let Some(cause) = self.take_deferred(Cause::Unmask) {
            self.enter(cause);
        }
    }

    fn run(&self, cause: Cause) {
        let run = self.run.load(Ordering::Relaxed);
        if run == 0 {
            return;
        }
        // SAFETY: a non-zero number came from a `Run` in `take`; `Receiver::install`'s caller lets us call it
        // with this context on this thread while the receiver is installed.
        unsafe {
            let run = core::mem::transmute::<usize, Run>(run);
            run(self.context.load(Ordering::Relaxed), cause);
        }
    }

    fn defer(&self, cause: Cause) {
        let note = match cause {
            Cause::Timer => DEFERRED_TIMER,
            Cause::Ring | Cause::Unmask | Cause::UserInterrupt => DEFERRED_RING,
        };
        self.deferred.fetch_or(note, Ordering::Relaxed);
    }

    fn take_deferred(&self, ring_is: Cause) -> Option<Cause> {
        if self.deferred.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let deferred = self.deferred.swap(0, Ordering::Relaxed);
        if deferred & DEFERRED_TIMER != 0 { Some(Cause::Timer) } else { Some(ring_is) }
    }

    /// Interrupts this thread (again).
    fn kick_self(&self) {
        if crate::fork::disowned() {
            return;
        }
        // SAFETY: as in `was_rung`.
        if let Some(descriptor) = unsafe { self.descriptor.load(Ordering::Relaxed).as_ref() } {
            let attention = descriptor.attention();
            // A thread that rings itself exists. EAGAIN (real-time signals): as soon as there is room for one, by a timer, which has its own.
            let rang = crate::ring::kick(&crate::ring::Real, descriptor, attention);
            if !rang.is_ok_and(RingOutcome::rang) {
                self.run_soon();
            }
        }
    }
}

/// Keeps the calling thread from being interrupted for as long as it lives: rings that come in meanwhile are
/// noted, and the last guard's drop runs the entry function if there was one. Costs a table look-up and a
/// few plain loads and stores, no system call. Nests. On a thread that is not interruptible it does nothing.
///
/// Wait-free; handlers may use it. The drop runs the owner's (bounded) entry function.
#[derive(Debug)]
#[must_use = "the thread is masked until this is dropped"]
pub struct Masked {
    block: Option<(&'static Block, u64)>,
    _not_send: PhantomData<*const ()>,
}

impl Masked {
    /// Masks the calling thread.
    #[inline]
    pub fn new() -> Masked {
        let block = Block::of_this_thread().map(|block| {
            // Plain load and store: only this thread writes, and a handler that comes in between leaves the
            // value as it found it.
            let masked = block.masked.load(Ordering::Relaxed);
            block.masked.store(masked.wrapping_add(1), Ordering::Relaxed);
            (block, block.serial())
        });
        compiler_fence(Ordering::SeqCst);
        Masked { block, _not_send: PhantomData }
    }
}

impl Default for Masked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Masked {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        let Some((block, serial)) = self.block else { return };
        // The receiver may be gone, and its block somebody else's; or this is a child of fork().
        if block.serial() != serial || Block::of_this_thread().is_none() {
            return;
        }
        let left = block.masked.load(Ordering::Relaxed).wrapping_sub(1);
        block.masked.store(left, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if left == 0 {
            block.unmasked();
        }
    }
}

impl core::fmt::Debug for Block {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Block").field("serial", &self.serial()).finish_non_exhaustive()
    }
}
