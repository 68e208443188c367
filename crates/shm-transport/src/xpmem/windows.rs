//! Windows onto the memory of peers, as an endpoint has them mapped.
//!
//! All are of one length, at multiples of it in the peer's memory, and stay mapped until others need their place: a buffer that is used again costs nothing more, and
//! of one that has gone and come back the kernel finds the new pages. A window has its place in one of a few sets, from which the one that was used least recently
//! goes.

use super::{Device, Permit, copy};

/// Bytes of a window: what the page tables have in one page, and few enough that one may go while a handler runs (its pages are given back one by one).
pub(super) const WINDOW: u64 = 2 << 20;
/// Where user memory ends, at 4 levels of page tables; whoever has memory beyond that has asked for it.
const END: u64 = (1 << 47) - 4096;
const SETS: usize = 64;
const WAYS: usize = 8;

/// Places of windows that may all be the same peer's page: looked through together.
#[derive(Debug)]
struct Set {
    /// Whose window, and which, and 1; 0: none.
    keys: [u64; WAYS],
    at: [*mut u8; WAYS],
    /// When it was last used.
    used: [u64; WAYS],
}

/// The windows of one endpoint.
#[derive(Debug)]
pub(crate) struct Windows {
    device: Device,
    sets: Box<[Set]>,
    /// Counts uses.
    now: u64,
}

impl Windows {
    /// None yet. User threads only.
    pub(crate) fn new(device: Device) -> Windows {
        Windows::of(device, SETS)
    }

    /// As [`new`](Self::new), in so many sets.
    pub(super) fn of(device: Device, sets: usize) -> Windows {
        let none = || Set { keys: [0; WAYS], at: [core::ptr::null_mut(); WAYS], used: [0; WAYS] };
        Windows { device, sets: (0..sets).map(|_| none()).collect(), now: 0 }
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// Copies from a peer's memory to this process's, through as many windows as it takes. False: not all of it. Handler-safe; at most two
    /// system calls for each window that is new.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    pub(crate) unsafe fn read(
        &mut self,
        peer: u32,
        permit: &Permit,
        from: u64,
        to: *mut u8,
        len: usize,
    ) -> bool {
        self.pass(peer, permit, from, len, |there, done, len| {
            // SAFETY: the caller's promise for `to`; `there` is mapped for that many bytes.
            unsafe { copy::copy(there, to.wrapping_add(done), len) }
        })
    }

    /// Copies from this process's memory to a peer's. As [`read`](Self::read).
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    pub(crate) unsafe fn write(
        &mut self,
        peer: u32,
        permit: &Permit,
        from: *const u8,
        to: u64,
        len: usize,
    ) -> bool {
        self.pass(peer, permit, to, len, |there, done, len| {
            // SAFETY: as in `read`.
            unsafe { copy::copy(from.wrapping_add(done), there, len) }
        })
    }

    /// Has `step` copy window by window: where the peer's bytes are, how many came before, and how many there are.
    fn pass(
        &mut self,
        peer: u32,
        permit: &Permit,
        address: u64,
        len: usize,
        mut step: impl FnMut(*mut u8, usize, usize) -> bool,
    ) -> bool {
        let mut done = 0usize;
        // Each turn ends a window, or all.
        while done < len {
            let Some(address) = address.checked_add(done as u64) else { return false };
            let offset = address % WINDOW;
            let left = len.wrapping_sub(done);
            let here = usize::try_from(WINDOW.wrapping_sub(offset)).map_or(left, |end| left.min(end));
            if address.checked_add(here as u64).is_none_or(|end| end > END) {
                return false;
            }
            let Some(window) = self.window(peer, permit, address.wrapping_sub(offset)) else { return false };
            if !step(window.wrapping_add(offset as usize), done, here) {
                return false;
            }
            done = done.wrapping_add(here);
        }
        true
    }

    /// Where the window that begins at an address of a peer's is mapped. The address is less than [`END`].
    fn window(&mut self, peer: u32, permit: &Permit, begins: u64) -> Option<*mut u8> {
        let number = begins / WINDOW;
        let key = key_of(peer, number);
        self.now = self.now.wrapping_add(1);
        let place = place(peer, number).checked_rem(self.sets.len())?;
        let set = self.sets.get_mut(place)?;
        if let Some(way) = set.keys.iter().position(|known| *known == key) {
            *set.used.get_mut(way)? = self.now;
            return set.at.get(way).copied();
        }
        // A place that is free was never used, or its window could not be mapped.
        let way = set.used.iter().enumerate().min_by_key(|(_, used)| **used).map(|(way, _)| way)?;
        let (known, at, used) = (set.keys.get_mut(way)?, set.at.get_mut(way)?, set.used.get_mut(way)?);
        if *known != 0 {
            *known = 0;
            // SAFETY: nobody else has this window, which was mapped and is forgotten here.
            unsafe { self.device.unmap(*at) };
        }
        *used = 0;
        let len = END.checked_sub(begins)?.min(WINDOW);
        *at = permit.map(begins, len).ok()?;
        (*known, *used) = (key, self.now);
        Some(*at)
    }

    /// Unmaps those of a peer, whose permit goes. Handler-safe; a system call for each.
    pub(crate) fn forget(&mut self, peer: u32) {
        for set in &mut self.sets {
            let windows = set.keys.iter_mut().zip(&set.at).zip(&mut set.used);
            for ((key, at), used) in windows.filter(|((key, _), _)| is_of(**key, peer)) {
                (*key, *used) = (0, 0);
                // SAFETY: mapped, nobody else has it, and it is forgotten here.
                unsafe { self.device.unmap(*at) };
            }
        }
    }

    /// How many there are, and may be.
    #[cfg(test)]
    pub(super) fn mapped(&self) -> usize {
        self.sets.iter().flat_map(|set| set.keys).filter(|key| *key != 0).count()
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.sets.len() * WAYS
    }
}

/// What a peer's window is known by; less than `END / WINDOW` is its number, so that none is 0.
fn key_of(peer: u32, number: u64) -> u64 {
    (u64::from(peer) << 32 | number).wrapping_add(1)
}

fn is_of(key: u64, peer: u32) -> bool {
    key.checked_sub(1).is_some_and(|key| key >> 32 == u64::from(peer))
}

/// In which set a window has its place, as often as one goes round: neighbours in neighbouring ones, peers apart.
fn place(peer: u32, number: u64) -> usize {
    (number as usize).wrapping_add((peer as usize).wrapping_mul(11))
}

impl Drop for Windows {
    fn drop(&mut self) {
        for set in &self.sets {
            for (at, _) in set.at.iter().zip(&set.keys).filter(|(_, key)| **key != 0) {
                // SAFETY: mapped, and nobody else has it.
                unsafe { self.device.unmap(*at) };
            }
        }
    }
}
