//! All the communication state of one rank: what its engine runs.

use std::sync::Arc;

use tocsin_nbc::Nbc;
use tocsin_p2p::P2p;
use tocsin_progress::{Budget, Pass, Work};
use tocsin_shm_transport::ShmTransport;
use tocsin_sync::atomic::{AtomicBool, Ordering};
use tocsin_transport::{Class, Transport};

use crate::boards::Boards;

/// Point to point and collectives of one rank, under its engine's token.
#[derive(Debug)]
pub(crate) struct RankState {
    pub(crate) p2p: P2p<ShmTransport>,
    pub(crate) nbc: Nbc,
    /// The rank has left its world: no buffer is touched any more, whoever enters.
    closed: Arc<AtomicBool>,
    boards: Arc<Boards>,
    /// A lane waits for room among the unexpected messages, as of the last pass: so that waiters need not enter to see.
    blocked: Arc<AtomicBool>,
    /// [`P2p::room_asked_at`] when there was no more room to make for those who only want to hear of messages.
    pub(crate) refused_at: Option<(u64, u64)>,
    /// The same when there was no more for what peers that have ended had sent.
    pub(crate) ends_refused_at: Option<(u64, u64)>,
    /// The same when there was no more in a class: Eager, Coll.
    pub(crate) class_refused_at: [Option<(u64, u64)>; 2],
}

impl RankState {
    pub(crate) fn new(
        p2p: P2p<ShmTransport>,
        closed: Arc<AtomicBool>,
        blocked: Arc<AtomicBool>,
        boards: Arc<Boards>,
    ) -> RankState {
        RankState {
            p2p,
            nbc: Nbc::new(),
            closed,
            blocked,
            boards,
            refused_at: None,
            ends_refused_at: None,
            class_refused_at: [None; 2],
        }
    }

    /// Sends and collectives that finalize has to see through.
    pub(crate) fn is_drained(&self) -> bool {
        self.p2p.outstanding_sends() == 0 && self.p2p.own_sends() == 0 && self.nbc.outstanding() == 0
    }

    /// Whether a collective may go on, whatever arrives.
    fn has_steps(&self) -> bool {
        self.nbc.work_left() || self.nbc.has_deferred_user_steps() || self.nbc.has_news(&self.p2p)
    }

    /// Tells the collectives which communicators were dropped.
    #[inline]
    pub(crate) fn close_boards(&mut self) {
        for number in self.boards.take_dropped() {
            self.nbc.close_board(number);
        }
    }

    /// Or this is a child of fork(), whose parent's lanes these are.
    fn is_closed(&self) -> bool {
        // SYNC POINT: Relaxed: the flag is set under the token, which orders it for the next holder.
        self.closed.load(Ordering::Relaxed) || tocsin_doorbell::fork::disowned()
    }
}

impl RankState {
    /// [`work_left`](Work::work_left), but for plain messages and announcements from one rank, which a thread receives one after the other.
    pub(crate) fn work_left_beside(&self, source: u32) -> bool {
        !self.is_closed() && (self.p2p.work_left_beside(source) || self.has_steps())
    }

    /// A post is not made, or has failed: nobody stays for what it would have sent and received. `large`: somebody would have.
    pub(crate) fn stays_not(&mut self, large: bool) {
        if large {
            self.p2p.end_stay();
        }
    }
}

// SAFETY: - p2p, nbc and transport promise handler safety of the methods used here; this only calls them.
unsafe impl Work for RankState {
    #[inline]
    fn progress(&mut self, budget: &mut Budget) -> Pass {
        if self.is_closed() {
            return Pass::Idle;
        }
        self.close_boards();
        let messages = self.p2p.progress(budget);
        let collectives = self.nbc.progress(&mut self.p2p, budget);
        // What is posted next is posted by somebody else.
        self.p2p.set_waits(false);
        let blocked = self.p2p.is_blocked();
        if blocked != self.blocked.load(Ordering::Relaxed) {
            // SYNC POINT: Relaxed: a waiter makes a pass before each look, and a pass by another that finds a lane
            // newly blocked has worked, so that it wakes sleepers.
            self.blocked.store(blocked, Ordering::Relaxed);
        }
        match (messages, collectives) {
            (Pass::More, _) | (_, Pass::More) => Pass::More,
            // A step has met a large message that was announced before: the copying begins with the next pass.
            (_, Pass::Worked) if self.p2p.is_unfinished() => Pass::More,
            (Pass::Idle, Pass::Idle) => Pass::Idle,
            // Room that was freed after the lanes had been looked into lets a blocked one go on.
            _ if self.p2p.is_left_over() => Pass::More,
            _ => Pass::Worked,
        }
    }

    #[inline]
    fn leave_quietly(&mut self) -> bool {
        let held = self.nbc.announce_quietly(&mut self.p2p);
        self.p2p.transport_mut().flush_quietly() || held
    }

    #[inline]
    fn leave(&mut self) {
        self.nbc.announce(&mut self.p2p);
        self.p2p.transport_mut().flush();
    }

    fn computes_beside(&mut self, core: u32, now: u64) -> bool {
        self.p2p.transport_mut().computes_beside(core, now)
    }

    fn roomier_core(&mut self, core: u32, now: u64) -> Option<u32> {
        self.p2p.transport().roomier_core(core, now)
    }

    #[inline]
    fn is_unfinished(&self) -> bool {
        !self.is_closed() && (self.p2p.is_left_behind() || self.p2p.is_left_over())
    }

    #[inline]
    fn has_operations(&self) -> bool {
        !self.is_closed() && (self.p2p.has_requests() || self.nbc.outstanding() > 0)
    }

    #[inline]
    fn wants_plain(&self) -> bool {
        self.p2p.wants_plain() || self.nbc.wants_plain()
    }

    #[inline]
    fn wants_offers(&self) -> bool {
        self.p2p.wants_offers()
    }

    #[inline]
    fn takes_published(&mut self) -> bool {
        self.p2p.takes_published()
    }

    #[inline]
    fn awaits_answer(&self) -> bool {
        self.p2p.transport().awaits_answer()
    }

    #[inline]
    fn wants_chore(&self) -> bool {
        let wanted = || {
            let blocked = || self.p2p.is_class_blocked(Class::Coll) || self.p2p.is_end_blocked();
            self.p2p.wants_plain() || self.nbc.outstanding() > 0 && blocked()
        };
        self.p2p.is_blocked() && wanted() && self.refused_at != Some(self.p2p.room_asked_at())
    }

    #[inline]
    fn work_left(&self) -> bool {
        !self.is_closed() && (self.p2p.work_left() || self.has_steps())
    }

    #[inline]
    fn has_coming(&self) -> bool {
        !self.is_closed() && self.p2p.has_coming()
    }
}
