//! A receive that its thread waits for, without a request as long as that may be: in hand, looked for by glances, and put down before the engine is left.
//!
//! Where ranks share cores the thread gives its core away between, and takes the receive in hand anew whenever the core comes back. Only when that no longer pays
//! does it post the receive, and waits as others do. What comes meanwhile waits in its lane, or among the unexpected messages.

use tocsin_p2p::{Class, Glance, Met, RecvArgs};
use tocsin_progress::engine::Lingering;
use tocsin_progress::{Entered, Work};

use super::Comm;
use super::null::PROC_NULL;
use crate::MutBuf;
use crate::error::Error;
use crate::outcome::message_error;
use crate::request::{Kind, Status};
use crate::state::RankState;

/// How often a receive of a small message looks at everything before it leaves the engine: for up to some 3 us.
pub(crate) const LOOKS: u32 = 16;
/// The same of a message that its sender puts into the lane only when it sees its receiver copy out: for up to some 12 us.
const LONG_LOOKS: u32 = 64;
/// The same where that does not pay, because its sender may wait for this rank's core: what is there is seen all the same.
pub(crate) const FEW_LOOKS: u32 = 0;

/// After so many glances, what the answer is written to is fetched meanwhile: not while what was sent last is still on its way out.
const IN_VAIN: u32 = 4;

/// What turns on a core came to.
enum Turned<'a> {
    Met(Met),
    /// It takes a request. With the engine.
    Not(Entered<'a, RankState>),
}

impl Comm {
    /// [`recv_raw`](Self::recv_raw) of what is not over at once, by who may be inside already.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    pub(super) unsafe fn recv_in_general(
        &self,
        inside: Option<Entered<'_, RankState>>,
        buf: MutBuf,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<Status, Error> {
        if source == Some(PROC_NULL) {
            drop(inside);
            return self.receive_from_null("recv", tag);
        }
        let (source, tag) = self.selection("recv", source, tag)?;
        let args = RecvArgs { context: self.context(), source, tag, buf, class: Class::Eager, cookie: 0 };
        let rank = self.shared();
        let room = buf.layout.bytes();
        if room > rank.eager_max {
            // From now on, and not when it has copied.
            rank.engine.note_wait();
        }
        let mut state = match inside {
            Some(state) => state,
            None => rank.enter_open("recv")?,
        };
        // SAFETY: - the buffer: promised by the caller for the time of the call; it is put down below.
        let in_hand = unsafe { state.p2p.take_in_hand(&args) }
            .map_err(|e| self.shared().or_abort("recv", message_error("recv", e)))?;
        if in_hand {
            let short = room <= rank.eager_max;
            let beside = source.is_some_and(|source| rank.is_beside(&state, source));
            let looks = match short {
                _ if beside || !rank.engine.should_look() => FEW_LOOKS,
                true => LOOKS,
                false => LONG_LOOKS,
            };
            if let Some((met, glances, _)) = Self::look_in_hand(&mut state, looks) {
                if glances > 0 && !beside {
                    rank.engine.note_met();
                }
                drop(state);
                return self.received(met, room);
            }
            if short && rank.engine.is_crowded() {
                // SAFETY: - as above.
                state = match unsafe { self.take_turns(state, &args)? } {
                    Turned::Met(met) => return self.received(met, room),
                    Turned::Not(state) => state,
                };
            }
            // What a glance came upon, a full pool or a peer that talks nonsense, is a pass's to see to.
            if state.work_left() {
                state.pass();
            }
        }
        state.p2p.set_waits(true);
        // SAFETY: - the buffer: promised by the caller for the time of the call, which ends when the request has.
        let id = unsafe { state.p2p.irecv(args) };
        state.p2p.set_waits(false);
        let id = id.map_err(|e| self.shared().or_abort("recv", message_error("recv", e)))?;
        state.p2p.await_posted(id);
        self.finish(state, "recv", Kind::Receive { room }, id)
    }

    /// What a receive of at most `room` bytes comes to that was met in hand.
    #[inline]
    fn received(&self, met: Met, room: usize) -> Result<Status, Error> {
        self.shared().engine.note_received();
        if met.bytes <= room {
            return Ok(Status { source: self.rank_of(met.source), tag: met.tag, bytes: met.bytes });
        }
        Kind::Receive { room }.read(self, "recv", met.outcome(room))
    }

    /// Looks for the message of the receive in hand, and puts that down. The message, if it came, after how many glances that found nothing, and whether that took
    /// long enough to look at everything else meanwhile.
    #[inline]
    fn look_in_hand(state: &mut Entered<'_, RankState>, looks: u32) -> Option<(Met, u32, bool)> {
        let mut glances = 0u32;
        let looked = state.linger(looks, |state| match state.p2p.glance() {
            Glance::Nothing => {
                glances = glances.wrapping_add(1);
                if glances == IN_VAIN {
                    state.p2p.will_answer();
                }
                Lingering::Nothing
            }
            Glance::Other => Lingering::Worked,
            Glance::Over => Lingering::Over,
        });
        let met = state.p2p.put_down()?;
        if state.p2p.owes_a_look(looked) && state.work_left_beside(met.source) {
            state.pass();
        }
        Some((met, glances, looked))
    }

    /// Where ranks share cores: gives this one away, and looks for a short message whenever it comes back, as long as that pays and nothing else comes.
    ///
    /// # Errors
    /// As [`recv_raw`](Self::recv_raw).
    ///
    /// # Safety
    /// As [`recv_raw`](Self::recv_raw).
    unsafe fn take_turns<'a>(
        &'a self,
        mut state: Entered<'a, RankState>,
        args: &RecvArgs,
    ) -> Result<Turned<'a>, Error> {
        let rank = self.shared();
        let is_beside = |state: &RankState| args.source.is_some_and(|source| rank.is_beside(state, source));
        let mut turns = rank.engine.turns(state.has_operations(), is_beside(&state));
        while !state.work_left() {
            state.stay();
            turns.leave(state);
            rank.open_gates_quietly();
            let came_back = turns.give_way();
            state = rank.enter_open("recv")?;
            if !came_back {
                break;
            }
            let looks = if turns.stays(is_beside(&state)) { LOOKS } else { FEW_LOOKS };
            // SAFETY: - promised by the caller; it is put down before the engine is left.
            if !unsafe { state.p2p.take_in_hand(args) }
                .map_err(|e| self.shared().or_abort("recv", message_error("recv", e)))?
            {
                break;
            }
            if let Some((met, _, looked)) = Self::look_in_hand(&mut state, looks) {
                turns.leave(state);
                turns.note_met(looked);
                return Ok(Turned::Met(met));
            }
        }
        Ok(Turned::Not(state))
    }
}
