//! Results whose parts are too long for a place: made in rounds, each of which is a number of its own on the board.
//!
//! A round is the same operation on as many bytes of each part as a place takes, from where the round before ended. A part says how long its round is, and whether others follow: so who reads
//! the part of one that does not agree about a call finds that in the last round that both have, at the latest.
//!
//! A rank posts a round when it has made those in front of it, so that ranks that all wait use little memory, which stays in their caches. Where all compute, nobody is
//! interrupted, and what is left when the first one waits is as much as there would have been before. But others may need what a rank that computes owes, of this collective
//! or of those behind it. So who waits or tests, or calls the library for something else that makes it look, or is to hear of the end of something, and finds that a part is missing, looks what its owner has posted last: if that is a
//! round that others follow, it has the owner rung, once for each number. Who finds that another has posted what is its next, as who is rung does, posts that, also
//! if it has yet to make what comes before, as far as there is room, which is [`OUTSTANDING`] rounds. Its handler makes nothing of them where nobody waits there, unless it lacks
//! room for more: it does where it has begun something else behind four rounds. The dispatcher has nothing made in more rounds than that.

use super::long::PART;
use super::{Call, FOLLOWED, MOST, SIZE, Use};
use crate::table::{Arguments, Operation};
use tocsin_transport::board::{OUTSTANDING, PIECES};

/// Most bytes of a part in one round of several, where they are few enough: what stays in a second-level cache, with what it is copied from or to.
const ROUND: usize = 512 << 10;
/// Rounds begin with a multiple of about so many bytes.
const STEP: usize = 4096;

/// What is made in rounds where it is long.
pub(super) const CUT: [Operation; 10] = [
    Operation::Ibcast,
    Operation::Iscatter,
    Operation::Igather,
    Operation::Iallgather,
    Operation::Ialltoall,
    Operation::Ireduce,
    Operation::Iallreduce,
    Operation::IreduceScatterBlock,
    Operation::Iscan,
    Operation::Iexscan,
];

/// A round among those of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Round {
    /// Bytes of each block that were in the rounds before, are in each but the last, and come after this one.
    before: usize,
    each: usize,
    after: usize,
}

impl Round {
    /// There are no others.
    pub(crate) const ONLY: Round = Round { before: 0, each: 0, after: 0 };
}

/// The longest block, or vector, of one round with parts of so many bytes; `None`: of these arguments no rounds are made.
fn longest(arguments: &Arguments, ranks: usize, part: usize) -> Option<usize> {
    let longest = match *arguments {
        Arguments::Iscatter { .. } | Arguments::Ialltoall { .. } => part / ranks.saturating_sub(1).max(1),
        // Of elements all of whose parts are combined in one piece, as many as have a bit.
        Arguments::Iallreduce { data_type, .. } => {
            let size = data_type.size().saturating_mul(ranks);
            (MOST / size.max(1)).saturating_mul(PIECES as usize).saturating_mul(data_type.size()).min(part)
        }
        _ if super::long::is_too_wide(arguments, ranks) => 0,
        Arguments::IreduceScatterBlock { .. } => part / ranks.max(1),
        Arguments::Ireduce { .. }
        | Arguments::Iscan { .. }
        | Arguments::Iexscan { .. }
        | Arguments::Ibcast { .. }
        | Arguments::Igather { .. }
        | Arguments::Iallgather { .. } => part,
        _ => return None,
    };
    let step = step(arguments);
    let longest = longest / step * step;
    (longest > 0).then_some(longest)
}

/// What the length of a round that others follow is a multiple of, bytes: of elements, and even.
fn step(arguments: &Arguments) -> usize {
    match *arguments {
        Arguments::Iallreduce { data_type, .. }
        | Arguments::Ireduce { data_type, .. }
        | Arguments::IreduceScatterBlock { data_type, .. }
        | Arguments::Iscan { data_type, .. }
        | Arguments::Iexscan { data_type, .. } => {
            let step = STEP.next_multiple_of(data_type.size().max(1));
            if step.is_multiple_of(2) { step } else { step.saturating_mul(2) }
        }
        _ => STEP,
    }
}

/// Whether a collective that is too long for one can be made in rounds. The same on all ranks.
pub(super) fn are_possible(arguments: &Arguments, ranks: usize) -> bool {
    longest(arguments, ranks, PART).is_some()
}

/// Whether a collective that can be made in rounds has no more than a rank may post at once. The same on all ranks.
pub(super) fn are_few(arguments: &Arguments, ranks: usize) -> bool {
    of(arguments, ranks).is_none_or(|each| arguments.size_bytes().div_ceil(each) <= OUTSTANDING as usize)
}

/// Bytes of each block, or of the vector, in one round, where there is more than one. The same on all ranks.
pub(super) fn of(arguments: &Arguments, ranks: usize) -> Option<usize> {
    if super::long::fits(arguments, ranks) {
        return None;
    }
    let (bytes, step) = (arguments.size_bytes(), step(arguments));
    let most = longest(arguments, ranks, PART)?;
    let few = longest(arguments, ranks, ROUND).unwrap_or(most);
    // Longer ones rather than more than a rank may post.
    let rounds = bytes.div_ceil(few).min(bytes.div_ceil(most).max(OUTSTANDING as usize)).max(1);
    // All about as long as each other.
    Some(bytes.div_ceil(rounds).next_multiple_of(step).min(most))
}

impl Call {
    /// Makes it the first of rounds of so many bytes of each block, which have so many in all.
    pub(super) fn cut(&mut self, each: usize, whole: usize) {
        self.round = Round { before: 0, each, after: whole };
        self.take(0);
    }

    /// Whether it is one of several rounds. Handler-safe.
    #[inline]
    pub fn is_round(&self) -> bool {
        self.round.each != 0
    }

    /// Whether there is a round behind this one.
    #[inline]
    pub(crate) fn is_followed(&self) -> bool {
        self.round.after != 0
    }

    /// How many rounds are behind this one.
    #[inline]
    pub(crate) fn followers(&self) -> u32 {
        if self.is_followed() { self.round.after.div_ceil(self.round.each.max(1)) as u32 } else { 0 }
    }

    /// Makes it the next round. False: it was the last. Handler-safe.
    #[inline]
    pub(crate) fn next_round(&mut self) -> bool {
        if !self.is_followed() {
            return false;
        }
        let done = self.block_bytes();
        self.round.before = self.round.before.wrapping_add(done);
        self.take(done);
        true
    }

    /// Makes it the first round again.
    pub(crate) fn rewind(&mut self) {
        if self.is_round() {
            let Round { before, after, .. } = self.round;
            let whole = before.wrapping_add(self.block_bytes()).wrapping_add(after);
            self.round = Round { before: 0, after: whole, ..self.round };
            self.take(0usize.wrapping_sub(before));
        }
    }

    /// The round that many behind this one, if there is. Handler-safe.
    pub(crate) fn rounds_later(&self, rounds: u32) -> Call {
        let mut later = *self;
        for _ in 0..rounds.min(OUTSTANDING) {
            later.next_round();
        }
        later
    }

    /// The last of its rounds, which may be shorter than the others.
    pub(crate) fn last_round(&self) -> Call {
        let mut last = *self;
        while last.next_round() {}
        last
    }

    /// Bytes of a block, or of the vector, in this round.
    fn block_bytes(&self) -> usize {
        match self.then {
            Use::Scatter { block, .. } | Use::Alltoall { block, .. } => block,
            Use::Reduce { .. } | Use::Scan { .. } | Use::Gather { .. } | Use::Allgather { .. } => self.bytes,
            Use::ReduceScatter { count, operator, .. } => count.wrapping_mul(operator.size()),
            _ => self.size(),
        }
    }

    /// Goes so many bytes further, and takes of what comes after as much as a round has.
    fn take(&mut self, further: usize) {
        let bytes = self.round.after.min(self.round.each);
        self.round.after = self.round.after.wrapping_sub(bytes);
        self.from = self.from.wrapping_add(further);
        self.to = self.to.wrapping_add(further);
        let said = if self.is_followed() { FOLLOWED.wrapping_add(bytes as u64 / 2) } else { bytes as u64 };
        self.about = self.about & !SIZE | said & SIZE;
        match &mut self.then {
            // Of a scatter only the root has something to send.
            Use::Scatter { block, .. } | Use::Alltoall { block, .. } => {
                let members = self.bytes / (*block).max(1);
                *block = bytes;
                self.bytes = members.wrapping_mul(bytes);
            }
            Use::Reduce { count, operator, .. } | Use::Scan { count, operator, .. } => {
                *count = bytes / operator.size().max(1);
                self.bytes = bytes;
            }
            Use::ReduceScatter { at, count, operator, .. } => {
                let block = count.wrapping_mul(operator.size()).max(1);
                let (me, members) = (*at / block, self.bytes / block);
                *at = me.wrapping_mul(bytes);
                *count = bytes / operator.size().max(1);
                self.bytes = members.wrapping_mul(bytes);
            }
            Use::Bcast { .. } if self.bytes == 0 => {}
            _ => self.bytes = bytes,
        }
    }
}
