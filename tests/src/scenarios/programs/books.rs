//! What a rank has sent and received in a round, against the plan.

use std::collections::HashMap;
use std::sync::Arc;

use tocsin_sync::atomic::Ordering;
use tocsin_sync::atomic::real::AtomicU64;
use tocsin_world::{Comm, ConstBuf, Error, MutBuf, RawRequest, Status};

use super::pending::{self, Pending, Thing};
use super::plan::{Message, Round};
use crate::memory::Buffer;
use crate::random::Random;
use crate::scenarios::collectives::check;
use crate::scenarios::messages::Way;

/// What nobody has written.
const BLANK: u8 = 0xa5;

/// Bytes that hold the number of their message.
const NUMBER: usize = 8;

/// A receive, in the order of posting.
struct Receive {
    /// The message of the plan for which it was posted; it may get another one.
    which: usize,
    /// What it got; none while it is under way, and if it was cancelled.
    got: Option<(Status, Vec<u8>)>,
    cancelled: bool,
}

/// A buffer that was given away. Whoever has not read it when it is dropped reads something else.
struct Given(Buffer);

impl Drop for Given {
    fn drop(&mut self) {
        self.0.fill(0xff);
    }
}

/// The books of one rank for one round.
pub struct Books<'a> {
    pub round: &'a Round,
    on: [Comm; 3],
    me: u32,
    receives: Vec<Receive>,
    /// Receives of what nobody sends.
    unwanted: Vec<(RawRequest, Vec<u8>)>,
    /// Callbacks that ran, and those that will have.
    called: Arc<AtomicU64>,
    to_call: u64,
}

impl<'a> Books<'a> {
    pub fn new(round: &'a Round, on: &[Comm; 3], me: u32) -> Books<'a> {
        let (receives, unwanted) = (Vec::new(), Vec::new());
        Books { round, on: on.clone(), me, receives, unwanted, called: Arc::default(), to_call: 0 }
    }

    /// The rank in a communicator of a rank of the world.
    fn local(&self, on: usize, rank: u32) -> u32 {
        let comm = &self.on[on];
        let here = (0..comm.size()).find(|local| comm.world_rank(*local) == Some(rank));
        here.unwrap_or_else(|| panic!("rank {rank} is not in communicator {on}"))
    }

    fn way(&self, message: &Message) -> Way {
        self.round.way(message.on, self.me)
    }

    /// Source and tag by which the receive for a message is posted.
    fn selection(&self, message: &Message) -> (Option<u32>, Option<i32>) {
        let source = Some(self.local(message.on, message.source));
        match self.way(message) {
            Way::Exact => (source, Some(message.tag)),
            Way::AnyTag => (source, None),
            Way::AnySource => (None, Some(message.tag)),
            Way::Any => (None, None),
        }
    }

    /// The messages that a receive which was posted for this one may get, in the order of sending.
    fn alike(&self, message: &Message) -> impl Iterator<Item = (usize, &'a Message)> + use<'a> {
        let (way, wanted) = (self.way(message), *message);
        let fits = move |one: &&Message| {
            let source = one.source == wanted.source || matches!(way, Way::AnySource | Way::Any);
            let tag = one.tag == wanted.tag || matches!(way, Way::AnyTag | Way::Any);
            (one.on, one.dest) == (wanted.on, wanted.dest) && source && tag
        };
        self.round.messages.iter().enumerate().filter(move |(_, one)| fits(one))
    }

    fn content(which: usize, message: &Message) -> Vec<u8> {
        let mut bytes = vec![0; message.bytes];
        Random::fill(message.content, &mut bytes);
        if let Some(first) = bytes.first_chunk_mut::<NUMBER>() {
            *first = (which as u64).to_le_bytes();
        }
        bytes
    }

    /// Starts the send of a message; none if it is over, or nobody waits for it.
    pub fn send(&mut self, which: usize, own: &mut Random, may_wait: bool) -> Option<Pending> {
        let message = self.round.messages[which];
        let comm = &self.on[message.on];
        let buffer = Buffer::from(Self::content(which, &message)).share(comm, own.bits());
        let bytes = ConstBuf::contiguous(buffer.as_ptr(), buffer.len());
        let dest = self.local(message.on, message.dest);
        if self.round.is_orderly && may_wait && own.below(4) == 0 {
            // SAFETY: the buffer outlives the call.
            let outcome = unsafe { comm.send_raw(bytes, dest, message.tag, message.mode) };
            self.sent(which, outcome);
            return None;
        }
        // SAFETY: the buffer lives, unchanged, until the request is over: in `Pending`, or in what is kept.
        let request = unsafe { comm.isend_raw(bytes, dest, message.tag, message.mode) };
        let mut request = request.unwrap_or_else(|e| panic!("send {which}, {message:?}: {e}"));
        if own.below(8) == 0 {
            request.detach(Some(Box::new(Given(buffer))));
            return None;
        }
        self.tell(&mut request, own);
        Some(Pending::new(Thing::Send(which, buffer), request))
    }

    fn sent(&self, which: usize, outcome: Result<Status, Error>) {
        let message = self.round.messages[which];
        let (tag, bytes, source) = (message.tag, message.bytes, self.on[message.on].rank());
        match outcome {
            Ok(status) => assert_eq!(status, Status { source, tag, bytes }, "send {which}, {message:?}"),
            Err(error) => panic!("rank {}: send {which}, {message:?}: {error}", self.me),
        }
    }

    /// Now and then somebody is told when it is over.
    fn tell(&mut self, request: &mut RawRequest, own: &mut Random) {
        if own.below(8) == 0 {
            self.to_call += 1;
            pending::call(request, &self.called);
        }
    }

    /// A receive for a message: its number, a blank buffer, source and tag.
    fn post(&mut self, which: usize, own: &mut Random) -> (usize, Buffer, (Option<u32>, Option<i32>)) {
        let message = self.round.messages[which];
        let longest = self.alike(&message).map(|(_, one)| one.bytes).max().unwrap_or(0);
        let more = if own.below(2) == 0 { 0 } else { own.below(40) as usize };
        let buffer = Buffer::from(vec![BLANK; longest + more]).share(&self.on[message.on], own.bits());
        self.receives.push(Receive { which, got: None, cancelled: false });
        (self.receives.len() - 1, buffer, self.selection(&message))
    }

    /// Starts a receive for a message; none if it is over.
    pub fn receive(&mut self, which: usize, own: &mut Random, may_wait: bool) -> Option<Pending> {
        let at = self.round.messages[which].on;
        let (number, mut buffer, (source, tag)) = self.post(which, own);
        let room = MutBuf::contiguous(buffer.as_mut_ptr(), buffer.len());
        let comm = self.on[at].clone();
        let failed = |error: Error| -> ! { panic!("receive {number}: {error}") };
        let waits = self.round.is_orderly && may_wait;
        match own.below(12) {
            0..=2 if waits => {
                let seen = (own.below(2) == 0).then(|| {
                    loop {
                        if let Some(seen) = comm.iprobe(source, tag).unwrap_or_else(|e| failed(e)) {
                            break seen;
                        }
                    }
                });
                // SAFETY: the buffer outlives the call.
                let status = unsafe { comm.recv_raw(room, source, tag) };
                let status = status.unwrap_or_else(|e| failed(e));
                assert!(seen.is_none_or(|seen| seen == status), "probed {seen:?}, received {status:?}");
                self.received(number, status, &buffer);
                return None;
            }
            3 | 4 => loop {
                if let Some((message, seen)) = comm.improbe(source, tag).unwrap_or_else(|e| failed(e)) {
                    // SAFETY: the buffer lives, untouched, until the request is over.
                    let request = unsafe { comm.mrecv_raw(message, room) };
                    let mut request = request.unwrap_or_else(|e| failed(e));
                    if waits && own.below(2) == 0 {
                        let status = request.wait().unwrap_or_else(|e| failed(e));
                        assert_eq!(seen, status, "taken, and received");
                        self.received(number, status, &buffer);
                        return None;
                    }
                    return Some(Pending::new(Thing::Receive(number, buffer), request));
                }
                if !waits {
                    break;
                }
            },
            _ => {}
        }
        // SAFETY: the buffer lives, untouched, until the request is over.
        let request = unsafe { comm.irecv_raw(room, source, tag) };
        let mut request = request.unwrap_or_else(|e| failed(e));
        self.tell(&mut request, own);
        Some(Pending::new(Thing::Receive(number, buffer), request))
    }

    /// Sends one message and receives another of the same communicator in one call.
    pub fn exchange(&mut self, sent: usize, received: usize, own: &mut Random) {
        let message = self.round.messages[sent];
        let comm = self.on[message.on].clone();
        let out = Buffer::from(Self::content(sent, &message)).share(&comm, own.bits());
        let (number, mut buffer, (source, tag)) = self.post(received, own);
        let bytes = ConstBuf::contiguous(out.as_ptr(), out.len());
        let room = MutBuf::contiguous(buffer.as_mut_ptr(), buffer.len());
        let dest = self.local(message.on, message.dest);
        // SAFETY: both buffers outlive the call.
        let status = unsafe { comm.sendrecv_raw(bytes, dest, message.tag, room, source, tag) };
        let status = status.unwrap_or_else(|e| panic!("exchange {sent}, {message:?}: {e}"));
        self.received(number, status, &buffer);
    }

    /// Something is over.
    pub fn over(&mut self, one: Pending, outcome: Result<Status, Error>) {
        match one.thing {
            Thing::Send(which, mut buffer) => {
                self.sent(which, outcome);
                // From now on it is its owner's.
                buffer.fill(0xff);
            }
            Thing::Receive(number, buffer) => match outcome {
                Ok(status) => self.received(number, status, &buffer),
                Err(error) => panic!("rank {}: receive {number}: {error}", self.me),
            },
            Thing::Collective(at, part, what) => {
                outcome.unwrap_or_else(|e| panic!("rank {}: {what}: {e}", self.me));
                check(&self.on[at], &part, &what);
            }
        }
    }

    /// All that came, and nothing else, is there when a receive is over.
    fn received(&mut self, number: usize, status: Status, buffer: &[u8]) {
        let me = self.me;
        let posted_for = self.round.messages[self.receives[number].which];
        let (got, rest) = buffer.split_at(status.bytes);
        let at = || format!("rank {me}: receive {number}, for {posted_for:?}, got {status:?}");
        assert!(rest.iter().all(|byte| *byte == BLANK), "{}: written past the message", at());
        let mut start = got.to_vec();
        if let Some(which) = got.first_chunk::<NUMBER>() {
            let which = u64::from_le_bytes(*which) as usize;
            let message = self.round.messages.get(which);
            let message = message.unwrap_or_else(|| panic!("{}: of no message: {which}", at()));
            let source = self.local(message.on, message.source);
            assert_eq!(
                (status.source, status.tag, status.bytes, posted_for.on, me),
                (source, message.tag, message.bytes, message.on, message.dest),
                "{}: message {which}, {message:?}",
                at()
            );
            let wrong = got.iter().zip(&Self::content(which, message)).position(|(is, should)| is != should);
            assert!(wrong.is_none(), "{}: byte {wrong:?} of message {which}, {message:?}", at());
            start.truncate(NUMBER);
        }
        self.receives[number].got = Some((status, start));
    }

    /// Posts a receive that nobody sends anything for.
    pub fn want_what_nobody_sends(&mut self, own: &mut Random) {
        let comm = &self.on[own.below(3) as usize];
        let source = (own.below(2) == 0).then(|| own.below(u64::from(comm.size())) as u32);
        let mut buffer = vec![BLANK; [0, 8, 5_000, 100_000][own.below(4) as usize]];
        let room = MutBuf::contiguous(buffer.as_mut_ptr(), buffer.len());
        // SAFETY: the buffer stays until the receive is cancelled.
        let request = unsafe { comm.irecv_raw(room, source, Some(100 + own.below(3) as i32)) };
        self.unwanted.push((request.unwrap_or_else(|e| panic!("{e}")), buffer));
    }

    /// Cancels such a one.
    pub fn give_up(&mut self, own: &mut Random) {
        if self.unwanted.is_empty() {
            return;
        }
        let (mut request, buffer) = self.unwanted.swap_remove(own.below(self.unwanted.len() as u64) as usize);
        let early = request.test();
        assert!(early.is_none(), "rank {}: what nobody sends: {}", self.me, say(early.as_ref()));
        let cancelled = request.cancel();
        self.is_cancelled(cancelled, &request.wait());
        assert!(
            buffer.iter().all(|byte| *byte == BLANK),
            "rank {}: a cancelled receive was written",
            self.me
        );
    }

    fn is_cancelled(&self, cancelled: bool, outcome: &Result<Status, Error>) {
        let right = cancelled && matches!(outcome, Err(Error::Cancelled { .. }));
        assert!(right, "rank {}: cancelled ({cancelled}): {}", self.me, say(Some(outcome)));
    }

    /// Cancels a receive, if it has matched nothing, and posts another in its place.
    pub fn cancel_one(&mut self, own: &mut Random, pending: &mut Vec<Pending>) {
        let receives: Vec<usize> =
            (0..pending.len()).filter(|at| matches!(pending[*at].thing, Thing::Receive(..))).collect();
        if receives.is_empty() {
            return;
        }
        let at = receives[own.below(receives.len() as u64) as usize];
        if !pending[at].request.cancel() {
            return;
        }
        let mut one = pending.swap_remove(at);
        self.is_cancelled(true, &one.request.wait());
        if let Thing::Receive(number, buffer) = one.thing {
            assert!(buffer.iter().all(|byte| *byte == BLANK), "rank {}: written, and cancelled", self.me);
            self.receives[number].cancelled = true;
            pending.extend(self.receive(self.receives[number].which, own, false));
        }
    }

    /// At the end: everything came in order, and callbacks ran.
    pub fn finish(&mut self, own: &mut Random, world: &Comm) {
        while !self.unwanted.is_empty() {
            self.give_up(own);
        }
        let mut cursors: HashMap<(usize, u32, Option<i32>), usize> = HashMap::new();
        for receive in self.receives.iter().filter(|receive| !receive.cancelled) {
            let posted_for = &self.round.messages[receive.which];
            let Some((status, start)) = &receive.got else {
                panic!("a receive for {posted_for:?} is not over")
            };
            let source = self.on[posted_for.on].world_rank(status.source).unwrap_or(u32::MAX);
            let by_tag = matches!(self.way(posted_for), Way::Exact | Way::AnySource);
            let cursor = cursors.entry((posted_for.on, source, by_tag.then_some(status.tag))).or_default();
            let sent = Message { source, tag: status.tag, ..*posted_for };
            let of_source = |(_, one): &(usize, &Message)| one.source == source;
            let next = self.alike(&sent).filter(of_source).nth(*cursor);
            *cursor += 1;
            let Some((which, message)) = next else {
                panic!("rank {}: for {posted_for:?}, {status:?}: nobody sent so many", self.me)
            };
            let content = Self::content(which, message);
            let should = &content[..content.len().min(NUMBER)];
            assert!(
                start == should && (status.tag, status.bytes) == (message.tag, message.bytes),
                "rank {}: out of order: {status:?}, {start:?}, where message {which}, {message:?}, should be",
                self.me
            );
        }
        while self.called.load(Ordering::Acquire) < self.to_call {
            world.progress();
        }
        assert_eq!(self.called.load(Ordering::Acquire), self.to_call, "a callback ran twice");
    }
}

/// An outcome in words.
fn say(outcome: Option<&Result<Status, Error>>) -> String {
    match outcome {
        Some(Err(error)) => error.to_string(),
        other => format!("{other:?}"),
    }
}
