//! Messages whose payload their sender still copies: a thread that waits copies it out meanwhile.
//!
//! Both copies of an eager message are made at once then. For handlers, and for threads that only post something, such a message is
//! not there before it is whole.

use tocsin_progress::{Budget, Id};
use tocsin_sync::atomic::spin_loop;
use tocsin_sync::clock::now_ns;
use tocsin_transport::wire::STRIDE;
use tocsin_transport::{Arrival, Class, Packet, Recv, Transport, kind};

use crate::packets::{FLAG_LONG, Step};
use crate::pages::Piece;
use crate::unexpected::{self, Envelope};
use crate::ways::Copied;
use crate::{MutBuf, P2p, whole};

/// How long a receiver looks at a payload of which no more comes, in ns: more than what the bytes between two counts take, some times
/// [`STRIDE`] where they are streamed or there are many (16 KiB, 7 us where lines came slowest). The sender has been interrupted then, or the message comes whole: nothing but time depends on it.
const PATIENCE_NS: u64 = 10_000;

/// Copies an eager message as it comes. False: it has stopped coming, and the buffer holds some of it. Waits for [`PATIENCE_NS`] at
/// most for what is counted at once.
///
/// # Safety
/// The packet is the one at the head of that lane, which the transport lends now, and the buffer is writable as its layout says.
pub(crate) unsafe fn copy(
    transport: &impl Transport,
    source: u32,
    class: Class,
    packet: &Packet,
    buf: &MutBuf,
) -> bool {
    let mut done = 0;
    while done < packet.len {
        let Some(come) = more(transport, source, class, packet, done) else { return false };
        // SAFETY: done < come <= the packet's length; the caller vouches for the payload and for the buffer, inside which
        // `unpack` stays.
        unsafe { buf.unpack(done, come.wrapping_sub(done), packet.payload.add(done)) };
        done = come;
    }
    true
}

/// How many bytes there are of a payload that comes, once there are more than `done`. `None`: it has stopped coming. Waits for [`PATIENCE_NS`] at most.
fn more(
    transport: &impl Transport,
    source: u32,
    class: Class,
    packet: &Packet,
    done: usize,
) -> Option<usize> {
    let mut since = None;
    loop {
        let come = transport.come(source, class).min(packet.len as u64) as usize;
        // Less than an honest sender counts at once is no news, so that none can keep this rank for long.
        if come == packet.len || come.saturating_sub(done) >= STRIDE {
            return Some(come);
        }
        let now = now_ns();
        if now.wrapping_sub(*since.get_or_insert(now)) > PATIENCE_NS {
            return None;
        }
        spin_loop();
    }
}

#[inline]
pub(crate) fn bit(class: Class) -> u8 {
    1u8.wrapping_shl(class.index() as u32)
}

impl<T: Transport> P2p<T> {
    /// Whether a pass of a thread that waits may find a message that comes. Handler-safe; bounded by the number of ranks connected.
    #[inline]
    pub fn has_coming(&self) -> bool {
        self.transport.connected().iter().any(|peer| self.coming(*peer) != 0)
    }

    /// Lanes of a peer at whose head something comes: a bit per class.
    #[inline]
    pub(crate) fn coming(&self, peer: u32) -> u8 {
        let coming = self.transport.coming(peer);
        if coming == 0 {
            return 0;
        }
        self.peers.get(peer as usize).map_or(0, |state| coming & !state.stopped)
    }

    /// What comes at the head of a lane is waited for, until it is whole or a receive is posted for its sender.
    fn stop(&mut self, peer: u32, class: Class) {
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.stopped |= bit(class);
        }
    }

    /// Handles what comes at the head of a lane, if it meets a posted receive. User threads and progress threads that wait; copies at
    /// most one packet.
    #[inline(never)]
    pub(crate) fn step_coming(&mut self, peer: u32, class: Class, budget: &mut Budget) -> Step {
        if budget.is_in_passing()
            || class == Class::Control
            || self.transport.arrival(peer, class) != Arrival::Comes
            || self.coming(peer) & bit(class) == 0
        {
            return Step::Empty;
        }
        let packet = match self.transport.peek_coming(peer, class) {
            Recv::Packet(packet) => packet,
            Recv::Empty => return Step::Empty,
            Recv::Corrupt => {
                self.condemn(peer);
                return Step::Empty;
            }
        };
        if class == Class::Bulk {
            return self.step_coming_piece(peer, &packet, budget);
        }
        let header = &packet.header;
        let index = usize::from(class == Class::Coll);
        let brought = class == Class::Eager && whole::brings(&packet);
        let long = match header.flags {
            0 => false,
            FLAG_LONG if class == Class::Coll => true,
            _ if brought => false,
            _ => return Step::Empty,
        };
        // What is no plain message waits until it is whole, as does one that nobody has posted a receive for.
        // So does nonsense, which is found out then: a lane may hold more than travels eagerly.
        let plain = (header.kind == kind::EAGER && packet.len <= self.longest || brought)
            && header.a == packet.len as u64
            && !self.contexts.is_revoked(header.context)
            && self.peers.get(peer as usize).is_some_and(|p| p.is_open(index));
        let posted = self.matching.get(index).filter(|_| plain).map(|matching| &matching.posted);
        let found = posted.and_then(|p| p.find(&self.requests, header.context, peer, header.tag));
        // Of any source: if it stops coming, another's message may be met instead, around which nothing may be written.
        let exact = |id: &Id| self.requests.get(*id).is_some_and(|request| request.peer == peer);
        let Some(id) = found.filter(exact) else {
            self.stop(peer, class);
            return Step::Empty;
        };
        if packet.len > budget.bytes_left() || !budget.packet() {
            return Step::Spent;
        }
        let Some(buf) = self.requests.get(id).map(|request| request.target_buf()) else { return Step::Empty };
        if brought && packet.len > buf.layout.bytes() {
            self.stop(peer, class);
            return Step::Empty;
        }
        // SAFETY: it is the packet at the head of the lane; who posted the receive vouched for its buffer.
        if !unsafe { copy(&self.transport, peer, class, &packet, &buf) } {
            budget.in_vain();
            self.stop(peer, class);
            return Step::Empty;
        }
        let envelope = Envelope {
            context: header.context,
            source: peer,
            tag: header.tag,
            arrival: if brought { unexpected::Arrival::Synchronous } else { unexpected::Arrival::Eager },
            long,
            bytes: packet.len,
            remote: header.b,
            offer: None,
        };
        let copied = packet.len.min(buf.layout.bytes());
        self.unlink(id);
        self.count_copy(copied);
        budget.take_bytes(copied);
        self.done_with(&envelope);
        self.matched(id, &envelope);
        self.take(peer, class, &packet);
        Step::Taken
    }

    /// The same of a piece of a large message: what comes of it is copied as it comes, and the last of that with the packet, as the rest of any piece of which a part is taken.
    fn step_coming_piece(&mut self, peer: u32, packet: &Packet, budget: &mut Budget) -> Step {
        let partial = self.peers.get(peer as usize).map_or(0, |state| state.partial);
        // What no honest peer sends is found out when it is whole.
        let piece = Piece::of(packet).filter(|piece| !piece.piped);
        let Some(Ok(Some((id, begins)))) = piece.map(|piece| self.wanted(peer, packet, piece, partial))
        else {
            self.stop(peer, Class::Bulk);
            return Step::Empty;
        };
        let left = packet.len.saturating_sub(partial);
        if left > budget.bytes_left() || !budget.packet() {
            return Step::Spent;
        }
        let Some(request) = self.requests.get(id) else { return Step::Empty };
        let (buf, total) = (request.target_buf(), request.total);
        let traced = if self.trace.is_some() { now_ns() } else { 0 };
        let (mut done, mut times) = (partial, true);
        let whole = loop {
            match more(&self.transport, peer, Class::Bulk, packet, done) {
                None => break false,
                Some(come) if come >= packet.len => break true,
                Some(come) => {
                    let (at, len) =
                        (begins.wrapping_add(done.wrapping_sub(partial)), come.wrapping_sub(done));
                    let timed = if times { self.copy_begins() } else { 0 };
                    // SAFETY: partial <= done < come < packet.len, and what lies from `partial` on has room in the buffer from `begins` on, as `wanted` says; the
                    // transport vouches for `come` bytes of payload until the packet is consumed.
                    unsafe { buf.unpack(at, len, packet.payload.wrapping_add(done)) };
                    self.time_copy(timed, peer, total, Copied::Out, len);
                    (done, times) = (come, false);
                }
            }
        };
        let copied = done.wrapping_sub(partial);
        if let Some(request) = self.requests.get_mut(id) {
            request.done = request.done.wrapping_add(copied as u64);
        }
        self.set_partial(peer, done);
        self.count_copy(copied);
        if copied > 0 {
            self.trace_copied(traced, peer, copied);
        }
        budget.take_bytes(copied);
        if !whole {
            budget.in_vain();
            self.stop(peer, Class::Bulk);
            return Step::Empty;
        }
        // The packet stays, as a part of it is taken.
        Step::Taken
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tocsin_transport::loopback::{Limits, fabric_with};
    use tocsin_transport::{Header, SendOutcome, Urgency};

    use super::*;
    use crate::{Code, Config, Glance, RecvArgs};

    /// What a lane may hold and no honest peer sends so is nobody's message, however it comes and whoever waits.
    #[test]
    fn longer_than_eager_messages_are() {
        const LEN: usize = 9000;
        let text = [7u8; LEN];
        for (in_hand, coming) in [(false, None), (false, Some(0)), (true, None), (true, Some(0))] {
            let limits = Limits { packets: [4; 4], max_payload: [LEN, 300, 16, 4096] };
            let mut ends = fabric_with(2, limits).into_iter();
            let config = Config { eager_max: 1000, ..Config::default() };
            let mut victim = P2p::new(ends.next().unwrap(), config).unwrap();
            victim.longest = LEN - 1;
            let mut liar = ends.next().unwrap();
            liar.connect_bulk(0).unwrap();
            let mut send = |tag, len| {
                let header = Header { kind: kind::EAGER, tag, a: len as u64, ..Header::default() };
                // SAFETY: the text is as long.
                let sent =
                    unsafe { liar.try_send(0, Class::Eager, Urgency::Urgent, &header, text.as_ptr(), len) };
                assert_eq!(sent, SendOutcome::Sent);
            };
            send(1, 0);
            victim.progress(&mut Budget::user());
            let mut target = vec![0u8; LEN];
            let buf = MutBuf::contiguous(target.as_mut_ptr(), LEN);
            let args =
                RecvArgs { context: 0, source: Some(1), tag: Some(2), buf, class: Class::Eager, cookie: 0 };
            // SAFETY: the target outlives the victim's use of it.
            let begun = unsafe {
                match in_hand {
                    true => victim.take_in_hand(&args).unwrap(),
                    false => victim.irecv(args).is_ok(),
                }
            };
            assert!(begun);
            send(2, LEN);
            for coming in [coming, None] {
                victim.transport_mut().set_coming(coming);
                if in_hand {
                    assert!(victim.glance() != Glance::Over, "it is met");
                }
                victim.progress(&mut Budget::user());
            }
            assert!(victim.put_down().is_none());
            assert_eq!(victim.failed_peer(&[1]), Some((1, Code::Protocol)), "{in_hand}, {coming:?}");
            assert!(target.iter().all(|byte| *byte == 0), "{in_hand}, {coming:?}");
        }
    }
}
