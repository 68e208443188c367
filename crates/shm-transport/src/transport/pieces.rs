//! Long payloads, which lie in the pool, and the first of a message before there is leave to send it.

use tocsin_transport::{Class, Header, SendOutcome, Urgency};

use super::ShmTransport;
use super::known::has;
use super::peer::Honesty;
use crate::Life;
use crate::lane::{POOLED, Piece, Push, SendPool};

impl ShmTransport {
    /// See [`Transport::prepare_long`](tocsin_transport::Transport::prepare_long).
    #[inline]
    pub(super) fn make_pool(&mut self) {
        if self.pool_asked {
            return;
        }
        self.pool_asked = true;
        // Without the memory, payloads go through the lanes' own rings.
        if self.segment.allocate_pool(self.rank).is_ok()
            && let Some((base, bytes)) = self.segment.pool(self.rank)
        {
            // SAFETY: the pool is this rank's, of which there is one endpoint; it is allocated now, and mapped as long as the segment,
            // which outlives the endpoint. It begins with a page.
            self.pool = unsafe { SendPool::new(base, bytes) }.unwrap_or_else(SendPool::none);
        }
    }

    /// Pushes a long payload, of a message of `of` bytes: into the pool, or, if that has no room, into the lane's ring.
    ///
    /// # Safety
    /// The peer is connected; `payload` is readable for `len` bytes, which the class carries.
    #[cold]
    pub(super) unsafe fn try_push_long(
        &mut self,
        peer: u32,
        class: Class,
        header: &Header,
        payload: *const u8,
        len: usize,
        of: u64,
    ) -> Push {
        let piece = self.room(peer, payload, len, of);
        let Some(state) = self.peers.get_mut(peer as usize) else { return Push::Corrupt };
        let lane = state.send_lane(class);
        let Some(piece) = piece else {
            // SAFETY: the caller's promise.
            return unsafe { lane.try_push(header, payload, len) };
        };
        // SAFETY: the caller's promise; the piece was just given, and is not lent.
        let push = unsafe { lane.try_push_pooled(header, payload, len, &piece) };
        if push == Push::Sent {
            let position = lane.position();
            self.pool.lend(&piece, peer, class as u8, position);
            state.borrowed.add(len);
        }
        push
    }

    /// Room for a payload of a message of `of` bytes in the pool, unless its receiver keeps its share of that already.
    pub(super) fn room(&mut self, peer: u32, payload: *const u8, len: usize, of: u64) -> Option<Piece> {
        // Of two ranks neither takes room from others.
        if self.segment.ranks() > 2 {
            let most = self.pool.most();
            let state = self.peers.get_mut(peer as usize).filter(|_| has(&self.known, peer))?;
            state.may_borrow(len, most).then_some(())?;
        }
        let (segment, peers) = (&self.segment, &self.peers);
        self.pool.room(payload, len, of, peer, |lent| {
            // Nobody reads on behalf of a rank that has ended, nor is it told anything more whose peer writes nonsense.
            let gone = || matches!(segment.life(lent.peer), Life::Finalized | Life::Dead);
            peers
                .get(lent.peer as usize)
                .is_none_or(|state| state.honesty != Honesty::Honest || state.has_taken(lent) || gone())
        })
    }

    /// See [`Transport::copy_ahead`](tocsin_transport::Transport::copy_ahead).
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes.
    pub(super) unsafe fn put_ahead(&mut self, peer: u32, payload: *const u8, len: usize, of: u64) -> bool {
        if !(POOLED..=self.capabilities.max_payload(Class::Bulk)).contains(&len) {
            return false;
        }
        let Some(piece) = self.room(peer, payload, len, of) else { return false };
        let Some(state) = self.peers.get_mut(peer as usize).filter(|state| state.bulk) else { return false };
        // SAFETY: the lane is allocated, because Bulk to this peer is; the caller vouches for the payload; the piece was just given, and is not lent.
        unsafe { state.send_lane(Class::Bulk).copy_ahead(payload, len, &piece) };
        self.pool.keep_ahead(piece, len);
        true
    }

    /// See [`Transport::try_send_piece`](tocsin_transport::Transport::try_send_piece).
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes.
    pub(super) unsafe fn push_piece(
        &mut self,
        peer: u32,
        header: &Header,
        payload: *const u8,
        len: usize,
        of: u64,
        ahead: bool,
    ) -> SendOutcome {
        let class = Class::Bulk;
        let piece = if ahead { self.pool.take_ahead(len) } else { None };
        let Some(state) = self.lane_to(peer, class, header, len) else { return SendOutcome::Gone };
        let lane = state.send_lane(class);
        let push = match piece {
            Some(piece) => {
                let push = lane.try_push_ahead(header, len, &piece);
                if push == Push::Sent {
                    let position = lane.position();
                    state.borrowed.add(len);
                    self.pool.lend(&piece, peer, class as u8, position);
                }
                push
            }
            // SAFETY: Bulk to the peer is allocated, and the length was checked; the caller vouches for the payload.
            None if len >= POOLED => unsafe { self.try_push_long(peer, class, header, payload, len, of) },
            // SAFETY: the same.
            None => unsafe { lane.try_push(header, payload, len) },
        };
        self.pushed(peer, class, Urgency::Urgent, push)
    }
}

#[cfg(test)]
mod tests {
    use tocsin_transport::{Recv, Transport, conformance, kind};

    use super::*;
    use crate::transport::tests::world;

    const LEN: usize = 33_000;

    /// Sends a piece of such bytes, of a message of `of` bytes; of others, if they were copied ahead.
    fn send(end: &mut ShmTransport, bytes: u8, of: u64, ahead: bool) {
        let (payload, header) = (vec![bytes; LEN], Header { kind: kind::DATA, ..Header::default() });
        // SAFETY: the payload is that long.
        let outcome = unsafe { end.try_send_piece(1, &header, payload.as_ptr(), LEN, of, ahead) };
        assert_eq!(outcome, SendOutcome::Sent);
    }

    fn copy_ahead(end: &mut ShmTransport, bytes: u8, of: u64) -> bool {
        let payload = vec![bytes; LEN];
        // SAFETY: the payload is that long.
        unsafe { end.copy_ahead(1, payload.as_ptr(), LEN, of) }
    }

    /// What rank 1 finds: the byte of which all of the piece is.
    fn take(end: &mut ShmTransport) -> Option<u8> {
        let Recv::Packet(packet) = end.peek(0, Class::Bulk) else { return None };
        // SAFETY: the packet is not consumed yet, and nobody writes there.
        let bytes = unsafe { std::slice::from_raw_parts(packet.payload, packet.len) };
        let first =
            bytes.first().copied().filter(|first| bytes.len() == LEN && bytes.iter().all(|b| b == first));
        end.consume(0, Class::Bulk);
        first
    }

    fn pair() -> Vec<ShmTransport> {
        let mut ends = world(2);
        ends[0].connect_bulk(1).unwrap();
        ends[1].begin_pass();
        ends
    }

    #[test]
    fn a_piece_is_sent_as_it_was_copied_ahead() {
        for of in [LEN as u64, 1 << 30] {
            let mut ends = pair();
            assert!(!copy_ahead(&mut ends[0], 1, of), "there is no pool");
            ends[0].prepare_long();
            for _ in 0..200 {
                assert!(copy_ahead(&mut ends[0], 1, of));
                send(&mut ends[0], 2, of, true);
                send(&mut ends[0], 3, of, true);
                assert_eq!([(); 3].map(|()| take(&mut ends[1])), [Some(1), Some(3), None]);
            }
        }
    }

    #[test]
    fn what_was_copied_ahead_is_gone_when_something_else_is_sent() {
        let mut ends = pair();
        ends[0].prepare_long();
        for n in 0..200 {
            assert!(copy_ahead(&mut ends[0], 1, 0));
            assert_eq!(conformance::send(&mut ends[0], 1, Class::Eager, n, 2000), SendOutcome::Sent);
            send(&mut ends[0], 2, 0, true);
            assert!(conformance::receive(&mut ends[1], 0, Class::Eager, n));
            assert_eq!(take(&mut ends[1]), Some(2));
        }
    }
}
