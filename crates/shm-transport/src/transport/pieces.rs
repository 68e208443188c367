//! Long payloads, which lie in the pool, and the first of a message before there is leave to send it.

use tocsin_transport::{Class, Header, SendOutcome, Urgency};

use super::ShmTransport;
use super::known::has;
use super::peer::Honesty;
use crate::Life;
use crate::lane::{FEW_CELLS, LONGEST_IN_FEW, MOST_CELLS, POOLED, Piece, Push, SendPool, longest_whole};

impl ShmTransport {
    /// See [`Transport::prepare_long`](tocsin_transport::Transport::prepare_long).
    #[inline]
    pub(super) fn make_long_ready(&mut self, peer: u32, of: usize) {
        self.make_pool();
        let cells = if of as u64 <= LONGEST_IN_FEW { FEW_CELLS } else { MOST_CELLS };
        if self.peers.get(peer as usize).is_none_or(|state| state.cells_asked < cells) {
            self.make_cells(peer, cells);
        }
    }

    /// Has so many cells of a pair allocated.
    #[cold]
    fn make_cells(&mut self, peer: u32, cells: u32) {
        let rank = self.rank;
        let segment = self.segment.clone();
        let Some(state) = self.make_peer(peer) else { return };
        state.cells_asked = cells;
        // Without the memory, payloads go through the pool.
        let many = segment.allocate_cells(rank, peer, cells);
        let ready = many.or_else(|_| segment.allocate_cells(rank, peer, FEW_CELLS));
        state.shuttle.make_ready(ready.unwrap_or(0));
    }

    #[inline]
    fn make_pool(&mut self) {
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
    #[inline(never)]
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
        let comes = state.comes(class, len);
        let lane = state.send_lane(class);
        let Some(piece) = piece else {
            // SAFETY: the caller's promise.
            return unsafe { lane.try_push_as(header, payload, len, comes) };
        };
        // SAFETY: the caller's promise; the piece was just given, and is not lent.
        let push = unsafe { lane.try_push_pooled(header, payload, len, &piece, comes) };
        if push == Push::Sent {
            self.hand_over(&piece, peer, class, len);
        }
        push
    }

    /// A piece is the last packet's in a lane now.
    fn hand_over(&mut self, piece: &Piece, peer: u32, class: Class, len: usize) {
        let Some(state) = self.peers.get_mut(peer as usize) else { return };
        if piece.cells != 0 {
            state.shuttle.give(piece.cells);
            return;
        }
        let position = state.send_lane(class).position();
        state.borrowed.add(len);
        self.pool.lend(piece, peer, class as u8, position);
    }

    /// Room for a payload of a message of `of` bytes in cells that the peer's messages have come in, or in the pool.
    pub(super) fn room(&mut self, peer: u32, payload: *const u8, len: usize, of: u64) -> Option<Piece> {
        self.pool.forget_ahead();
        let (_, pool) = self.segment.pool(self.rank)?;
        if let Some(state) = self.peers.get_mut(peer as usize)
            && let Some(piece) = state.room_in_cells(payload, len, of, pool)
        {
            return Some(piece);
        }
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

    /// See [`Transport::longest_whole`](tocsin_transport::Transport::longest_whole).
    pub(super) fn longest_brought(&self) -> usize {
        let pool = u32::try_from(self.segment.geometry().pool_bytes()).unwrap_or(0);
        longest_whole(pool) as usize
    }

    /// See [`Transport::try_send_whole`](tocsin_transport::Transport::try_send_whole) and, in class Bulk,
    /// [`Transport::try_send_long_piece`](tocsin_transport::Transport::try_send_long_piece): a payload that lies in one piece, or is not sent.
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes.
    pub(super) unsafe fn push_whole(
        &mut self,
        peer: u32,
        (class, urgency): (Class, Urgency),
        header: &Header,
        payload: *const u8,
        len: usize,
        of: u64,
    ) -> bool {
        if !(POOLED..=self.longest_brought()).contains(&len) || self.lane_to(peer, class, header, 0).is_none()
        {
            return false;
        }
        let Some(piece) = self.room(peer, payload, len, of) else { return false };
        let Some(state) = self.peers.get_mut(peer as usize) else { return false };
        let comes = state.comes(class, len);
        // SAFETY: the pair is connected, so that the lane is allocated; the caller vouches for the payload; the piece was just given, and is not lent.
        let push = unsafe { state.send_lane(class).try_push_pooled(header, payload, len, &piece, comes) };
        if push != Push::Sent {
            return false;
        }
        self.hand_over(&piece, peer, class, len);
        self.pushed(peer, class, urgency, push) == SendOutcome::Sent
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
                    self.hand_over(&piece, peer, class, len);
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
    use tocsin_sync::atomic::{AtomicU64, Ordering};
    use tocsin_transport::{Recv, Transport, conformance, kind, wire};

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
            ends[0].prepare_long(1, 1024);
            for _ in 0..200 {
                assert!(copy_ahead(&mut ends[0], 1, of));
                send(&mut ends[0], 2, of, true);
                send(&mut ends[0], 3, of, true);
                assert_eq!([(); 3].map(|()| take(&mut ends[1])), [Some(1), Some(3), None]);
            }
        }
    }

    fn pair_with_cells() -> Vec<ShmTransport> {
        let mut ends = pair();
        ends[1].connect_bulk(0).unwrap();
        ends[0].begin_pass();
        ends[0].prepare_long(1, 1024);
        ends[1].prepare_long(0, 1024);
        ends
    }

    /// Where the payload lies that comes next.
    fn next_at(end: &mut ShmTransport, from: u32) -> *const u8 {
        let Recv::Packet(packet) = end.peek(from, Class::Eager) else { panic!("nothing is there") };
        packet.payload
    }

    #[test]
    fn an_answer_lies_where_its_message_lay() {
        let mut ends = pair_with_cells();
        for n in 0..300 {
            assert_eq!(conformance::send(&mut ends[0], 1, Class::Eager, n, LEN), SendOutcome::Sent);
            let there = next_at(&mut ends[1], 0);
            assert!(conformance::receive(&mut ends[1], 0, Class::Eager, n));
            assert_eq!(conformance::send(&mut ends[1], 0, Class::Eager, n, LEN), SendOutcome::Sent);
            assert_eq!(next_at(&mut ends[0], 1), there, "{n}");
            assert!(conformance::receive(&mut ends[0], 1, Class::Eager, n));
        }
    }

    /// One that is longer than what the class carries; where it lay.
    fn long_piece(ends: &mut [ShmTransport], from: u32, bytes: u8) -> Option<*const u8> {
        const LONG: usize = 128 << 10;
        let (payload, header) = (vec![bytes; LONG], Header { kind: kind::DATA, ..Header::default() });
        let [send, recv] = [from, 1 - from];
        // SAFETY: the payload is that long.
        let sent = unsafe {
            ends[send as usize].try_send_long_piece(recv, &header, payload.as_ptr(), LONG, 1 << 20)
        };
        let end = &mut ends[recv as usize];
        end.begin_pass();
        let Recv::Packet(packet) = end.peek(send, Class::Bulk) else {
            assert!(!sent);
            return None;
        };
        // SAFETY: the packet is not consumed yet, and nobody writes there.
        let there = unsafe { std::slice::from_raw_parts(packet.payload, packet.len) };
        assert!(sent && there == payload);
        end.consume(send, Class::Bulk);
        Some(packet.payload)
    }

    #[test]
    fn long_pieces_go_to_and_fro_in_cells_where_there_are_many() {
        for (of, in_cells) in [(1 << 20, true), (LONGEST_IN_FEW as usize, false)] {
            let mut ends = pair_with_cells();
            for (rank, end) in (0..).zip(&mut ends) {
                end.prepare_long(1 - rank, of);
            }
            let first = long_piece(&mut ends, 0, 1).unwrap();
            assert_eq!(long_piece(&mut ends, 1, 2) == Some(first), in_cells);
            assert_eq!(long_piece(&mut ends, 0, 3) == Some(first), in_cells);
        }
    }

    /// The first slot of a lane, of which a peer writes each word as it likes.
    fn first_slot(end: &ShmTransport, from: u32, to: u32, class: Class) -> &[AtomicU64; 8] {
        let place = end.segment().lane(from, to, class).unwrap();
        // SAFETY: the pair's lanes are allocated, and mapped as long as the endpoint lives.
        unsafe { &(*place.slots).0 }
    }

    #[test]
    fn what_comes_of_a_piece_is_seen_by_who_knows_the_lane() {
        let mut ends = world(2);
        ends[0].connect_bulk(1).unwrap();
        ends[0].prepare_long(1, 1 << 20);
        let (payload, header) = (vec![7u8; 100_000], Header { kind: kind::DATA, ..Header::default() });
        // SAFETY: the payload is that long.
        assert!(unsafe { ends[0].try_send_long_piece(1, &header, payload.as_ptr(), 100_000, 1 << 20) });
        let [.., come, _] = first_slot(&ends[0], 0, 1, Class::Bulk);
        come.store(4096, Ordering::Release);
        assert_eq!(ends[1].coming(0), 0, "it has not heard of the lane");
        ends[1].begin_pass();
        assert_eq!(ends[1].coming(0), 1 << Class::Bulk.index());
        assert!(matches!(ends[1].peek(0, Class::Bulk), Recv::Empty));
        assert!(matches!(ends[1].peek_coming(0, Class::Bulk), Recv::Packet(packet) if packet.len == 100_000));
        assert_eq!(ends[1].come(0, Class::Bulk), 4096);
        let [.., come, _] = first_slot(&ends[0], 0, 1, Class::Bulk);
        come.store(100_000, Ordering::Release);
        assert_eq!(ends[1].coming(0), 0);
        assert!(matches!(ends[1].peek(0, Class::Bulk), Recv::Packet(packet) if packet.len == 100_000));
    }

    /// A rank has no cells with itself, whatever stands in the lane.
    #[test]
    fn nothing_lies_in_cells_that_are_not_there() {
        for ranks in [1, 2, 17, 65] {
            let mut ends = world(ranks);
            ends[0].connect(0).unwrap();
            ends[0].begin_pass();
            let pool = u32::try_from(ends[0].segment().geometry().pool_bytes()).unwrap();
            let header = Header { kind: 1, ..Header::default() };
            let (meta, content) = wire::pack_pooled(&header, 2000, pool + 64, false);
            let [stamp, words @ ..] = first_slot(&ends[0], 0, 0, Class::Eager);
            for (word, value) in words.iter().zip(content) {
                word.store(value, Ordering::Relaxed);
            }
            stamp.store(1 | u64::from(meta) << 32, Ordering::Release);
            assert!(matches!(ends[0].peek(0, Class::Eager), Recv::Corrupt), "{ranks}");
        }
    }

    #[test]
    fn what_has_no_room_in_one_piece_is_not_sent() {
        let mut ends = pair();
        assert_eq!(long_piece(&mut ends, 0, 1), None, "there is no pool");
        ends[0].prepare_long(1, 1024);
        assert!(long_piece(&mut ends, 0, 2).is_some());
        let (payload, header) = (vec![0u8; 1 << 20], Header { kind: kind::DATA, ..Header::default() });
        // SAFETY: the payload is that long.
        assert!(!unsafe { ends[0].try_send_long_piece(1, &header, payload.as_ptr(), 1 << 20, 1 << 20) });
        let send =
            // SAFETY: none is longer than the payload.
            |ends: &mut [ShmTransport]| unsafe { ends[0].try_send_long_piece(1, &header, payload.as_ptr(), 128 << 10, 1 << 20) };
        let sent = (0..100).take_while(|_| send(&mut ends)).count();
        assert!((4..100).contains(&sent), "{sent} of them fill the pool");
        ends[1].begin_pass();
        for _ in 0..sent {
            assert!(matches!(ends[1].peek(0, Class::Bulk), Recv::Packet(_)));
            ends[1].consume(0, Class::Bulk);
        }
        assert!(send(&mut ends), "there is room again");
    }

    #[test]
    fn cells_that_do_not_come_back_leave_the_pool() {
        let mut ends = pair_with_cells();
        for n in 0..300 {
            assert_eq!(conformance::send(&mut ends[0], 1, Class::Eager, n, LEN), SendOutcome::Sent);
            assert!(conformance::receive(&mut ends[1], 0, Class::Eager, n));
        }
        let before = next_pool(&mut ends, 300);
        assert_ne!(next_pool(&mut ends, 301), before, "the pool goes round");
    }

    /// Sends one more, and says where it lay.
    fn next_pool(ends: &mut [ShmTransport], n: u64) -> *const u8 {
        assert_eq!(conformance::send(&mut ends[0], 1, Class::Eager, n, LEN), SendOutcome::Sent);
        let at = next_at(&mut ends[1], 0);
        assert!(conformance::receive(&mut ends[1], 0, Class::Eager, n));
        at
    }

    #[test]
    fn nobody_overwrites_what_lies_in_cells() {
        let mut ends = pair_with_cells();
        let mut random = conformance::Random::new(9);
        // Per way and class, what was sent and what was received.
        let mut counts = [[(0u64, 0u64); 2]; 2];
        for _ in 0..20_000 {
            let (from, index) = (random.below(2), random.below(2));
            let class = [Class::Eager, Class::Coll][index];
            let (sent, received) = &mut counts[from][index];
            if random.below(2) == 0 && *sent - *received < 6 {
                let len = [1024, 5000, 16 << 10, 20_000, LEN, 64 << 10][random.below(6)];
                match conformance::send(&mut ends[from], 1 - from as u32, class, *sent, len) {
                    SendOutcome::Sent => *sent += 1,
                    other => assert_eq!(other, SendOutcome::Full),
                }
            } else if *sent > *received {
                assert!(conformance::receive(&mut ends[1 - from], from as u32, class, *received));
                *received += 1;
            }
            if random.below(5) == 0 {
                let class = Class::Bulk;
                let outcome = conformance::send(&mut ends[from], 1 - from as u32, class, 7, LEN);
                assert_eq!(outcome, SendOutcome::Sent);
                assert!(conformance::receive(&mut ends[1 - from], from as u32, class, 7));
            }
        }
        assert!(counts.as_flattened().iter().all(|(sent, _)| *sent > 1000), "{counts:?}");
    }

    /// What has been taken counts no more, in whatever lengths it came: the older half of what a receiver has may be the larger one.
    #[test]
    fn who_has_taken_all_has_room() {
        // Of messages that have no cells, and whose pieces lie anywhere.
        let of = LONGEST_IN_FEW + 1;
        let mut ends = world(3);
        ends[0].connect_bulk(1).unwrap();
        ends[1].begin_pass();
        ends[0].prepare_long(1, 1024);
        let kib = |n: usize| n << 10;
        let most = ends[0].pool.most() as usize;
        assert_eq!(most, kib(1024), "what follows is made for");
        let (longest, header) = (vec![0u8; kib(64)], Header { kind: kind::DATA, ..Header::default() });
        let send = |ends: &mut [ShmTransport], lens: &[usize]| {
            for len in lens {
                assert!(ends[0].room(1, std::ptr::null(), *len, of).is_some(), "{len}");
                // SAFETY: none of them is longer.
                let outcome =
                    unsafe { ends[0].try_send_piece(1, &header, longest.as_ptr(), *len, of, false) };
                assert_eq!(outcome, SendOutcome::Sent);
            }
        };
        let take_all = |ends: &mut [ShmTransport]| {
            while matches!(ends[1].peek(0, Class::Bulk), Recv::Packet(_)) {
                ends[1].consume(0, Class::Bulk);
            }
        };
        let [short, almost, full] = [1, 63, 64].map(kib);
        // Less than half, and as much more as there may be.
        send(&mut ends, &[full, full, full, full, full, full, full, almost]);
        send(&mut ends, &[full, full, full, full, full, full, full, full, short]);
        take_all(&mut ends);
        send(&mut ends, &[full, full, full, full, full, full, full, almost]);
        take_all(&mut ends);
        send(&mut ends, &[short, short]);
    }

    #[test]
    fn what_was_copied_ahead_is_gone_when_something_else_is_sent() {
        let mut ends = pair();
        ends[0].prepare_long(1, 1024);
        for n in 0..200 {
            assert!(copy_ahead(&mut ends[0], 1, 0));
            assert_eq!(conformance::send(&mut ends[0], 1, Class::Eager, n, 2000), SendOutcome::Sent);
            send(&mut ends[0], 2, 0, true);
            assert!(conformance::receive(&mut ends[1], 0, Class::Eager, n));
            assert_eq!(take(&mut ends[1]), Some(2));
        }
    }
}
