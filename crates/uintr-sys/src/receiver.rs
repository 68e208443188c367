//! The calling thread as a receiver of user interrupts.

use crate::error::{Call, Error, last};
use crate::fork;
use crate::instructions::{clui, stui, testui};
use crate::kernel::{Kernel, Switches, kernel};
use crate::layout::Frame;
use crate::sender::{Sender, VectorFd, unsignalled};
use crate::stack::{GuardedStack, SS_AUTODISARM, ordinary, signal_range, signal_stack, without};
use crate::thread::{self, Thread};
use crate::{rseq, trampoline, xsave};
use core::cell::Cell;
use core::ffi::c_void;
use core::marker::PhantomData;
use std::os::fd::OwnedFd;
use tocsin_sync::atomic::real::{AtomicU64, Ordering};

/// What runs when a vector is delivered: on the receiving thread, between two of its instructions, with user
/// interrupts masked (UIF clear), the default floating-point environment, and every register the interrupted code's
/// to get back. It must obey the handler rules: no allocation, lock, wait, panic, unwinding or `longjmp` out; `errno`
/// kept. It may change the frame.
pub type Handler = unsafe extern "C" fn(vector: u64, frame: *mut Frame, context: *const c_void);

/// Where the handler runs. Which code chooses, and why a nested signal or delivery is safe, stands in the source of
/// the trampoline.
///
/// A signal stack that lies in the thread's ordinary stack (a local array) is known as one if it is set before the receiver is
/// installed. One that is set there later is taken for ordinary, and may be overwritten by nested signals, until [`heal`] has met it, which
/// it cannot where the stack disarms itself (`SS_AUTODISARM`): set it before, or on memory of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// On the interrupted stack, past its red zone. It needs about 3 KiB beside what the handler uses.
    Interrupted,
    /// On a guarded stack of this size, or of the least that a handler needs if that is more, to which the trampoline goes. The interrupted stack needs 300 bytes past its
    /// red zone; of stacks that must not be left (a signal stack) the handler uses what [`Stack::Interrupted`] would.
    Own(usize),
    /// As [`Stack::Own`], on a stack that somebody else keeps: its lowest address and its size. It may be the thread's
    /// signal stack ([sigaltstack(2)]), which then serves both: signals and user interrupts that come in while it is in
    /// use go on below what is there. It lies apart from the thread's ordinary stack, and has 2 KiB more than the CPU's vector
    /// state takes, or is refused.
    ///
    /// [sigaltstack(2)]: https://man7.org/linux/man-pages/man2/sigaltstack.2.html
    Given(usize, usize),
    /// As [`Stack::Own`], but the CPU goes to a small stack of the receiver's first, so that nothing is written to
    /// the interrupted stack. The thread's signal stack, if it has one, is set to disarm itself while in use; other
    /// code that sets one later ought to do the same. A signal's handler that is left by `siglongjmp` then leaves its thread
    /// without a signal stack: the kernel arms it again only when the handler returns. Such code must set its signal stack anew.
    Kernel(usize),
}

/// A receiver's configuration.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Config {
    /// Where the handler runs: by default on 64 KiB of its own.
    pub stack: Stack,
    /// Leaves the interrupted code's vector registers to the handler's mercy. To be seen failing.
    #[cfg(feature = "emulation")]
    #[doc(hidden)]
    pub broken_trampoline: bool,
    /// Takes every stack for the ordinary one, and so leaves a signal stack that is in use. To be seen failing.
    #[cfg(feature = "emulation")]
    #[doc(hidden)]
    pub broken_stacks: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            stack: Stack::Own(64 * 1024),
            #[cfg(feature = "emulation")]
            broken_trampoline: false,
            #[cfg(feature = "emulation")]
            broken_stacks: false,
        }
    }
}

impl Config {
    /// The default, on another stack.
    pub fn on(stack: Stack) -> Config {
        Config { stack, ..Config::default() }
    }
}

/// What a handler needs beside the extended state at the very least, bytes.
const HANDLER_SPACE: usize = 2048;

/// See [`Thread::serial`].
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

/// The calling thread, registered. Stays on its thread; one per thread.
///
/// Dropping it takes the registration back; what is posted later is lost. Senders are not told.
#[must_use = "dropping it makes the thread unreachable again"]
pub struct Receiver {
    thread: Box<Thread>,
    kernel: &'static dyn Kernel,
    generation: u64,
    stacks: [Option<GuardedStack>; 2],
    _not_send: PhantomData<*const ()>,
}

/// The kernel's alternate stack holds a frame and the general registers until the trampoline has moved them; and a
/// signal's frame and handler, should one come in between on a thread whose signal stack is in use or which has none.
fn pad_size() -> usize {
    // From linux/auxvec.h: the size of the largest signal frame this CPU needs.
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: no memory of ours is involved.
    (unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize).saturating_add(64 * 1024)
}

impl Receiver {
    /// Registers the calling thread and unmasks its user interrupts.
    ///
    /// Not from handlers.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::AlreadyRegistered`], [`Error::BadStack`], [`Error::Kernel`]; then everything
    /// is as before.
    ///
    /// # Safety
    /// - `handler` may be called with `context` on this thread until the receiver is dropped, and obeys the rules;
    /// - a given stack ([`Stack::Given`]) is writable, for this thread's handlers alone, and stays until then;
    /// - the receiver is dropped before its thread ends (it is not forgotten).
    pub unsafe fn install(
        config: &Config,
        handler: Handler,
        context: *const c_void,
    ) -> Result<Receiver, Error> {
        let kernel = kernel()?;
        if thread::current().is_some() {
            return Err(Error::AlreadyRegistered);
        }
        fork::watch();
        let (mask, area) = xsave::handler_state().ok_or(crate::Unavailable::Machine(
            "this CPU or kernel has no XSAVEC, by which a handler keeps vector registers",
        ))?;
        let least = area.saturating_add(HANDLER_SPACE);
        let (own, pad) = match config.stack {
            Stack::Interrupted | Stack::Given(..) => (None, None),
            Stack::Own(size) => (Some(GuardedStack::new(size.max(least))?), None),
            Stack::Kernel(size) => {
                (Some(GuardedStack::new(size.max(least))?), Some(GuardedStack::new(pad_size())?))
            }
        };
        let (ordinary_low, ordinary_size) = ordinary_stack(config, least)?;
        let (own_low, own_size) = match config.stack {
            Stack::Given(low, size) => (low, size & !15),
            _ => own.as_ref().map_or((0, 0), GuardedStack::range),
        };
        let (pad_low, pad_size) = pad.as_ref().map_or((0, 0), GuardedStack::range);
        if pad.is_some() {
            disarm_while_in_use()?;
        }
        let entry = entry(config);
        let thread = Box::new(Thread {
            own_top: Cell::new(own_low.wrapping_add(own_size)),
            own_low: Cell::new(own_low),
            own_size: Cell::new(own_size),
            ordinary_low: Cell::new(ordinary_low),
            ordinary_size: Cell::new(ordinary_size),
            pad_low: Cell::new(pad_low),
            pad_size: Cell::new(pad_size),
            mask: Cell::new(mask),
            area: Cell::new(area),
            mxcsr: Cell::new(0x1F80),
            entry: Cell::new(entry.addr()),
            entry_size: Cell::new(trampoline::length(entry)),
            busy: Cell::new(0),
            handler: Cell::new(handler),
            context: Cell::new(context),
            rseq: Cell::new(rseq::area()),
            known: rseq::Known::new(),
            // SYNC POINT: Relaxed: only its being another number each time matters.
            serial: Cell::new(NEXT_SERIAL.fetch_add(1, Ordering::Relaxed)),
            masked: Cell::new(0),
            was_unmasked: Cell::new(false),
            runs: Cell::new(0),
            aborted: Cell::new(0),
            forgotten: Cell::new(0),
            healed: Cell::new(0),
        });
        rseq::look_at(thread.rseq.get());
        // Posts that came in before the return find the thread set up, or masked.
        // SAFETY: alive until `drop` sets null.
        unsafe { thread::set(&raw const *thread) };
        // SAFETY: the entry is the trampoline; the pad is this receiver's, mapped until it has unregistered.
        if let Err(error) = unsafe {
            kernel.register_handler(entry.expose_provenance(), pad.as_ref().map(GuardedStack::range))
        } {
            // SAFETY: null.
            unsafe { thread::set(core::ptr::null()) };
            return Err(error);
        }
        let generation = fork::generation();
        let it = Receiver { thread, kernel, generation, stacks: [own, pad], _not_send: PhantomData };
        // SAFETY: the kernel has the instructions; the handler may run from here on.
        unsafe { stui() };
        Ok(it)
    }

    /// One of the 64 vectors; the highest posted one is delivered first.
    ///
    /// # Errors
    /// [`Error::NoSuchVector`].
    pub fn vector(&self, number: u8) -> Result<Vector<'_>, Error> {
        if u32::from(number) < crate::layout::UittEntry::VECTORS {
            Ok(Vector { receiver: self, number })
        } else {
            Err(Error::NoSuchVector(number.into()))
        }
    }

    /// What happened so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            runs: self.thread.runs.get(),
            aborted_sequences: self.thread.aborted.get(),
            forgotten_sequences: self.thread.forgotten.get(),
            healed: self.thread.healed.get(),
            switches: self.kernel.switches().ok(),
        }
    }

    /// Which kernel interface it uses.
    pub fn kernel(&self) -> &'static str {
        self.kernel.name()
    }
}

#[cfg(feature = "emulation")]
fn entry(config: &Config) -> *const () {
    if config.broken_trampoline {
        return trampoline::enter::<false> as *const ();
    }
    trampoline::enter::<true> as *const ()
}

/// The thread's ordinary stack, but for its signal stack, should that lie there. Refuses a given stack that does.
fn ordinary_stack(config: &Config, least: usize) -> Result<(usize, usize), Error> {
    #[cfg(feature = "emulation")]
    if config.broken_stacks {
        return Ok((0, usize::MAX));
    }
    let all = ordinary()?;
    if let Stack::Given(low, size) = config.stack
        && (size < least || without(all, (low, size), 0) != all)
    {
        return Err(Error::BadStack);
    }
    Ok(without(all, signal_range(), thread::stack_pointer()))
}

#[cfg(not(feature = "emulation"))]
fn entry(_config: &Config) -> *const () {
    trampoline::enter::<true> as *const ()
}

/// See [`Stack::Kernel`].
fn disarm_while_in_use() -> Result<(), Error> {
    let failed = || last(Call::System("sigaltstack"));
    let mut now = signal_stack().ok_or_else(failed)?;
    if now.ss_flags & (libc::SS_DISABLE | SS_AUTODISARM) == 0 {
        now.ss_flags |= SS_AUTODISARM;
        // SAFETY: the same stack as before, with another flag.
        if unsafe { libc::sigaltstack(&raw const now, core::ptr::null_mut()) } != 0 {
            return Err(failed());
        }
    }
    Ok(())
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            // SAFETY: the kernel has the instructions.
            unsafe { clui() };
            // It fails only if other code unregistered the thread.
            let _best_effort = self.kernel.unregister_handler();
            // SAFETY: null.
            unsafe { thread::set(core::ptr::null()) };
        }
        // Whoever drops it while he runs on one of its stacks goes on running there.
        let here = thread::stack_pointer();
        for stack in &mut self.stacks {
            let inside = stack.as_ref().is_some_and(|s| here.wrapping_sub(s.range().0) < s.range().1);
            if inside {
                core::mem::forget(stack.take());
            }
        }
    }
}

impl core::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Receiver").field("kernel", &self.kernel.name()).finish_non_exhaustive()
    }
}

/// A receiver's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Times the handler ran.
    pub runs: u64,
    /// Interrupted restartable sequences (rseq) that were sent to their abort addresses.
    pub aborted_sequences: u64,
    /// Of those, the ones that the kernel had forgotten before the handler looked.
    pub forgotten_sequences: u64,
    /// Times that [`heal`] found user interrupts masked for ever.
    pub healed: u64,
    /// What the kernel counts, where it does.
    pub switches: Option<Switches>,
}

/// One of a receiver's vectors.
#[derive(Debug, Clone, Copy)]
pub struct Vector<'r> {
    receiver: &'r Receiver,
    number: u8,
}

impl Vector<'_> {
    /// Its number, 0 to 63.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// A descriptor of it, for senders.
    ///
    /// # Errors
    /// See [`Kernel::vector_fd`].
    pub fn fd(&self) -> Result<VectorFd, Error> {
        self.receiver.kernel.vector_fd(self.number.into()).map(|fd: OwnedFd| VectorFd::from(fd))
    }

    /// A sender for this process: for the thread to interrupt itself, or others of the process to.
    ///
    /// # Errors
    /// See [`Kernel::register_self`].
    pub fn sender(&self) -> Result<Sender, Error> {
        let kernel = self.receiver.kernel;
        let index = unsignalled(|| kernel.register_self(self.number.into()))?;
        Ok(Sender::from_index(index, kernel))
    }
}

/// Whether the calling thread has a receiver. Wait-free; handlers may call it.
#[inline]
pub fn installed() -> bool {
    thread::current().is_some()
}

/// Finds user interrupts that are masked though nothing of ours masks them, and unmasks them: whether it did.
///
/// A signal may interrupt a handler. If the signal's handler leaves by `siglongjmp`, the handler never ends, and the
/// flag that delivery cleared stays clear. What tells: the thread runs (`rsp` and `rip`: those of the code that a signal
/// interrupted) on its ordinary stack, where no handler runs and where none can have
/// called from, and not in the trampoline, which begins and ends there; and no [`Masked`](crate::Masked) guard is
/// held. So this needs a stack other than [`Stack::Interrupted`]; on other stacks (coroutines) and on threads without
/// receiver it does nothing.
///
/// What it cannot tell:
/// - a CLUI of other code: that is undone;
/// - a signal's handler without `SA_ONSTACK` that interrupted the trampoline and is itself interrupted by the signal whose
///   handler asks. Its code lies on the ordinary stack, too, and nothing tells whether it will return. Then the handler may be
///   interrupted by another delivery before it has ended, and must bear that, as the doorbell's does: it defers.
///
/// Wait-free: a few loads, one TESTUI, and one system call where they are masked. Handlers may call it.
///
/// # Safety
/// `rsp` and `rip` are what the kernel gave to the calling thread's signal handler as the interrupted code's. (A handler
/// that passed others would unmask itself.)
#[inline]
pub unsafe fn heal(rsp: usize, rip: usize) -> bool {
    heal_at(rsp, rip)
}

#[inline]
fn heal_at(rsp: usize, rip: usize) -> bool {
    let Some(thread) = thread::current() else { return false };
    let ordinary = rsp.wrapping_sub(thread.ordinary_low.get()) < thread.ordinary_size.get()
        && rip.wrapping_sub(thread.entry.get()) >= thread.entry_size.get();
    // SAFETY: a receiver is installed, so the instructions are there.
    if thread.own_top.get() == 0 || thread.masked.get() != 0 || !ordinary || unsafe { testui() } {
        return false;
    }
    // It may have been set since.
    let signals = signal_range();
    if rsp.wrapping_sub(signals.0) < signals.1 {
        let ordinary = (thread.ordinary_low.get(), thread.ordinary_size.get());
        // Seen from below, where code runs as long as the array lives.
        let (low, size) = without(ordinary, signals, signals.0);
        thread.ordinary_low.set(low);
        thread.ordinary_size.set(size);
        return false;
    }
    thread.busy.set(0);
    thread.healed.set(thread.healed.get().wrapping_add(1));
    // SAFETY: as above; the handler may run.
    unsafe { stui() };
    true
}

/// [`heal`] for whoever calls from ordinary code: in a handler it does nothing, whose own stack it finds itself on.
#[inline]
pub fn heal_here() -> bool {
    heal_at(thread::stack_pointer(), heal_here as *const () as usize)
}
