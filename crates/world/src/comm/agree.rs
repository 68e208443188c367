//! New communicators from old ones: what all ranks must agree on.

use tocsin_nbc::{DataType, Op};
use tocsin_sync::atomic::Ordering;

use super::{COLLECTIVE, Comm};
use crate::error::Error;

/// `key` in an order that unsigned comparison keeps.
fn ordered(key: i32) -> u64 {
    u64::from(key as u32 ^ 0x8000_0000)
}

impl Comm {
    /// A communicator of the same ranks with its own context. Collective.
    ///
    /// # Errors
    /// As a collective: [`Error::PeerDead`], [`Error::Revoked`], ...
    pub fn dup(&self) -> Result<Comm, Error> {
        let mut agreed = [self.proposal()];
        self.maximum("dup", &mut agreed)?;
        let context = self.adopt("dup", agreed[0])?;
        Comm::of(self.inner.rank.clone(), self.inner.group.world_ranks(), self.rank(), context)
    }

    /// As MPI_Comm_split: ranks of one `color` form a communicator, ordered by `key`, then by rank here; `None`: in no
    /// new communicator. Collective.
    ///
    /// # Errors
    /// As [`dup`](Self::dup).
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Comm>, Error> {
        // One allreduce: the context, and of each rank its colour + 1 and its key, in places that only it fills.
        let mut all = vec![0u64; 1 + 2 * self.size() as usize];
        if let Some(first) = all.first_mut() {
            *first = self.proposal();
        }
        if let Some([mine, order]) = all.get_mut(1 + 2 * self.rank() as usize..).and_then(|s| s.get_mut(..2))
        {
            *mine = color.map_or(0, |c| u64::from(c) + 1);
            *order = ordered(key);
        }
        self.maximum("split", &mut all)?;
        let (first, rest) = all.split_first().unwrap_or((&0, &[]));
        let context = self.adopt("split", *first)?;
        let Some(color) = color else { return Ok(None) };
        let mut members: Vec<(u64, u32)> = rest
            .chunks_exact(2)
            .zip(0..)
            .filter(|(entry, _)| entry[0] == u64::from(color) + 1)
            .map(|(entry, rank)| (entry[1], rank))
            .collect();
        members.sort_unstable();
        let me = members.iter().position(|m| m.1 == self.rank()).unwrap_or(0) as u32;
        let world: Vec<u32> = members.iter().filter_map(|m| self.world_rank(m.1)).collect();
        Comm::of(self.inner.rank.clone(), &world, me, context).map(Some)
    }

    /// The smallest context that this rank could use.
    fn proposal(&self) -> u64 {
        u64::from(self.shared().next_context.load(Ordering::Relaxed))
    }

    /// Takes the context that the ranks agreed on.
    fn adopt(&self, operation: &'static str, agreed: u64) -> Result<u32, Error> {
        let context = u32::try_from(agreed).ok().filter(|c| *c < COLLECTIVE - 1).ok_or_else(|| {
            let what = "all context ids are used up: make communicators once and keep them".into();
            Error::InvalidArgument { operation, what }
        })?;
        self.shared().next_context.fetch_max(context + 1, Ordering::Relaxed);
        Ok(context)
    }

    /// Element-wise maximum over all ranks, blocking.
    fn maximum(&self, operation: &'static str, values: &mut [u64]) -> Result<(), Error> {
        self.shared().open(operation)?;
        let base = values.as_mut_ptr().cast();
        // SAFETY: - `values` is exclusively ours until the wait below has returned, which is after the operation's end.
        let mut request =
            unsafe { self.iallreduce_raw(None, base, values.len(), DataType::U64, Op::Max, None)? };
        request.wait().map(drop)
    }
}
