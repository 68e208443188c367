//! What the CPU does: delivery and the five instructions, as edits of an interrupted context.

use super::NOTIFY;
use super::kernel::{HAS_TABLE, RECEIVER, TABLE, Upid};
use crate::layout::RED_ZONE;
use core::cell::Cell;
use tocsin_sync::atomic::real::{AtomicU32, Ordering};
use tocsin_sync::errno;

std::thread_local! {
    /// The user-interrupt flag.
    static UIF: Cell<bool> = const { Cell::new(false) };
    /// Vectors that the CPU has taken over from the descriptor (UIRR).
    static REQUESTS: Cell<u64> = const { Cell::new(0) };
}

/// See [`super::step_into_handlers`].
pub(super) static STEPS: AtomicU32 = AtomicU32::new(0);

const CARRY: i64 = 1;
/// What TESTUI clears: OF, SF, ZF, AF, PF; and CF, which it sets anew.
const ARITHMETIC: i64 = 0x8D5;
const TRAP: i64 = 1 << 8;
const RESUME: i64 = 1 << 16;
/// The flags that UIRET takes from the frame.
const RETURNED: i64 = 0x25_4DD5;
const RIP: usize = libc::REG_RIP as usize;
const RSP: usize = libc::REG_RSP as usize;
const RFLAGS: usize = libc::REG_EFL as usize;
/// How far below the interrupted RSP the kernel's signal frame may begin.
const SIGNAL_FRAME: usize = 24 * 1024;

/// As after registration, or none.
pub(super) fn reset() {
    UIF.with(|f| f.set(false));
    REQUESTS.with(|r| r.set(0));
}

/// A notification: its vectors are taken over, and delivered if they may be.
pub(super) extern "C" fn on_notify(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let _errno = errno::Saved::save();
    // SAFETY: the kernel passes a valid ucontext_t to an SA_SIGINFO handler; nobody else refers to it.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    deliver(context);
}

/// Executes one of the five instructions.
pub(super) extern "C" fn on_illegal(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let _errno = errno::Saved::save();
    // SAFETY: as in `on_notify`.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    // SAFETY: the CPU has just fetched an instruction from there; the longest of ours has 5 bytes, and no function
    // ends with one of them.
    let code =
        unsafe { core::ptr::with_exposed_provenance::<[u8; 5]>(registers[RIP] as usize).read_unaligned() };
    match code {
        [0xF3, 0x0F, 0x01, 0xEC, _] => {
            // SAFETY: RSP points to the rest of a frame, or the program is broken.
            let frame = unsafe {
                core::ptr::with_exposed_provenance::<[i64; 3]>(registers[RSP] as usize).read_unaligned()
            };
            registers[RIP] = frame[0];
            registers[RFLAGS] = registers[RFLAGS] & !RETURNED | frame[1] & RETURNED;
            registers[RSP] = frame[2];
            UIF.with(|f| f.set(true));
        }
        [0xF3, 0x0F, 0x01, 0xED, _] => {
            registers[RFLAGS] &= !ARITHMETIC;
            if UIF.with(Cell::get) {
                registers[RFLAGS] |= CARRY;
            }
            registers[RIP] += 4;
        }
        [0xF3, 0x0F, 0x01, 0xEE, _] => {
            UIF.with(|f| f.set(false));
            registers[RIP] += 4;
        }
        [0xF3, 0x0F, 0x01, 0xEF, _] => {
            UIF.with(|f| f.set(true));
            registers[RIP] += 4;
        }
        [0xF3, 0x0F, 0xC7, operand, _] if operand >> 3 == 0x1E => {
            if !send(registers[register(operand & 7)] as u64) {
                return;
            }
            registers[RIP] += 4;
        }
        [0xF3, rex @ 0x40..=0x4F, 0x0F, 0xC7, operand] if operand >> 3 == 0x1E => {
            if !send(registers[register(operand & 7 | (rex & 1) << 3)] as u64) {
                return;
            }
            registers[RIP] += 5;
        }
        _ => return die_of(libc::SIGILL),
    }
    deliver(context);
}

/// Where the context keeps the general register of this number.
fn register(number: u8) -> usize {
    (match number {
        0 => libc::REG_RAX,
        1 => libc::REG_RCX,
        2 => libc::REG_RDX,
        3 => libc::REG_RBX,
        4 => libc::REG_RSP,
        5 => libc::REG_RBP,
        6 => libc::REG_RSI,
        7 => libc::REG_RDI,
        8 => libc::REG_R8,
        9 => libc::REG_R9,
        10 => libc::REG_R10,
        11 => libc::REG_R11,
        12 => libc::REG_R12,
        13 => libc::REG_R13,
        14 => libc::REG_R14,
        _ => libc::REG_R15,
    }) as usize
}

/// SENDUIPI. False: it faults, by a signal that is pending now.
fn send(index: u64) -> bool {
    if HAS_TABLE.load(Ordering::Relaxed) == 0 {
        die_of(libc::SIGILL);
        return false;
    }
    let entry = usize::try_from(index).ok().and_then(|i| TABLE.get(i));
    // SAFETY: null or a target, never freed.
    let Some(target) = entry.and_then(|e| unsafe { e.load(Ordering::Acquire).as_ref() }) else {
        die_of(libc::SIGSEGV);
        return false;
    };
    target.upid.posted.fetch_or(1 << target.vector, Ordering::SeqCst);
    let first = target.upid.outstanding.swap(1, Ordering::SeqCst) == 0;
    if first && target.upid.alive.load(Ordering::Acquire) != 0 {
        notify(target.upid);
    }
    true
}

fn notify(upid: &Upid) {
    let (pid, tid) = (upid.pid.load(Ordering::Relaxed), upid.tid.load(Ordering::Relaxed));
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, NOTIFY) };
}

/// Ends the process as soon as the handler returns.
fn die_of(signal: i32) {
    // SAFETY: zeroed is SIG_DFL with an empty mask.
    unsafe {
        let action: libc::sigaction = core::mem::zeroed();
        libc::sigaction(signal, &raw const action, core::ptr::null_mut());
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal);
    }
}

/// Takes over what is posted; if user interrupts are unmasked and one is requested, makes the context that of the
/// handler's first instruction.
fn deliver(context: &mut libc::ucontext_t) {
    let Some(receiver) = RECEIVER.with(Cell::get) else { return };
    receiver.upid.outstanding.store(0, Ordering::SeqCst);
    let requests = REQUESTS.with(Cell::get) | receiver.upid.posted.swap(0, Ordering::SeqCst);
    REQUESTS.with(|r| r.set(requests));
    if requests == 0 || !UIF.with(Cell::get) {
        return;
    }
    let vector = 63 - requests.leading_zeros();
    REQUESTS.with(|r| r.set(requests & !(1 << vector)));
    UIF.with(|f| f.set(false));
    let here = core::ptr::from_ref(context).addr();
    let registers = &mut context.uc_mcontext.gregs;
    let interrupted = registers[RSP] as usize;
    let mut top = match receiver.stack {
        Some((low, size)) => low + size,
        None => interrupted - RED_ZONE as usize,
    };
    if receiver.stack.is_none() && interrupted.wrapping_sub(here) < SIGNAL_FRAME {
        // The kernel's signal frame lies where the CPU's would: below this function's frame, as if more had been
        // subtracted from RSP.
        top = crate::thread::stack_pointer() - 2048;
    }
    top &= !15;
    let frame = [i64::from(vector), registers[RIP], registers[RFLAGS], registers[RSP]];
    top -= size_of_val(&frame);
    // SAFETY: the interrupted stack past its red zone, or the receiver's own: where the CPU would write.
    unsafe { core::ptr::with_exposed_provenance_mut::<[i64; 4]>(top).write_volatile(frame) };
    registers[RSP] = top as i64;
    registers[RIP] = receiver.entry as i64;
    registers[RFLAGS] &= !(TRAP | RESUME);
    if STEPS.load(Ordering::Relaxed) != 0 {
        registers[RFLAGS] |= TRAP;
    }
}
