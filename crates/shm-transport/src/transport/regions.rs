//! Copies from and to buffers of which peers have told KNEM, where there is that device.
//!
//! The key of each stands beside the record of its transfer ([`Keys`]). Whether it works between two processes is found out by trying, as with the other ways: each rank
//! says the key of the word that others read, and who wants to copy reads it.

use tocsin_sync::atomic::Ordering;
use tocsin_sync::sparse::Sparse;
use tocsin_transport::transfer::RECORDS;
use tocsin_transport::{End, Keys};

use super::{ShmTransport, copy};
use crate::knem::{Device, Use};
use crate::segment::layout::State;

/// Published instead of a key: this rank has no device.
const NO_DEVICE: u64 = u64::MAX;
/// Records of a pair, and the publication.
const SLOTS: usize = RECORDS as usize + 1;

/// What is known of the way to one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Not tried yet.
    Unknown,
    Closed,
    /// The peer's word was found where it says. A peer that lies here can make this rank write to another process of the same user, which it could do itself.
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

/// What is exposed to one peer, by [`End`] and slot.
type ToPeer = [[Exposed; SLOTS]; 2];

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
            let own = unsafe { device.tell(word, len, Use::Read) }.ok().filter(|key| *key != NO_DEVICE)?;
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
    /// Handler-safe; one system call when it is tried, none later.
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

    fn at(&mut self, peer: u32, end: End, slot: u32) -> Option<&mut Exposed> {
        let none = || Some([[Exposed::default(); SLOTS]; 2]);
        self.exposed.get_or_make(peer as usize, none)?.get_mut(end as usize)?.get_mut(slot as usize)
    }

    /// Takes a buffer back, if it is exposed, and for this transfer, if one is given. Whether it was.
    fn forget(&mut self, peer: u32, end: End, slot: u32, ticket: Option<u32>) -> bool {
        let is_it = |exposed: &&mut Exposed| exposed.key != 0 && ticket.is_none_or(|of| of == exposed.ticket);
        let of_end = self.exposed.get_mut(peer as usize).and_then(|to| to.get_mut(end as usize));
        let exposed = of_end.and_then(|of_end| of_end.get_mut(slot as usize));
        let Some(exposed) = exposed.filter(is_it) else { return false };
        let key = core::mem::take(&mut exposed.key);
        self.device.forget(key);
        true
    }
}

impl ShmTransport {
    /// The keys of the transfers that one of two ranks, of which one is this, sends to the other.
    fn keys(&self, from: u32, to: u32, slot: u32) -> Option<&Keys> {
        let keys = if self.has_records(from, to) { self.segment.keys(from, to, slot) } else { None };
        // SAFETY: the pair's memory is allocated, and stays as long as the segment, which outlives this.
        keys.map(|keys| unsafe { &*keys.as_ptr() })
    }

    /// Those of a transfer of which this rank is one end.
    fn keys_of(&self, own: End, peer: u32, slot: u32) -> Option<&Keys> {
        match own {
            End::Sender => self.keys(self.rank, peer, slot),
            End::Receiver => self.keys(peer, self.rank, slot),
        }
    }

    /// Says a key, or that there is none.
    fn say_key(&self, own: End, peer: u32, slot: u32, key: u64) {
        if let Some(keys) = self.keys_of(own, peer, slot) {
            // SYNC POINT: Relaxed: ordered by the packet that tells of the transfer, or by the ticket that is published after this.
            keys.of(own).store(key, Ordering::Relaxed);
        }
    }

    /// See [`Transport::expose`](tocsin_transport::Transport::expose).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn tell_of(
        &mut self,
        peer: u32,
        own: End,
        slot: u32,
        ticket: u32,
        buffer: *mut u8,
        len: usize,
    ) -> bool {
        let Some(regions) = &mut self.regions else { return false };
        // The peer has begun anew with a record whose last transfer has not ended here: as far as it says, that is over.
        regions.forget(peer, own, slot, None);
        let usage = if own == End::Sender { Use::Read } else { Use::Write };
        // SAFETY: the caller's promise.
        let Ok(key) = (unsafe { regions.device.tell(buffer, len, usage) }) else { return false };
        match regions.at(peer, own, slot) {
            Some(exposed) if key != Keys::ASKED => *exposed = Exposed { ticket, key },
            _ => {
                regions.device.forget(key);
                return false;
            }
        }
        self.say_key(own, peer, slot, key);
        true
    }

    /// See [`Transport::conceal`](tocsin_transport::Transport::conceal).
    #[inline]
    pub(super) fn tell_no_more_of(&mut self, peer: u32, own: End, slot: u32, ticket: u32) {
        let Some(regions) = &mut self.regions else { return };
        let was = regions.forget(peer, own, slot, Some(ticket));
        // The sender's next transfer may have asked there for the next key by now.
        if was && (own == End::Sender || slot == RECORDS) {
            self.say_key(own, peer, slot, 0);
        }
    }

    /// See [`Transport::expose_to_published`](tocsin_transport::Transport::expose_to_published).
    pub(super) fn repeat_key(&mut self, peer: u32, slot: u32, ticket: u32) -> bool {
        let Some(regions) = &mut self.regions else { return false };
        let exposed = regions.at(peer, End::Sender, slot).map(|exposed| *exposed).unwrap_or_default();
        let key = if exposed.ticket == ticket { exposed.key } else { 0 };
        self.say_key(End::Sender, peer, RECORDS, key);
        key != 0
    }

    /// See [`Transport::ask_for_key`](tocsin_transport::Transport::ask_for_key).
    pub(super) fn say_whether_key_is_wanted(&self, peer: u32, slot: u32, asks: bool) {
        if let Some(keys) = self.keys(self.rank, peer, slot) {
            // SYNC POINT: Relaxed: as `say_key`.
            keys.receiver.store(if asks { Keys::ASKED } else { 0 }, Ordering::Relaxed);
        }
    }

    /// See [`Transport::is_asked_for_key`](tocsin_transport::Transport::is_asked_for_key).
    pub(super) fn is_key_wanted(&self, peer: u32, slot: u32) -> bool {
        let keys = self.keys(peer, self.rank, slot);
        // SYNC POINT: Relaxed: as `say_key`.
        keys.is_some_and(|keys| keys.receiver.load(Ordering::Relaxed) == Keys::ASKED)
    }

    /// The key of a peer's end of a transfer.
    #[inline]
    pub(super) fn key_of(&self, peer: u32, theirs: End, slot: u32) -> Option<u64> {
        let keys = match theirs {
            End::Sender => self.keys(peer, self.rank, slot),
            End::Receiver => self.keys(self.rank, peer, slot),
        };
        keys.and_then(|keys| keys.get(theirs))
    }

    /// See [`Transport::pull_exposed`](tocsin_transport::Transport::pull_exposed).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn pull_by_key(
        &self,
        peer: u32,
        slot: u32,
        offset: u64,
        to: *mut u8,
        len: usize,
    ) -> bool {
        let Some((regions, key)) = self.regions.as_ref().zip(self.key_of(peer, End::Sender, slot)) else {
            return false;
        };
        // SAFETY: the caller's promise; whatever key was read, the other end is the kernel's to find.
        unsafe { regions.device.read(key, offset, to, len) }
    }

    /// See [`Transport::push_exposed`](tocsin_transport::Transport::push_exposed).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn push_by_key(
        &self,
        peer: u32,
        slot: u32,
        from: *const u8,
        offset: u64,
        len: usize,
    ) -> bool {
        let Some((regions, key)) = self.regions.as_ref().zip(self.key_of(peer, End::Receiver, slot)) else {
            return false;
        };
        // SAFETY: as in `pull_by_key`.
        unsafe { regions.device.write(key, offset, from, len) }
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

    fn expose(end: &mut ShmTransport, own: End, slot: u32, ticket: u32, buffer: &mut [u8]) -> bool {
        // SAFETY: buffers of these tests outlive their endpoints, and are looked at when nobody writes there.
        unsafe { end.expose(1 - end.rank(), own, slot, ticket, buffer.as_mut_ptr(), buffer.len()) }
    }

    #[test]
    fn who_has_no_device_is_not_asked_again() {
        let mut ends = pair();
        ends[1].set_strategies(Strategies::default());
        assert_eq!(ends[0].segment.block(1).unwrap().state.knem.load(Ordering::Relaxed), NO_DEVICE);
        assert_eq!(ends[0].reach(1), Reach::None);
        assert!(!ends[1].has_regions() && !expose(&mut ends[1], End::Sender, 0, 1, &mut [0; 8]));
        // Nothing is there, or was not wanted: the other ways are as they were.
        ends[0].set_strategies(Strategies::default());
        assert_eq!(ends[0].reach(1), Reach::Direct);
    }

    /// Words of a record that no transfer has, as keys.
    #[test]
    fn keys_are_read_as_they_stand() {
        let ends = pair();
        let keys = ends[1].keys(0, 1, 3).unwrap();
        for (word, key) in [(0, None), (Keys::ASKED, None), (7, Some(7))] {
            keys.sender.store(word, Ordering::Relaxed);
            assert_eq!(ends[1].key_of(0, End::Sender, 3), key);
            assert_eq!(ends[1].has_key(0, End::Sender, 3), key.is_some());
        }
        ends[0].say_whether_key_is_wanted(1, 3, true);
        assert!(ends[1].is_asked_for_key(0, 3) && !ends[1].is_asked_for_key(0, 4));
        assert!(!ends[0].has_key(1, End::Receiver, 3));
        assert!(ends[1].keys(0, 1, RECORDS).is_some() && ends[1].keys(0, 1, RECORDS + 1).is_none());
    }

    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn goes_this_way_both_ways() {
        let mut ends = pair();
        ends[1].set_strategies(ALONE);
        for (from, to) in [(0usize, 1usize), (1, 0)] {
            assert_eq!(ends[from].reach(to as u32), Reach::Region);
            for slot in [0, 5, RECORDS] {
                let (mut data, mut target) = (vec![from as u8 + 7; LEN], vec![0u8; LEN]);
                assert!(expose(&mut ends[from], End::Sender, slot, 9, &mut data));
                let at = target.as_mut_ptr();
                // SAFETY: the vectors have that length, here and below.
                assert!(unsafe { ends[to].pull_exposed(from as u32, slot, 0, at, LEN) });
                assert_eq!(data, target);
                target.fill(0);
                assert!(expose(&mut ends[to], End::Receiver, slot, 9, &mut target));
                let half = data.as_ptr().wrapping_add(LEN / 2);
                // SAFETY: as above.
                assert!(unsafe { ends[from].push_exposed(to as u32, slot, half, LEN as u64 / 2, LEN / 2) });
                assert!(
                    target[..LEN / 2].iter().all(|byte| *byte == 0) && data[LEN / 2..] == target[LEN / 2..]
                );
                for (end, own, ticket) in [(from, End::Sender, 9), (to, End::Receiver, 9)] {
                    ends[end].conceal(1 - end as u32, own, slot, ticket);
                }
                // SAFETY: as above.
                assert!(!unsafe { ends[to].pull_exposed(from as u32, slot, 0, at, LEN) });
            }
        }
    }

    /// A record serves the next transfer before its last has ended at the other end.
    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn the_next_transfer_takes_the_place_of_the_last() {
        let mut ends = pair();
        ends[1].set_strategies(ALONE);
        assert_eq!(ends[0].reach(1), Reach::Region);
        let (mut first, mut second) = (vec![1u8; 8], vec![2u8; 8]);
        assert!(expose(&mut ends[1], End::Receiver, 0, 1, &mut first));
        ends[0].ask_for_key(1, 0, true);
        assert!(ends[1].is_asked_for_key(0, 0) && !ends[0].has_key(1, End::Receiver, 0));
        assert!(expose(&mut ends[1], End::Receiver, 0, 2, &mut second));
        ends[1].conceal(0, End::Receiver, 0, 1);
        // SAFETY: the slice is as long as that.
        assert!(unsafe { ends[0].push_exposed(1, 0, b"12345678".as_ptr(), 0, 8) });
        assert_eq!((first.as_slice(), second.as_slice()), (&[1u8; 8][..], &b"12345678"[..]));
        assert!(!ends[0].expose_to_published(1, 0, 3));
        assert!(expose(&mut ends[0], End::Sender, 0, 3, &mut second));
        assert!(!ends[0].expose_to_published(1, 0, 2) && ends[0].expose_to_published(1, 0, 3));
        assert!(ends[1].has_key(0, End::Sender, RECORDS));
        ends[0].conceal(1, End::Sender, 0, 2);
        assert!(ends[1].has_key(0, End::Sender, 0));
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

    /// What stands in shared memory as a key is the device's to know: another's that it does not have, one for the other direction.
    #[test]
    #[ignore = "needs the device: cargo xtask guest runs it"]
    fn a_lie_is_no_key() {
        let mut ends = pair();
        ends[1].set_strategies(ALONE);
        assert_eq!(ends[0].reach(1), Reach::Region);
        let (mut data, mut target) = (vec![3u8; LEN], vec![0u8; LEN]);
        assert!(expose(&mut ends[0], End::Sender, 0, 1, &mut data));
        assert!(expose(&mut ends[1], End::Receiver, 0, 1, &mut target));
        let key = |end: End, ends: &[ShmTransport]| ends[0].keys(0, 1, 0).unwrap().get(end).unwrap();
        let (sender, receiver) = (key(End::Sender, &ends), key(End::Receiver, &ends));
        let mut copied = [0u8; 16];
        for lie in [0, Keys::ASKED, receiver, sender ^ 1 << 40] {
            ends[0].keys(0, 1, 0).unwrap().sender.store(lie, Ordering::Relaxed);
            // SAFETY: the array is as long as that.
            assert!(!unsafe { ends[1].pull_exposed(0, 0, 0, copied.as_mut_ptr(), 16) }, "{lie:#x}");
        }
        for lie in [0, Keys::ASKED, sender, receiver ^ 1 << 40] {
            ends[1].keys(0, 1, 0).unwrap().receiver.store(lie, Ordering::Relaxed);
            // SAFETY: as above.
            assert!(!unsafe { ends[0].push_exposed(1, 0, data.as_ptr(), 0, 16) }, "{lie:#x}");
        }
        assert!(target.iter().all(|byte| *byte == 0) && copied == [0; 16]);
        // What is exposed is taken back by what this rank has kept for itself.
        ends[0].conceal(1, End::Sender, 0, 1);
        ends[0].keys(0, 1, 0).unwrap().sender.store(sender, Ordering::Relaxed);
        // SAFETY: as above.
        assert!(!unsafe { ends[1].pull_exposed(0, 0, 0, copied.as_mut_ptr(), 16) });
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
