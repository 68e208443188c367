//! The signal handler. Everything here obeys the handler rules: no allocation, lock, wait or panic.

use super::disposition::{SLOTS, slot};
use super::timer;
use crate::backend::Cause;
use crate::block::{Block, SERIAL_MAGIC};
use tocsin_sync::atomic::real::Ordering;
use tocsin_sync::errno;

/// The three-argument form of a handler.
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// One copy per slot, so that each knows what it replaced.
pub(crate) static COPIES: [Handler; SLOTS] =
    [on::<0>, on::<1>, on::<2>, on::<3>, on::<4>, on::<5>, on::<6>, on::<7>];

extern "C" fn on<const NUMBER: usize>(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let _errno = errno::Saved::save();
    let origin = Origin::of(info);
    let mut ours = false;
    if let Some(block) = Block::of_this_thread() {
        heal_user_interrupts(context);
        let by_timer = matches!(origin, Origin::Timer(serial) if serial == block.serial());
        // Asked whatever the origin says: a ring may have collapsed into somebody else's signal.
        let arrived = block.arrived();
        if !has_room(context) {
            // What is posted stays so.
            if by_timer || arrived.work {
                let _or_at_the_next_call = timer::arm(block.timer(), LATER_NS);
            }
        } else if by_timer {
            block.enter(Cause::Timer);
        } else if arrived.work {
            block.enter(Cause::Ring);
        }
        // Work alone does not make the signal ours: rather one call too many for another's handler than one too few.
        ours = arrived.signal;
    }
    let whose = match origin {
        Origin::Timer(_) => Whose::Ours,
        Origin::Thread if ours => Whose::Ours,
        Origin::Thread => Whose::Unknown,
        Origin::Foreign => Whose::Others,
    };
    chain(NUMBER, signal, info, context, whose);
}

/// What an entry takes of the stack at most, and half as much more: the deepest that the tests reach is 14 KiB, and 34 where nothing is optimised.
const ROOM: usize = if cfg!(debug_assertions) { 50 } else { 20 } * 1024;

/// Whether there is room for an entry. Not on a signal stack that somebody else has put in the place of ours, if it is small: what overflows it overwrites
/// what lies below. Nor deep on a large one, in another handler. Then the timer comes later, again and again until there is room.
///
/// Of a stack that disarms itself (`SS_AUTODISARM`) nothing tells how large it is, while it is in use.
fn has_room(context: *const libc::c_void) -> bool {
    let here = core::ptr::from_ref(&context).addr();
    // SAFETY: the kernel passes a valid ucontext_t to an SA_SIGINFO handler; handlers that chain to ours must, too. Null is looked for because some don't.
    let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_ref() }) else { return true };
    let (lowest, size) = (context.uc_stack.ss_sp.addr(), context.uc_stack.ss_size);
    let on_it = context.uc_stack.ss_flags & libc::SS_DISABLE == 0 && here.wrapping_sub(lowest) < size;
    !on_it || here.wrapping_sub(lowest) >= ROOM
}

/// When an entry is tried again for which there is no room, nanoseconds: seldom enough to cost nothing where there never is.
const LATER_NS: u64 = 5_000_000;

/// Whose a signal is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    Unknown,
    Others,
}

/// A signal that found nobody to answer user interrupts may come from a thread whose user interrupts are masked for
/// ever: by a CLUI of other code, or because other code's signal handler jumped out of the trampoline. A jump out of an entry is
/// forbidden, and not mended: nobody can tell the depth that it left behind from one that is still to be returned to.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
fn heal_user_interrupts(context: *const libc::c_void) {
    if tocsin_uintr_sys::installed() {
        // SAFETY: the kernel passes a valid ucontext_t to an SA_SIGINFO handler; handlers that chain to ours must, too.
        if let Some(context) = unsafe { context.cast::<libc::ucontext_t>().as_ref() } {
            let registers = &context.uc_mcontext.gregs;
            let (rsp, rip) = (registers[libc::REG_RSP as usize], registers[libc::REG_RIP as usize]);
            // SAFETY: what the kernel says of the code that this signal interrupted.
            unsafe { tocsin_uintr_sys::heal(rsp as usize, rip as usize) };
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
fn heal_user_interrupts(_context: *const libc::c_void) {}

/// Where a signal comes from, as far as its `siginfo` tells.
enum Origin {
    /// A timer of ours, with its serial (which may be that of a receiver that is gone).
    Timer(u64),
    /// tgkill, ours or not; or the kernel had no memory to note the origin (RLIMIT_SIGPENDING).
    Thread,
    /// Certainly not ours.
    Foreign,
}

impl Origin {
    fn of(info: *const libc::siginfo_t) -> Origin {
        // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler; handlers that chain to ours
        // must, too. Null is looked for because some don't.
        let Some(info) = (unsafe { info.as_ref() }) else { return Origin::Thread };
        match info.si_code {
            libc::SI_TKILL => Origin::Thread,
            // SAFETY: si_pid is valid for SI_USER.
            libc::SI_USER if unsafe { info.si_pid() } == 0 => Origin::Thread,
            libc::SI_TIMER => {
                // SAFETY: si_value is valid for SI_TIMER.
                let value = unsafe { info.si_value() }.sival_ptr.addr() as u64;
                if value >> 48 == SERIAL_MAGIC >> 48 { Origin::Timer(value) } else { Origin::Foreign }
            }
            _ => Origin::Foreign,
        }
    }
}

/// The kernel's first real-time signal.
const FIRST_QUEUED: i32 = 32;

/// Does what the disposition before ours would have done. A handler that was there is called for ours, too, unless signals of this number are queued: of others the kernel
/// keeps one while it is pending, and drops those that come meanwhile, among which may be one of somebody else's. (Go's runtime waits for each of its SIGURGs.)
fn chain(number: usize, signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void, whose: Whose) {
    let previous = slot(number);
    if whose == Whose::Ours && signal >= FIRST_QUEUED {
        return;
    }
    // SYNC POINT: Acquire pairs with `remember`'s Release.
    let action = previous.handler.load(Ordering::Acquire);
    if action == libc::SIG_IGN {
        return;
    }
    if action == libc::SIG_DFL {
        // A late ring of ours must not kill what a default action kills; a signal that is certainly not
        // ours must.
        if whose == Whose::Others && signal != libc::SIGURG {
            take_default_action(signal);
        }
        return;
    }
    let flags = previous.flags.load(Ordering::Relaxed);
    if flags & libc::SA_RESETHAND != 0 {
        // It is for one of theirs.
        if whose == Whose::Ours {
            return;
        }
        previous.handler.store(libc::SIG_DFL, Ordering::Relaxed);
    }
    let mask = previous.mask.load(Ordering::Relaxed);
    let mut before: u64 = 0;
    // Theirs would have been one like this. What our timer's says is nobody else's to read: it may be taken for an address.
    // SAFETY: zeroed is a valid siginfo.
    let mut plain: libc::siginfo_t = unsafe { core::mem::zeroed() };
    (plain.si_signo, plain.si_code) = (signal, libc::SI_TKILL);
    let info = if whose == Whose::Ours { &raw mut plain } else { info };
    // SAFETY: the kernel's signal set is 8 bytes; both sets are live locals. `action` is neither of the
    // special values, so it is the address of a function that the process installed as a handler of the kind
    // that its SA_SIGINFO flag says.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, &raw const mask, &raw mut before, 8usize);
        if flags & libc::SA_SIGINFO != 0 {
            core::mem::transmute::<usize, Handler>(action)(signal, info, context);
        } else {
            core::mem::transmute::<usize, extern "C" fn(i32)>(action)(signal);
        }
        let nothing = core::ptr::null_mut::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, nothing, 8usize);
    }
}

/// The signals we may use whose default is not "ignore" end the process: so be it, when this handler
/// returns.
fn take_default_action(signal: i32) {
    // SAFETY: zeroed is SIG_DFL with an empty mask; no memory beyond the local is involved.
    unsafe {
        let action: libc::sigaction = core::mem::zeroed();
        libc::sigaction(signal, &raw const action, core::ptr::null_mut());
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal);
    }
}
