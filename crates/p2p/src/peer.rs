//! What this rank keeps for each other rank.

use tocsin_progress::Code;

use crate::list::List;
use crate::publish::Published;
use crate::transfers::Records;

/// What became of a peer, and whether what it sent before has been taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Alive,
    /// It died; its lanes are not empty yet.
    Dying,
    /// It finalized; its lanes are not empty yet.
    Leaving,
    /// It died, and nothing of it is left.
    Dead,
    /// It finalized, and nothing of it is left.
    Finalized,
    /// It broke the protocol.
    Broken,
}

impl Fate {
    /// Why nothing more comes from it.
    #[inline]
    pub(crate) fn no_more_from(self) -> Option<Code> {
        match self {
            Fate::Alive | Fate::Dying | Fate::Leaving => None,
            Fate::Dead => Some(Code::PeerDead),
            Fate::Finalized => Some(Code::PeerFinalized),
            Fate::Broken => Some(Code::Protocol),
        }
    }

    /// Why nothing can be sent to it.
    #[inline]
    pub(crate) fn no_more_to(self) -> Option<Code> {
        match self {
            Fate::Alive => None,
            Fate::Dying | Fate::Dead => Some(Code::PeerDead),
            Fate::Leaving | Fate::Finalized => Some(Code::PeerFinalized),
            Fate::Broken => Some(Code::Protocol),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Peer {
    /// Sends whose first packet found the lane full, per class (Eager, Coll), in order.
    pub(crate) queues: [List; 2],
    /// Receives that owe an ACK or a CTS.
    pub(crate) control: List,
    /// Sends that have their CTS: served in turn.
    pub(crate) bulk: List,
    /// Contexts whose revocation it must be told. Handlers push within the capacity only.
    pub(crate) revokes: Vec<u32>,
    pub(crate) fate: Fate,
    /// Requests that it knows were broken off here: what it says of requests unknown here may be honest.
    pub(crate) stale: bool,
    /// It may give up a message that is all here: this rank pulled it before the sender had seen the CTS.
    pub(crate) may_abort_late: bool,
    /// The head of its lane waits for room among the unexpected messages, per class.
    pub(crate) blocked: [bool; 2],
    /// Whether what its lanes bring may be dropped, per class.
    pub(crate) drops: [Drops; 2],
    /// Lanes that this pass looks into: a bit per class.
    pub(crate) arrived: u8,
    /// Bytes already copied of the packet at the head of its bulk lane.
    pub(crate) partial: usize,
    /// Records of single copies to it.
    pub(crate) records: Records,
    /// The receive that is published for it.
    pub(crate) published: Published,
    /// It must be told to look at its transfers.
    pub(crate) owes_look: bool,
    pub(crate) connected: bool,
    pub(crate) bulk_connected: bool,
}

/// What becomes of messages that there is no room for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Drops {
    /// They stay in the lane.
    No,
    /// The first is dropped.
    Allowed,
    /// One was: so is all that comes after it, lest it overtakes.
    Begun,
}

impl Peer {
    /// Whether it has ended, and what it sent is not all taken in for want of room.
    pub(crate) fn is_end_blocked(&self) -> bool {
        matches!(self.fate, Fate::Dying | Fate::Leaving) && self.blocked != [false; 2]
    }

    pub(crate) fn new() -> Peer {
        Peer {
            queues: [List::EMPTY; 2],
            control: List::EMPTY,
            bulk: List::EMPTY,
            revokes: Vec::with_capacity(crate::faults::REVOKES),
            fate: Fate::Alive,
            stale: false,
            may_abort_late: false,
            blocked: [false; 2],
            drops: [Drops::No; 2],
            arrived: 0,
            partial: 0,
            records: Records::default(),
            published: Published::default(),
            owes_look: false,
            connected: false,
            bulk_connected: false,
        }
    }

    /// Whether nothing stands between its plain messages and their receives.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        let [drops, _] = self.drops;
        let [blocked, _] = self.blocked;
        self.fate != Fate::Broken && drops != Drops::Begun && !blocked
    }

    /// Whether something waits to be sent to it.
    #[inline]
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.control.is_empty()
            || !self.bulk.is_empty()
            || !self.revokes.is_empty()
            || self.owes_look
            || self.queues.iter().any(|queue| !queue.is_empty())
    }
}

/// A set of ranks: which peers have outgoing work.
#[derive(Debug)]
pub(crate) struct Ranks(Vec<u64>);

impl Ranks {
    pub(crate) fn new(size: u32) -> Ranks {
        Ranks(vec![0; (size as usize).div_ceil(64)])
    }

    #[inline]
    pub(crate) fn insert(&mut self, rank: u32) {
        if let Some(word) = self.0.get_mut(rank as usize / 64) {
            *word |= 1 << (rank % 64);
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, rank: u32) {
        if let Some(word) = self.0.get_mut(rank as usize / 64) {
            *word &= !(1 << (rank % 64));
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The first member that is at least `from`.
    #[inline]
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let start = from as usize / 64;
        for (number, word) in self.0.iter().enumerate().skip(start) {
            let word = if number == start { word & u64::MAX << (from % 64) } else { *word };
            if word != 0 {
                return Some(number as u32 * 64 + word.trailing_zeros());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_in_order() {
        let mut ranks = Ranks::new(200);
        assert_eq!(ranks.next(0), None);
        for rank in [0, 63, 64, 199] {
            ranks.insert(rank);
        }
        ranks.insert(1000);
        let mut all = Vec::new();
        let mut next = ranks.next(0);
        while let Some(rank) = next {
            all.push(rank);
            next = ranks.next(rank + 1);
        }
        assert_eq!(all, [0, 63, 64, 199]);
        ranks.remove(64);
        assert_eq!(ranks.next(64), Some(199));
        assert_eq!(ranks.next(200), None);
    }
}
