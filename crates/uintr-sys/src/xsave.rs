//! Extended state: what the CPU saves for user interrupts, and what a handler trampoline must save.

/// What compiled Rust may touch and hardware does not save: x87, SSE, AVX and the three AVX-512 components.
/// (Saving general registers alone corrupts vector state: shown by experiment.)
pub const HANDLER_MASK: u64 = 0xE7;
/// Legacy area and header, which every XSAVE area begins with.
pub const HEADER_END: usize = 576;

/// What a handler's trampoline saves on this machine: the mask, as far as the kernel has switched it on, and the size.
/// `None` where there is no XSAVEC.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) fn handler_state() -> Option<(u64, usize)> {
    let mask = HANDLER_MASK & arch::enabled()?;
    Some((mask, arch::compact_size(mask)?))
}

/// Bytes that XSAVEC with this mask needs on this CPU (64-byte aligned); `None` where there is no XSAVEC.
/// Components that the kernel has not switched on take no place.
pub fn compact_size(mask: u64) -> Option<usize> {
    arch::compact_size(mask)
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use crate::cpuid::cpuid;

    const OSXSAVE: u32 = 1 << 27;

    /// XCR0: what the kernel has switched on.
    pub(super) fn enabled() -> Option<u64> {
        if cpuid(1, 0).ecx & OSXSAVE == 0 {
            return None;
        }
        let (low, high): (u32, u32);
        // SAFETY: XGETBV is there, says OSXSAVE; it reads no memory.
        unsafe {
            core::arch::asm!(
                "xgetbv",
                in("ecx") 0,
                out("eax") low,
                out("edx") high,
                options(nomem, nostack, preserves_flags),
            );
        }
        Some(u64::from(low) | u64::from(high) << 32)
    }

    pub(super) fn compact_size(mask: u64) -> Option<usize> {
        const XSAVEC: u32 = 1 << 1;
        if cpuid(0, 0).eax < 0xD || cpuid(1, 0).ecx & OSXSAVE == 0 || cpuid(0xD, 1).eax & XSAVEC == 0 {
            return None;
        }
        let main = cpuid(0xD, 0);
        let mask = mask & (u64::from(main.eax) | u64::from(main.edx) << 32);
        let mut size = super::HEADER_END;
        for component in (2..63).filter(|c| mask >> c & 1 == 1) {
            let leaf = cpuid(0xD, component);
            if leaf.ecx & 2 != 0 {
                size = size.next_multiple_of(64);
            }
            size += leaf.eax as usize;
        }
        Some(size.next_multiple_of(64))
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod arch {
    pub(super) fn compact_size(_mask: u64) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_with_the_mask() {
        let Some(least) = compact_size(3) else { return };
        assert_eq!(least, HEADER_END);
        let handler = compact_size(HANDLER_MASK).unwrap();
        assert!(handler >= least && handler.is_multiple_of(64));
        // 576 + 256 (AVX) + 64 + 512 + 1024 (AVX-512): what a CPU with all of them needs.
        assert!(handler <= 2432, "{handler}");
    }
}
