//! User interrupts (UINTR): CPU probe, instructions, descriptor layouts.
