//! CLUI, STUI, TESTUI, SENDUIPI, UIRET.
//!
//! All of them raise #UD (SIGILL) unless [`crate::Probe::kernel_enabled`]. None is `nomem`: each is a
//! compiler barrier for the data that the masking protects.

use core::arch::asm;

/// Masks user interrupts on this thread (UIF := 0), from the next instruction boundary on.
///
/// Wait-free, about 2 cycles. Handlers may call it.
///
/// # Safety
/// [`crate::Probe::kernel_enabled`] is true.
#[inline(always)]
pub unsafe fn clui() {
    // SAFETY: available, by the caller's promise; changes the user interrupt flag alone.
    unsafe { asm!("clui", options(nostack, preserves_flags)) }
}

/// Unmasks user interrupts on this thread (UIF := 1).
///
/// Wait-free, about 32 cycles. In a handler it allows nesting.
///
/// # Safety
/// [`crate::Probe::kernel_enabled`] is true, and this thread's handler may run from here on.
#[inline(always)]
pub unsafe fn stui() {
    // SAFETY: available, by the caller's promise; changes the user interrupt flag alone.
    unsafe { asm!("stui", options(nostack, preserves_flags)) }
}

/// Whether user interrupts are unmasked on this thread (UIF).
///
/// Wait-free. Handlers may call it.
///
/// # Safety
/// [`crate::Probe::kernel_enabled`] is true.
#[inline(always)]
pub unsafe fn testui() -> bool {
    let unmasked: u8;
    // SAFETY: available, by the caller's promise; changes arithmetic flags alone.
    unsafe { asm!("testui", "setc {}", out(reg_byte) unmasked, options(nostack)) }
    unmasked != 0
}

/// Posts the vector of entry `index` of this process's target table and notifies its receiver.
///
/// Wait-free, about 380 cycles. Handlers may call it. What was written before is visible to the handler.
///
/// # Safety
/// [`crate::Probe::kernel_enabled`] is true and `index` is an entry that the kernel gave this process (else
/// #GP: SIGSEGV).
#[inline(always)]
pub unsafe fn senduipi(index: u64) {
    // SAFETY: available and valid, by the caller's promise; writes the receiver's descriptor alone.
    unsafe { asm!("senduipi {}", in(reg) index, options(nostack, preserves_flags)) }
}

/// Returns from a user-interrupt handler: pops RIP, RFLAGS and RSP, and unmasks.
///
/// # Safety
/// [`crate::Probe::kernel_enabled`] is true; RSP points to the frame that delivery pushed, less its vector,
/// which is only so in the hand-written trampoline; every register is the interrupted code's again.
#[inline(always)]
pub unsafe fn uiret() -> ! {
    // SAFETY: the caller's promise is all there is.
    unsafe { asm!("uiret", options(noreturn)) }
}

#[cfg(test)]
mod tests {
    use core::arch::naked_asm;

    /// The five instructions, never executed.
    #[unsafe(naked)]
    extern "C" fn specimens() {
        naked_asm!("uiret", "testui", "clui", "stui", "senduipi rax", "senduipi r15", "ret");
    }

    #[test]
    fn encodings_are_the_manuals() {
        let expected: [u8; 25] = [
            0xF3, 0x0F, 0x01, 0xEC, 0xF3, 0x0F, 0x01, 0xED, 0xF3, 0x0F, 0x01, 0xEE, 0xF3, 0x0F, 0x01,
            0xEF, //
            0xF3, 0x0F, 0xC7, 0xF0, 0xF3, 0x41, 0x0F, 0xC7, 0xF7,
        ];
        // SAFETY: the function's code is at least this long, and readable.
        let code = unsafe { core::slice::from_raw_parts(specimens as *const u8, expected.len()) };
        assert_eq!(code, expected);
    }
}
