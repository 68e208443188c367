//! Short plain messages one behind the other, for receives that are posted or that none is posted for: what a window of messages is.
//!
//! What [`meet_short`](P2p::meet_short) and [`keep_plain`](P2p::keep_plain) ask of each of them is asked once for all, and the lane is looked up, and its place
//! published, once.

use tocsin_progress::{Budget, Code, Outcome};
use tocsin_transport::short::{LONGEST, Run, context_and_tag, copy_inline};
use tocsin_transport::wire::INLINE;
use tocsin_transport::{Class, Transport};

use crate::coming;
use crate::in_hand::Hand;
use crate::request::{DETACHED, State, WANTS};
use crate::{Layout, P2p};

impl<T: Transport> P2p<T> {
    /// Takes in plain messages of at most [`LONGEST`] bytes from the head of a peer's Eager lane, as long as each meets a receive that names source and tag and that
    /// nobody wants to hear of, or none at all and can be kept, and at most `most`. Everything else is left to [`step`](Self::step); so is all where the budget has a deadline. Handler-safe;
    /// copies at most [`LONGEST`] bytes for each.
    pub(crate) fn meet_run(&mut self, peer: u32, most: u32, budget: &mut Budget) -> Run {
        let most = most.min(budget.untimed(LONGEST));
        let [plain, _] = &mut self.matching;
        let in_the_way = self.contexts.some_revoked() || self.trace.is_some() || plain.posted.has_wild();
        let Some(sender) = self.peers.made_mut(peer as usize) else { return Run::default() };
        if most == 0 || in_the_way || !sender.is_open(0) || sender.published.is_there() {
            return Run::default();
        }
        let [too_short, _] = self.eager_max;
        let (requests, posted, unexpected) = (&mut self.requests, &mut plain.posted, &mut plain.unexpected);
        let contexts = &self.contexts;
        // What a thread waits for in hand is never kept, and what a rank that leaves gets is for nobody.
        let keeps = !self.for_nobody.is_all(0) && !matches!(self.hand, Hand::Waiting(_));
        let (mut bytes, mut kept) = (0usize, 0u32);
        // Mostly all have the same.
        let mut last = None;
        let run = self.transport.take_run(peer, most, |envelope, len, payload| {
            let (context, tag) = context_and_tag(envelope);
            let bin = match last {
                Some((of, bin)) if of == envelope => bin,
                _ => posted.bin_of(context, peer, tag),
            };
            last = Some((envelope, bin));
            let met = posted.take_first(requests, bin, (context, peer, tag), |request, completion| {
                let Layout::Contiguous { bytes: room } = request.layout else { return false };
                // As in `meet_short`. Who may be called when it is complete has said so.
                if len > room
                    || room > too_short
                    || request.flags & (DETACHED | WANTS) != 0
                    || request.cookie != 0
                {
                    return false;
                }
                // SAFETY: who posted the receive vouched for its buffer, which has room; the transport for the payload.
                unsafe {
                    if len <= INLINE {
                        copy_inline(payload, request.base, len);
                    } else {
                        core::ptr::copy_nonoverlapping(payload, request.base, len);
                    }
                }
                request.state = State::Done;
                completion.finish_alone(Outcome {
                    code: Code::Ok,
                    source: peer,
                    tag,
                    bytes: len as u64,
                    detail: 0,
                });
                true
            });
            let is_kept = !met
                && keeps
                && posted.find(requests, context, peer, tag).is_none()
                && !contexts.is_gone(context)
                // SAFETY: the transport vouches for the payload.
                && unsafe { unexpected.keep_plain(context, peer, tag, payload, len) };
            kept = kept.wrapping_add(u32::from(is_kept));
            bytes = bytes.wrapping_add(if met || is_kept { len } else { 0 });
            met || is_kept
        });
        let taken = run.taken;
        if taken > 0 {
            let met = taken.wrapping_sub(kept);
            self.receives = self.receives.saturating_sub(met as usize);
            sender.stopped &= !coming::bit(Class::Eager);
            sender.published.posted = sender.published.posted.saturating_sub(met);
            sender.published.taken = sender.published.taken.wrapping_add(taken);
            self.counters.packets_received = self.counters.packets_received.wrapping_add(u64::from(taken));
            self.counters.bytes_received = self.counters.bytes_received.wrapping_add(bytes as u64);
            self.count_copy(bytes);
            budget.took(taken, bytes);
        }
        run
    }
}
