//! Restartable sequences: an interrupted one goes to its abort address, as the kernel does it for signals.
//!
//! The kernel does not see user interrupts. If a handler that interrupted a critical section is preempted or
//! migrated, the kernel finds the thread in the handler, outside the section, forgets the section, and the section
//! would go on with another CPU's number. So whoever interrupts ends it.

use crate::layout::Frame;
use core::sync::atomic::compiler_fence;
use tocsin_sync::atomic::real::Ordering;

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
#[derive(Debug, Clone, Copy)]
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

/// Sends the interrupted code to its abort address if it is inside a critical section. Whether it did.
///
/// Wait-free. For handlers.
///
/// # Safety
/// `area` is null or the calling thread's; what its section points to is, as the kernel demands, null or a live
/// descriptor.
pub(crate) unsafe fn abort_if_inside(area: *mut Area, frame: &mut Frame) -> bool {
    if area.is_null() {
        return false;
    }
    // SAFETY: the caller's promise. Volatile: the kernel and the interrupted code write these.
    let (cpu, at, flags) = unsafe {
        (
            (&raw const (*area).cpu_id).read_volatile(),
            (&raw const (*area).section).read_volatile(),
            (&raw const (*area).flags).read_volatile(),
        )
    };
    if at == 0 || cpu == REGISTRATION_FAILED || cpu == UNINITIALIZED {
        return false;
    }
    // SAFETY: the caller's promise.
    let section = unsafe { core::ptr::with_exposed_provenance::<Section>(at as usize).read_volatile() };
    let inside = frame.rip.wrapping_sub(section.start) < section.length;
    let abort_inside = section.abort.wrapping_sub(section.start) < section.length;
    if section.version != 0 || !inside || abort_inside || (flags | section.flags) & NO_RESTART_ON_SIGNAL != 0
    {
        return false;
    }
    let signature = core::ptr::with_exposed_provenance::<u32>((section.abort as usize).wrapping_sub(4));
    // SAFETY: code of the program precedes an abort address; the kernel reads the same word.
    if unsafe { signature.read_unaligned() } != SIGNATURE {
        return false;
    }
    frame.rip = section.abort;
    // SAFETY: the calling thread's own word.
    unsafe { (&raw mut (*area).section).write_volatile(0) };
    compiler_fence(Ordering::SeqCst);
    true
}
