//! Pairs: their memory, and who learns of it.

use tocsin_sync::atomic::Ordering;
use tocsin_transport::Error as TransportError;

use super::ShmTransport;
use super::known::{has, list, update};
use super::peer::Peer;
use crate::segment::set_bit;

impl ShmTransport {
    /// Learns who has connected. Bits beyond the number of ranks are nonsense and left out.
    pub(super) fn learn(&mut self) {
        let Some(block) = self.segment.block(self.rank) else { return };
        let size = self.segment.ranks();
        let new = update(&mut self.known, &block.incoming, size);
        update(&mut self.known_bulk, &block.bulk, size);
        if new {
            self.connected_len = list(&self.known, &mut self.connected);
            for i in 0..self.connected_len {
                let Some(peer) = self.connected.get(i).copied() else { break };
                let _made = self.make_peer(peer);
            }
        }
    }

    /// What is kept of a peer, from now on. Handler-safe.
    pub(super) fn make_peer(&mut self, peer: u32) -> Option<&mut Peer> {
        let (segment, rank) = (&self.segment, self.rank);
        // SAFETY: the rank was not taken before this endpoint, and a peer is made once: its ends of the lanes are at
        // their beginning and this endpoint's alone. The segment outlives the endpoint.
        self.peers.get_or_make(peer as usize, || unsafe { Peer::new(segment, rank, peer) })
    }

    /// Whether the records of a pair are allocated.
    #[inline]
    pub(super) fn has_records(&self, from: u32, to: u32) -> bool {
        if from == self.rank {
            return self.peers.get(to as usize).is_some_and(|peer| peer.bulk);
        }
        // The bit itself rather than what was learnt of it: an announcement may be newer than the last pass.
        let block = self.segment.block(self.rank).filter(|_| to == self.rank && from < self.segment.ranks());
        let word = block.and_then(|block| block.bulk.get(from as usize / 64));
        // SYNC POINT: Acquire pairs with `set_bit`: the records are allocated.
        word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (from % 64)) != 0)
    }

    fn no_memory(&self, peer: u32, (bytes, source): (u64, std::io::Error)) -> TransportError {
        TransportError::NoMemory { rank: self.rank, peer, bytes, source }
    }

    /// See [`Transport::connect`](tocsin_transport::Transport::connect).
    #[inline]
    pub(super) fn connect_pair(&mut self, peer: u32) -> Result<(), TransportError> {
        self.learn();
        if has(&self.known, peer) {
            return Ok(());
        }
        let segment = self.segment.clone();
        let size = segment.ranks();
        let (Some(mine), Some(theirs)) = (segment.block(self.rank), segment.block(peer)) else {
            return Err(TransportError::NoSuchRank { peer, size });
        };
        segment.allocate_pair(self.rank, peer).map_err(|e| self.no_memory(peer, e))?;
        // Only now may anybody touch the pair's lanes.
        set_bit(&theirs.incoming, self.rank);
        set_bit(&mine.incoming, peer);
        self.learn();
        Ok(())
    }

    /// See [`Transport::connect_bulk`](tocsin_transport::Transport::connect_bulk).
    #[inline]
    pub(super) fn connect_bulk_lane(&mut self, peer: u32) -> Result<(), TransportError> {
        self.connect_pair(peer)?;
        let segment = self.segment.clone();
        let size = segment.ranks();
        let (Some(state), Some(theirs)) = (self.peers.get_mut(peer as usize), segment.block(peer)) else {
            return Err(TransportError::NoSuchRank { peer, size });
        };
        if state.bulk {
            return Ok(());
        }
        segment.allocate_bulk(self.rank, peer).map_err(|(bytes, source)| TransportError::NoMemory {
            rank: self.rank,
            peer,
            bytes,
            source,
        })?;
        state.bulk = true;
        set_bit(&theirs.bulk, self.rank);
        self.learn();
        Ok(())
    }
}
