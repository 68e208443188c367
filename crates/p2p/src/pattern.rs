//! What a receive asks for, and where that is looked up.
//!
//! A table has one set of bins for each of the four kinds of pattern (source named or any, tag named or any). A
//! message belongs to one bin of each kind, a receive to one bin of its own kind, so that wildcards need no walk over
//! what cannot match.

use crate::list::List;

/// Source and tag, each named or any, within a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    pub(crate) context: u32,
    pub(crate) source: Option<u32>,
    pub(crate) tag: Option<i32>,
}

/// Number of kinds.
pub(crate) const KINDS: usize = 4;

impl Pattern {
    /// 0 to 3.
    #[inline]
    pub(crate) fn kind(&self) -> usize {
        usize::from(self.source.is_none()) | usize::from(self.tag.is_none()) << 1
    }

    /// The pattern of a kind that a message has.
    #[inline]
    pub(crate) fn of(kind: usize, context: u32, source: u32, tag: i32) -> Pattern {
        Pattern { context, source: (kind & 1 == 0).then_some(source), tag: (kind & 2 == 0).then_some(tag) }
    }

    #[inline]
    fn hash(&self) -> usize {
        let source = u64::from(self.source.unwrap_or(0));
        let tag = u64::from(self.tag.unwrap_or(0) as u32);
        // Fibonacci hashing (Knuth 6.4): odd multipliers near 2^64 / golden ratio, upper bits used.
        let mixed = (u64::from(self.context) << 32 ^ tag).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (source.wrapping_mul(0xc2b2_ae3d_27d4_eb4f));
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) as usize >> 24
    }
}

/// Bins of lists, a power of two per kind.
#[derive(Debug)]
pub(crate) struct Bins {
    lists: Vec<List>,
    per_kind: usize,
}

impl Bins {
    /// User threads only: it allocates. None: memory was refused.
    pub(crate) fn new(per_kind: usize) -> Option<Bins> {
        let per_kind = per_kind.checked_next_power_of_two()?;
        let count = per_kind.checked_mul(KINDS)?;
        let mut lists = Vec::new();
        lists.try_reserve_exact(count).ok()?;
        lists.resize(count, List::EMPTY);
        Some(Bins { lists, per_kind })
    }

    #[inline]
    pub(crate) fn per_kind(&self) -> usize {
        self.per_kind
    }

    /// The bin of a pattern. Handler-safe.
    #[inline]
    pub(crate) fn bin(&mut self, pattern: &Pattern) -> Option<&mut List> {
        let index = self.index(pattern);
        self.lists.get_mut(index)
    }

    /// The bin of a pattern. Handler-safe.
    #[inline]
    pub(crate) fn look(&self, pattern: &Pattern) -> Option<&List> {
        self.lists.get(self.index(pattern))
    }

    #[inline]
    fn index(&self, pattern: &Pattern) -> usize {
        (pattern.hash() & self.per_kind.wrapping_sub(1))
            .wrapping_add(pattern.kind().wrapping_mul(self.per_kind))
    }

    /// All lists, kind by kind.
    pub(crate) fn lists(&self) -> &[List] {
        &self.lists
    }
}
