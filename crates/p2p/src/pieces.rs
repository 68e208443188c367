//! Large messages of collectives in pieces, to and from ranks that wait: what is under way, for those who stay as long as it moves.

use tocsin_progress::{Context, Id};
use tocsin_transport::{Class, Transport};

use crate::P2p;
use crate::request::{ONCE, Request, State};

/// Receives that ask for pieces at a time, of which is kept that they do.
const MOST: usize = 8;

/// Who stays, and for what.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Threads that stay after what they have posted.
    staying: u32,
    /// Receives that have asked for pieces, the last ones; those that are over, too.
    asked: [Option<Id>; MOST],
    next: usize,
}

impl Pieces {
    /// Whether a thread stays.
    #[inline]
    pub(crate) fn somebody_stays(&self) -> bool {
        self.staying > 0
    }

    /// A receive asks for pieces. Handler-safe.
    pub(crate) fn ask(&mut self, id: Id) {
        let at = self.next;
        if let Some(place) = self.asked.get_mut(at) {
            *place = Some(id);
        }
        self.next = at.wrapping_add(1).checked_rem(MOST).unwrap_or(0);
    }
}

impl<T: Transport> P2p<T> {
    /// Says that the user's thread that posts next [stays](Self::has_pieces) where a peer waits for it, until [`end_stay`](Self::end_stay): one
    /// for each. Of several threads each may.
    #[inline]
    pub fn begin_stay(&mut self) {
        if !self.pieces.somebody_stays() {
            self.pieces = Pieces::default();
        }
        self.pieces.staying = self.pieces.staying.wrapping_add(1);
    }

    /// The thread does not stay any more. The others do, and none is [expected to wait](Self::set_waits_soon).
    #[inline]
    pub fn end_stay(&mut self) {
        self.pieces.staying = self.pieces.staying.saturating_sub(1);
        self.waits_soon = false;
    }

    /// Whether large messages of collectives are under way in pieces, between this rank and one that waits.
    pub fn has_pieces(&self) -> bool {
        self.pieces_asked().next().is_some()
            || self.committed().any(|peer| self.peers.get(peer as usize).is_some_and(|p| !p.bulk.is_empty()))
    }

    /// How much of them has moved, bytes: whatever else comes and goes, it does not change when they stand still. It changes, to
    /// whatever it may be, when one of them is over.
    pub fn pieces_moved(&self) -> u64 {
        let received = self.pieces_asked().map(|request| request.done).fold(0, u64::wrapping_add);
        let sent = |peer| self.peers.get(peer as usize).map_or(0, |p| p.pieces_sent);
        self.committed().map(sent).fold(received, u64::wrapping_add)
    }

    /// The receives that have asked for pieces and get them.
    fn pieces_asked(&self) -> impl Iterator<Item = &Request> {
        let requests = self.pieces.asked.iter().flatten().filter_map(|id| self.requests.get(*id));
        requests.filter(|request| request.state == State::RecvData)
    }

    /// Peers that wait for collectives.
    fn committed(&self) -> impl Iterator<Item = u32> {
        self.transport.connected().iter().copied().filter(|peer| self.transport.is_committed(*peer))
    }

    /// Whether a message of a collective that this rank pulls had better come in pieces after all, because threads of both wait by now. Asked
    /// while little of it is copied.
    pub(crate) fn is_better_in_pieces(&mut self, id: Id) -> bool {
        if !self.may_go_in_pieces(id) {
            return false;
        }
        let Some((peer, total)) = self.requests.get(id).map(|r| (r.peer, r.total)) else { return false };
        let twice = self.ways.goes_twice(id, [self.me, peer], Class::Coll, total);
        if let Some(request) = self.requests.get_mut(id).filter(|_| !twice) {
            request.flags |= ONCE;
        }
        twice
    }

    fn may_go_in_pieces(&self, id: Id) -> bool {
        self.pipelines
            // Who stays and may compute then keeps a core from others, for pieces of one that may not have any.
            && (self.waits_for(Class::Coll)
                || self.pieces.somebody_stays() && self.context == Context::User && !self.ways.is_crowded())
            && self.requests.get(id).is_some_and(|request| {
                request.class == Class::Coll
                    && !request.has(ONCE)
                    && request.reach.is_by_kernel()
                    && request.total >= self.pieces_from
                    && self.transport.is_committed(request.peer)
            })
    }
}
