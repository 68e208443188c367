//! On which NUMA node the pages of a segment lie.
//!
//! Left alone, a page lies on the node of the thread that allocates it: of whoever connects a pair first, or, for what exists from the
//! start, of the host. So whoever makes a segment says on which node each rank runs, the ranks correct that when they join, and
//! what is allocated for a rank is given a policy before. A policy is a wish (`MPOL_PREFERRED`): where the node has no memory left, the
//! kernel takes another's. Where nobody has a node (ranks that are not bound, machines of one node) nothing here makes a system call, and
//! where the kernel refuses, memory lies as without. A rank's node is the nearest that has memory, not always its processor's own:
//! the kernel refuses to prefer one that has none, or that the process's cpuset leaves out.
//!
//! Who is near what, and why:
//! - A pair's lanes, its Bulk, and the records and the publication that share pages with Bulk's slots: their **receiver**. It waits for
//!   each line that it reads, while the sender's stores wait in a buffer; and it comes back to the same words again and again. The
//!   publication is the one line that its receiver writes and its sender reads: once a message, too little for a page of its own.
//! - A rank's pool: its owner, the **sender**. All its peers read there, each its own messages once, and they may be on any node: the owner is
//!   the only one that comes back to every line of it.
//! - The cells of a pair, which both write and read: the one with the lower number.
//! - A rank's area of a board, and its long memory: its owner, for the same reason: it alone writes there, and all others read it.
//! - What a user allocates from the heap: the thread that does it, as its other memory.
//! - A rank's block (doorbell, attention word, state): its owner, which writes its attention in every wait.
//!
//! For memory of a file a policy is the file's, whichever mapping it is set through, and holds for all processes. Where an administrator
//! has the kernel back such files with huge pages, one of those lies where the first of what shares it is to lie.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use tocsin_sync::atomic::{AtomicBool, Ordering};

use super::layout::State;
use super::{Geometry, Segment};

/// Nodes have lower numbers: the kernel's own limit (MAX_NUMNODES) on x86-64, where it is highest.
const MOST: u32 = 1024;
const WORDS: usize = MOST as usize / 64;

/// This process may not set policies, or its kernel has none; it does not ask again.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// A set of one node, as the kernel reads it.
fn mask(node: u32) -> [u64; WORDS] {
    let mut mask = [0; WORDS];
    if let Some(word) = mask.get_mut(node as usize / 64) {
        *word = 1 << (node % 64);
    }
    mask
}

/// Wishes for pages of `node` in a mapping. Not for handlers.
fn prefer(at: *mut libc::c_void, bytes: usize, node: u32) -> io::Result<()> {
    let mask = mask(node);
    // The kernel takes one bit less than it is told.
    let bits = libc::c_ulong::from(MOST) + 1;
    // SAFETY: the mask is live and has one bit less than `bits`. The call says where pages of a range will lie, and changes none.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            at,
            bytes as libc::c_ulong,
            libc::c_long::from(libc::MPOL_PREFERRED),
            mask.as_ptr(),
            bits,
            0 as libc::c_ulong,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has what is allocated of a range of the file from now on lie on a node. The range begins and ends with pages. Not for handlers.
fn bind(fd: BorrowedFd<'_>, (offset, bytes): (u64, u64), node: u32) {
    let (Ok(length), Ok(start)) = (usize::try_from(bytes), libc::off_t::try_from(offset)) else { return };
    // SYNC POINT: Relaxed: nothing is read by virtue of it, and who reads an old value is refused once more.
    if length == 0 || REFUSED.load(Ordering::Relaxed) {
        return;
    }
    // Through a mapping of its own, which is gone afterwards: a range with a policy is a mapping apart for the kernel, and a large world
    // has more ranges than a process may have mappings. Nobody reads or writes there, so that it is not joined to one that is used.
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_NONE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            fd.as_raw_fd(),
            start,
        )
    };
    if at == libc::MAP_FAILED {
        return;
    }
    let set = prefer(at, length, node);
    // SAFETY: the mapping was made above, and nobody else knows of it.
    let _cannot_fail = unsafe { libc::munmap(at, length) };
    if let Err(error) = set
        && matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
    {
        REFUSED.store(true, Ordering::Relaxed);
    }
}

/// Runs of consecutive ranks that have the same node: the first, the number behind the last, the node.
fn runs(ranks: u32, node: impl Fn(u32) -> Option<u32>) -> impl Iterator<Item = (u32, u32, u32)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        while next < ranks {
            let (first, of) = (next, node(next));
            next = next.saturating_add(1);
            while next < ranks && node(next) == of {
                next = next.saturating_add(1);
            }
            if let Some(of) = of {
                return Some((first, next, of));
            }
        }
        None
    })
}

/// Binds a board's areas to their owners. A page of two areas lies with the first.
fn bind_board(fd: BorrowedFd<'_>, geometry: &Geometry, index: u32, node: impl Fn(u32) -> Option<u32>) {
    for (first, end, node) in runs(geometry.ranks(), node) {
        if let Some(part) = geometry.board_part(index, first, end) {
            bind(fd, part, node);
        }
    }
}

/// Binds what exists from creation on. `nodes`: by rank; who is not named has none.
pub(super) fn bind_fixed(fd: BorrowedFd<'_>, geometry: &Geometry, nodes: &[Option<u32>]) {
    let node = |rank: u32| nodes.get(rank as usize).copied().flatten().filter(|node| *node < MOST);
    for (first, end, node) in runs(geometry.ranks(), node) {
        bind(fd, geometry.rank_pages(first, end), node);
    }
    bind_board(fd, geometry, 0, node);
}

impl State {
    /// Says on which node the rank runs.
    fn set_node(&self, node: Option<u32>) {
        let word = node.filter(|node| *node < MOST).map_or(0, |node| node + 1);
        // SYNC POINT: Relaxed: nothing is read by virtue of it.
        self.node.store(word, Ordering::Relaxed);
    }
}

impl Segment {
    /// Says on which node each rank is going to run, before the segment is given to anybody.
    pub(super) fn note_nodes(&self, nodes: &[Option<u32>]) {
        for (rank, node) in (0..self.ranks()).zip(nodes) {
            self.set_node(rank, *node);
        }
    }

    /// The NUMA node that a rank runs on, by the kernel's number; `None`: it is not bound to one, or does not exist. What is allocated
    /// for a rank lies there. Handler-safe.
    pub fn node(&self, rank: u32) -> Option<u32> {
        // SYNC POINT: Relaxed: nothing is read by virtue of it. A rank that lies has its memory elsewhere.
        let word = self.block(rank)?.state.node.load(Ordering::Relaxed);
        word.checked_sub(1).filter(|node| *node < MOST)
    }

    /// Says on which node a rank runs; what is allocated already stays where it is. Handler-safe.
    pub fn set_node(&self, rank: u32, node: Option<u32>) {
        if let Some(block) = self.block(rank) {
            block.state.set_node(node);
        }
    }

    /// Has what is allocated of a part of the segment from now on lie near a rank, if it has a node. Not for handlers.
    pub(super) fn bind_near(&self, rank: u32, part: (u64, u64)) {
        if let (Some(node), Ok(fd)) = (self.node(rank), self.checked_fd()) {
            bind(fd, part, node);
        }
    }

    /// The same for a board and the owners of its areas. Not for handlers.
    pub(crate) fn bind_board(&self, index: u32) {
        if let Ok(fd) = self.checked_fd() {
            bind_board(fd, &self.geometry, index, |rank| self.node(rank));
        }
    }
}

/// Why the kernel does not place memory on a node, by its own number; `None` if it does. User threads only.
pub fn bind_refusal(node: u32) -> Option<String> {
    const PAGE: usize = 4096;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Some(format!("mmap failed ({})", io::Error::last_os_error()));
    }
    let set =
        if node < MOST { prefer(at, PAGE, node) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) };
    // SAFETY: the mapping was made above, and nobody else knows of it.
    let _cannot_fail = unsafe { libc::munmap(at, PAGE) };
    let error = set.err()?;
    Some(match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            format!("mbind is not there ({error}): a kernel without NUMA, or a filter of system calls")
        }
        Some(libc::EINVAL) => {
            format!(
                "mbind to node {node} is refused ({error}): it has no memory, or this process's cpuset (mems) leaves it out"
            )
        }
        _ => format!(
            "mbind is refused ({error}): a filter of system calls; a container mostly wants CAP_SYS_NICE for it"
        ),
    })
}

#[cfg(test)]
mod tests;
