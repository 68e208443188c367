//! What this rank keeps for each other rank.

use tocsin_progress::Code;
use tocsin_sync::sparse::Sparse;

use crate::Error;
use crate::list::List;
use crate::offers::Records;
use crate::publish::Published;
use crate::revoked::REVOKES;
use crate::unsaid::Unsaid;

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
    const ALL: [Fate; 6] =
        [Fate::Alive, Fate::Dying, Fate::Leaving, Fate::Dead, Fate::Finalized, Fate::Broken];

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
    /// Bytes that have been sent to it in pieces.
    pub(crate) pieces_sent: u64,
    /// Contexts whose revocation it must be told.
    pub(crate) revokes: Revokes,
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
    /// Lanes at whose head a payload has stopped coming, which is waited for: a bit per class.
    pub(crate) stopped: u8,
    /// Bytes already copied of the packet at the head of its bulk lane.
    pub(crate) partial: usize,
    /// Bytes already taken in of the packet of several messages at the head of its Eager lane.
    pub(crate) opened: usize,
    /// Records of single copies to it.
    pub(crate) records: Records,
    /// The receive that is published for it.
    pub(crate) published: Published,
    /// Posted receives of which it was told that they are [waited for soon](crate::P2p::await_soon).
    pub(crate) soon: u32,
    /// Of receives up to this one in sequence it was told that they are not.
    pub(crate) soon_after: u64,
    /// Messages put into its lanes and taken from them, as far as they are recorded: plain ones, those of collectives.
    pub(crate) recorded: [[u32; 2]; 2],
    /// It must be told to look at its transfers.
    pub(crate) owes_look: bool,
    /// What it must be told of single messages.
    pub(crate) unsaid: Unsaid,
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

    fn new(fate: Fate) -> Peer {
        Peer {
            queues: [List::EMPTY; 2],
            control: List::EMPTY,
            bulk: List::EMPTY,
            pieces_sent: 0,
            revokes: Revokes::default(),
            fate,
            stale: false,
            may_abort_late: false,
            blocked: [false; 2],
            drops: [Drops::No; 2],
            arrived: 0,
            stopped: 0,
            partial: 0,
            opened: 0,
            records: Records::default(),
            published: Published::default(),
            soon: 0,
            soon_after: 0,
            recorded: [[0; 2]; 2],
            owes_look: false,
            unsaid: Unsaid::default(),
            connected: false,
            bulk_connected: false,
        }
    }

    /// Whether nothing stands between its messages of one kind, 0 for plain ones, and their receives.
    #[inline]
    pub(crate) fn is_open(&self, kind: usize) -> bool {
        let dropped = self.drops.get(kind) == Some(&Drops::Begun);
        self.fate != Fate::Broken && !dropped && self.blocked.get(kind) == Some(&false)
    }

    /// Whether something waits to be sent to it.
    #[inline]
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.control.is_empty()
            || !self.bulk.is_empty()
            || !self.revokes.is_empty()
            || self.owes_look
            || !self.unsaid.is_empty()
            || self.queues.iter().any(|queue| !queue.is_empty())
    }
}

/// What this rank keeps for all others: nothing, for those that it has nothing to do with.
///
/// Those look like a peer of their fate for which nothing else was ever done. Handler-safe but for the constructor.
#[derive(Debug)]
pub(crate) struct Peers {
    made: Sparse<Peer>,
    /// One of each fate.
    blanks: [Peer; Fate::ALL.len()],
    /// What became of those that are not made, but live no longer.
    fates: Sparse<Fate>,
}

impl Peers {
    pub(crate) fn new(size: u32) -> Result<Peers, Error> {
        let refused = |_| Error::OutOfMemory { what: "what is kept for each peer" };
        Ok(Peers {
            made: Sparse::new(size as usize).map_err(refused)?,
            blanks: Fate::ALL.map(Peer::new),
            fates: Sparse::new(size as usize).map_err(refused)?,
        })
    }

    #[inline]
    pub(crate) fn get(&self, rank: usize) -> Option<&Peer> {
        self.made.get(rank).or_else(|| self.blank(rank))
    }

    #[cold]
    fn blank(&self, rank: usize) -> Option<&Peer> {
        let fate = self.fate_of_blank(rank)?;
        self.blanks.get(fate as usize)
    }

    /// What became of one that is not made. `None` beyond the end.
    fn fate_of_blank(&self, rank: usize) -> Option<Fate> {
        let ended = self.fates.get(rank).copied();
        (rank < self.fates.len()).then_some(ended.unwrap_or(Fate::Alive))
    }

    /// One that is made.
    #[inline(always)]
    pub(crate) fn made(&self, rank: usize) -> Option<&Peer> {
        self.made.get(rank)
    }

    /// To change one that is made.
    #[inline(always)]
    pub(crate) fn made_mut(&mut self, rank: usize) -> Option<&mut Peer> {
        self.made.get_mut(rank)
    }

    /// To change it: from then on it is made.
    #[inline]
    pub(crate) fn get_mut(&mut self, rank: usize) -> Option<&mut Peer> {
        let fates = &self.fates;
        self.made.get_or_make(rank, || Some(Peer::new(fates.get(rank).copied().unwrap_or(Fate::Alive))))
    }

    pub(crate) fn set_fate(&mut self, rank: usize, fate: Fate) {
        if let Some(peer) = self.made.get_mut(rank) {
            peer.fate = fate;
        } else if let Some(blank) = self.fates.get_or_make(rank, || Some(fate)) {
            *blank = fate;
        }
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        (0..self.fates.len()).filter_map(|rank| self.get(rank))
    }
}

/// Revocations that a peer must be told.
#[derive(Debug, Default)]
pub(crate) struct Revokes {
    few: [u32; REVOKES],
    used: usize,
    /// Of user threads, when there are more.
    more: Vec<u32>,
}

impl Revokes {
    pub(crate) fn len(&self) -> usize {
        self.used.wrapping_add(self.more.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0 && self.more.is_empty()
    }

    pub(crate) fn contains(&self, context: u32) -> bool {
        self.few.iter().take(self.used).chain(&self.more).any(|other| *other == context)
    }

    /// Keeps one more, if there is room. Handler-safe.
    pub(crate) fn try_push(&mut self, context: u32) -> bool {
        let Some(place) = self.few.get_mut(self.used) else { return false };
        *place = context;
        self.used = self.used.wrapping_add(1);
        true
    }

    /// Keeps one more, unless memory is refused. User threads only.
    pub(crate) fn push(&mut self, context: u32) -> bool {
        if self.try_push(context) {
            return true;
        }
        let room = self.more.try_reserve(1).is_ok();
        if room {
            self.more.push(context);
        }
        room
    }

    pub(crate) fn last(&self) -> Option<u32> {
        let before = || self.few.get(self.used.checked_sub(1)?).copied();
        self.more.last().copied().or_else(before)
    }

    pub(crate) fn pop(&mut self) {
        if self.more.pop().is_none() {
            self.used = self.used.saturating_sub(1);
        }
    }

    /// Handler-safe: what was allocated stays.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.more.clear();
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
    fn fates_are_numbers_of_blanks() {
        for (number, fate) in Fate::ALL.into_iter().enumerate() {
            assert_eq!(fate as usize, number);
        }
    }

    #[test]
    fn who_is_not_made_has_its_fate() {
        let mut peers = Peers::new(100).unwrap();
        peers.get_mut(3).unwrap().partial = 9;
        peers.set_fate(3, Fate::Dying);
        // What is told later counts, of one that is not made as of one that is.
        peers.set_fate(4, Fate::Dying);
        peers.set_fate(4, Fate::Dead);
        peers.set_fate(100, Fate::Dead);
        assert_eq!((peers.get(3).unwrap().fate, peers.get(4).unwrap().fate), (Fate::Dying, Fate::Dead));
        assert_eq!(peers.made.iter().map(|(rank, _)| rank).collect::<Vec<_>>(), [3]);
        let made = peers.get_mut(4).unwrap();
        assert_eq!((made.fate, made.partial), (Fate::Dead, 0));
        assert_eq!(peers.get(3).unwrap().partial, 9);
        assert!(peers.get(100).is_none() && peers.get_mut(100).is_none());
    }

    #[test]
    fn revocations_beyond_what_handlers_have_room_for() {
        let mut revokes = Revokes::default();
        assert!((0..40).all(|context| revokes.push(context)));
        assert!(!revokes.try_push(40) && revokes.contains(39) && revokes.contains(0));
        for context in (0..40).rev() {
            assert_eq!((revokes.last(), revokes.len()), (Some(context), context as usize + 1));
            revokes.pop();
        }
        assert!(revokes.is_empty() && revokes.last().is_none());
        assert!((0..REVOKES as u32).all(|context| revokes.try_push(context)));
        revokes.clear();
        assert!(revokes.is_empty() && !revokes.contains(0));
    }

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
