//! What a schedule's runs need is reserved before the first of them: its peers, a request for each message, a slot to run in. User threads only.

use super::list::StepList;
use super::long::Posts;
use super::release::give_back;
use super::{Active, MOST_SLOTS, Nbc, Stage};
use crate::Error;
use crate::messages::Messages;
use crate::schedule::{Kind, Schedule};
use tocsin_progress::slots::Id;

impl Nbc {
    /// Reserves all that the runs of a schedule need and connects its peers. User threads only.
    ///
    /// # Errors
    /// Memory or a peer refused.
    pub fn prepare<M: Messages>(
        &mut self,
        messages: &mut M,
        schedule: Box<Schedule>,
        context: u32,
    ) -> Result<Id, Error> {
        self.prepare_for(messages, schedule, context, Posts::Later)
    }

    /// [`prepare`](Self::prepare), or what one run needs that begins at once.
    pub(super) fn prepare_for<M: Messages>(
        &mut self,
        messages: &mut M,
        mut schedule: Box<Schedule>,
        context: u32,
        posts: Posts,
    ) -> Result<Id, Error> {
        self.collect(messages);
        if let Some(call) = schedule.board.as_ref() {
            self.prepare_rings(messages, call.board);
            if call.long {
                self.prepare_long(messages, call, posts)?;
            }
        }
        connect(messages, &schedule)?;
        if let Err(error) = reserve(messages, &mut schedule) {
            give_back(messages, &mut schedule);
            return Err(error);
        }
        self.occupy(messages, schedule, context)
    }

    /// Gives a schedule that has all it needs a slot to run in.
    pub(super) fn occupy<M: Messages>(
        &mut self,
        messages: &mut M,
        mut schedule: Box<Schedule>,
        context: u32,
    ) -> Result<Id, Error> {
        if self.slots.reserve(1).is_err() {
            give_back(messages, &mut schedule);
            return Err(Error::OutOfMemory { bytes: size_of::<Active>() });
        }
        let id = self.slots.alloc().filter(|id| id.index < MOST_SLOTS);
        let Some((id, active)) = id.and_then(|id| Some((id, self.slots.get_mut(id)?))) else {
            give_back(messages, &mut schedule);
            return Err(Error::OutOfMemory { bytes: size_of::<Active>() });
        };
        active.call = schedule.board;
        active.schedule = Some(schedule);
        active.kept = None;
        active.context = context;
        active.stage = Stage::Resting;
        active.alive_at = None;
        active.detached = false;
        active.ready = StepList::EMPTY;
        active.deferred = StepList::EMPTY;
        if let Some(completion) = self.slots.shared(id) {
            completion.reset();
        }
        Ok(id)
    }
}

/// Connects every peer, with the longest message that goes there.
fn connect<M: Messages>(messages: &mut M, schedule: &Schedule) -> Result<(), Error> {
    let mut peers: Vec<(u32, usize)> = schedule
        .steps
        .iter()
        .filter_map(|step| match step.kind {
            Kind::Send { peer, bytes, .. } => Some((peer, bytes)),
            Kind::Recv { peer, .. } => Some((peer, 0)),
            _ => None,
        })
        .collect();
    peers.sort_unstable_by(|a, b| b.cmp(a));
    peers.dedup_by_key(|(peer, _)| *peer);
    for (peer, bytes) in peers {
        messages.prepare_peer(peer, bytes)?;
    }
    Ok(())
}

/// One request for each message.
fn reserve<M: Messages>(messages: &mut M, schedule: &mut Schedule) -> Result<(), Error> {
    for (state, step) in schedule.state.iter_mut().zip(&schedule.steps) {
        if matches!(step.kind, Kind::Send { .. } | Kind::Recv { .. }) {
            state.request = Some(messages.reserve()?);
        }
    }
    Ok(())
}
