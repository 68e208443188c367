//! Probes: what has arrived and is not received yet.

use tocsin_progress::{Budget, Context, Id};
use tocsin_transport::Transport;

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
            return Err(crate::faults::error(code, rank));
        }
        Ok(found)
    }

    fn find(&self, pattern: &Pattern) -> Option<(Id, Status)> {
        let [eager, _] = &self.matching;
        let id = eager.unexpected.find(pattern)?;
        Some((id, eager.unexpected.status(id)?))
    }

    /// Adds room among the unexpected messages for lanes that wait for it. User threads that wait call it; it
    /// allocates. True: something has changed, another pass may get further.
    ///
    /// At the limit it ends the receives that could only be met through a blocked lane with
    /// [`Code::TooManyUnexpected`](crate::Code::TooManyUnexpected): nothing else could end a wait for them.
    pub fn grow_unexpected(&mut self) -> bool {
        if self.blocked == 0 {
            return false;
        }
        let mut changed = false;
        for class in [0, 1] {
            let waiting = self.peers.iter().any(|p| p.blocked.get(class).copied().unwrap_or(false));
            if !waiting {
                continue;
            }
            let longest = self.longest;
            let grown = self.matching.get_mut(class).is_some_and(|m| m.unexpected.grow(longest));
            changed |= grown || self.fail_behind_blocked(class);
            self.again |= grown;
        }
        changed
    }
}
