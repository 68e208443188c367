//! Probes: what has arrived and is not received yet.

use tocsin_progress::{Budget, Context, Id};
use tocsin_transport::{Class, Transport};

use crate::pattern::Pattern;
use crate::peer::{Drops, Fate, Peer};
use crate::request::{ANY_SOURCE, WANTS};
use crate::{Error, MessageId, P2p, Status};

impl MessageId {
    pub(crate) fn id(self) -> Id {
        Id { index: self.index, generation: self.serial }
    }
}

impl<T: Transport> P2p<T> {
    /// The message that a receive posted now would get, of the Eager class. User threads only: it may allocate. It
    /// makes no progress by itself unless a lane waits for room.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::Revoked`]; when nothing is there, [`Error::PeerDead`] and the like as
    /// [`irecv`](Self::irecv).
    pub fn iprobe(
        &mut self,
        context: u32,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<Option<Status>, Error> {
        let found = self.look(context, source, tag)?;
        Ok(found.map(|(_, status)| status))
    }

    /// As [`iprobe`](Self::iprobe), and takes the message out of matching: only [`mrecv`](Self::mrecv) gets it. User
    /// threads only.
    ///
    /// # Errors
    /// As [`iprobe`](Self::iprobe).
    pub fn improbe(
        &mut self,
        context: u32,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<Option<(MessageId, Status)>, Error> {
        let Some((id, status)) = self.look(context, source, tag)? else { return Ok(None) };
        let [eager, _] = &mut self.matching;
        eager.unexpected.take(id);
        Ok(Some((MessageId { class: 0, index: id.index, serial: id.generation }, status)))
    }

    fn look(
        &mut self,
        context: u32,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<Option<(Id, Status)>, Error> {
        self.context = Context::User;
        // Before it is a pattern: of its numbers, one stands for any source.
        if let Some(rank) = source.filter(|rank| *rank >= self.size) {
            return Err(Error::NoSuchRank { rank, size: self.size });
        }
        let pattern = Pattern::new(context, source, tag);
        if self.contexts.is_revoked(pattern.context) {
            return Err(Error::Revoked { context: pattern.context });
        }
        self.learn_ends();
        let mut found = self.find(&pattern);
        // Who probes for a message behind a blocked head would look for ever.
        while found.is_none() && self.blocked > 0 && self.grow_unexpected() == Grown::Room {
            self.progress(&mut Budget::user());
            // Of what this completed the collectives have yet to hear.
            self.again = true;
            found = self.find(&pattern);
        }
        if found.is_none()
            && let Some((code, rank)) = self.no_source(pattern.context, pattern.source())
        {
            self.take_in_own();
            found = self.find(&pattern);
            if found.is_none() {
                return Err(self.refusal(pattern.context, code, rank));
            }
        }
        Ok(found)
    }

    /// Whether [`iprobe`](Self::iprobe) would tell something now, be it an error, for who waits between two of them. Bounded by the messages of one bin and, once a
    /// rank has ended, by the number of ranks.
    pub fn would_tell(&self, context: u32, source: Option<u32>, tag: Option<i32>) -> bool {
        let pattern = Pattern::new(context, source, tag);
        let [eager, _] = &self.matching;
        eager.unexpected.may_have(&pattern)
            || self.contexts.is_revoked(context)
            || self.no_source(context, source).is_some()
    }

    /// Whether the message that a probe looks for may be behind a blocked lane. Bounded by the number of ranks.
    pub fn is_sought_behind_blocked(&self, context: u32, source: Option<u32>) -> bool {
        let peer = source.unwrap_or(ANY_SOURCE);
        self.blocked > 0 && self.blocked_among(Class::Eager, context, peer).is_some()
    }

    /// Whether a probe waits for the end of a peer that has ended behind a blocked lane. Bounded by the number of ranks.
    pub fn is_end_sought(&self, context: u32, source: Option<u32>) -> bool {
        self.blocked > 0 && self.ended_among(context, source.unwrap_or(ANY_SOURCE)).is_some()
    }

    fn find(&mut self, pattern: &Pattern) -> Option<(Id, Status)> {
        let [eager, _] = &mut self.matching;
        let id = eager.unexpected.find(pattern)?;
        Some((id, eager.unexpected.status(id)?))
    }

    /// Whether a lane waits for room among the unexpected messages, so that a waiter had better enter and make some.
    /// Handler-safe.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked > 0
    }

    /// Whether the message of a posted receive may be behind a blocked lane, so that
    /// [`grow_for_message`](Self::grow_for_message) would do something. Handler-safe; bounded by the number of ranks.
    pub fn is_behind_blocked(&self, id: Id) -> bool {
        self.blocked > 0 && self.blocking_source(id).is_some()
    }

    /// The class whose room the message of a posted receive waits for, if it may be behind a blocked lane. Handler-safe;
    /// bounded by the number of ranks.
    pub fn blocking_class(&self, id: Id) -> Option<Class> {
        self.requests.get(id).map(|request| request.class).filter(|_| self.is_behind_blocked(id))
    }

    /// Whether some lane of a class is blocked, so that [`grow_class`](Self::grow_class) would do something.
    /// Handler-safe; bounded by the number of ranks.
    pub fn is_class_blocked(&self, class: Class) -> bool {
        let index = usize::from(class == Class::Coll);
        self.blocked > 0 && self.peers.iter().any(|p| p.blocked.get(index).copied().unwrap_or(false))
    }

    /// Adds room among the unexpected messages for all lanes that wait for it. User threads that wait call it; it
    /// allocates. One comparison when no lane waits. A thread that knows what it waits for does better with
    /// [`grow_for_message`](Self::grow_for_message) or [`grow_for_collective`](Self::grow_for_collective), which leave
    /// other lanes to push back.
    pub fn grow_unexpected(&mut self) -> Grown {
        self.grow_class(Class::Eager).max(self.grow_class(Class::Coll))
    }

    /// As [`grow_unexpected`](Self::grow_unexpected), for a thread that waits for one request: does nothing unless that
    /// is a receive whose message may be behind a blocked lane.
    pub fn grow_for_message(&mut self, id: Id) -> Grown {
        if !self.is_behind_blocked(id) {
            return Grown::NotNeeded;
        }
        self.requests.get(id).map(|r| r.class).map_or(Grown::NotNeeded, |class| self.grow_class(class))
    }

    /// As [`grow_unexpected`](Self::grow_unexpected), for a thread that waits for a collective: a flood of users'
    /// messages goes on being pushed back meanwhile.
    pub fn grow_for_collective(&mut self) -> Grown {
        self.grow_class(Class::Coll)
    }

    /// As [`grow_unexpected`](Self::grow_unexpected), for the receives that somebody wants to hear of without looking
    /// ([`set_wants`](Self::set_wants)), and for collectives. For the thread that runs callbacks. Bounded by the number
    /// of requests times that of ranks.
    pub fn grow_for_wanted(&mut self) -> Grown {
        let mut all = self.grow_for_collective().max(self.grow_for_ends());
        for at in 0..self.requests.capacity() as u32 {
            let wanted = self.requests.by_index(at);
            let wanted = wanted.filter(|id| self.requests.get(*id).is_some_and(|r| r.has(WANTS)));
            if let Some(id) = wanted {
                all = all.max(self.grow_for_message(id));
            }
        }
        all
    }

    /// Whether a peer that has died or finalized is not known to be gone because a lane of its is blocked. Everything
    /// that needs it waits for that. Handler-safe; bounded by the number of ranks.
    pub fn is_end_blocked(&self) -> bool {
        self.blocked > 0 && self.peers.iter().any(Peer::is_end_blocked)
    }

    /// Adds room for what peers have sent that are dead or have finalized, so that their end becomes known. What a dead
    /// one has sent beyond the limit is dropped. User threads only.
    pub fn grow_for_ends(&mut self) -> Grown {
        let mut all = Grown::NotNeeded;
        for class in [Class::Eager, Class::Coll] {
            let index = usize::from(class == Class::Coll);
            let waits = |p: &Peer| p.is_end_blocked() && p.blocked.get(index).copied().unwrap_or(false);
            if self.blocked == 0 || !self.peers.iter().any(waits) {
                continue;
            }
            let mut grown = self.grow_class(class);
            if grown == Grown::Full {
                for rank in 0..self.size as usize {
                    if !self.peers.get(rank).is_some_and(|p| waits(p) && p.fate == Fate::Dying) {
                        continue;
                    }
                    if let Some(drops) = self.peers.get_mut(rank).and_then(|p| p.drops.get_mut(index)) {
                        *drops = (*drops).max(Drops::Allowed);
                        self.again = true;
                        grown = Grown::Room;
                    }
                }
            }
            all = all.max(grown);
        }
        all
    }

    /// Whether a pending request needs a peer that has ended behind a blocked lane. Handler-safe; bounded by the number of
    /// ranks.
    pub fn needs_end(&self, id: Id) -> bool {
        self.blocked > 0 && self.ended_peer(id).is_some()
    }

    /// [`needs_end`](Self::needs_end) of any message of a collective. Bounded by the number of requests times that of ranks.
    pub fn collectives_need_end(&self) -> bool {
        let all = (0..self.requests.capacity() as u32).filter_map(|at| self.requests.by_index(at));
        let mut of_collectives =
            all.filter(|id| self.requests.get(*id).is_some_and(|request| request.class == Class::Coll));
        self.is_end_blocked() && of_collectives.any(|id| self.needs_end(id))
    }

    /// As [`grow_unexpected`](Self::grow_unexpected), for one class.
    pub fn grow_class(&mut self, class: Class) -> Grown {
        let index = usize::from(class == Class::Coll);
        if !self.is_class_blocked(class) {
            return Grown::NotNeeded;
        }
        let longest = self.longest;
        if self.matching.get_mut(index).is_some_and(|m| m.unexpected.grow(longest)) {
            self.again = true;
            return Grown::Room;
        }
        Grown::Full
    }

    /// Ends a request that only a blocked lane could meet, or that needs a peer which has ended behind one, with
    /// [`Code::TooManyUnexpected`](crate::Code::TooManyUnexpected); whether it was one. For who knows that nobody else
    /// will receive what fills the pool. User threads only.
    pub fn give_up_message(&mut self, id: Id) -> bool {
        self.fail_behind_blocked(id)
    }

    /// As [`give_up_message`](Self::give_up_message), for all messages of collectives.
    pub fn give_up_collectives(&mut self) -> bool {
        let mut failed = false;
        for at in 0..self.requests.capacity() as u32 {
            let Some(id) = self.requests.by_index(at) else { continue };
            if self.requests.get(id).is_some_and(|r| r.class == Class::Coll) {
                failed |= self.fail_behind_blocked(id);
            }
        }
        failed
    }

    /// Unexpected messages that were received or dropped so far: while it grows, a full pool is not for ever.
    /// Handler-safe.
    pub fn unexpected_freed(&self) -> u64 {
        self.freed
    }

    /// What a refusal of more room depends on: as long as it is the same, asking again gets the same answer. Handler-safe.
    pub fn room_asked_at(&self) -> (u64, u64) {
        (self.freed, self.hindrances)
    }
}

/// What became of an attempt to add room among the unexpected messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Grown {
    /// No lane waits for room that this caller needs.
    NotNeeded,
    /// The limit is reached, or memory was refused.
    Full,
    /// There is more room: another pass may get further.
    Room,
}
