//! Copies from and to the memory of other processes that is mapped by XPMEM, where there is that device.
//!
//! As with copies by the kernel, whether it works between two processes is found out by trying: who wants to copy reads the word whose place and value the other
//! has published.

use tocsin_sync::atomic::Ordering;

use crate::segment::layout::State;
use crate::xpmem::Device;
use crate::xpmem::windows::Windows;

/// Published instead of a number: the process's memory is not to be mapped.
const NOT_SHARED: i64 = -1;
/// After so many copies that have failed, peers' ends and other ways apart, no more are tried.
const FAILURES: u8 = 16;

/// What is known of the way to one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Not tried yet.
    Unknown,
    /// Refused.
    Closed,
    /// By this permit; so many copies have failed. The peer's number was read once from shared memory, and the memory found to have the word that it should. A peer that lies here
    /// can make this rank write to another process of the same user, which it could do itself.
    Open(i64, u8),
}

/// An endpoint's ways to the memory of its peers.
#[derive(Debug)]
pub(super) struct Attached {
    windows: Windows,
    ways: Box<[Way]>,
}

impl Attached {
    /// Says what this process's memory is called, if it is to be mapped and to map others'. `None`: it is not. User threads only.
    pub(super) fn open(state: &State, wanted: bool, ranks: u32) -> Option<Attached> {
        let device = wanted.then(Device::open).and_then(Result::ok);
        // Without the device, messages are copied otherwise.
        let windows = device.and_then(|device| Windows::new(device).ok());
        let segment = windows.as_ref().map_or(NOT_SHARED, |windows| windows.device().segment());
        // SYNC POINT: Relaxed: it is a number, and the device knows what it stands for, whoever has it from where.
        state.xpmem.store(segment, Ordering::Relaxed);
        Some(Attached { windows: windows?, ways: vec![Way::Unknown; ranks as usize].into_boxed_slice() })
    }

    /// Whether the peer's memory may be mapped; tries it when that is not known and the peer has said what it is called. `local`: it is this process.
    /// Handler-safe; some system calls when it is tried, none later.
    #[inline]
    pub(super) fn is_open(&mut self, peer: u32, state: &State, local: bool) -> bool {
        match self.ways.get(peer as usize) {
            Some(Way::Open(_, failures)) => *failures < FAILURES && !self.windows.are_lost(),
            Some(Way::Unknown) => self.try_way(peer, state, local),
            Some(Way::Closed) | None => false,
        }
    }

    #[cold]
    fn try_way(&mut self, peer: u32, state: &State, local: bool) -> bool {
        // SYNC POINT: Acquire pairs with `copy::publish`; the number is as in `open`.
        let (address, segment) =
            (state.probe_address.load(Ordering::Acquire), state.xpmem.load(Ordering::Relaxed));
        // By the device's number somebody else's descriptor may be known by now.
        if address == 0 || segment == 0 || !self.windows.look() {
            return false;
        }
        let expected = state.probe_value.load(Ordering::Relaxed);
        let device = self.windows.device();
        // This process's own memory is no other one's, whatever that says.
        let is_theirs = segment > 0 && (local || segment != device.segment());
        let way = match is_theirs.then(|| device.permit(segment)) {
            Some(Ok(permit)) if self.has_word(peer, permit, address, expected) => Way::Open(permit, 0),
            Some(Ok(permit)) => {
                self.windows.forget(peer, permit);
                Way::Closed
            }
            Some(Err(_)) | None => Way::Closed,
        };
        if let Some(known) = self.ways.get_mut(peer as usize) {
            *known = way;
        }
        way != Way::Closed
    }

    /// Whether the word that a peer has published is where it says.
    fn has_word(&mut self, peer: u32, permit: i64, address: u64, expected: u64) -> bool {
        let mut word = 0u64;
        let to = (&raw mut word).cast();
        // SAFETY: the local end is `word`.
        let read = unsafe { self.windows.read(peer, permit, address, to, size_of::<u64>()) };
        read && word == expected
    }

    /// Copies from the peer. False: not all of it. Handler-safe; bounded by `len`.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    pub(super) unsafe fn read(&mut self, peer: u32, from: u64, to: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's promise.
        self.by(peer, |windows, permit| unsafe { windows.read(peer, permit, from, to, len) })
    }

    /// Copies to the peer. As [`read`](Self::read).
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    pub(super) unsafe fn write(&mut self, peer: u32, from: *const u8, to: u64, len: usize) -> bool {
        // SAFETY: the caller's promise.
        self.by(peer, |windows, permit| unsafe { windows.write(peer, permit, from, to, len) })
    }

    fn by(&mut self, peer: u32, copy: impl FnOnce(&mut Windows, i64) -> bool) -> bool {
        let Some(Way::Open(permit, failures)) = self.ways.get_mut(peer as usize) else { return false };
        let copied = copy(&mut self.windows, *permit);
        if !copied {
            *failures = failures.saturating_add(1);
        }
        copied
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        for (peer, way) in self.ways.iter().enumerate() {
            if let Way::Open(permit, _) = way {
                self.windows.forget(peer as u32, *permit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tocsin_transport::{Reach, Transport};

    use super::*;
    use crate::transport::tests::world;
    use crate::{ShmTransport, Strategies};

    const ALONE: Strategies =
        Strategies { direct: false, xpmem: true, cma: false, knem: false, pages: false };

    /// Two endpoints, of which the first goes this way alone.
    fn pair() -> Vec<ShmTransport> {
        let mut ends = world(2);
        ends[0].connect(1).unwrap();
        ends[1].connect(0).unwrap();
        ends[0].begin_pass();
        ends[0].set_strategies(ALONE);
        assert_eq!(ends[0].reach(1), Reach::None, "the other has not said yet what it is called");
        ends
    }

    fn segment(end: &ShmTransport, rank: u32) -> &tocsin_sync::atomic::AtomicI64 {
        &end.segment.block(rank).unwrap().state.xpmem
    }

    #[test]
    fn who_does_not_share_is_not_asked_again() {
        let mut ends = pair();
        ends[1].set_strategies(Strategies::default());
        assert_eq!(segment(&ends[0], 1).load(Ordering::Relaxed), NOT_SHARED);
        assert_eq!(ends[0].reach(1), Reach::None);
        // Nothing is there, or was not wanted: the other ways are as they were.
        ends[0].set_strategies(Strategies::default());
        assert_eq!(ends[0].reach(1), Reach::Direct);
    }

    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn goes_this_way_both_ways() {
        let mut ends = pair();
        ends[1].set_strategies(ALONE);
        for (here, there) in [(0, 1), (1, 0)] {
            assert_eq!(ends[here].reach(there), Reach::Attached);
            let (from, mut to) = (vec![here as u8 + 7; 100_000], vec![0u8; 100_000]);
            let (address, reach) = (from.as_ptr() as u64, Reach::Attached);
            // SAFETY: the vectors have that length, here and below.
            assert!(unsafe { ends[here].pull(there, reach, address, to.as_mut_ptr(), from.len()) });
            assert_eq!(from, to);
            to.fill(0);
            let address = to.as_mut_ptr() as u64;
            // SAFETY: as above.
            assert!(unsafe { ends[here].push(there, reach, from.as_ptr(), address, from.len()) });
            assert_eq!(from, to);
        }
    }

    /// A copy that fails is made by the kernel where that may; after some, the way is not taken any more.
    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn what_fails_is_copied_otherwise() {
        for cma in [false, true] {
            let mut ends = pair();
            ends[1].set_strategies(ALONE);
            ends[0].set_strategies(Strategies { cma, ..ALONE });
            assert_eq!(ends[0].reach(1), Reach::Attached);
            // A device has no pages that it would map, and the kernel copies what a process may read.
            let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).unwrap().unwrap() as usize;
            let text = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
            // SAFETY: a mapping of its own.
            let at = unsafe {
                nix::sys::mman::mmap(
                    None,
                    page.try_into().unwrap(),
                    nix::sys::mman::ProtFlags::PROT_READ,
                    nix::sys::mman::MapFlags::MAP_SHARED,
                    &text,
                    0,
                )
            };
            let (from, mut to) = (at.unwrap().as_ptr() as u64, [0u8; 4]);
            for _ in 0..FAILURES {
                assert_eq!(ends[0].reach(1), Reach::Attached);
                // SAFETY: `to` is as long as that.
                let copied = unsafe { ends[0].pull(1, Reach::Attached, from, to.as_mut_ptr(), to.len()) };
                assert_eq!((copied, &to == b"\x7fELF"), (cma, cma));
            }
            assert_eq!(ends[0].reach(1), if cma { Reach::Kernel } else { Reach::None });
        }
    }

    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn a_lie_is_no_way() {
        let lies: [fn(&State); 6] = [
            |_| {},
            |state| _ = state.xpmem.fetch_add(1 << 32, Ordering::Relaxed),
            |state| state.xpmem.store(i64::MIN, Ordering::Relaxed),
            |state| _ = state.probe_value.fetch_add(1, Ordering::Relaxed),
            |state| state.probe_address.store(8, Ordering::Relaxed),
            |state| state.probe_address.store(u64::MAX - 3, Ordering::Relaxed),
        ];
        for (at, lie) in lies.into_iter().enumerate() {
            let mut ends = pair();
            ends[1].set_strategies(ALONE);
            lie(&ends[0].segment.block(1).unwrap().state);
            let right = if at == 0 { Reach::Attached } else { Reach::None };
            assert_eq!(ends[0].reach(1), right, "{at}");
        }
    }

    /// Of another process, only another process's memory is believed.
    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn ones_own_memory_is_no_peers() {
        let mut ends = pair();
        ends[1].set_strategies(ALONE);
        let segment = ends[0].segment.clone();
        let attached = ends[0].attached.as_mut().unwrap();
        assert!(!attached.is_open(1, &segment.block(1).unwrap().state, false));
    }
}
