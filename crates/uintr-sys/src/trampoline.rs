//! From delivery to Rust and back.
//!
//! The CPU saves RIP, RFLAGS, RSP and the vector. Everything else is still the interrupted code's: this notes its
//! restartable sequence before anything can end that (see [`crate::rseq`]), saves the general registers, clears the direction flag, goes to a stack that is safe, saves the extended state (vector and
//! mask registers, x87, MXCSR; not AMX tiles, which no handler uses), sets the default floating-point environment,
//! runs [`dispatch`], puts everything back, and returns by UIRET, which unmasks.
//!
//! # Which stack
//! The CPU puts the frame 128 bytes below the interrupted RSP (past the red zone), or on the kernel's alternate
//! stack. From there:
//!
//! | the interrupted RSP is | the handler runs |
//! |---|---|
//! | in the thread's ordinary stack | on its own stack, from the top. No handler can be alive there: it would be on the ordinary stack's side of the call chain only if it had been jumped out of |
//! | in the handler's own stack (a nested delivery, or a signal that interrupted a handler) | where it is |
//! | elsewhere, and a handler is alive on its own stack | where it is |
//! | elsewhere, on the signal stack ([sigaltstack(2)]) | where it is |
//! | elsewhere (a coroutine) | on its own stack, from the top |
//!
//! A handler's own stack may be the signal stack itself ([`Stack::Given`](crate::Stack::Given)): then the table's
//! second line says what happens while a signal's handler is alive, and the kernel does the same for a signal that
//! interrupts a handler: it sees RSP in its signal stack, and goes on below.
//!
//! "Where it is" means: below the interrupted code's red zone. Why a signal stack must not be left: the kernel puts
//! the next `SA_ONSTACK` signal at the top of the signal stack unless RSP lies in it. A handler that interrupted a
//! signal's handler and moved elsewhere would have that signal's frames overwritten by the next signal. As the CPU
//! delivers onto the interrupted stack, RSP lies in the signal stack from the first instruction to the last.
//!
//! On the kernel's alternate stack that is different: there RSP is elsewhere until this code has moved the frame.
//! A signal in these few instructions, while an earlier one's handler is alive on a signal stack, would restart at
//! its top. [`Stack::Kernel`](crate::Stack::Kernel) therefore has the kernel disarm the signal stack while it is in
//! use (`SS_AUTODISARM`). Nothing stays on the alternate stack, so that a nested delivery may start at its top.

use crate::layout::Frame;
use crate::rseq::Aborted;
use crate::thread::Thread;
use core::arch::naked_asm;
use core::mem::offset_of;

/// General registers, and the interrupted code's restartable sequence, below the frame.
const SAVED: usize = 13 * 8;

/// The entry point that a receiver registers. `EXTENDED` false leaves the extended state out, which is wrong: tests show
/// that they would notice.
///
/// # Safety
/// Not to be called: delivery jumps here.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn enter<const EXTENDED: bool>() {
    naked_asm!(
        // Indirect branch tracking, where it is on, wants this first.
        "endbr64",
        // First of all what the interrupted code's restartable sequence is: see `rseq` for what each instruction before
        // this load costs.
        "push rax",
        "mov rax, qword ptr [rip + {section_at}]",
        "push qword ptr fs:[rax]",
        "push rcx", "push rdx", "push rsi", "push rdi", "push r8", "push r9", "push r10",
        "push r11", "push rbx", "push rbp", "push r12",
        "cld",
        "mov rbp, rsp",
        "mov rbx, qword ptr [rip + tocsin_uintr_thread@GOTTPOFF]",
        "mov rbx, qword ptr fs:[rbx]",
        "test rbx, rbx",
        "jz 90f",
        // rax: the interrupted RSP. r12: where to go.
        "mov rax, qword ptr [rbp + {rsp}]",
        "mov r12, qword ptr [rbx + {own_top}]",
        "test r12, r12",
        "jz 20f",
        "mov rcx, rax",
        "sub rcx, qword ptr [rbx + {ordinary_low}]",
        "cmp rcx, qword ptr [rbx + {ordinary_size}]",
        "jb 50f",
        "mov rcx, rax",
        "sub rcx, qword ptr [rbx + {own_low}]",
        "cmp rcx, qword ptr [rbx + {own_size}]",
        "jbe 20f",
        "cmp qword ptr [rbx + {busy}], 0",
        "jne 20f",
        // sigaltstack(NULL, &now): struct { void *sp; int flags; size_t size; }
        "sub rsp, 32",
        "mov eax, {sigaltstack}",
        "xor edi, edi",
        "mov rsi, rsp",
        "syscall",
        "test eax, eax",
        "jnz 20f",
        "test dword ptr [rsp + 8], {disabled}",
        "jnz 50f",
        "mov rcx, qword ptr [rbp + {rsp}]",
        "sub rcx, qword ptr [rsp]",
        "cmp rcx, qword ptr [rsp + 16]",
        "ja 50f",
        // Stay: below the frame, or, from the kernel's alternate stack, back to the interrupted one.
        "20:",
        "mov r12, rbp",
        "mov rcx, rbp",
        "sub rcx, qword ptr [rbx + {pad_low}]",
        "cmp rcx, qword ptr [rbx + {pad_size}]",
        "mov rcx, qword ptr [rbx + {busy}]",
        "jae 70f",
        "mov r12, qword ptr [rbp + {rsp}]",
        "sub r12, {red_zone}",
        "and r12, -16",
        "jmp 60f",
        // Switch: from the kernel's alternate stack with everything.
        "50:",
        "mov rcx, rbp",
        "sub rcx, qword ptr [rbx + {pad_low}]",
        "cmp rcx, qword ptr [rbx + {pad_size}]",
        "mov ecx, 0",
        "mov qword ptr [rbx + {busy}], 1",
        "jae 70f",
        "60:",
        "sub r12, {saved} + {frame}",
        "mov edx, {saved} + {frame} - 8",
        "61:",
        "mov rax, qword ptr [rbp + rdx]",
        "mov qword ptr [r12 + rdx], rax",
        "sub edx, 8",
        "jns 61b",
        "mov rbp, r12",
        // From here on: rbp = saved registers and frame, r12 = what `busy` becomes again.
        "70:",
        "mov rsp, r12",
        "mov r12, rcx",
        "sub rsp, qword ptr [rbx + {area}]",
        "and rsp, -64",
        ".if {extended}",
        // XSAVEC writes the first 16 bytes of the header; XRSTOR wants the rest to be 0.
        "xor eax, eax",
        "mov qword ptr [rsp + 528], rax", "mov qword ptr [rsp + 536], rax",
        "mov qword ptr [rsp + 544], rax", "mov qword ptr [rsp + 552], rax",
        "mov qword ptr [rsp + 560], rax", "mov qword ptr [rsp + 568], rax",
        "mov eax, dword ptr [rbx + {mask}]", "mov edx, dword ptr [rbx + {mask} + 4]",
        "xsavec64 [rsp]",
        "fninit",
        "ldmxcsr dword ptr [rbx + {mxcsr}]",
        ".endif",
        "mov rdi, rbx",
        "lea rsi, [rbp + {saved}]",
        "mov rdx, qword ptr [rbp + {section}]",
        "call {dispatch}",
        ".if {extended}",
        "mov eax, dword ptr [rbx + {mask}]", "mov edx, dword ptr [rbx + {mask} + 4]",
        "xrstor64 [rsp]",
        ".endif",
        "mov qword ptr [rbx + {busy}], r12",
        "mov rsp, rbp",
        "90:",
        "pop r12", "pop rbp", "pop rbx", "pop r11",
        "pop r10", "pop r9", "pop r8", "pop rdi", "pop rsi", "pop rdx", "pop rcx",
        // The sequence, then what it was put above.
        "pop rax", "pop rax",
        // The vector.
        "add rsp, 8",
        "uiret",
        rsp = const SAVED + offset_of!(Frame, rsp),
        own_top = const offset_of!(Thread, own_top),
        own_low = const offset_of!(Thread, own_low),
        own_size = const offset_of!(Thread, own_size),
        ordinary_low = const offset_of!(Thread, ordinary_low),
        ordinary_size = const offset_of!(Thread, ordinary_size),
        pad_low = const offset_of!(Thread, pad_low),
        pad_size = const offset_of!(Thread, pad_size),
        busy = const offset_of!(Thread, busy),
        area = const offset_of!(Thread, area),
        saved = const SAVED,
        section = const SAVED - 16,
        section_at = sym crate::rseq::SECTION_AT,
        frame = const size_of::<Frame>(),
        red_zone = const crate::layout::RED_ZONE,
        sigaltstack = const libc::SYS_sigaltstack,
        disabled = const libc::SS_DISABLE,
        dispatch = sym dispatch,
        extended = const EXTENDED as u32,
        mask = const offset_of!(Thread, mask),
        mxcsr = const offset_of!(Thread, mxcsr),
    )
}

/// How long the trampoline is: it ends with its only UIRET.
pub(crate) fn length(entry: *const ()) -> usize {
    const UIRET: [u8; 4] = [0xF3, 0x0F, 0x01, 0xEC];
    let at = |offset: usize| {
        // SAFETY: the search ends at the UIRET that every trampoline has, so this reads code of ours alone.
        unsafe { entry.cast::<u8>().wrapping_add(offset).cast::<[u8; 4]>().read_unaligned() }
    };
    let mut offset = 0usize;
    while at(offset) != UIRET {
        offset = offset.wrapping_add(1);
    }
    offset.wrapping_add(UIRET.len())
}

/// The one Rust function that the trampoline runs. `section`: what the area named in the trampoline's first instructions.
extern "C" fn dispatch(thread: &Thread, frame: &mut Frame, section: u64) {
    // SAFETY: the thread's own area, noted by its receiver; the C library and the compiler keep the descriptors that
    // it points to alive, as the kernel demands. No handler runs inside this: user interrupts are masked.
    let aborted = unsafe { crate::rseq::abort_if_inside(thread.rseq.get(), section, &thread.known, frame) };
    if let Some(how) = aborted {
        thread.aborted.set(thread.aborted.get().wrapping_add(1));
        if how == Aborted::Forgotten {
            thread.forgotten.set(thread.forgotten.get().wrapping_add(1));
        }
    }
    thread.runs.set(thread.runs.get().wrapping_add(1));
    // SAFETY: `Receiver::install`'s caller lets us call it with this context on this thread.
    unsafe { (thread.handler.get())(frame.vector, frame, thread.context.get()) }
}
