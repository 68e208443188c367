//! A copy from or to memory that may go away meanwhile.
//!
//! Who is asked to copy and touches what is not there any more gets a `SIGBUS`. Its handler ([`super::guard`]) finds out whether it was raised in
//! here, by two registers: one has a number that no program has by chance in it, and one says where to go on. It goes on there, and the copy has failed.

#[cfg(test)]
mod tests;

/// Whether copies are mended on this machine.
pub(crate) const IS_MENDED: bool = cfg!(target_arch = "x86_64");

/// In R11 while a copy runs, with its end in R10.
#[cfg(target_arch = "x86_64")]
pub(super) const TOKEN: u64 = u64::from_le_bytes(*b"\x9dtocsin\x9d");
/// A fault of a copy is at most so many bytes of code before its end.
#[cfg(target_arch = "x86_64")]
pub(super) const REACH: u64 = 128;

/// Copies `len` bytes, which do not overlap. False: one end was not there, and some bytes of `to` may have been written. Handler-safe, bounded by `len`.
///
/// # Safety
/// Each end is memory that this process may use so, or mapped by [`super::windows`]; of what is mapped, anybody may write anything at the same time. The
/// guard is installed.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> bool {
    let failed: u64;
    // SAFETY: reads and writes what the caller vouches for, and nothing else; a fault ends at label 5 with what is declared here changed. All registers
    // that are written are declared; the direction flag is clear, by the calling convention.
    unsafe {
        core::arch::asm!(
            "lea r10, [rip + 5f]",
            "mov r11, {token}",
            "sub rcx, 64",
            "jb 4f",
            "3:",
            "movups xmm0, [rsi]",
            "movups xmm1, [rsi + 16]",
            "movups xmm2, [rsi + 32]",
            "movups xmm3, [rsi + 48]",
            "movups [rdi], xmm0",
            "movups [rdi + 16], xmm1",
            "movups [rdi + 32], xmm2",
            "movups [rdi + 48], xmm3",
            "add rsi, 64",
            "add rdi, 64",
            "sub rcx, 64",
            "jae 3b",
            "4:",
            "add rcx, 64",
            "rep movsb",
            "xor eax, eax",
            "jmp 6f",
            "5:",
            "mov eax, 1",
            "6:",
            "xor r11d, r11d",
            token = const TOKEN,
            inout("rsi") from => _,
            inout("rdi") to => _,
            inout("rcx") len => _,
            out("rax") failed,
            out("r10") _,
            out("r11") _,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            options(nostack),
        );
    }
    failed == 0
}

/// As on the machine that has it: nothing is ever mapped here.
///
/// # Safety
/// As there.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn copy(_: *const u8, _: *mut u8, _: usize) -> bool {
    false
}
