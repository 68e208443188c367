//! Short plain messages: what sending and receiving one comes to when nothing else is to be done.

use tocsin_doorbell::is_left_alone;
use tocsin_sync::atomic::{Ordering, fence};
use tocsin_transport::short::{Put, Run, Took, Wanted};
use tocsin_transport::{Class, Urgency, short, wire};

use super::known::has;
use super::peer::{Bell, Honesty};
use super::ring::enlist;
use super::{ShmTransport, bit};
use crate::lane::{Consumed, Short};

impl ShmTransport {
    /// See [`Transport::put_short`](tocsin_transport::Transport::put_short).
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(super) unsafe fn put_at_once(
        &mut self,
        peer: u32,
        context: u32,
        tag: i32,
        payload: *const u8,
        len: usize,
    ) -> Put {
        // With somebody to tell already, it is one of several.
        if len > short::LONGEST || self.dirty_len != 0 || !has(&self.known, peer) {
            return Put::Not;
        }
        let Some(state) = self.peers.get_mut(peer as usize) else { return Put::Not };
        // SAFETY: the block of a rank is always allocated, made of atomics, and outlives the endpoint.
        let block = unsafe { &*state.block };
        // Who has ended the layer above knows by the epoch; what is in its lane when it ends nobody reads.
        if state.honesty != Honesty::Honest || matches!(state.bell, Bell::Unknown) {
            return Put::Not;
        }
        let lane = state.send_lane(Class::Eager);
        // SAFETY: the pair is connected, so that the lane is allocated; the length was checked; the caller vouches for the payload.
        let pushed = unsafe {
            match len {
                ..=wire::INLINE => lane.try_push_short(context, tag, payload, len),
                _ => lane.try_push_plain(context, tag, payload, len),
            }
        };
        if !pushed {
            return Put::Not;
        }
        // Of an answer the line was fetched when the message was taken.
        if !core::mem::take(&mut state.answers) {
            state.send_lane(Class::Eager).fetch_ahead();
        }
        state.untaken |= bit(Class::Eager);
        // SYNC POINT: publish (stamp), fence, then read the attention word, as in `ring_dirty`.
        fence(Ordering::SeqCst);
        // The fence is the one that is asked for.
        if is_left_alone(&block.descriptor, Urgency::Plain) {
            return Put::Quiet;
        }
        state.sent = true;
        state.renewed = true;
        enlist(&mut self.dirty, &mut self.dirty_len, state, peer);
        Put::Flush
    }

    /// See [`Transport::take_short`](tocsin_transport::Transport::take_short).
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(super) unsafe fn take_at_once(
        &mut self,
        peer: u32,
        wanted: Wanted,
        to: *mut u8,
        room: usize,
        looks: u32,
    ) -> Took {
        if !has(&self.known, peer) {
            return Took::Other;
        }
        let Some(state) = self.peers.get_mut(peer as usize) else { return Took::Other };
        // Who may have to be rung by what a receive in its place would post must be known.
        if state.honesty != Honesty::Honest || matches!(state.bell, Bell::Unknown) {
            return Took::Other;
        }
        // SAFETY: the pair is connected, so that the lane is allocated; the caller vouches for the buffer.
        match unsafe { state.recv_lane(Class::Eager).take_short(wanted, to, room, looks) } {
            Short::Nothing => Took::Nothing,
            Short::Other => Took::Other,
            Short::Taken { tag, len, consumed } => {
                // An answer goes there, for which that core looks by now.
                state.send_lane(Class::Eager).fetch_slot();
                state.answers = true;
                let flush = consumed == Consumed::GivenBack && state.recv_lane(Class::Eager).is_starving();
                if flush {
                    state.consumed |= bit(Class::Eager);
                    enlist(&mut self.dirty, &mut self.dirty_len, state, peer);
                }
                Took::Message { tag, len, flush }
            }
        }
    }

    /// See [`Transport::take_run`](tocsin_transport::Transport::take_run).
    #[inline(always)]
    pub(super) fn take_several(
        &mut self,
        peer: u32,
        most: u32,
        meet: impl FnMut(u64, usize, *const u8) -> bool,
    ) -> Run {
        let known = has(&self.known, peer);
        let Some(state) = self.peers.get_mut(peer as usize).filter(|_| known) else { return Run::default() };
        if state.honesty != Honesty::Honest {
            return Run::default();
        }
        let (run, consumed) = state.recv_lane(Class::Eager).take_run(most, meet);
        if consumed == Consumed::GivenBack {
            state.consumed |= bit(Class::Eager);
            enlist(&mut self.dirty, &mut self.dirty_len, state, peer);
        }
        run
    }
}
