//! Windows onto the memory of peers, as an endpoint has them mapped.
//!
//! All are of one length, at multiples of it in the peer's memory, and stay mapped until others need their place: a buffer that is used again costs nothing more, and
//! of one that has gone and come back the kernel finds the new pages. A window has its place in one of a few sets, from which the one that was used least recently
//! goes.
//!
//! The device unmaps them all when somebody in this process closes any descriptor of it, and says so to nobody. So a word of this process's own is mapped beside them, and looked at
//! before each copy: what is mapped is what the endpoint knows of as long as it is there. (Who closes a descriptor while another thread copies, and maps something in
//! the moment between, is not found out.)

use std::sync::OnceLock;

use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;
use tocsin_sync::signals::Faults;
use tocsin_sync::thread;

use super::{Device, Refusal, copy};

/// Bytes of a window: what the page tables have in one page, and few enough that one may go while a handler runs (its pages are given back one by one).
pub(super) const WINDOW: u64 = 2 << 20;
const PAGE: u64 = 4096;
/// Where user memory ends, at 4 levels of page tables; whoever has memory beyond that has asked for it.
const END: u64 = (1 << 47) - PAGE;
const SETS: usize = 64;
const WAYS: usize = 8;

/// The word that is looked at, somewhere in a page.
static WORD: AtomicU64 = AtomicU64::new(0);

/// Its value, which nobody else's memory has by chance. User threads only.
fn word() -> u64 {
    static VALUE: OnceLock<u64> = OnceLock::new();
    *VALUE.get_or_init(|| {
        let value = (now_ns() ^ u64::from(std::process::id()) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        WORD.store(value, Ordering::Relaxed);
        value
    })
}

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
    /// The own permit, by which the page of the word is mapped, and where the word is in it.
    own: i64,
    page: *mut u8,
    offset: usize,
    word: u64,
    /// The device has forgotten this process: nothing is mapped any more.
    lost: bool,
}

impl Windows {
    /// None yet. User threads only.
    ///
    /// # Errors
    /// The device does not map this process's own memory as it is.
    pub(crate) fn new(device: Device) -> Result<Windows, Refusal> {
        Windows::of(device, SETS)
    }

    /// As [`new`](Self::new), in so many sets.
    pub(super) fn of(device: Device, sets: usize) -> Result<Windows, Refusal> {
        let refused = |call| move |errno| Refusal::Call(call, std::io::Error::from_raw_os_error(errno));
        let (word, address) = (word(), WORD.as_ptr() as u64);
        let own = device.permit(device.segment()).map_err(refused("XPMEM_CMD_GET"))?;
        let offset = address % PAGE;
        let page = device.map(own, address.wrapping_sub(offset), PAGE).map_err(|errno| {
            device.release(own);
            refused("XPMEM_CMD_ATTACH")(errno)
        })?;
        let none = || Set { keys: [0; WAYS], at: [core::ptr::null_mut(); WAYS], used: [0; WAYS] };
        let sets = (0..sets).map(|_| none()).collect();
        let offset = offset as usize;
        let mut windows = Windows { device, sets, now: 0, own, page, offset, word, lost: false };
        if windows.are_there() { Ok(windows) } else { Err(Refusal::Another) }
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// The device had forgotten this process at the last look.
    pub(crate) fn are_lost(&self) -> bool {
        self.lost
    }

    /// Whether the device has not forgotten this process, as of a look now. Handler-safe, where [faults](Faults) come.
    fn are_there(&mut self) -> bool {
        let mut found = 0u64;
        // SAFETY: the local end is `found`; the other was mapped, and is to be mended if it is not.
        let read = !self.lost
            && unsafe {
                let from = self.page.wrapping_add(self.offset);
                copy::copy(from, (&raw mut found).cast(), size_of::<u64>())
            };
        self.lost = !read || found != self.word;
        !self.lost
    }

    /// Copies from a peer's memory to this process's, through as many windows as it takes. False: not all of it. Handler-safe; at most two
    /// system calls for each window that is new, and in handlers two more.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes. The permit is the peer's.
    pub(crate) unsafe fn read(&mut self, peer: u32, permit: i64, from: u64, to: *mut u8, len: usize) -> bool {
        self.pass(peer, permit, from, len, |there, done, len| {
            // SAFETY: the caller's promise for `to`; `there` is mapped for that many bytes.
            unsafe { copy::copy(there, to.wrapping_add(done), len) }
        })
    }

    /// Copies from this process's memory to a peer's. As [`read`](Self::read).
    ///
    /// # Safety
    /// `from` is readable for `len` bytes. The permit is the peer's.
    pub(crate) unsafe fn write(
        &mut self,
        peer: u32,
        permit: i64,
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
        permit: i64,
        address: u64,
        len: usize,
        step: impl FnMut(*mut u8, usize, usize) -> bool,
    ) -> bool {
        let faults = thread::in_handler().then(Faults::come);
        let passed = self.pass_where_faults_come(peer, permit, address, len, step);
        if let Some(faults) = faults {
            faults.over();
        }
        passed
    }

    fn pass_where_faults_come(
        &mut self,
        peer: u32,
        permit: i64,
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
            if !self.are_there() || !step(window.wrapping_add(offset as usize), done, here) {
                return false;
            }
            done = done.wrapping_add(here);
        }
        true
    }

    /// Where the window that begins at an address of a peer's is mapped. The address is less than [`END`].
    fn window(&mut self, peer: u32, permit: i64, begins: u64) -> Option<*mut u8> {
        let number = begins / WINDOW;
        let key = key_of(peer, number);
        self.now = self.now.wrapping_add(1);
        let (now, device) = (self.now, self.device);
        let place = place(peer, number).checked_rem(self.sets.len())?;
        let set = self.sets.get_mut(place)?;
        if let Some(way) = set.keys.iter().position(|known| *known == key) {
            *set.used.get_mut(way)? = now;
            return set.at.get(way).copied();
        }
        // A place that is free was never used, or its window could not be mapped.
        let way = set.used.iter().enumerate().min_by_key(|(_, used)| **used).map(|(way, _)| way)?;
        // What is unmapped has to be what was mapped.
        if !self.are_there() {
            return None;
        }
        let set = self.sets.get_mut(place)?;
        let (known, at, used) = (set.keys.get_mut(way)?, set.at.get_mut(way)?, set.used.get_mut(way)?);
        if *known != 0 {
            *known = 0;
            // SAFETY: nobody else has this window, which was mapped and is forgotten here.
            unsafe { device.unmap(*at) };
        }
        *used = 0;
        let len = END.checked_sub(begins)?.min(WINDOW);
        *at = device.map(permit, begins, len).ok()?;
        (*known, *used) = (key, now);
        Some(*at)
    }

    /// Unmaps those of a peer, and gives its permit back. Handler-safe; a system call for each.
    pub(crate) fn forget(&mut self, peer: u32, permit: i64) {
        let faults = thread::in_handler().then(Faults::come);
        let there = self.are_there();
        if let Some(faults) = faults {
            faults.over();
        }
        for set in &mut self.sets {
            let windows = set.keys.iter_mut().zip(&set.at).zip(&mut set.used);
            for ((key, at), used) in windows.filter(|((key, _), _)| is_of(**key, peer)) {
                (*key, *used) = (0, 0);
                if there {
                    // SAFETY: mapped, nobody else has it, and it is forgotten here.
                    unsafe { self.device.unmap(*at) };
                }
            }
        }
        if there {
            self.device.release(permit);
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
        // By numbers that the device has forgotten it may know somebody else's by now.
        if !self.are_there() {
            return;
        }
        for set in &self.sets {
            for (at, _) in set.at.iter().zip(&set.keys).filter(|(_, key)| **key != 0) {
                // SAFETY: mapped, and nobody else has it.
                unsafe { self.device.unmap(*at) };
            }
        }
        // SAFETY: as above.
        unsafe { self.device.unmap(self.page) };
        self.device.release(self.own);
    }
}
