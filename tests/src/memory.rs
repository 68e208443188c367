//! Where messages' buffers lie.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use tocsin_sync::atomic::Ordering;
use tocsin_sync::atomic::real::AtomicBool;
use tocsin_world::{Comm, HeapBlock};

use crate::run::Arguments;

/// Some buffers of this process's ranks lie in the shared heap: nothing but the way of the messages depends on it.
static MIXED: AtomicBool = AtomicBool::new(false);

/// The same of mappings that the system may give huge pages.
static HUGE: AtomicBool = AtomicBool::new(false);

/// Has about half of the [shared](Buffer::share) buffers lie in the shared heap from now on, where `buffers=mixed` is asked for; in mappings
/// with huge pages, where it is `buffers=huge`.
pub fn ask_for(arguments: &Arguments) {
    match arguments.optional("buffers") {
        Some("mixed") => MIXED.store(true, Ordering::Relaxed),
        Some("huge") => HUGE.store(true, Ordering::Relaxed),
        _ => {}
    }
}

/// Whether some buffers of this process's ranks lie in the shared heap.
pub fn is_mixed() -> bool {
    MIXED.load(Ordering::Relaxed)
}

/// Has this process's malloc keep what is freed: pages that come and go with each buffer would be much of what a long product takes.
pub fn keep() {
    #[cfg(target_env = "gnu")]
    // As much as its options take of a threshold, and a good deal.
    for (what, bytes) in [(libc::M_MMAP_THRESHOLD, 32 << 20), (libc::M_TRIM_THRESHOLD, 1 << 30)] {
        // SAFETY: no memory effects but on how malloc goes on.
        assert_eq!(unsafe { libc::mallopt(what, bytes) }, 1, "malloc refuses option {what}");
    }
}

/// A buffer, from malloc or of the shared heap.
#[derive(Debug)]
pub enum Buffer {
    /// From malloc.
    Own(Vec<u8>),
    /// Of the heap.
    Heap(HeapBlock),
    /// Somewhere in a mapping of huge pages.
    Huge(Huge),
}

/// Bytes somewhere in a mapping of its own, of huge pages as far as the system has them.
#[derive(Debug)]
pub struct Huge {
    base: NonNull<libc::c_void>,
    mapped: usize,
    first: usize,
    len: usize,
}

// SAFETY: the mapping is this one's alone, and of the process: any thread may use it and unmap it.
unsafe impl Send for Huge {}

/// Bytes of a huge page.
const PAGE: usize = 2 << 20;

impl Huge {
    /// `first`: how far from the beginning of a huge page.
    fn new(first: usize, len: usize) -> Huge {
        // More than enough to begin where a huge page does.
        let mapped = (first + len).next_multiple_of(PAGE) + PAGE;
        let map = |more| {
            let (flags, writable) =
                (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | more, libc::PROT_READ | libc::PROT_WRITE);
            // SAFETY: a new mapping, of which nobody has a reference.
            let base = unsafe { libc::mmap(std::ptr::null_mut(), mapped, writable, flags, -1, 0) };
            (base != libc::MAP_FAILED).then(|| NonNull::new(base)).flatten()
        };
        // Where some are set apart, those; else such as the system makes itself.
        let base = map(libc::MAP_HUGETLB).or_else(|| map(0)).unwrap_or_else(|| panic!("no memory"));
        // SAFETY: the mapping is this long. It is a wish: refused where these pages are huge already.
        unsafe { libc::madvise(base.as_ptr(), mapped, libc::MADV_HUGEPAGE) };
        let first = base.as_ptr().addr().next_multiple_of(PAGE) - base.as_ptr().addr() + first;
        Huge { base, mapped, first, len }
    }

    fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr().cast::<u8>().wrapping_add(self.first)
    }
}

impl Drop for Huge {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, with this length; messages from and to it are over.
        unsafe { libc::munmap(self.base.as_ptr(), self.mapped) };
    }
}

impl Buffer {
    /// The same bytes, in the shared heap or in huge pages if the `lot` is odd and somebody has [asked for](ask_for) that.
    #[must_use]
    pub fn share(self, comm: &Comm, lot: u64) -> Buffer {
        let mut other = if lot & 1 == 0 {
            return self;
        } else if MIXED.load(Ordering::Relaxed) {
            Buffer::Heap(comm.alloc(self.len()).unwrap_or_else(|e| panic!("{e}")))
        } else if HUGE.load(Ordering::Relaxed) {
            // Some begin or end where pages do.
            let first = [0, 1, 4096, PAGE - 5000][(lot >> 1) as usize % 4];
            Buffer::Huge(Huge::new(first, self.len()))
        } else {
            return self;
        };
        other.copy_from_slice(&self);
        other
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer::Own(bytes)
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Buffer::Own(bytes) => bytes,
            // SAFETY: the block is this buffer's alone, and messages into it are over when its bytes are looked at.
            Buffer::Heap(block) => unsafe { std::slice::from_raw_parts(block.as_ptr(), block.len()) },
            // SAFETY: as above, of a mapping that is longer.
            Buffer::Huge(huge) => unsafe { std::slice::from_raw_parts(huge.as_ptr(), huge.len) },
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Buffer::Own(bytes) => bytes,
            // SAFETY: as above; `self` is borrowed exclusively.
            Buffer::Heap(block) => unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), block.len()) },
            // SAFETY: as above.
            Buffer::Huge(huge) => unsafe { std::slice::from_raw_parts_mut(huge.as_ptr(), huge.len) },
        }
    }
}
