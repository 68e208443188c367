//! Room for unexpected messages: who needs it makes it, up to the limit.

use tocsin_p2p::{Class, Grown};
use tocsin_progress::Context;
use tocsin_progress::engine::Entered;
use tocsin_sync::atomic::Ordering;

use super::{Need, Rank};
use crate::state::RankState;

impl Rank {
    /// A full pool of unexpected messages blocks the very message that is waited for: makes room for it. Who calls this
    /// is a user's thread and may allocate.
    pub(crate) fn make_room(&self, need: &[Need<'_>]) -> Grown {
        if !self.blocked.load(Ordering::Relaxed) {
            return Grown::NotNeeded;
        }
        Self::grow(&mut self.enter_in_wait(), need)
    }

    /// [`make_room`](Self::make_room) as far as it can without waiting.
    pub(crate) fn try_make_room(&self, need: Need<'_>) {
        if self.blocked.load(Ordering::Relaxed)
            && let Some(mut state) = self.try_enter_open("is_done")
        {
            Self::grow(&mut state, &[need]);
        }
    }

    /// Whether it needs a peer that has ended behind a blocked lane.
    fn needs_end(state: &Entered<'_, RankState>, need: Need<'_>) -> bool {
        match need {
            Need::Message { id, .. } => state.p2p.needs_end(id),
            Need::Probe(sought) => sought.needs_end(state),
            Need::Collective => state.p2p.collectives_need_end(),
        }
    }

    /// Room in every class that a lane waits for, up to the limit: a waiter's own message may be behind such a lane, or its
    /// peer may wait for room before it does what this waiter waits for. That there is no more concerns those alone who
    /// wait behind it.
    ///
    /// Entered for writing, and asked again, only when the answer may be another: writing wakes who sleeps, this very
    /// waiter included, which would never come to rest.
    fn grow(state: &mut Entered<'_, RankState>, need: &[Need<'_>]) -> Grown {
        let mut all = Grown::NotNeeded;
        let now = state.p2p.room_asked_at();
        let classes = [Class::Eager, Class::Coll];
        for (class, refused) in classes.into_iter().zip(state.class_refused_at) {
            if !state.p2p.is_class_blocked(class) {
                continue;
            }
            let full = refused == Some(now) || {
                let grown = state.p2p.grow_class(class);
                let full = grown == Grown::Full;
                let [eager, coll] = &mut state.class_refused_at;
                *(if class == Class::Coll { coll } else { eager }) = full.then_some(now);
                all = all.max(if full { Grown::NotNeeded } else { grown });
                full
            };
            let waits = |need: &Need<'_>| match *need {
                Need::Message { id, .. } => state.p2p.blocking_class(id) == Some(class),
                Need::Probe(sought) => class == Class::Eager && sought.is_behind_blocked(state),
                Need::Collective => class == Class::Coll,
            };
            if full && need.iter().any(waits) {
                all = all.max(Grown::Full);
            }
        }
        if state.p2p.is_end_blocked() {
            // Whatever is waited for may need the news of that end.
            if state.ends_refused_at != Some(now) {
                let grown = state.p2p.grow_for_ends();
                state.ends_refused_at = (grown == Grown::Full).then_some(now);
                all = all.max(if grown == Grown::Room { grown } else { Grown::NotNeeded });
            }
            if state.ends_refused_at == Some(now) && need.iter().any(|need| Self::needs_end(state, *need)) {
                all = all.max(Grown::Full);
            }
        }
        all
    }

    /// Asks for room once more whatever was refused: memory may have been short for a moment. Whether there is more.
    pub(super) fn grow_anew(&self, need: &[Need<'_>]) -> bool {
        let mut state = self.enter_in_wait();
        state.class_refused_at = [None; 2];
        state.ends_refused_at = None;
        Self::grow(&mut state, need) == Grown::Room
    }

    /// Somebody waits for a callback or a waker: if its message is behind a full pool already, no message will come
    /// that would make the engine notice.
    pub(crate) fn look_for_wanted(&self) {
        if self.blocked.load(Ordering::Relaxed) {
            self.engine.poke(Context::User);
        }
    }

    /// Ends what only a blocked lane could meet.
    pub(super) fn give_up(&self, need: &[Need<'_>]) -> bool {
        let mut state = self.enter_in_wait();
        let mut ended = false;
        for need in need {
            ended |= match *need {
                Need::Message { id, .. } => state.p2p.give_up_message(id),
                Need::Probe(sought) => sought.give_up(&state),
                Need::Collective => state.p2p.give_up_collectives(),
            };
        }
        ended
    }

    /// What the callback thread does when a lane is blocked and somebody wants to hear of a message without looking:
    /// room, and a look at what it lets in.
    pub(super) fn make_room_for_wanted(&self) {
        if self.is_closed() {
            return;
        }
        let mut state = self.enter();
        let grown = state.p2p.grow_for_wanted();
        state.refused_at = (grown == Grown::Full).then(|| state.p2p.room_asked_at());
        drop(state);
        if grown == Grown::Room {
            self.engine.poke(Context::User);
        }
    }
}
