//! Communicators.

mod agree;
mod at_once;
mod collectives;
pub(crate) mod in_hand;
mod messages;
mod null;
mod prepared;
pub(crate) mod probes;
mod room;
mod sendrecv;

use std::sync::Arc;

use tocsin_nbc::{Group, Hierarchy};
use tocsin_progress::{Context, Pass};
use tocsin_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tocsin_transport::Board;

use crate::asks;
use crate::boards::WORLD_BOARD;
use crate::error::Error;
use crate::rank::Rank;
use crate::rank::dropped::Dropped;
use crate::state::RankState;
use crate::{BackendKind, Snapshot};
pub use null::PROC_NULL;
pub use probes::Message;

/// Context of the world's communicator.
const WORLD_CONTEXT: u32 = 1;
/// First context of the others.
pub(crate) const FIRST_CONTEXT: u32 = 2;
/// Marks the collective half of a context.
pub(crate) const COLLECTIVE: u32 = 1 << 31;

/// A group of ranks whose traffic matches only itself. Cheap to clone; usable from any thread of its rank.
///
/// No method may be called in a handler or in a user operator. Collective calls come in the same order on all ranks,
/// from one thread at a time.
#[derive(Clone)]
pub struct Comm {
    inner: Arc<Inner>,
}

struct Inner {
    rank: Arc<Rank>,
    group: Group,
    context: u32,
    /// Counts collectives.
    sequence: AtomicU32,
    /// Rank here of each world rank; `None` when they are the same.
    ranks_here: Option<Box<[u32]>>,
    /// The board that goes back when nobody has this communicator any more.
    board: Option<u32>,
    /// Operations were given up here, which may go on when nobody has this communicator any more.
    goes_on: AtomicBool,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SYNC POINT: Relaxed: who set it had this communicator, and dropping that is ordered before this.
        let goes_on = self.goes_on.load(Ordering::Relaxed);
        self.rank.drop_communicator(Dropped { context: self.context, goes_on, board: self.board });
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { group, context, .. } = &*self.inner;
        f.debug_struct("Comm")
            .field("rank", &group.rank())
            .field("size", &group.size())
            .field("context", context)
            .finish_non_exhaustive()
    }
}

impl Comm {
    pub(crate) fn world(rank: Arc<Rank>) -> Result<Comm, Error> {
        let all: Vec<u32> = (0..rank.segment.ranks()).collect();
        let me = rank.rank;
        let board = rank.segment.has_boards().then_some(WORLD_BOARD);
        Comm::of(rank, &all, me, WORLD_CONTEXT, board)
    }

    /// The communicator that its members have agreed on. Where this one is refused what that takes, the others are told: they may already wait
    /// for it in there.
    fn agreed(
        rank: &Arc<Rank>,
        members: &[u32],
        me: u32,
        context: u32,
        board: Option<u32>,
    ) -> Result<Comm, Error> {
        let made = Comm::of(rank.clone(), members, me, context, board);
        made.inspect_err(|_| rank.enter().p2p.revoke(context, members))
    }

    /// A communicator of the world ranks `members`, among which this rank is number `me`, with a board that all of them
    /// have.
    fn of(
        rank: Arc<Rank>,
        members: &[u32],
        me: u32,
        context: u32,
        board: Option<u32>,
    ) -> Result<Comm, Error> {
        let refused = |e| crate::outcome::collective_error("split", e);
        let mut group = Group::new(members, me)
            .map_err(refused)?
            .with_choices(rank.measured.choices(members.len(), || rank.places.relation(members)))
            .with_shared_cores(rank.shares_cores)
            .with_far_cache(rank.far_cache)
            .with_single_copies(rank.copied_once)
            .with_one_process(rank.one_process)
            .with_hierarchy(rank.places.hierarchy(members))
            .with_dedicated_cores(rank.dedicated_cores);
        if let Some(index) = board {
            // Whoever says that it has memory: asked again, that takes next to nothing.
            let allocated = rank.segment.allocate_board(index);
            // SAFETY: - the segment, which `Rank` keeps beside the engine, outlives it
            //         - it is this rank's alone, what was there before has been left by all its members, and contexts are not
            //           given out again: `boards.rs`, `agree.rs`.
            let opened = allocated.then(|| unsafe { rank.segment.board(index, members, me, context) });
            let Some(opened) = opened.flatten() else {
                rank.boards.give_back(index);
                return Err(refused(tocsin_nbc::Error::OutOfMemory { bytes: size_of::<Board>() }));
            };
            let has_long = opened.has_long();
            let number = rank.enter().nbc.open_board(opened, &group);
            let number = number.inspect_err(|_| rank.boards.give_back(index)).map_err(refused)?;
            if index != WORLD_BOARD {
                rank.boards.set_seat(index, number);
            }
            group = group.with_board(number);
            if !has_long {
                group = group.without_long_parts();
            }
        }
        let identity = members.iter().zip(0..).all(|(world, here)| *world == here);
        let ranks_here = (!identity).then(|| {
            let mut here = vec![u32::MAX; rank.segment.ranks() as usize].into_boxed_slice();
            for (world, number) in members.iter().zip(0..) {
                if let Some(place) = here.get_mut(*world as usize) {
                    *place = number;
                }
            }
            here
        });
        let sequence = AtomicU32::new(0);
        let board = board.filter(|index| *index != WORLD_BOARD);
        // From here on an error gives the board and the context back.
        let goes_on = AtomicBool::new(false);
        let inner = Inner { rank, group, context, sequence, ranks_here, board, goes_on };
        inner
            .rank
            .enter()
            .p2p
            .set_members(context, members)
            .map_err(|e| crate::outcome::message_error("split", e))?;
        Ok(Comm { inner: Arc::new(inner) })
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Rank {
        &self.inner.rank
    }

    /// An operation of this communicator was given up and may go on.
    pub(crate) fn set_goes_on(&self) {
        // SYNC POINT: Relaxed: as in the drop of the communicator.
        self.inner.goes_on.store(true, Ordering::Relaxed);
    }

    /// Rank here of a world rank.
    #[inline]
    pub(crate) fn rank_of(&self, world: u32) -> u32 {
        match &self.inner.ranks_here {
            None => world,
            Some(here) => here.get(world as usize).copied().unwrap_or(u32::MAX),
        }
    }

    /// This process's rank in the communicator.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.inner.group.rank()
    }

    /// Whether the algorithm `shm` takes long blocks here (in rounds, or up to 1 MiB from each rank), and not only what fits into the slots of a board: 2 KiB, and 32 KiB in all. The
    /// same on all ranks.
    pub fn has_long_parts(&self) -> bool {
        self.inner.group.has_long_parts()
    }

    /// In which parts of the machine its ranks are, for algorithms whose trees follow that. `None`: ranks are not bound, so that it is not known, or
    /// all are in one part. The same on all ranks.
    pub fn hierarchy(&self) -> Option<&Hierarchy> {
        self.inner.group.hierarchy()
    }

    /// Number of ranks.
    #[inline]
    pub fn size(&self) -> u32 {
        self.inner.group.size()
    }

    /// Rank in the world of a rank of this communicator.
    #[inline]
    pub fn world_rank(&self, rank: u32) -> Option<u32> {
        self.inner.group.world_rank(rank)
    }

    /// Context id: the same on all its ranks.
    #[inline]
    pub fn context(&self) -> u32 {
        self.inner.context
    }

    /// Backend of this rank.
    pub fn backend(&self) -> BackendKind {
        self.shared().backend
    }

    /// Statistics of this rank so far.
    pub fn stats(&self) -> Snapshot {
        self.shared().stats()
    }

    /// Makes one pass of progress: what the backend `poll` needs in long computations. Where ranks share cores, who does nothing else, and in vain, gives its core away.
    pub fn progress(&self) {
        if tocsin_doorbell::fork::disowned() {
            return;
        }
        let engine = &self.shared().engine;
        let again = engine.asks(asks::FOR_ANYTHING);
        if self.advance() != Pass::Idle {
            engine.asked_well(asks::FOR_ANYTHING, false);
        } else if engine.asked_in_vain(again && !crate::operator::InsideOperator::is_here()) {
            self.advance();
        }
    }

    /// One pass of progress. None in a child of fork.
    fn advance(&self) -> Pass {
        if tocsin_doorbell::fork::disowned() {
            return Pass::Idle;
        }
        self.shared().open_gates();
        self.shared().engine.poke(Context::User)
    }

    /// Every pending and later operation on it fails with [`Error::Revoked`], here and on all its ranks.
    pub fn revoke(&self) {
        if self.shared().is_closed() {
            return;
        }
        let mut guard = self.shared().enter();
        if self.shared().is_closed() {
            return;
        }
        self.revoke_inside(&mut guard);
    }

    /// Whether its ranks hear on a board of what one of them cannot go on with.
    pub(crate) fn has_board(&self) -> bool {
        self.inner.group.board().is_some()
    }

    pub(crate) fn revoke_inside(&self, state: &mut RankState) {
        state.p2p.revoke(self.inner.context, self.inner.group.world_ranks());
        state.nbc.fail_context(&mut state.p2p, self.inner.context | COLLECTIVE);
    }

    /// Whether it was revoked, here or, as far as the news has come, by a peer.
    pub fn is_revoked(&self) -> bool {
        // A child of fork() would enter its parent's engine.
        !tocsin_doorbell::fork::disowned() && self.shared().enter().p2p.is_revoked(self.inner.context)
    }

    /// Ends every rank of the world; the low eight bits of `code` become the launcher's status, or 1 where they are 0. In a child of fork(), whose parent's world it is, it ends the child alone.
    pub fn abort(&self, code: i32) -> ! {
        self.shared().abort(code)
    }

    /// The number of the next collective. Under the token, and still held when what was posted is [counted](Self::count).
    fn sequence(&self) -> u32 {
        // SYNC POINT: Relaxed: under the token.
        self.inner.sequence.load(Ordering::Relaxed)
    }

    /// Counts a collective that was posted. Under the token.
    fn count(&self) {
        // SYNC POINT: Relaxed: under the token, so that nobody else writes between.
        self.inner.sequence.store(self.sequence().wrapping_add(1), Ordering::Relaxed);
    }
}
