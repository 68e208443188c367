//! The handler's own stack: sigaltstack(2).

use crate::error::Error;

/// What the entry function may use, beyond what the kernel needs for the signal frame.
const DEPTH: usize = 64 * 1024;
/// From linux/auxvec.h: the size of the largest signal frame this CPU needs (AVX-512 and AMX state make it
/// larger than MINSIGSTKSZ).
const AT_MINSIGSTKSZ: libc::c_ulong = 51;

/// The calling thread's alternate stack; dropping it restores the one that was there.
pub(crate) struct AlternateStack {
    mapping: *mut libc::c_void,
    mapped: usize,
    stack: *mut libc::c_void,
    usable: usize,
    old: libc::stack_t,
}

impl AlternateStack {
    pub(crate) fn install() -> Result<AlternateStack, Error> {
        // SAFETY: neither call touches memory of ours.
        let (frame, page) =
            unsafe { (libc::getauxval(AT_MINSIGSTKSZ) as usize, libc::sysconf(libc::_SC_PAGESIZE)) };
        let page = usize::try_from(page).unwrap_or(4096).max(4096);
        let usable = frame.max(libc::MINSIGSTKSZ).saturating_add(DEPTH).next_multiple_of(page);
        let mapped = usable.saturating_add(page);
        // SAFETY: a new anonymous mapping, nobody else's memory.
        let mapping = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                mapped,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(Error::last("mmap of the handler's stack"));
        }
        // The lowest page stays inaccessible: an overflow faults instead of corrupting a neighbour.
        let stack = mapping.wrapping_byte_add(page);
        let mut it = AlternateStack {
            mapping,
            mapped,
            stack,
            usable,
            // SAFETY: zeroed is a valid stack_t.
            old: unsafe { core::mem::zeroed() },
        };
        it.old.ss_flags = libc::SS_DISABLE;
        // SAFETY: the range is the upper part of the mapping made above.
        if unsafe { libc::mprotect(stack, usable, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            let error = Error::last("mprotect of the handler's stack");
            it.unmap();
            return Err(error);
        }
        for offset in (0..usable).step_by(page) {
            // Touched now: a handler that faults its stack in is a slow handler.
            // SAFETY: inside the range made writable above; nobody uses it yet.
            unsafe { stack.wrapping_byte_add(offset).cast::<u8>().write_volatile(0) };
        }
        let new = libc::stack_t { ss_sp: stack, ss_flags: 0, ss_size: usable };
        // SAFETY: both point to live stack_t; the new stack stays mapped until it is no longer installed.
        if unsafe { libc::sigaltstack(&raw const new, &raw mut it.old) } != 0 {
            let error =
                Error::last_with("sigaltstack", "; a receiver cannot be installed from a signal handler");
            it.unmap();
            return Err(error);
        }
        // SS_ONSTACK is a report, not something to set.
        it.old.ss_flags &= libc::SS_DISABLE;
        Ok(it)
    }

    /// Its lowest address and size.
    pub(crate) fn range(&self) -> (usize, usize) {
        (self.stack.expose_provenance(), self.usable)
    }

    fn unmap(&mut self) {
        // SAFETY: the mapping is ours and, as the callers see to, no thread's stack.
        unsafe { libc::munmap(self.mapping, self.mapped) };
        self.mapping = core::ptr::null_mut();
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        if self.mapping.is_null() {
            return;
        }
        // SAFETY: zeroed is a valid stack_t.
        let mut now: libc::stack_t = unsafe { core::mem::zeroed() };
        // SAFETY: asks only.
        let asked = unsafe { libc::sigaltstack(core::ptr::null(), &raw mut now) } == 0;
        if !asked {
            return; // the mapping stays: it may be in use
        }
        if now.ss_sp != self.stack {
            // Other code has installed its own on top and did not give ours back; it may still hold ours as
            // the one to restore, so ours stays mapped.
            return;
        }
        if now.ss_flags & libc::SS_ONSTACK != 0 {
            return; // this very code runs on it: it stays, installed and mapped
        }
        // SAFETY: `old` came from the kernel.
        if unsafe { libc::sigaltstack(&raw const self.old, core::ptr::null_mut()) } == 0 {
            self.unmap();
        }
    }
}
