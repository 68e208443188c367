//! Short plain messages for receives that are posted, or that none is posted for: most of all there are.
//!
//! What [`message`](P2p::message) does with one of them takes many steps, each of which asks what else it may be, and looks peer and
//! request up anew. Of these none is announced, published, truncated or answered, so that one look at each will do.

use tocsin_progress::{Budget, Code, Outcome};
use tocsin_transport::{Class, Packet, Transport, kind, short};

use crate::coming;
use crate::in_hand::Hand;
use crate::peer::{Drops, Fate};
use crate::request::{DETACHED, Member, State, WANTS};
use crate::{Layout, P2p};

impl<T: Transport> P2p<T> {
    /// Takes in the packet at the head of a lane if it is a short plain message that a posted receive has room for; the packet is
    /// to be consumed then. False: nothing was done. Handler-safe; copies at most what is short ([`Config::eager_max`](crate::Config::eager_max)).
    #[inline]
    pub(crate) fn meet_short(
        &mut self,
        peer: u32,
        class: Class,
        packet: &Packet,
        budget: &mut Budget,
    ) -> bool {
        let (header, len) = (&packet.header, packet.len);
        let plain = class == Class::Eager;
        let index = usize::from(!plain);
        let is_short = header.kind == kind::EAGER
            && header.flags == 0
            && header.a == len as u64
            && len <= budget.bytes_left()
            && !self.contexts.is_revoked(header.context);
        let (Some(matching), true) = (self.matching.get_mut(index), is_short) else { return false };
        let Some(id) = matching.posted.find(&self.requests, header.context, peer, header.tag) else {
            return false;
        };
        let Some(sender) = self.peers.get_mut(peer as usize) else { return false };
        if sender.fate == Fate::Broken || sender.drops.get(index) == Some(&Drops::Begun) {
            return false;
        }
        let Some((request, completion)) = self.requests.both_mut(id) else { return false };
        let [too_short, _] = self.eager_max;
        let Layout::Contiguous { bytes: room } = request.layout else { return false };
        // A receive with more room may be published, or awaited.
        if len > room || room > too_short {
            return false;
        }
        // SAFETY: who posted the receive vouched for its buffer, which has room; the transport for the payload.
        unsafe { short::copy(packet.payload, request.base, len) };
        let outcome = Outcome { code: Code::Ok, source: peer, tag: header.tag, bytes: len as u64, detail: 0 };
        completion.finish(outcome);
        request.state = State::Done;
        let (flags, cookie, named) = (request.flags, request.cookie, request.peer == peer);
        request.flags = flags & !WANTS;
        // From here on the completion may be seen, but nobody gives the slot back before the token is free.
        matching.posted.remove(&mut self.requests, id);
        if flags & WANTS != 0 {
            self.wants = self.wants.saturating_sub(1);
        }
        self.receives = self.receives.saturating_sub(1);
        sender.stopped &= !coming::bit(class);
        if plain && named {
            sender.published.posted = sender.published.posted.saturating_sub(1);
        }
        if flags & DETACHED != 0 {
            self.requests.free(id);
        } else if cookie != 0 {
            if let Some(request) = self.requests.get_mut(id) {
                request.member = Member::Completed;
            }
            self.completed.push(&mut self.requests, 0, id);
        }
        self.count_copy(len);
        budget.take_bytes(len);
        true
    }

    /// Keeps the packet at the head of a lane, for which [`meet_short`](Self::meet_short) found no receive, if it is a plain message that no receive that is posted
    /// or in hand may be for; it is to be consumed then. False: nothing was done. Handler-safe; bounded by its length.
    #[inline]
    pub(crate) fn keep_plain(
        &mut self,
        peer: u32,
        class: Class,
        packet: &Packet,
        budget: &mut Budget,
    ) -> bool {
        let (header, len) = (&packet.header, packet.len);
        let is_short = class == Class::Eager
            && header.kind == kind::EAGER
            && header.flags == 0
            && header.a == len as u64
            && len <= budget.bytes_left().min(self.longest)
            && !self.contexts.is_revoked(header.context)
            && !self.is_for_nobody(0, header.context)
            && !matches!(&self.hand, Hand::Waiting(hand) if hand.meets(header.context, peer, header.tag));
        let Some(sender) = self.peers.get_mut(peer as usize) else { return false };
        let open = sender.fate != Fate::Broken && sender.drops.first() != Some(&Drops::Begun);
        let [plain, _] = &mut self.matching;
        if !is_short || !open || plain.posted.find(&self.requests, header.context, peer, header.tag).is_some()
        {
            return false;
        }
        // SAFETY: the transport vouches for the payload until it is consumed.
        let kept =
            unsafe { plain.unexpected.keep_plain(header.context, peer, header.tag, packet.payload, len) };
        if kept {
            sender.stopped &= !coming::bit(class);
            self.count_copy(len);
            budget.take_bytes(len);
        }
        kept
    }
}
