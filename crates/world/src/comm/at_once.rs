//! Short plain messages that nothing is in the way of: most of all there are.
//!
//! What is done here is what [`send_raw`](Comm::send_raw), [`recv_raw`](Comm::recv_raw) and [`irecv_raw`](Comm::irecv_raw) do in general, in one step; whatever else it takes, and every
//! error, is theirs.

use std::ptr::NonNull;

use tocsin_p2p::{AtOnce, INLINE, LONGEST, Put, Took, Wanted};
use tocsin_progress::engine::AtOnce as AtOnceInside;
use tocsin_progress::{Completion, Entered, Id, Work};

use super::Comm;
use crate::rank::Rank;
use crate::request::Status;
use crate::state::RankState;
use crate::{ConstBuf, Layout, MutBuf};

/// How often a receive looks at its source's lane before it looks whether somebody else wants the engine...
const LOOKS: u32 = 32;
/// ...and how often it does that before it looks at everything: for some 400 ns in all.
const ROUNDS: u32 = 4;
/// How often the core is given away, where ranks share cores, before the receive is posted, and how often before everything is looked at.
const TURNS: u32 = 64;
const TURNS_PER_LOOK: u32 = 8;
/// How often a receive looks that has got its core back too early: for some 1 us.
const STAY_LOOKS: u32 = 256;

/// What a receive came to.
pub(super) enum Waited<'a> {
    Received(Status),
    /// It takes more. With the engine, if it was entered.
    Not(Option<Entered<'a, RankState>>),
}

/// A look at everything else, before the message is waited for. If it finds something, the receive goes the general way, which sees to it.
#[cold]
fn look_at_the_rest(state: &mut RankState, source: u32) {
    if !state.work_left_beside(source) {
        state.p2p.note_looked();
    }
}

/// What a post of a receive came to.
pub(super) enum Posted<'a> {
    /// It is posted.
    Pending(Id, NonNull<Completion>),
    /// Its message was there.
    Over(Status),
    /// It takes more. With the engine, if it was entered.
    Not(Option<Entered<'a, RankState>>),
}

impl Comm {
    /// Sends, if the message is short and can be in its lane at once. Whether it is.
    ///
    /// # Safety
    /// As [`send_raw`](Self::send_raw).
    #[inline(always)]
    pub(super) unsafe fn send_at_once(&self, buf: &ConstBuf, dest: u32, tag: i32) -> bool {
        let Layout::Contiguous { bytes } = buf.layout else { return false };
        let rank = self.shared();
        // What goes at once where ranks share cores may be longer.
        if bytes > INLINE && (bytes > LONGEST || !rank.engine.is_crowded()) || tag < 0 {
            return false;
        }
        let Some(dest) = self.world_rank(dest) else { return false };
        if !Rank::is_seen_callable() {
            return false;
        }
        let Some(mut inside) = rank.engine.enter_at_once() else { return false };
        if !rank.is_open() {
            return false;
        }
        let state = inside.work();
        // SAFETY: - promised by the caller.
        let put = unsafe { state.p2p.send_at_once(self.context(), dest, tag, buf.base, bytes) };
        if put == Put::Quiet {
            inside.leave_as_found();
        }
        // Else its drop sees to it.
        put != Put::Not
    }

    /// Posts a receive of a message that comes in one packet, if nothing is in the way of that.
    ///
    /// # Safety
    /// As [`irecv_raw`](Self::irecv_raw).
    #[inline(always)]
    pub(super) unsafe fn irecv_at_once(
        &self,
        buf: &MutBuf,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Posted<'_> {
        let (Layout::Contiguous { bytes: room }, Some(source)) = (buf.layout, source) else {
            return Posted::Not(None);
        };
        let Some(peer) = self.world_rank(source).filter(|_| tag.is_none_or(|tag| tag >= 0)) else {
            return Posted::Not(None);
        };
        let rank = self.shared();
        if room > rank.eager_max || !Rank::is_seen_callable() {
            return Posted::Not(None);
        }
        let Some(mut inside) = rank.engine.enter_at_once() else { return Posted::Not(None) };
        if !rank.is_open() {
            return Posted::Not(None);
        }
        // SAFETY: - the buffer: promised by the caller.
        let posted = unsafe { inside.work().p2p.post_at_once(self.context(), peer, tag, buf.base, room) };
        match posted {
            AtOnce::Posted(id, completion) => {
                inside.leave_begun();
                Posted::Pending(id, completion)
            }
            AtOnce::Met { tag, bytes } => {
                inside.leave_as_found();
                // Its wait will be none.
                rank.open_gates();
                Posted::Over(Status { source, tag, bytes })
            }
            AtOnce::Not => Posted::Not(Some(inside.stay())),
        }
    }

    /// Where ranks share cores, and it is likely that the message comes from who waits for this one: gives it away, and looks for the message whenever it comes back, a few times.
    ///
    /// # Safety
    /// [`can_receive_at_once`](tocsin_p2p::P2p::can_receive_at_once) has said so. `to` is writable for `room` bytes.
    #[inline(never)]
    unsafe fn take_turns_at_once<'a>(
        &'a self,
        mut inside: AtOnceInside<'a, RankState>,
        peer: u32,
        wanted: Wanted,
        to: *mut u8,
        room: usize,
    ) -> Waited<'a> {
        let rank = self.shared();
        // Who has anything under way is better seen waiting.
        if inside.work().has_operations() {
            return Waited::Not(Some(inside.stay()));
        }
        let mut turns = rank.engine.turns(false, rank.is_beside(inside.work(), peer));
        inside.leave_waiting();
        for turn in 1..=TURNS {
            if !turns.give_way() {
                break;
            }
            let Some(mut inside) = rank.engine.enter_at_once() else { break };
            if !rank.is_open() {
                break;
            }
            let work = inside.work();
            if !work.p2p.can_receive_at_once(peer, room)
                || turn.is_multiple_of(TURNS_PER_LOOK) && work.work_left()
            {
                return Waited::Not(Some(inside.stay()));
            }
            // SAFETY: - promised by the caller
            //         - asked above; nothing else is done inside.
            let look = |inside: &mut AtOnceInside<'_, RankState>, looks| unsafe {
                inside.work().p2p.receive_at_once(peer, wanted, to, room, looks)
            };
            let (mut took, mut stayed) = (look(&mut inside, 1), false);
            if took == Took::Nothing && turns.stays(rank.is_beside(inside.work(), peer)) {
                stayed = true;
                took = look(&mut inside, STAY_LOOKS);
            }
            match took {
                Took::Nothing => inside.leave_waiting(),
                Took::Other => return Waited::Not(Some(inside.stay())),
                Took::Message { tag, len, flush } => {
                    if !flush {
                        inside.leave_as_found();
                    }
                    turns.note_met(stayed);
                    return Waited::Received(Status { source: self.rank_of(peer), tag, bytes: len });
                }
            }
        }
        Waited::Not(None)
    }

    /// Receives, if a short message is what comes next, within some 400 ns.
    ///
    /// # Safety
    /// As [`recv_raw`](Self::recv_raw).
    #[inline(always)]
    pub(super) unsafe fn recv_at_once(
        &self,
        buf: &MutBuf,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Waited<'_> {
        let (Layout::Contiguous { bytes: room }, Some(source)) = (buf.layout, source) else {
            return Waited::Not(None);
        };
        let Some(peer) = self.world_rank(source).filter(|_| tag.is_none_or(|tag| tag >= 0)) else {
            return Waited::Not(None);
        };
        if !Rank::is_seen_callable() {
            return Waited::Not(None);
        }
        let rank = self.shared();
        let Some(mut inside) = rank.engine.enter_at_once() else { return Waited::Not(None) };
        if !rank.is_open() {
            return Waited::Not(None);
        }
        let state = inside.work();
        if state.p2p.is_look_due() {
            look_at_the_rest(state, peer);
        }
        if !state.p2p.can_receive_at_once(peer, room) {
            return Waited::Not(Some(inside.stay()));
        }
        let wanted = Wanted::new(self.context(), tag);
        let beside = rank.is_beside(inside.work(), peer);
        let crowded = beside || !rank.engine.should_look();
        // Where ranks share cores it counts whether the message had to be looked for.
        let mut looks = if rank.engine.shares_core() { 1 } else { LOOKS };
        for round in 0..if crowded { 1 } else { ROUNDS } {
            if round == 1 && room > INLINE {
                inside.work().p2p.will_answer_to(peer);
            }
            // SAFETY: - the buffer: promised by the caller
            //         - asked above; nothing else is done inside.
            match unsafe { inside.work().p2p.receive_at_once(peer, wanted, buf.base, room, looks) } {
                Took::Nothing if inside.is_asked() => break,
                Took::Nothing if crowded => {
                    // SAFETY: - the buffer: promised by the caller.
                    return unsafe { self.take_turns_at_once(inside, peer, wanted, buf.base, room) };
                }
                Took::Nothing => looks = LOOKS,
                Took::Other => break,
                Took::Message { tag, len, flush } => {
                    if !flush {
                        inside.leave_as_found();
                    }
                    // Else its drop sees to it.
                    rank.engine.note_received();
                    if round > 0 {
                        rank.engine.note_met();
                    }
                    return Waited::Received(Status { source, tag, bytes: len });
                }
            }
        }
        Waited::Not(Some(inside.stay()))
    }
}
