//! What is known of communicators: their members, and which are revoked or gone.

use crate::runs::Runs;

/// Bit of a context that marks the collective half of a communicator.
const COLLECTIVE: u32 = 1 << 31;
/// Revocations that may arrive between two calls of user threads.
const SPARE: usize = 4096;
/// Most runs of communicators that are gone: 64 KiB. Beyond, the oldest are no longer known, and what still comes for them is
/// kept as what comes early is.
const GONE: usize = 4096;

/// Members are known when the layer above said them; else a communicator has all ranks of the world.
#[derive(Debug)]
pub(crate) struct Contexts {
    /// Also when they are gone: who still waits in one is to hear of it. Capacity for [`SPARE`] more is kept by user threads.
    revoked: Runs,
    /// Nobody here will receive in them any more.
    gone: Runs,
    /// Sorted by context; a bit per rank.
    members: Vec<(u32, Box<[u64]>)>,
}

impl Contexts {
    /// In a world of so many ranks.
    pub(crate) fn new(ranks: u32) -> Option<Contexts> {
        let mut new = Contexts { revoked: Runs::new(ranks), gone: Runs::new(ranks), members: Vec::new() };
        new.make_room().then_some(new)
    }

    /// User threads only.
    #[inline]
    pub(crate) fn make_room(&mut self) -> bool {
        self.revoked.has_room(SPARE / 2) || self.add_room()
    }

    #[cold]
    fn add_room(&mut self) -> bool {
        self.revoked.make_room(SPARE)
    }

    /// Handler-safe; a binary search.
    #[inline]
    pub(crate) fn is_revoked(&self, context: u32) -> bool {
        !self.revoked.is_empty() && self.revoked.contains(context & !COLLECTIVE)
    }

    /// Whether any is. Handler-safe.
    #[inline]
    pub(crate) fn some_revoked(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// Whether it was [forgotten](Self::forget). Handler-safe; a binary search.
    #[inline]
    pub(crate) fn is_gone(&self, context: u32) -> bool {
        !self.gone.is_empty() && self.gone.contains(context & !COLLECTIVE)
    }

    /// Notes that a context is revoked, both halves. Some(true): it was not before. None: no room. Handler-safe:
    /// moves words inside the capacity.
    pub(crate) fn revoke(&mut self, context: u32) -> Option<bool> {
        self.revoked.insert(context & !COLLECTIVE)
    }

    /// User threads only. False: memory was refused.
    pub(crate) fn set_members(&mut self, context: u32, members: &[u32], world: u32) -> bool {
        let words = (world as usize).div_ceil(64);
        let mut bits = Vec::new();
        if bits.try_reserve_exact(words).is_err() || self.members.try_reserve(1).is_err() {
            return false;
        }
        bits.resize(words, 0u64);
        for rank in members {
            if let Some(word) = bits.get_mut(*rank as usize / 64) {
                *word |= 1 << (rank % 64);
            }
        }
        let context = context & !COLLECTIVE;
        match self.members.binary_search_by_key(&context, |m| m.0) {
            Ok(at) => {
                if let Some(entry) = self.members.get_mut(at) {
                    entry.1 = bits.into_boxed_slice();
                }
            }
            Err(at) => self.members.insert(at, (context, bits.into_boxed_slice())),
        }
        true
    }

    /// Nobody here has the communicator any more. User threads only: it frees.
    pub(crate) fn forget(&mut self, context: u32) {
        let context = context & !COLLECTIVE;
        if let Ok(at) = self.members.binary_search_by_key(&context, |m| m.0) {
            self.members.remove(at);
        }
        if self.is_revoked(context) {
            return;
        }
        if self.gone.len() >= GONE {
            self.gone.drop_old();
        }
        // Memory refused: what comes late is kept, as what comes early is.
        if self.gone.make_room(1) {
            self.gone.insert(context);
        }
    }

    /// Whether it is known that a rank is a member. Handler-safe; a binary search.
    pub(crate) fn has_member(&self, context: u32, rank: u32) -> bool {
        let known = self.members.binary_search_by_key(&(context & !COLLECTIVE), |m| m.0);
        known.is_ok() && self.is_member(context, rank)
    }

    /// Handler-safe; a binary search.
    pub(crate) fn is_member(&self, context: u32, rank: u32) -> bool {
        let Ok(at) = self.members.binary_search_by_key(&(context & !COLLECTIVE), |m| m.0) else {
            return true;
        };
        let Some((_, bits)) = self.members.get(at) else { return true };
        bits.get(rank as usize / 64).is_some_and(|word| word >> (rank % 64) & 1 == 1)
    }
}
