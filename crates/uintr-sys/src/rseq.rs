//! Restartable sequences: an interrupted one goes to its abort address, as the kernel does it for signals.
//!
//! The kernel does not see user interrupts. If a handler that interrupted a critical section is preempted or
//! migrated, the kernel finds the thread in the handler, outside the section, forgets the section, and the section
//! would go on with another CPU's number. So whoever interrupts ends it.
//!
//! # What the kernel may have forgotten
//! It may do so as early as at the trampoline's first instruction. Therefore:
//! - the trampoline loads the section's address in its first instructions (ENDBR64, two pushes, the second of which is the
//!   load, and a MOV between them), and carries it: what the kernel forgets later does no harm;
//! - each section that was ever loaded is remembered ([`Known`]), by its range. Code that was interrupted in a known range while the
//!   area names no section, or another (of a signal handler that ran meanwhile), was preempted in those first instructions: between a
//!   section's bounds the area names it, until the kernel forgets it. It is aborted all the same.
//!
//! What remains: a section that goes on, un-aborted, on a thread that was preempted, signalled or migrated at one of the four
//! instruction boundaries before the load has been executed, if no handler of that receiver has seen the section's descriptor before,
//! or has seen [`KNOWN`] others since. The CPU offers no delivery that loads the word. Most libraries have the linker gather
//! their descriptors (ELF section `__rseq_cs`), but nothing obliges them to, and code that is generated cannot: only a kernel that
//! aborts sections at the trampoline's address could close this.
//!
//! What is remembered outlives the code that it describes. A program that unloads code with sections, and loads other code
//! at the same addresses, has the word before the abort address compared with the signature, as the kernel does; it must not
//! leave the abort address unmapped while code runs at the section's.

use crate::layout::Frame;
use core::mem::offset_of;
use core::sync::atomic::compiler_fence;
use tocsin_sync::atomic::real::{AtomicUsize, Ordering};

mod known;

#[cfg(doc)]
use known::KNOWN;
pub(crate) use known::Known;

/// The start of the kernel's `struct rseq`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Area {
    cpu_id_start: u32,
    cpu_id: u32,
    section: u64,
    flags: u32,
}

/// The kernel's `struct rseq_cs`.
#[repr(C, align(32))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    version: u32,
    flags: u32,
    start: u64,
    length: u64,
    abort: u64,
}

/// "Do not restart on signal": in the section's or the area's flags.
const NO_RESTART_ON_SIGNAL: u32 = 1 << 1;
/// What the C library registers on x86: stands before each abort address.
const SIGNATURE: u32 = 0x5305_3053;
/// `cpu_id` of a thread for which the registration failed, and of one not registered yet.
const REGISTRATION_FAILED: u32 = -2i32 as u32;
const UNINITIALIZED: u32 = -1i32 as u32;

/// The calling thread's area, if the C library has registered one.
pub(crate) fn area() -> *mut Area {
    let (offset, size): (*const isize, *const u32);
    // Weak: C libraries before 2.35, and others, do not have them.
    // SAFETY: reads two addresses from the linker's table.
    unsafe {
        core::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {o}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {s}, qword ptr [rip + __rseq_size@GOTPCREL]",
            o = out(reg) offset,
            s = out(reg) size,
            options(nostack, preserves_flags, readonly),
        );
    }
    // SAFETY: null, or the C library's constants of these types.
    let (Some(offset), Some(size)) = (unsafe { offset.as_ref() }, unsafe { size.as_ref() }) else {
        return core::ptr::null_mut();
    };
    if *size == 0 {
        return core::ptr::null_mut();
    }
    core::ptr::with_exposed_provenance_mut(tocsin_sync::thread::pointer().wrapping_add_signed(*offset))
}

core::arch::global_asm!(
    ".pushsection .tbss.tocsin_uintr_no_rseq,\"awT\",@nobits",
    ".globl tocsin_uintr_no_rseq",
    ".hidden tocsin_uintr_no_rseq",
    ".type tocsin_uintr_no_rseq,@object",
    ".size tocsin_uintr_no_rseq,32",
    ".p2align 5",
    "tocsin_uintr_no_rseq:",
    ".zero 32",
    ".popsection",
);

/// Where every thread's area has its section's address, from the thread pointer. The trampoline reads it. Set before the
/// first receiver registers, from then on the same.
pub(crate) static SECTION_AT: AtomicUsize = AtomicUsize::new(0);

/// Has the trampoline look at the area that the C library registered, or where it registered none at one that names no section.
pub(crate) fn look_at(area: *mut Area) {
    let area = if area.is_null() { nobodys() } else { area };
    let offset =
        area.addr().wrapping_sub(tocsin_sync::thread::pointer()).wrapping_add(offset_of!(Area, section));
    // SYNC POINT: Relaxed: the trampoline reads it on a thread that has stored it itself, and all store the same.
    SECTION_AT.store(offset, Ordering::Relaxed);
}

/// The calling thread's area that the kernel does not know.
pub(crate) fn nobodys() -> *mut Area {
    let offset: isize;
    // SAFETY: the symbol is the area above; reads its offset from the linker's table.
    unsafe {
        core::arch::asm!(
            "mov {o}, qword ptr [rip + tocsin_uintr_no_rseq@GOTTPOFF]",
            o = out(reg) offset,
            options(nostack, preserves_flags, readonly),
        );
    }
    core::ptr::with_exposed_provenance_mut(tocsin_sync::thread::pointer().wrapping_add_signed(offset))
}

impl Section {
    /// Whether an address lies inside. The kernel's rule: from `start`, up to `length` bytes.
    fn contains(&self, rip: u64) -> bool {
        rip.wrapping_sub(self.start) < self.length
    }

    /// Whether the kernel would take it.
    fn is_sound(&self) -> bool {
        self.version == 0 && self.length != 0 && !self.contains(self.abort)
    }
}

/// How an interrupted section was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aborted {
    /// The area named it.
    Named,
    /// The area did not, any more; it was known.
    Forgotten,
}

/// Sends the interrupted code to its abort address if it is inside a critical section. `None`: it is not. `at`: the section's
/// address as the trampoline found it.
///
/// Wait-free: at most two times [`KNOWN`] looks. For handlers.
///
/// # Safety
/// `area` is null or the calling thread's; what its section points to is, as the kernel demands, null or a live
/// descriptor; `known` is the calling thread's, and nobody else uses it during the call.
pub(crate) unsafe fn abort_if_inside(
    area: *mut Area,
    at: u64,
    known: &Known,
    frame: &mut Frame,
) -> Option<Aborted> {
    if at == 0 && !known.may_contain(frame.rip) || area.is_null() {
        return None;
    }
    // SAFETY: the caller's promise. Volatile: the kernel and the interrupted code write these.
    let (cpu, flags) =
        unsafe { ((&raw const (*area).cpu_id).read_volatile(), (&raw const (*area).flags).read_volatile()) };
    if cpu == REGISTRATION_FAILED || cpu == UNINITIALIZED {
        return None;
    }
    let mut named = None;
    if at != 0 {
        // SAFETY: the caller's promise: the code that named it is interrupted, and has not gone on since.
        let section = unsafe { core::ptr::with_exposed_provenance::<Section>(at as usize).read_volatile() };
        if section.is_sound() {
            known.note(section);
            named = section.contains(frame.rip).then_some((section, Aborted::Named));
        }
    }
    let (section, how) =
        named.or_else(|| known.find(frame.rip).map(|section| (section, Aborted::Forgotten)))?;
    if (flags | section.flags) & NO_RESTART_ON_SIGNAL != 0 {
        return None;
    }
    let signature = core::ptr::with_exposed_provenance::<u32>((section.abort as usize).wrapping_sub(4));
    // SAFETY: code of the program precedes an abort address; the kernel reads the same word.
    if unsafe { signature.read_unaligned() } != SIGNATURE {
        return None;
    }
    frame.rip = section.abort;
    // SAFETY: the calling thread's own word.
    unsafe { (&raw mut (*area).section).write_volatile(0) };
    compiler_fence(Ordering::SeqCst);
    Some(how)
}
