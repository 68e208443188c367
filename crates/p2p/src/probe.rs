//! Probes: what has arrived and is not received yet.

use tocsin_progress::{Budget, Context, Id};
use tocsin_transport::{Class, Transport};

use crate::pattern::Pattern;
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
        let found = self.look(Pattern { context, source, tag })?;
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
        let Some((id, status)) = self.look(Pattern { context, source, tag })? else { return Ok(None) };
        let [eager, _] = &mut self.matching;
        eager.unexpected.take(id);
        Ok(Some((MessageId { class: 0, index: id.index, serial: id.generation }, status)))
    }

    fn look(&mut self, pattern: Pattern) -> Result<Option<(Id, Status)>, Error> {
        self.context = Context::User;
        if let Some(rank) = pattern.source.filter(|rank| *rank >= self.size) {
            return Err(Error::NoSuchRank { rank, size: self.size });
        }
        if self.contexts.is_revoked(pattern.context) {
            return Err(Error::Revoked { context: pattern.context });
        }
        self.learn_ends();
        let mut found = self.find(&pattern);
        // Who probes for a message behind a blocked head would look for ever.
        while found.is_none() && self.blocked > 0 && self.grow_unexpected() {
            self.progress(&mut Budget::user());
            found = self.find(&pattern);
        }
        if found.is_none()
            && let Some((code, rank)) = self.no_source(pattern.context, pattern.source)
        {
            return Err(self.refusal(pattern.context, code, rank));
        }
        Ok(found)
    }

    fn find(&self, pattern: &Pattern) -> Option<(Id, Status)> {
        let [eager, _] = &self.matching;
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

    /// Whether a collective's lane is blocked, so that [`grow_for_collective`](Self::grow_for_collective) would do
    /// something. Handler-safe; bounded by the number of ranks.
    pub fn is_coll_blocked(&self) -> bool {
        self.blocked > 0 && self.peers.iter().any(|p| p.blocked.get(1).copied().unwrap_or(false))
    }

    /// Adds room among the unexpected messages for all lanes that wait for it. User threads that wait call it; it
    /// allocates. True: something has changed, another pass may get further. One comparison when no lane waits.
    ///
    /// At the limit it ends the receives that could only be met through a blocked lane with
    /// [`Code::TooManyUnexpected`](crate::Code::TooManyUnexpected): nothing else could end a wait for them. A thread
    /// that knows what it waits for does better with [`grow_for_message`](Self::grow_for_message) or
    /// [`grow_for_collective`](Self::grow_for_collective), which leave other lanes to push back and other receives
    /// alone.
    pub fn grow_unexpected(&mut self) -> bool {
        let eager = self.grow_class(Class::Eager, None);
        self.grow_class(Class::Coll, None) || eager
    }

    /// As [`grow_unexpected`](Self::grow_unexpected), for a thread that waits for one request: does nothing unless that
    /// is a receive whose message may be behind a blocked lane, and at the limit ends that receive alone.
    pub fn grow_for_message(&mut self, id: Id) -> bool {
        self.is_behind_blocked(id)
            && self.requests.get(id).map(|r| r.class).is_some_and(|class| self.grow_class(class, Some(id)))
    }

    /// As [`grow_unexpected`](Self::grow_unexpected), for a thread that waits for a collective: a flood of users'
    /// messages goes on being pushed back meanwhile.
    pub fn grow_for_collective(&mut self) -> bool {
        self.grow_class(Class::Coll, None)
    }

    fn grow_class(&mut self, class: Class, only: Option<Id>) -> bool {
        let index = usize::from(class == Class::Coll);
        if self.blocked == 0 || !self.peers.iter().any(|p| p.blocked.get(index).copied().unwrap_or(false)) {
            return false;
        }
        let longest = self.longest;
        if self.matching.get_mut(index).is_some_and(|m| m.unexpected.grow(longest)) {
            self.again = true;
            return true;
        }
        match only {
            Some(id) => self.fail_behind_blocked(id),
            None => {
                let mut failed = false;
                for at in 0..self.requests.capacity() as u32 {
                    let Some(id) = self.requests.by_index(at) else { continue };
                    if self.requests.get(id).is_some_and(|r| r.class == class) {
                        failed |= self.fail_behind_blocked(id);
                    }
                }
                failed
            }
        }
    }
}
