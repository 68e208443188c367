//! Who waits for what comes, and how many long messages of collectives are under way.

use tocsin_sync::atomic::Ordering;
use tocsin_transport::{Awaits, Transport, long_under_way};

use super::ShmTransport;
use super::known::has;

impl ShmTransport {
    /// See [`Transport::await_coming`]. Who waits no more may answer next, and then looks at what the peer says, which has waited since it sent: that line is asked for now.
    #[inline]
    pub(super) fn say_what_is_awaited(&self, peer: u32, awaits: Awaits) {
        if let Some(state) = self.peers.get(peer as usize).filter(|_| has(&self.known, peer)) {
            // SYNC POINT: Relaxed: nothing is read by virtue of it, and who reads an old value sends as it would otherwise.
            // SAFETY: the pair is connected, so that its head is allocated; it is made of atomics.
            unsafe { (*state.from).awaited.0.store(awaits as u32, Ordering::Relaxed) };
            if awaits == Awaits::Nothing {
                // SAFETY: as above; no more than the address is formed.
                tocsin_sync::prefetch_for_read(unsafe { &raw const (*state.to).awaited });
            }
        }
    }

    /// See [`Transport::is_awaited_by`].
    #[inline]
    pub(super) fn looks_or_waits_for_this(&self, peer: u32) -> bool {
        match self.what_awaits_this(peer) {
            0 => false,
            word if word == Awaits::Soon as u32 => false,
            word => word == Awaits::Looking as u32 || self.is_waiting(peer),
        }
    }

    /// See [`Transport::is_awaited_soon`].
    #[inline]
    pub(super) fn will_wait_for_this(&self, peer: u32) -> bool {
        self.what_awaits_this(peer) == Awaits::Soon as u32
    }

    /// What the peer has said last, an [`Awaits`] if it is honest.
    #[inline]
    fn what_awaits_this(&self, peer: u32) -> u32 {
        let state = self.peers.get(peer as usize).filter(|_| has(&self.known, peer));
        // SYNC POINT: Relaxed, as above. A peer that lies has its own pool filled.
        // SAFETY: as above.
        state.map_or(0, |state| unsafe { (*state.to).awaited.0.load(Ordering::Relaxed) })
    }

    /// See [`Transport::may_send_long`].
    #[inline]
    pub(super) fn has_few_long_ones(&self, peer: u32) -> bool {
        let Some(state) = self.peers.get(peer as usize).filter(|_| has(&self.known, peer)) else {
            return false;
        };
        // SYNC POINT: Relaxed: nothing is read by virtue of it; an old value has the message announced. A peer that lies
        // has its own pool filled.
        // SAFETY: the pair is connected, so that its head is allocated; it is made of atomics.
        let done = unsafe { (*state.to).long_done.0.load(Ordering::Relaxed) };
        let under_way = state.long_sent.wrapping_sub(done);
        under_way == 0 || under_way < long_under_way(self.segment.ranks()) && self.is_waiting(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tests::world;

    #[test]
    fn who_waits_is_believed_while_it_is_seen_to() {
        let mut ends = world(2);
        ends[0].connect(1).unwrap();
        ends[1].begin_pass();
        let own = ends[1].own;
        for (awaits, idle, polling) in [
            (Awaits::Nothing, false, false),
            (Awaits::Looking, true, true),
            (Awaits::Waiting, false, true),
            (Awaits::Soon, false, false),
        ] {
            ends[1].await_coming(0, awaits);
            assert_eq!(ends[0].is_awaited_by(1), idle, "{awaits:?}");
            assert_eq!(ends[0].is_awaited_soon(1), awaits == Awaits::Soon);
            own.begin_poll();
            assert_eq!(ends[0].is_awaited_by(1), polling, "{awaits:?}");
            own.end_poll();
        }
        assert!(!ends[1].is_awaited_by(0) && !ends[1].is_awaited_soon(0));
    }

    #[test]
    fn more_long_messages_are_under_way_to_who_waits() {
        let mut ends = world(2);
        ends[0].connect(1).unwrap();
        ends[1].begin_pass();
        let own = ends[1].own;
        let under_way = |ends: &mut [ShmTransport]| {
            let mut count = 0;
            while ends[0].may_send_long(1) {
                ends[0].note_long_sent(1);
                count += 1;
            }
            for _ in 0..count {
                ends[1].note_long_done(0);
            }
            count
        };
        assert_eq!(under_way(&mut ends), 1);
        own.begin_poll();
        assert_eq!(under_way(&mut ends), long_under_way(2));
        own.end_poll();
        assert_eq!(under_way(&mut ends), 1);
    }
}
