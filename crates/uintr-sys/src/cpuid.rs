//! The CPUID instruction.

pub(crate) use core::arch::x86_64::CpuidResult;

/// One leaf of what the CPU says of itself. Every x86-64 CPU has the instruction.
#[allow(unused_unsafe)] // the intrinsic was unsafe up to the minimum supported Rust version
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    // SAFETY: reads no memory.
    unsafe { core::arch::x86_64::__cpuid_count(leaf, subleaf) }
}
