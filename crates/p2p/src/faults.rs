//! Dead, finalized and lying peers.
//!
//! A peer that died or finalized is first drained: what it sent before is taken in. Then one sweep over all requests, in
//! bounded portions, ends those that cannot be met any more. What is posted during and after the sweep is refused at
//! once, so that nothing slips through behind it.

use tocsin_progress::{Budget, Code, Id, Outcome};
use tocsin_transport::{Class, PeerState, Recv, Transport};

use crate::peer::{Fate, Peer};
use crate::request::{ANY_SOURCE, DETACHED, LOST, OWES_FIN, Request, State};
use crate::unexpected::Arrival;
use crate::unsaid::Word;
use crate::urgency::Tells;
use crate::{Error, P2p};

/// Slots looked at per packet of the budget: about the time of a packet.
const SWEEP: u32 = 32;

/// Where the sweep is.
#[derive(Debug)]
pub(crate) struct Faults {
    /// The transport's epoch as last seen.
    epoch: u64,
    /// Peers whose lanes are to be drained.
    draining: usize,
    /// Peers from whom nothing comes any more.
    gone: usize,
    sweeping: bool,
    /// Next slot: of requests, then of unexpected messages of each class.
    stage: usize,
    cursor: u32,
    lost: Lost,
}

/// Users' messages that were sent, that their receivers will never receive, and of which nobody has heard by their requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Lost {
    /// How many so far.
    pub count: usize,
    /// The last of them: destination, tag, bytes.
    pub last: (u32, i32, u64),
}

impl Faults {
    pub(crate) const fn new() -> Faults {
        // No epoch has this number: the first look reads every state.
        Faults {
            epoch: u64::MAX,
            draining: 0,
            gone: 0,
            sweeping: false,
            stage: 0,
            cursor: 0,
            lost: Lost { count: 0, last: (0, 0, 0) },
        }
    }

    /// Whether some peer has ended and what it sent is not all taken in.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        self.draining > 0
    }

    /// Whether a pass would learn of an end, or look whether one is complete.
    #[inline]
    pub(crate) fn has_news(&self, epoch: u64) -> bool {
        self.epoch != epoch || self.draining > 0
    }

    /// Up to which of the transport's epochs it is known who has ended.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    #[inline]
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweeping
    }

    pub(crate) fn restart(&mut self) {
        self.sweeping = true;
        self.stage = 0;
        self.cursor = 0;
    }
}

impl<T: Transport> P2p<T> {
    /// Learns who died or finalized. Bounded by the number of ranks, and only when the epoch has changed.
    #[inline]
    pub(crate) fn refresh_epoch(&mut self) {
        let epoch = self.transport.epoch();
        if epoch != self.faults.epoch {
            self.learn_states(epoch);
        }
    }

    #[cold]
    fn learn_states(&mut self, epoch: u64) {
        self.faults.epoch = epoch;
        for rank in 0..self.size {
            self.hear_revoked(rank);
            let Some(before) = self.peers.get(rank as usize).map(|p| p.fate) else { continue };
            if before != Fate::Alive && before != Fate::Leaving {
                continue;
            }
            let fate = match self.transport.peer_state(rank) {
                PeerState::Dead => Fate::Dying,
                PeerState::Finalized => Fate::Leaving,
                PeerState::Absent | PeerState::Alive => continue,
            };
            if before == Fate::Alive {
                self.faults.draining = self.faults.draining.wrapping_add(1);
            }
            self.peers.set_fate(rank as usize, fate);
            self.hindrances = self.hindrances.wrapping_add(1);
        }
    }

    /// Learns who died or finalized, and takes in what they sent, so that a receive from them is refused at once rather
    /// than a little later. User threads only.
    pub(crate) fn learn_ends(&mut self) {
        self.refresh_epoch();
        if self.faults.is_draining() {
            self.progress(&mut Budget::user());
            // Of what this completed the collectives have yet to hear.
            self.again = true;
        }
    }

    /// Peers that are drained are gone. Called at the end of a pass that began after their state was seen, so that what
    /// they sent, and that they had connected, is known. Bounded by the number of ranks.
    pub(crate) fn finish_draining(&mut self) {
        if self.faults.draining == 0 {
            return;
        }
        for rank in 0..self.size {
            let fate = self.peers.get(rank as usize).map(|p| p.fate);
            let end = match fate {
                Some(Fate::Dying) => Fate::Dead,
                Some(Fate::Leaving) => Fate::Finalized,
                _ => continue,
            };
            let mut empty = true;
            for class in Class::ALL {
                empty &= match self.transport.peek(rank, class) {
                    Recv::Empty => true,
                    Recv::Packet(_) => false,
                    Recv::Corrupt => {
                        self.condemn(rank);
                        false
                    }
                };
            }
            // Condemned meanwhile: counted there.
            if empty && self.peers.get(rank as usize).map(|p| p.fate) == fate {
                self.set_gone(rank, end);
            }
        }
    }

    fn set_gone(&mut self, rank: u32, fate: Fate) {
        let Some(peer) = self.peers.get(rank as usize) else { return };
        if matches!(peer.fate, Fate::Dying | Fate::Leaving) {
            self.faults.draining = self.faults.draining.saturating_sub(1);
        }
        if peer.fate.no_more_from().is_none() {
            self.faults.gone = self.faults.gone.wrapping_add(1);
        }
        let untold = peer.revokes.len().saturating_add(peer.unsaid.len());
        self.peers.set_fate(rank as usize, fate);
        if untold > 0
            && let Some(peer) = self.peers.get_mut(rank as usize)
        {
            self.owed = self.owed.saturating_sub(untold);
            peer.revokes.clear();
            peer.unsaid.clear();
        }
        self.faults.restart();
    }

    /// The peer wrote what no honest one writes. Nothing of it is believed any more.
    pub(crate) fn condemn(&mut self, peer: u32) {
        if self.peers.get(peer as usize).is_some_and(|p| p.fate != Fate::Broken) {
            self.set_gone(peer, Fate::Broken);
            if let Some(state) = self.peers.get_mut(peer as usize) {
                state.partial = 0;
                state.opened = 0;
            }
        }
    }

    /// Why a receive from `source` can never be met, and the rank at fault. Constant while all ranks live.
    pub(crate) fn no_source(&self, context: u32, source: Option<u32>) -> Option<(Code, u32)> {
        if self.faults.gone == 0 {
            return None;
        }
        if let Some(source) = source {
            let code = self.peers.get(source as usize)?.fate.no_more_from()?;
            return Some((code, source));
        }
        // Any source: one dead member is enough; finalized ones only when there is nobody else left.
        let (mut finalized, mut left) = (None, false);
        for (rank, peer) in (0u32..).zip(self.peers.iter()) {
            if rank == self.me || !self.contexts.is_member(context, rank) {
                continue;
            }
            match peer.fate.no_more_from() {
                None => left = true,
                Some(Code::PeerFinalized) => finalized = Some((Code::PeerFinalized, rank)),
                Some(code) => return Some((code, rank)),
            }
        }
        if left { None } else { finalized }
    }

    /// Behind a member that left early there may be one that died: then that one is the reason to name. Asked of the
    /// transport, which knows of a death before anybody can have left because of it. Bounded by the number of ranks.
    pub(crate) fn root_cause(&self, context: u32, code: Code, rank: u32) -> (Code, u32) {
        if !matches!(code, Code::PeerFinalized | Code::NeverReceived | Code::Cancelled) {
            return (code, rank);
        }
        let died = |other: &u32| {
            self.contexts.is_member(context, *other) && self.transport.peer_state(*other) == PeerState::Dead
        };
        (0..self.size).find(died).map_or((code, rank), |dead| (Code::PeerDead, dead))
    }

    /// The refusal of a post that needs a rank which is gone.
    pub(crate) fn refusal(&self, context: u32, code: Code, rank: u32) -> Error {
        let (code, rank) = self.root_cause(context, code, rank);
        match code {
            Code::PeerFinalized => Error::PeerFinalized { rank },
            Code::Protocol => Error::Protocol { rank },
            _ => Error::PeerDead { rank },
        }
    }

    /// Why a pending request can never complete, and the rank at fault.
    fn doomed(&self, request: &Request) -> Option<(Code, u32)> {
        if !request.is_pending() {
            return None;
        }
        if self.contexts.is_revoked(request.context) {
            return Some((Code::Revoked, self.me));
        }
        if request.state == State::RecvPosted {
            let source = (request.peer != ANY_SOURCE).then_some(request.peer);
            return self.no_source(request.context, source);
        }
        let code = self.peers.get(request.peer as usize)?.fate.no_more_from()?;
        Some((code, request.peer))
    }

    /// Ends a request for a reason that lies in a rank.
    pub(crate) fn fail(&mut self, id: Id, code: Code, rank: u32) {
        let closing = |r: &Request| matches!(r.state, State::SendClosing | State::RecvClosing);
        if self.requests.get(id).is_some_and(closing) {
            // It has failed already.
            self.end_if_over(id);
            return;
        }
        self.break_off(id);
        let Some((context, peer)) = self.requests.get(id).map(|r| (r.context, r.peer)) else { return };
        // That a rank receives nothing more of itself is nobody else's doing.
        let is_own = code == Code::NeverReceived && peer == self.me;
        let (code, rank) = if is_own { (code, rank) } else { self.root_cause(context, code, rank) };
        self.note_lost(id, code);
        let Some(request) = self.requests.get(id) else { return };
        let outcome = Self::failure(request, code, rank);
        self.end_when_over(id, outcome);
    }

    /// Whether the other end waits for this one, which has a message of its in hand or has promised one.
    pub(crate) fn is_awaited(request: &Request) -> bool {
        use State::{RecvOwes, RecvShared, SendAnnounced, SendData, SendPiped, SendShared};
        matches!(request.state, RecvOwes | RecvShared | SendAnnounced | SendData | SendPiped | SendShared)
    }

    /// Keeps in mind that a user's send ends without its message's being received.
    fn note_lost(&mut self, id: Id, code: Code) {
        let leaves = self.for_nobody.is_any();
        let Some(request) = self.requests.get_mut(id) else { return };
        let declined = code == Code::NeverReceived;
        // Who has finalized before this rank begins to leave is no news to it.
        if request.is_send()
            && request.class == Class::Eager
            && (declined || leaves && code == Code::PeerFinalized)
        {
            request.flags |= LOST;
            // Nobody will look at it any more; or this rank's leave is the news, whoever looks at the request.
            if leaves || request.has(DETACHED) {
                self.count_lost(id);
            }
        }
    }

    /// Nobody hears by a request that its message was lost, if it was.
    pub(crate) fn count_lost(&mut self, id: Id) {
        let Some(request) = self.requests.get_mut(id).filter(|request| request.has(LOST)) else { return };
        request.flags &= !LOST;
        self.faults.lost.count = self.faults.lost.count.wrapping_add(1);
        self.faults.lost.last = (request.peer, request.tag, request.total);
    }

    /// What a request ends with for a reason that lies in a rank.
    pub(crate) fn failure(request: &Request, code: Code, rank: u32) -> Outcome {
        // Who hears that a message is not received is told which one that was.
        let bytes = if code == Code::NeverReceived { request.total } else { 0 };
        Outcome { code, source: rank, tag: request.tag, bytes, detail: u64::from(rank) }
    }

    /// Ends a request whose peer the transport calls gone.
    pub(crate) fn fail_gone(&mut self, id: Id, peer: u32) {
        let code = match self.transport.peer_state(peer) {
            PeerState::Dead => Code::PeerDead,
            PeerState::Finalized => Code::PeerFinalized,
            PeerState::Absent | PeerState::Alive => Code::Protocol,
        };
        self.fail(id, code, peer);
    }

    /// Goes on with the sweep, within the budget.
    pub(crate) fn sweep(&mut self, budget: &mut Budget) {
        while self.faults.sweeping && budget.packet() {
            for _ in 0..SWEEP {
                let (stage, at) = (self.faults.stage, self.faults.cursor);
                self.faults.cursor = at.wrapping_add(1);
                let end = match stage {
                    0 => self.requests.capacity() as u32,
                    _ => self.matching.get(stage.wrapping_sub(1)).map_or(0, |m| m.unexpected.capacity()),
                };
                if at >= end {
                    self.faults.cursor = 0;
                    self.faults.stage = stage.wrapping_add(1);
                    if stage >= self.matching.len() {
                        self.faults.sweeping = false;
                        return;
                    }
                } else if stage == 0 {
                    self.sweep_request(at);
                } else {
                    self.sweep_message(stage.wrapping_sub(1), at);
                }
            }
        }
    }

    fn sweep_request(&mut self, index: u32) {
        let Some(id) = self.requests.by_index(index) else { return };
        let Some(request) = self.requests.get(id) else { return };
        let Some((code, rank)) = self.doomed(request) else { return };
        let (peer, context, name) = (request.peer, request.context, request.remote);
        if request.has(OWES_FIN) && matches!(request.state, State::SendShared | State::RecvShared) {
            // All of it is copied; only the other end does not know.
            if !self.say(peer, Word::Copied, name, Tells::GivenUp) && code == Code::Revoked {
                // Better than nothing.
                self.tell_revoked(peer, context);
            }
            self.end_well(id);
        } else if request.state == State::RecvOwes && Self::owes_ack(request) {
            // Its message is here; only the sender's answer is lost, and the sender hears why.
            if code == Code::Revoked {
                self.tell_revoked(peer, context);
            }
            self.finish_recv(id);
        } else {
            self.fail(id, code, rank);
        }
    }

    /// Drops what nobody can receive: messages of a communicator that is revoked or gone, announcements of a peer that is gone, all if this rank leaves.
    fn sweep_message(&mut self, class: usize, index: u32) {
        let Some(matching) = self.matching.get(class) else { return };
        let Some(id) = matching.unexpected.at(index) else { return };
        let Some(message) = matching.unexpected.get(id) else { return };
        let envelope = message.envelope;
        let gone = self.peers.get(envelope.source as usize).and_then(|p| p.fate.no_more_from()).is_some();
        // A user's stays: what its sender sent after it must not overtake. Who receives it hears of the end.
        let lost = gone && envelope.arrival == Arrival::Announced && class != 0;
        let revoked = self.contexts.is_revoked(envelope.context);
        let for_nobody = self.is_for_nobody(class, envelope.context);
        // One that was probed may still be received, unless this rank leaves.
        if message.taken && !self.for_nobody.is_all(class) || !(lost || revoked || for_nobody) {
            return;
        }
        if revoked && envelope.arrival != Arrival::Eager {
            // Its sender waits, and may not hear of it from who has revoked.
            self.tell_revoked(envelope.source, envelope.context);
        }
        if lost || revoked || self.decline(class, &envelope) {
            self.free_message(if class == 0 { Class::Eager } else { Class::Coll }, id);
        }
    }

    /// A rank whose blocked lane a posted receive may wait behind. Bounded by the number of ranks.
    pub(crate) fn blocking_source(&self, id: Id) -> Option<u32> {
        let request = self.requests.get(id).filter(|r| r.state == State::RecvPosted)?;
        self.blocked_among(request.class, request.context, request.peer)
    }

    /// A rank whose lane of a class is blocked, and which `peer` is or, where that is any, which is a member. Bounded by the number of ranks.
    pub(crate) fn blocked_among(&self, class: Class, context: u32, peer: u32) -> Option<u32> {
        let class = usize::from(class == Class::Coll);
        let blocked = |peer: &Peer| peer.blocked.get(class).copied().unwrap_or(false);
        self.peer_that(context, peer, blocked)
    }

    /// A rank that has ended behind a blocked lane, and which `peer` is or, where that is any, which is a member. Bounded by the number of ranks.
    pub(crate) fn ended_among(&self, context: u32, peer: u32) -> Option<u32> {
        self.peer_that(context, peer, Peer::is_end_blocked)
    }

    fn peer_that(&self, context: u32, peer: u32, is: impl Fn(&Peer) -> bool) -> Option<u32> {
        let among = |rank: u32| peer == rank || peer == ANY_SOURCE && self.contexts.is_member(context, rank);
        (0u32..).zip(self.peers.iter()).find(|(rank, p)| is(p) && among(*rank)).map(|(rank, _)| rank)
    }

    /// The peer of a pending request that has ended behind a blocked lane.
    pub(crate) fn ended_peer(&self, id: Id) -> Option<u32> {
        let request = self.requests.get(id).filter(|r| r.is_pending())?;
        self.ended_among(request.context, request.peer)
    }

    /// Ends a request that only a blocked lane could meet, or that waits for the end of a peer behind one.
    pub(crate) fn fail_behind_blocked(&mut self, id: Id) -> bool {
        let source = self.blocking_source(id).or_else(|| self.ended_peer(id));
        if let Some(rank) = source {
            self.fail(id, Code::TooManyUnexpected, rank);
        }
        source.is_some()
    }

    /// Says who belongs to a communicator, in world ranks; both halves of its context. Until it is said, any-source
    /// receives count all ranks as members. User threads only.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn set_members(&mut self, context: u32, members: &[u32]) -> Result<(), Error> {
        if self.contexts.set_members(context, members, self.size) {
            // Some may have revoked it already.
            members.iter().for_each(|rank| self.hear_revoked(*rank));
            Ok(())
        } else {
            Err(Error::OutOfMemory { what: "a communicator's members" })
        }
    }

    /// A communicator is gone, and its context is never used again: its members are forgotten, and what it has received and
    /// nobody asked for is dropped, as is what still comes; a sender of a plain message that waits for its receiver is told when this rank looks. Of this
    /// rank's own requests none may be [pending](Self::used) there. User threads only: it frees.
    pub fn forget_context(&mut self, context: u32) {
        self.contexts.forget(context);
        if self.matching.iter().any(|matching| !matching.unexpected.is_empty()) {
            self.faults.restart();
        }
    }

    /// The contexts, either half, of the requests that are pending, once for each request.
    pub fn used(&self) -> impl Iterator<Item = u32> + '_ {
        let pending = |id| self.requests.get(id).filter(|request| request.is_pending());
        self.requests.ids().filter_map(pending).map(|request| request.context)
    }

    /// The first of `members` from whom nothing comes any more and whose end is an error: dead or broken. Handler-safe;
    /// constant while all ranks live.
    pub fn failed_peer(&self, members: &[u32]) -> Option<(u32, Code)> {
        if self.faults.gone == 0 {
            return None;
        }
        members.iter().find_map(|rank| {
            let code = self.peers.get(*rank as usize)?.fate.no_more_from()?;
            (code != Code::PeerFinalized).then_some((*rank, code))
        })
    }

    /// What was lost because its receiver said that it is never received, and whose requests were [detached](Self::detach); and all that was lost
    /// since this rank [leaves](Self::take_no_more), also because its receiver has finalized.
    pub fn lost(&self) -> Lost {
        self.faults.lost
    }

    /// A number that grows with each peer that is gone, for layers above that look at [`failed_peer`](Self::failed_peer)
    /// only when something has changed. Handler-safe.
    pub fn failed_epoch(&self) -> u64 {
        self.faults.gone as u64
    }
}
