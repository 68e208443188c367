//! Windows onto the memory of peers, as an endpoint has them mapped.
//!
//! All are of one length, at multiples of it in the peer's memory, and stay mapped until others need their place: a buffer that is used again costs nothing more, and
//! of one that has gone and come back the kernel finds the new pages. A window has its place in one of a few sets, from which the one that was used least recently
//! goes.
//!
//! The device unmaps them all when somebody in this process closes any descriptor of it, and says so to nobody. So a page of the endpoint's own is mapped beside them, with a word
//! that no other has, and looked at before and after each copy: what is mapped is what the endpoint knows of as long as that is there. (What another thread of this process maps while
//! a third one closes a descriptor, in the moment of a copy, may be written to.)

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
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

/// Endpoints that have had such a page.
static PAGES: AtomicU64 = AtomicU64::new(0);

/// A page of this process's own with a word that is in no other one: its number, among what nobody's memory has by chance.
#[derive(Debug)]
struct Own {
    page: *mut u8,
    word: u64,
}

impl Own {
    /// `None`: there is no memory. User threads only.
    fn new() -> Option<Own> {
        let len = usize::try_from(PAGE).ok()?.try_into().ok()?;
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a mapping of its own, where nothing was.
        let page = unsafe { mmap_anonymous(None, len, rights, MapFlags::MAP_PRIVATE) }.ok()?;
        let page = page.as_ptr().cast::<u8>();
        // SYNC POINT: Relaxed: a number that nobody else has.
        let number = PAGES.fetch_add(1, Ordering::Relaxed);
        let word = (now_ns() ^ u64::from(std::process::id()) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = word & !0xffff | number & 0xffff;
        // SAFETY: the page is mapped, and nobody else's.
        unsafe { page.cast::<u64>().write(word) };
        Some(Own { page, word })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody else's.
        unsafe { libc::munmap(self.page.cast(), PAGE as usize) };
    }
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
    /// What is looked at, by which permit it is mapped, and where.
    own: Own,
    permit: i64,
    seen: *mut u8,
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
        let own = Own::new().ok_or_else(|| refused("mmap")(libc::ENOMEM))?;
        let permit = device.permit(device.segment()).map_err(refused("XPMEM_CMD_GET"))?;
        let seen = match device.map(permit, own.page as u64, PAGE) {
            Ok(seen) if word_at(seen) == Some(own.word) => seen,
            other => {
                // With what it has mapped.
                device.release(permit);
                return Err(other.err().map_or(Refusal::Another, refused("XPMEM_CMD_ATTACH")));
            }
        };
        let none = || Set { keys: [0; WAYS], at: [core::ptr::null_mut(); WAYS], used: [0; WAYS] };
        let sets = (0..sets).map(|_| none()).collect();
        Ok(Windows { device, sets, now: 0, own, permit, seen, lost: false })
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
        self.lost = self.lost || word_at(self.seen) != Some(self.own.word);
        !self.lost
    }

    /// As of a look now; handler-safe, in handlers two system calls.
    pub(crate) fn look(&mut self) -> bool {
        let faults = thread::in_handler().then(Faults::come);
        let there = self.are_there();
        if let Some(faults) = faults {
            faults.over();
        }
        there
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
            let window = window.wrapping_add(offset as usize);
            if !self.are_there() || !step(window, done, here) || !self.are_there() {
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
        let there = self.look();
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

/// The word there, if anything is. Where [faults](Faults) come.
fn word_at(at: *const u8) -> Option<u64> {
    let mut found = 0u64;
    // SAFETY: the local end is `found`; the other is to be mended if it is not there.
    let read = unsafe { copy::copy(at, (&raw mut found).cast(), size_of::<u64>()) };
    read.then_some(found)
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
        unsafe { self.device.unmap(self.seen) };
        self.device.release(self.permit);
    }
}
