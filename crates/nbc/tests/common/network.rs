//! A network that stands in for the layer below and is as nasty as the contract allows: it reads what is sent as late as
//! it can, completes requests in random order, and checks that requests are used as they should be.

use super::Random;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::rc::Rc;
use tocsin_nbc::Error;
use tocsin_nbc::messages::{Envelope, Messages};
use tocsin_progress::completion::{Code, Outcome};
use tocsin_progress::slots::Id;

/// What a peer writes at last into the memory of a receive that was given up.
pub const LATE: u8 = 0xdd;

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Free,
    Reserved,
    Started,
    /// In `completed`, not yet told.
    Ended,
    /// Given up, and its peer still copies.
    Closing,
}

struct Post {
    envelope: Envelope,
    request: u32,
    memory: *mut u8,
    bytes: usize,
}

#[derive(Default)]
struct Host {
    requests: Vec<State>,
    sends: Vec<Post>,
    recvs: Vec<Post>,
    completed: VecDeque<(u32, u64, Outcome)>,
    /// Receives that were given up while their peers were copying.
    closing: Vec<Post>,
    dead: bool,
    /// Dead, and nobody has heard of it.
    gone: bool,
    /// Peers that messages may be sent to.
    prepared: Vec<u32>,
    /// Long memory of boards: addresses and bytes, and how many are left.
    allocated: Vec<(usize, usize)>,
    long_left: usize,
}

struct Net {
    hosts: Vec<Host>,
    random: Random,
    failures: u64,
    /// Whether peers may just be copying when a receive is given up.
    lingers: bool,
}

/// One rank's end.
pub struct End {
    rank: u32,
    net: Rc<RefCell<Net>>,
}

pub fn network(n: u32, seed: u64) -> Vec<End> {
    let hosts = (0..n).map(|_| Host { long_left: usize::MAX, ..Host::default() }).collect();
    let net = Rc::new(RefCell::new(Net { hosts, random: Random(seed), failures: 0, lingers: false }));
    (0..n).map(|rank| End { rank, net: net.clone() }).collect()
}

impl End {
    /// Matches some messages to this rank.
    pub fn pump(&mut self) {
        let net = &mut *self.net.borrow_mut();
        let me = self.rank as usize;
        if net.random.chance(20)
            && let Some(post) = net.hosts[me].closing.pop()
        {
            // SAFETY: - nobody else uses the memory before the request has ended: promised by the poster.
            unsafe { std::ptr::write_bytes(post.memory, LATE, post.bytes) };
            net.end(me, &post, State::Closing, Outcome { code: Code::Cancelled, ..Outcome::default() });
        }
        let tries = net.random.below(4);
        for _ in 0..tries {
            if net.hosts[me].recvs.is_empty() {
                return;
            }
            let r = net.random.below(net.hosts[me].recvs.len());
            let (source, context, tag) = {
                let e = net.hosts[me].recvs[r].envelope;
                (e.peer, e.context, e.tag)
            };
            // The first with that envelope, on both sides: no message overtakes.
            let matches = |p: &Post, peer: u32| {
                p.envelope.peer == peer && p.envelope.context == context && p.envelope.tag == tag
            };
            let Some(r) = net.hosts[me].recvs.iter().position(|p| matches(p, source)) else { continue };
            let from = source as usize;
            let Some(s) = net.hosts[from].sends.iter().position(|p| matches(p, self.rank)) else { continue };
            let send = net.hosts[from].sends.remove(s);
            let recv = net.hosts[me].recvs.remove(r);
            // SAFETY: - the poster promises that both are valid until completion.
            unsafe { std::ptr::copy_nonoverlapping(send.memory, recv.memory, send.bytes.min(recv.bytes)) };
            let code = if send.bytes > recv.bytes { Code::Truncated } else { Code::Ok };
            let sent = Outcome { bytes: send.bytes as u64, ..Outcome::default() };
            net.complete(from, &send, sent);
            net.complete(me, &recv, Outcome { code, source, tag, ..sent });
        }
    }

    /// Peers have to be prepared anew, as for a run of a schedule that was prepared before they had come.
    pub fn forget_peers(&mut self) {
        self.net.borrow_mut().hosts[self.rank as usize].prepared.clear();
    }

    pub fn kill(&mut self, rank: u32) {
        let net = &mut *self.net.borrow_mut();
        net.hosts[rank as usize].dead = true;
        net.failures += 1;
    }

    /// From now on peers may just be copying when a receive is given up.
    pub fn linger(&mut self) {
        self.net.borrow_mut().lingers = true;
    }

    /// Receives that were given up and that peers still copy into.
    pub fn closing(&self) -> usize {
        self.net.borrow().hosts[self.rank as usize].closing.len()
    }

    /// A rank dies, and this one has yet to hear of it.
    pub fn kill_unheard(&mut self, rank: u32) {
        self.net.borrow_mut().hosts[rank as usize].gone = true;
    }

    /// All messages of this rank that have begun end so, whatever their peers do.
    pub fn break_messages(&mut self, code: Code) {
        let net = &mut *self.net.borrow_mut();
        let me = self.rank as usize;
        let (sends, recvs) =
            (std::mem::take(&mut net.hosts[me].sends), std::mem::take(&mut net.hosts[me].recvs));
        for post in sends.iter().chain(&recvs) {
            net.complete(me, post, Outcome { code, source: post.envelope.peer, ..Outcome::default() });
        }
    }

    /// Whether a request has ended of which nobody has heard.
    pub fn has_completed(&self) -> bool {
        !self.net.borrow().hosts[self.rank as usize].completed.is_empty()
    }

    /// All requests given back?
    pub fn is_clean(&self) -> bool {
        let net = self.net.borrow();
        let host = &net.hosts[self.rank as usize];
        host.recvs.is_empty() && host.closing.is_empty() && host.requests.iter().all(|s| *s == State::Free)
    }
}

impl Net {
    fn complete(&mut self, rank: usize, post: &Post, outcome: Outcome) {
        self.end(rank, post, State::Started, outcome);
    }

    fn end(&mut self, rank: usize, post: &Post, state: State, outcome: Outcome) {
        let host = &mut self.hosts[rank];
        assert_eq!(host.requests[post.request as usize], state);
        host.requests[post.request as usize] = State::Ended;
        let entry = (post.request, post.envelope.cookie, outcome);
        if self.random.chance(50) {
            host.completed.push_back(entry);
        } else {
            host.completed.push_front(entry);
        }
    }
}

impl End {
    /// No more than so many bytes of long memory can be allocated.
    pub fn limit_long(&self, bytes: usize) {
        self.net.borrow_mut().hosts[self.rank as usize].long_left = bytes;
    }

    /// What was allocated of long memory: addresses and bytes.
    pub fn allocated(&self) -> Vec<(usize, usize)> {
        self.net.borrow().hosts[self.rank as usize].allocated.clone()
    }
}

impl Messages for End {
    fn allocate_long(&mut self, at: NonNull<u8>, bytes: usize) -> bool {
        let host = &mut self.net.borrow_mut().hosts[self.rank as usize];
        let Some(left) = host.long_left.checked_sub(bytes) else { return false };
        host.long_left = left;
        host.allocated.push((at.as_ptr().addr(), bytes));
        true
    }

    fn reserve(&mut self) -> Result<Id, Error> {
        let host = &mut self.net.borrow_mut().hosts[self.rank as usize];
        let free = host.requests.iter().position(|s| *s == State::Free);
        let index = free.unwrap_or_else(|| {
            host.requests.push(State::Free);
            host.requests.len() - 1
        });
        host.requests[index] = State::Reserved;
        Ok(Id { index: index as u32, generation: 1 })
    }

    fn prepare_peer(&mut self, peer: u32, _: usize) -> Result<(), Error> {
        let net = &mut *self.net.borrow_mut();
        assert!(peer != self.rank && (peer as usize) < net.hosts.len());
        let prepared = &mut net.hosts[self.rank as usize].prepared;
        if !prepared.contains(&peer) {
            prepared.push(peer);
        }
        Ok(())
    }

    fn release(&mut self, request: Id) {
        let state = &mut self.net.borrow_mut().hosts[self.rank as usize].requests[request.index as usize];
        assert_eq!(*state, State::Reserved, "released a request that is in use");
        *state = State::Free;
    }

    unsafe fn start_send(&mut self, request: Id, envelope: &Envelope, from: *const u8, bytes: usize) {
        let host = &mut self.net.borrow_mut().hosts[self.rank as usize];
        assert_eq!(host.requests[request.index as usize], State::Reserved);
        assert!(envelope.cookie != 0 && envelope.tag >= 0);
        assert!(host.prepared.contains(&envelope.peer), "rank {} is not prepared for", envelope.peer);
        host.requests[request.index as usize] = State::Started;
        let memory = from.cast_mut();
        host.sends.push(Post { envelope: *envelope, request: request.index, memory, bytes });
    }

    unsafe fn start_recv(&mut self, request: Id, envelope: &Envelope, to: *mut u8, bytes: usize) {
        let host = &mut self.net.borrow_mut().hosts[self.rank as usize];
        assert_eq!(host.requests[request.index as usize], State::Reserved);
        assert!(envelope.cookie != 0 && envelope.tag >= 0);
        host.requests[request.index as usize] = State::Started;
        // What is received into may hold anything until then.
        // SAFETY: - the poster promises that it is writable.
        unsafe { std::ptr::write_bytes(to, 0xee, bytes) };
        host.recvs.push(Post { envelope: *envelope, request: request.index, memory: to, bytes });
    }

    fn eager_max(&self) -> usize {
        0
    }

    fn copied(&self) -> u64 {
        0
    }

    fn abandon(&mut self, request: Id) -> bool {
        let net = &mut *self.net.borrow_mut();
        let host = &mut net.hosts[self.rank as usize];
        let state = &mut host.requests[request.index as usize];
        if *state == State::Closing {
            return false;
        }
        assert!(matches!(*state, State::Started | State::Ended), "abandoned a request that is {state:?}");
        let posted = host.recvs.iter().position(|p| p.request == request.index);
        if let Some(at) = posted.filter(|_| net.lingers && net.random.chance(50)) {
            *state = State::Closing;
            host.closing.push(host.recvs.remove(at));
            return false;
        }
        *state = State::Reserved;
        host.sends.retain(|p| p.request != request.index);
        host.recvs.retain(|p| p.request != request.index);
        host.completed.retain(|(r, _, _)| *r != request.index);
        true
    }

    fn next_completed(&mut self) -> Option<(u64, Outcome)> {
        let host = &mut self.net.borrow_mut().hosts[self.rank as usize];
        let (request, cookie, outcome) = host.completed.pop_front()?;
        host.requests[request as usize] = State::Reserved;
        Some((cookie, outcome))
    }

    fn failures(&self) -> u64 {
        self.net.borrow().failures
    }

    fn failed_among(&self, ranks: &[u32]) -> Option<(u32, Code)> {
        let net = self.net.borrow();
        let dead = ranks.iter().find(|rank| net.hosts[**rank as usize].dead)?;
        Some((*dead, Code::PeerDead))
    }

    fn blame(&self, ranks: &[u32]) -> Option<(u32, Code)> {
        let net = self.net.borrow();
        let gone = ranks.iter().find(|rank| net.hosts[**rank as usize].gone);
        self.failed_among(ranks).or_else(|| gone.map(|rank| (*rank, Code::PeerDead)))
    }
}
