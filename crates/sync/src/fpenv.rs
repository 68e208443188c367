//! A handler that computes (reductions) does so in the default floating-point environment, whatever the
//! interrupted code chose, and gives that choice back.

/// Default floating-point control state for as long as this lives; the old state returns with the drop.
///
/// x86-64: MXCSR (0x1F80) and the x87 control word (0x037F). aarch64: FPCR (0). The old MXCSR comes back
/// with its sticky exception flags, so that the interrupted code cannot see that a handler computed.
///
/// Progress class: wait-free, 4 instructions each way. Handlers may use it. LIFO per thread.
#[derive(Debug)]
#[must_use = "the old state is restored when this is dropped"]
pub struct DefaultFp {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    mxcsr: u32,
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    x87: u16,
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    fpcr: u64,
    _not_send: core::marker::PhantomData<*const ()>,
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl DefaultFp {
    /// Saves the control state and sets the default one.
    #[inline]
    pub fn enter() -> DefaultFp {
        let (mut mxcsr, mut x87) = (0u32, 0u16);
        let (default_mxcsr, default_x87) = (0x1F80u32, 0x037Fu16);
        // SAFETY: each instruction reads or writes the one properly sized local it names. The defaults mask
        // every exception, so loading them cannot trap. Rust code compiled for this target assumes these
        // very defaults.
        unsafe {
            core::arch::asm!(
                "stmxcsr [{save_m}]", "fnstcw [{save_x}]", "ldmxcsr [{load_m}]", "fldcw [{load_x}]",
                save_m = in(reg) &raw mut mxcsr, save_x = in(reg) &raw mut x87,
                load_m = in(reg) &raw const default_mxcsr, load_x = in(reg) &raw const default_x87,
                options(nostack, preserves_flags),
            );
        }
        DefaultFp { mxcsr, x87, _not_send: core::marker::PhantomData }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Drop for DefaultFp {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: both values were read from these registers by `enter`, so no reserved bit is set.
        unsafe {
            core::arch::asm!(
                "ldmxcsr [{m}]", "fldcw [{x}]",
                m = in(reg) &raw const self.mxcsr, x = in(reg) &raw const self.x87,
                options(nostack, preserves_flags, readonly),
            );
        }
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
impl DefaultFp {
    /// Saves the control state and sets the default one.
    #[inline]
    pub fn enter() -> DefaultFp {
        let fpcr: u64;
        // SAFETY: FPCR may be read and written at EL0; 0 is its default: round to nearest, no traps.
        unsafe {
            core::arch::asm!("mrs {old}, fpcr", "msr fpcr, xzr", old = out(reg) fpcr, options(nomem, nostack));
        }
        DefaultFp { fpcr, _not_send: core::marker::PhantomData }
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
impl Drop for DefaultFp {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the value was read from this register by `enter`.
        unsafe { core::arch::asm!("msr fpcr, {old}", old = in(reg) self.fpcr, options(nomem, nostack)) }
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl DefaultFp {
    /// Nothing is known to save on this target.
    #[inline]
    pub fn enter() -> DefaultFp {
        DefaultFp { _not_send: core::marker::PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn control() -> (u32, u16) {
        let (mut mxcsr, mut x87) = (0u32, 0u16);
        // SAFETY: both locals have the size that the instruction stores.
        unsafe {
            core::arch::asm!("stmxcsr [{m}]", "fnstcw [{x}]", m = in(reg) &raw mut mxcsr, x = in(reg) &raw mut x87);
        }
        (mxcsr & 0xFFC0, x87)
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn default_inside_and_the_old_state_after() {
        let mine = (0x1F80u32 | 0x8040, 0x0F7Fu16); // flush to zero, denormals are zero; x87 rounds to zero
        // SAFETY: valid control words, restored below.
        unsafe {
            core::arch::asm!("ldmxcsr [{m}]", "fldcw [{x}]", m = in(reg) &raw const mine.0, x = in(reg) &raw const mine.1);
        }
        let outside = control();
        let inside = {
            let _fp = DefaultFp::enter();
            control()
        };
        let after = control();
        let clean = (0x1F80u32, 0x037Fu16);
        // SAFETY: the defaults.
        unsafe {
            core::arch::asm!("ldmxcsr [{m}]", "fldcw [{x}]", m = in(reg) &raw const clean.0, x = in(reg) &raw const clean.1);
        }
        assert_eq!(inside, (0x1F80, 0x037F));
        assert_eq!(outside, after);
        assert_eq!(outside, mine);
    }
}
