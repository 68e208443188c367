//! Copies from buffers of which peers have told KNEM, where there is that device.
//!
//! The key of each travels with the announcement of its message. Whether it works between two processes is found out by trying, as with the other ways: each rank
//! says the key of the word that others read, and who wants to copy reads it.

use tocsin_sync::atomic::Ordering;
use tocsin_sync::sparse::Sparse;
use tocsin_transport::transfer::RECORDS;

use super::{ShmTransport, copy};
use crate::knem::Device;
use crate::segment::layout::State;

/// Published instead of a key: this rank has no device.
const NO_DEVICE: u64 = u64::MAX;
/// What is known of the way to one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Not tried yet.
    Unknown,
    Closed,
    /// The peer's word was found where it says. A peer that lies here can make this rank read another process of the same user, which it could do itself.
    Open,
}

/// A buffer that is exposed.
#[derive(Clone, Copy, Debug, Default)]
struct Exposed {
    /// The transfer's, in its record.
    ticket: u32,
    /// 0: it is not.
    key: u64,
}

/// What is exposed to one peer, by record.
type ToPeer = [Exposed; RECORDS as usize];

/// An endpoint's device, and what it was told of.
#[derive(Debug)]
pub(super) struct Regions {
    device: Device,
    /// The key of the word that peers read.
    own: u64,
    ways: Box<[Way]>,
    exposed: Sparse<ToPeer>,
}

impl Regions {
    /// Says by which key peers may try this rank, if it is to be reached so and to reach others. `None`: it is not. User threads only.
    pub(super) fn open(state: &State, wanted: bool, ranks: u32) -> Option<Regions> {
        // Without the device, messages are copied otherwise.
        let regions = wanted.then(Device::open).and_then(Result::ok).and_then(|device| {
            let (word, len) = copy::probe();
            // SAFETY: the word is a static one, and only read.
            let own = unsafe { device.tell(word, len) }.ok().filter(|key| *key != NO_DEVICE)?;
            let exposed = Sparse::new(ranks as usize).ok()?;
            Some(Regions {
                device,
                own,
                ways: vec![Way::Unknown; ranks as usize].into_boxed_slice(),
                exposed,
            })
        });
        // SYNC POINT: Relaxed: it is a number, and the device knows what it stands for, whoever has it from where.
        state.knem.store(regions.as_ref().map_or(NO_DEVICE, |regions| regions.own), Ordering::Relaxed);
        regions
    }

    /// Whether the peer's buffers are reached so; tries it when that is not known and the peer has said its key. `local`: it is this process.
    /// Handler-safe; two system calls at most when it is tried, none later.
    #[inline]
    pub(super) fn is_open(&mut self, peer: u32, state: &State, local: bool) -> bool {
        match self.ways.get(peer as usize) {
            Some(Way::Open) => true,
            Some(Way::Unknown) => self.try_way(peer, state, local),
            Some(Way::Closed) | None => false,
        }
    }

    #[cold]
    fn try_way(&mut self, peer: u32, state: &State, local: bool) -> bool {
        // SYNC POINT: Acquire pairs with `copy::publish`; the key is as in `open`.
        let (address, key) =
            (state.probe_address.load(Ordering::Acquire), state.knem.load(Ordering::Relaxed));
        if address == 0 || key == 0 {
            return false;
        }
        let expected = state.probe_value.load(Ordering::Relaxed);
        // This process's own memory is no other one's, whatever that says.
        let is_theirs = key != NO_DEVICE && (local || key != self.own);
        let mut word = 0u64;
        let to = (&raw mut word).cast();
        // SAFETY: the local end is `word`.
        let read = is_theirs && unsafe { self.device.read(key, 0, to, size_of::<u64>()) };
        let is_open = read && word == expected;
        if let Some(way) = self.ways.get_mut(peer as usize) {
            *way = if is_open { Way::Open } else { Way::Closed };
        }
        is_open
    }

    fn at(&mut self, peer: u32, slot: u32) -> Option<&mut Exposed> {
        let none = || Some([Exposed::default(); RECORDS as usize]);
        self.exposed.get_or_make(peer as usize, none)?.get_mut(slot as usize)
    }

    /// Takes a buffer back, if it is exposed, and for this transfer, if one is given.
    fn forget(&mut self, peer: u32, slot: u32, ticket: Option<u32>) {
        let is_it = |exposed: &&mut Exposed| exposed.key != 0 && ticket.is_none_or(|of| of == exposed.ticket);
        let exposed = self.exposed.get_mut(peer as usize).and_then(|to| to.get_mut(slot as usize));
        if let Some(exposed) = exposed.filter(is_it) {
            self.device.forget(core::mem::take(&mut exposed.key));
        }
    }
}

impl ShmTransport {
    /// See [`Transport::expose`](tocsin_transport::Transport::expose).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn tell_of(
        &mut self,
        peer: u32,
        slot: u32,
        ticket: u32,
        buffer: *const u8,
        len: usize,
    ) -> u64 {
        let Some(regions) = &mut self.regions else { return 0 };
        regions.forget(peer, slot, None);
        // SAFETY: the caller's promise.
        let Ok(key) = (unsafe { regions.device.tell(buffer, len) }) else { return 0 };
        let Some(exposed) = regions.at(peer, slot) else {
            regions.device.forget(key);
            return 0;
        };
        *exposed = Exposed { ticket, key };
        key
    }

    /// See [`Transport::conceal`](tocsin_transport::Transport::conceal).
    #[inline]
    pub(super) fn tell_no_more_of(&mut self, peer: u32, slot: u32, ticket: u32) {
        if let Some(regions) = &mut self.regions {
            regions.forget(peer, slot, Some(ticket));
        }
    }

    /// See [`Transport::pull_exposed`](tocsin_transport::Transport::pull_exposed).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn pull_by_key(&self, key: u64, offset: u64, to: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's promise; whatever key it is, the other end is the kernel's to find, and only read.
        self.regions.as_ref().is_some_and(|regions| unsafe { regions.device.read(key, offset, to, len) })
    }
}

#[cfg(test)]
mod tests {
    use tocsin_transport::{Reach, Transport};

    use super::*;
    use crate::Strategies;
    use crate::transport::tests::world;

    const ALONE: Strategies =
        Strategies { direct: false, xpmem: false, cma: false, knem: true, pages: false };
    const LEN: usize = 100_000;

    /// Two endpoints, of which the first goes this way alone.
    fn pair() -> Vec<ShmTransport> {
        let mut ends = world(2);
        ends[0].connect_bulk(1).unwrap();
        ends[1].connect_bulk(0).unwrap();
        ends[0].begin_pass();
        ends[0].set_strategies(ALONE);
        assert_eq!(ends[0].reach(1), Reach::None, "the other has not said yet what its word is called");
        ends
    }

    fn expose(end: &mut ShmTransport, slot: u32, ticket: u32, buffer: &[u8]) -> u64 {
        // SAFETY: buffers of these tests outlive their endpoints, and are not written.
        unsafe { end.expose(1 - end.rank(), slot, ticket, buffer.as_ptr(), buffer.len()) }
    }

    fn pull(end: &mut ShmTransport, key: u64, offset: usize, to: &mut [u8]) -> bool {
        // SAFETY: the slice is as long as that.
        unsafe { end.pull_exposed(1 - end.rank(), key, offset as u64, to.as_mut_ptr(), to.len()) }
    }

    #[test]
    fn who_has_no_device_is_not_asked_again() {
        let mut ends = pair();
        ends[1].set_strategies(Strategies::default());
        assert_eq!(ends[0].segment.block(1).unwrap().state.knem.load(Ordering::Relaxed), NO_DEVICE);
        assert_eq!(ends[0].reach(1), Reach::None);
        assert!(!ends[1].has_regions() && expose(&mut ends[1], 0, 1, &[0; 8]) == 0);
        assert!(!pull(&mut ends[1], 7, 0, &mut [0; 8]));
        // Nothing is there, or was not wanted: the other ways are as they were.
        ends[0].set_strategies(Strategies::default());
        assert_eq!(ends[0].reach(1), Reach::Direct);
    }

    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn goes_this_way_both_ways() {
        let mut ends = pair();
        ends[1].set_strategies(ALONE);
        for (from, to) in [(0usize, 1usize), (1, 0)] {
            assert_eq!(ends[from].reach(to as u32), Reach::Region);
            for slot in [0, 5, RECORDS - 1] {
                let (data, mut target) = (vec![from as u8 + 7; LEN], vec![0u8; LEN]);
                let key = expose(&mut ends[from], slot, 9, &data);
                assert!(key != 0 && pull(&mut ends[to], key, LEN / 2, &mut target[LEN / 2..]));
                assert!(target[..LEN / 2].iter().all(|byte| *byte == 0), "nothing else");
                assert!(pull(&mut ends[to], key, 0, &mut target) && data == target);
                ends[from].conceal(to as u32, slot, 8);
                assert!(pull(&mut ends[to], key, 0, &mut target), "that is another transfer's");
                ends[from].conceal(to as u32, slot, 9);
                assert!(!pull(&mut ends[to], key, 0, &mut target));
            }
            assert_eq!(expose(&mut ends[from], RECORDS, 9, &[0; 8]), 0, "no such record");
        }
    }

    /// A record serves the next transfer before anybody has said that its last one has ended.
    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn the_next_transfer_takes_the_place_of_the_last() {
        let mut ends = pair();
        ends[1].set_strategies(ALONE);
        assert_eq!(ends[0].reach(1), Reach::Region);
        let (first, second, mut copied) = (vec![1u8; 8], vec![2u8; 8], [0u8; 8]);
        expose(&mut ends[0], 0, 1, &first);
        let key = expose(&mut ends[0], 0, 2, &second);
        ends[0].conceal(1, 0, 1);
        assert!(pull(&mut ends[1], key, 0, &mut copied) && copied == [2; 8]);
    }

    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn a_lie_is_no_way() {
        let lies: [fn(&State); 5] = [
            |_| {},
            |state| _ = state.knem.fetch_add(1 << 40, Ordering::Relaxed),
            |state| state.knem.store(NO_DEVICE, Ordering::Relaxed),
            |state| _ = state.probe_value.fetch_add(1, Ordering::Relaxed),
            |state| state.knem.store(1, Ordering::Relaxed),
        ];
        for (at, lie) in lies.into_iter().enumerate() {
            let mut ends = pair();
            ends[1].set_strategies(ALONE);
            lie(&ends[0].segment.block(1).unwrap().state);
            let right = if at == 0 { Reach::Region } else { Reach::None };
            assert_eq!(ends[0].reach(1), right, "{at}");
        }
        // Of another process, only another process's word is believed.
        let mut ends = pair();
        ends[1].set_strategies(ALONE);
        let segment = ends[0].segment.clone();
        let state = &segment.block(1).unwrap().state;
        let regions = ends[0].regions.as_mut().unwrap();
        state.knem.store(regions.own, Ordering::Relaxed);
        assert!(!regions.is_open(1, state, false));
    }

    /// What somebody says is a key is the device's to know.
    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn a_lie_is_no_key() {
        let mut ends = pair();
        ends[1].set_strategies(ALONE);
        assert_eq!(ends[0].reach(1), Reach::Region);
        let data = vec![3u8; LEN];
        let key = expose(&mut ends[0], 0, 1, &data);
        let mut copied = [0u8; 16];
        for lie in [0, u64::MAX, key ^ 1 << 40] {
            assert!(!pull(&mut ends[1], lie, 0, &mut copied), "{lie:#x}");
        }
        assert!(!copied.contains(&3), "nothing of what is there");
    }

    /// It needs no more than the device: before the ways that are left where that is refused.
    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn it_is_taken_where_the_kernel_does_not_copy() {
        for (cma, right) in [(true, Reach::Kernel), (false, Reach::Region)] {
            let mut ends = pair();
            ends[1].set_strategies(ALONE);
            ends[0].set_strategies(Strategies { cma, ..ALONE });
            assert_eq!(ends[0].reach(1), right);
        }
    }
}
