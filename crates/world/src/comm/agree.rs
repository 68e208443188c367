//! New communicators from old ones: what all ranks must agree on.
//!
//! # Implementation details
//! A context must be new on every rank of the new communicator, also when several threads of a rank make communicators
//! from different parents at once, and when ranks belong to only some of these parents. Hence no rank ever says which
//! numbers are free elsewhere: every number has an owner, and only its owner hands it out.
//!
//! - World rank `r` of `w` owns the numbers `k * w + r` for `k` from `FIRST_CONTEXT` on, and takes them in order. So
//!   numbers of two ranks differ, and all differ from the world's own.
//! - Each member of the parent takes one of its own, atomically, and offers it; the smallest offer of all becomes the
//!   context. It is new everywhere: its owner offers no number in two agreements at once, and after the agreement it is
//!   kept for good.
//! - Who offered in vain takes its offer back, if it has taken no other since. The smallest offer comes from who has
//!   handed out least, so that the numbers of all members are used before an agreement fails, and then it fails on all.
//! - An agreement is one allreduce in the parent and waits for nothing else: threads may come in any order.
//! - After an error nothing is taken back: other members may have seen the agreement end.
//!
//! Contexts of dropped communicators are not given out again: a peer's messages in them may still be on their way, and no
//! rank knows when the last one has come.

use tocsin_nbc::table::Arguments;
use tocsin_nbc::{DataType, Op};
use tocsin_sync::atomic::Ordering;

use super::{COLLECTIVE, Comm, WORLD_CONTEXT};
use crate::error::Error;

/// Above it are [`COLLECTIVE`] and what a peer could only send by mistake.
const LAST_CONTEXT: u32 = COLLECTIVE - 2;

/// An offered context as the agreement's maximum compares it: smaller ones are larger, and 0 is no offer.
fn word(context: u32) -> u64 {
    u64::MAX - u64::from(context)
}

/// `key` in an order that unsigned comparison keeps.
fn ordered(key: i32) -> u64 {
    u64::from(key as u32 ^ 0x8000_0000)
}

impl Comm {
    /// A communicator of the same ranks with its own context. Collective.
    ///
    /// # Errors
    /// As a collective: [`Error::PeerDead`], [`Error::Revoked`], [`Error::Finalized`], refusals of memory; [`Error::InvalidArgument`] when there are no contexts left,
    /// and in a child of `fork`.
    pub fn dup(&self) -> Result<Comm, Error> {
        self.shared().open("dup")?;
        let offer = self.offer();
        let boards = self.shared().offer_boards();
        // One allreduce: the context, and of each rank the boards that it offers.
        let mut all = vec![0u64; 1 + self.size() as usize];
        if let Some((first, offered)) = all.split_first_mut() {
            *first = offer.map_or(0, word);
            if let Some(mine) = offered.get_mut(self.rank() as usize) {
                *mine = boards.mask;
            }
        }
        self.maximum("dup", &mut all)?;
        let (first, offered) = all.split_first().unwrap_or((&0, &[]));
        let context = self.adopt("dup", offer, *first)?;
        let board = if self.size() > 1 { boards.take(offered.iter().copied()) } else { None };
        Comm::agreed(&self.inner.rank, self.inner.group.world_ranks(), self.rank(), context, board)
    }

    /// As MPI_Comm_split: ranks of one `color` form a communicator, ordered by `key`, then by rank here; `None`: in no
    /// new communicator. Collective.
    ///
    /// # Errors
    /// As [`dup`](Self::dup).
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Comm>, Error> {
        // One allreduce: the context, and of each rank its colour + 1, its key and the boards that it offers, in places that
        // only it fills.
        self.shared().open("split")?;
        let boards = self.shared().offer_boards();
        let mut all = vec![0u64; 1 + 3 * self.size() as usize];
        let offer = self.offer();
        if let Some(first) = all.first_mut() {
            *first = offer.map_or(0, word);
        }
        if let Some([mine, order, offered]) =
            all.get_mut(1 + 3 * self.rank() as usize..).and_then(|s| s.get_mut(..3))
        {
            *mine = color.map_or(0, |c| u64::from(c) + 1);
            *order = ordered(key);
            *offered = boards.mask;
        }
        self.maximum("split", &mut all)?;
        let (first, rest) = all.split_first().unwrap_or((&0, &[]));
        let context = self.adopt("split", offer, *first)?;
        let Some(color) = color else { return Ok(None) };
        let mut members: Vec<(u64, u32)> = rest
            .chunks_exact(3)
            .zip(0..)
            .filter(|(entry, _)| entry[0] == u64::from(color) + 1)
            .map(|(entry, rank)| (entry[1], rank))
            .collect();
        members.sort_unstable();
        let me = members.iter().position(|m| m.1 == self.rank()).unwrap_or(0) as u32;
        let world: Vec<u32> = members.iter().filter_map(|m| self.world_rank(m.1)).collect();
        let offered = members.iter().map(|m| rest.get(3 * m.1 as usize + 2).copied().unwrap_or(0));
        let board = if world.len() > 1 { boards.take(offered) } else { None };
        Comm::agreed(&self.inner.rank, &world, me, context, board).map(Some)
    }

    /// Takes the next context that this rank owns; `None` when it has handed out all.
    fn offer(&self) -> Option<u32> {
        let (ranks, rank) = (u64::from(self.shared().segment.ranks()), u64::from(self.shared().rank));
        let number = |row: u32| {
            u32::try_from(u64::from(row) * ranks + rank).ok().filter(|context| *context <= LAST_CONTEXT)
        };
        // SYNC POINT: Relaxed: only that no two threads take the same row matters, and one word decides it.
        let taken = self
            .shared()
            .next_context
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |row| number(row).and(row.checked_add(1)));
        taken.ok().and_then(number)
    }

    /// Takes an offer back that nobody has heard of or chosen.
    fn take_back(&self, offer: u32) {
        let row = offer / self.shared().segment.ranks();
        // SYNC POINT: Relaxed: as in `offer`. When the next row is the one after this, every later one is free, whatever
        // has happened in between; when it is not, this offer is lost, and the agreement costs two numbers.
        let _lost =
            self.shared().next_context.compare_exchange(row + 1, row, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes the context that the ranks agreed on, where this rank's part was `offer`.
    fn adopt(&self, operation: &'static str, offer: Option<u32>, agreed: u64) -> Result<u32, Error> {
        let context =
            u32::try_from(u64::MAX - agreed).ok().filter(|c| *c > WORLD_CONTEXT && *c <= LAST_CONTEXT);
        if let Some(offer) = offer.filter(|offer| Some(*offer) != context) {
            self.take_back(offer);
        }
        context.ok_or_else(|| {
            let what = "all context ids are used up: make communicators once and keep them".into();
            Error::InvalidArgument { operation, what }
        })
    }

    /// Element-wise maximum over all ranks, blocking.
    fn maximum(&self, operation: &'static str, values: &mut [u64]) -> Result<(), Error> {
        self.shared().open(operation)?;
        let (recv, count) = (values.as_mut_ptr().cast(), values.len());
        let arguments =
            Arguments::Iallreduce { send: None, recv, count, data_type: DataType::U64, op: Op::Max };
        // SAFETY: - `values` is exclusively ours until the wait has returned, which is after the operation's end.
        unsafe { self.start_for(operation, &arguments, None)? }.wait().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, threads};

    /// The contexts that two ranks get by four dups, if they have handed out what is before `rows`.
    fn dups(rows: [u32; 2]) -> [Vec<Result<u32, String>>; 2] {
        let of_ranks = threads(2, &Config::default(), |comm| {
            comm.shared().next_context.store(rows[comm.rank() as usize], Ordering::Relaxed);
            let dup = |_| comm.dup().map(|new| new.context()).map_err(|error| error.to_string());
            (0..4).map(dup).collect()
        });
        of_ranks.unwrap().try_into().unwrap()
    }

    #[test]
    fn who_has_handed_out_least_gives_the_context() {
        let all = vec![Ok(2 * 100), Ok(2 * 101), Ok(2 * 102), Ok(2 * 102 + 1)];
        assert_eq!(dups([100, 102]), [all.clone(), all]);
    }

    #[test]
    fn when_all_contexts_are_used_up_every_rank_hears_of_it() {
        let last_row = LAST_CONTEXT / 2;
        // The last number of the even rows is the last of all: rank 1 has none in that row.
        let of_ranks = dups([last_row - 1, last_row - 1]);
        assert_eq!(of_ranks[0], of_ranks[1]);
        let [first, second, third, fourth] = &of_ranks[0][..] else { panic!("{of_ranks:?}") };
        assert_eq!(first, &Ok(LAST_CONTEXT - 2));
        assert_eq!(second, &Ok(LAST_CONTEXT - 1));
        assert_eq!(third, &Ok(LAST_CONTEXT));
        assert!(fourth.as_ref().is_err_and(|text| text.contains("used up")), "{fourth:?}");
    }

    #[test]
    fn what_fails_of_an_agreement_is_called_by_the_call_that_made_it() {
        threads(2, &Config::default(), |comm| {
            let named = |error: Error, call: &str| {
                let text = error.to_string();
                assert!(text.starts_with(&format!("{call}: ")), "{text}");
            };
            // Rank 1 leaves instead: what was begun ends so.
            if comm.rank() == 0 {
                named(comm.dup().unwrap_err(), "dup");
                comm.revoke();
                named(comm.dup().unwrap_err(), "dup");
                named(comm.split(Some(0), 0).unwrap_err(), "split");
            }
        })
        .unwrap();
    }
}
