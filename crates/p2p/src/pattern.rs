//! What a receive asks for, and where that is looked up.
//!
//! A table has one set of bins for each of the four kinds of pattern (source named or any, tag named or any). A
//! message belongs to one bin of each kind, a receive to one bin of its own kind, so that wildcards need no walk over
//! what cannot match.

use crate::list::List;
use crate::request::ANY_SOURCE;

/// Source and tag, each named or any, within a context. Plain numbers, so that two are compared in a few instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    pub(crate) context: u32,
    /// [`ANY_SOURCE`]: any.
    peer: u32,
    /// 0 if it may be any.
    tag: i32,
    /// 0 to 3.
    kind: u32,
}

/// Number of kinds.
pub(crate) const KINDS: usize = 4;
/// Bits of a kind.
const NO_SOURCE: u32 = 1;
const NO_TAG: u32 = 2;

impl Pattern {
    #[inline]
    pub(crate) fn new(context: u32, source: Option<u32>, tag: Option<i32>) -> Pattern {
        Pattern::plain(context, source.unwrap_or(ANY_SOURCE), tag.unwrap_or(0), tag.is_none())
    }

    /// Of a source that may be [`ANY_SOURCE`], and a tag that is 0 if it may be any.
    #[inline]
    pub(crate) fn plain(context: u32, peer: u32, tag: i32, any_tag: bool) -> Pattern {
        let kind = if peer == ANY_SOURCE { NO_SOURCE } else { 0 } | if any_tag { NO_TAG } else { 0 };
        Pattern { context, peer, tag, kind }
    }

    /// 0 to 3.
    #[inline]
    pub(crate) fn kind(&self) -> usize {
        self.kind as usize
    }

    /// The source that it names.
    #[inline]
    pub(crate) fn source(&self) -> Option<u32> {
        (self.kind & NO_SOURCE == 0).then_some(self.peer)
    }

    /// Source and tag as in [`plain`](Self::plain).
    #[inline]
    pub(crate) fn numbers(&self) -> (u32, i32) {
        (self.peer, self.tag)
    }

    /// Whether the tag may be any.
    #[inline]
    pub(crate) fn has_any_tag(&self) -> bool {
        self.kind & NO_TAG != 0
    }

    /// Whether patterns of a kind name no source.
    #[inline]
    pub(crate) fn has_no_source(kind: usize) -> bool {
        kind as u32 & NO_SOURCE != 0
    }

    /// The pattern of a kind that a message has.
    #[inline]
    pub(crate) fn of(kind: usize, context: u32, source: u32, tag: i32) -> Pattern {
        let kind = kind as u32;
        let peer = if kind & NO_SOURCE == 0 { source } else { ANY_SOURCE };
        Pattern { context, peer, tag: if kind & NO_TAG == 0 { tag } else { 0 }, kind }
    }

    #[inline]
    fn hash(&self) -> usize {
        // Fibonacci hashing (Knuth 6.4): odd multipliers near 2^64 / golden ratio, upper bits used.
        let mixed = (u64::from(self.context) << 32 ^ u64::from(self.tag as u32))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (u64::from(self.peer).wrapping_mul(0xc2b2_ae3d_27d4_eb4f));
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

    /// A bin by its number.
    #[inline]
    pub(crate) fn list_mut(&mut self, index: usize) -> Option<&mut List> {
        self.lists.get_mut(index)
    }

    /// Which bin a pattern has, until bins are added.
    #[inline]
    pub(crate) fn index(&self, pattern: &Pattern) -> usize {
        (pattern.hash() & self.per_kind.wrapping_sub(1))
            .wrapping_add(pattern.kind().wrapping_mul(self.per_kind))
    }

    /// All lists, kind by kind.
    pub(crate) fn lists(&self) -> &[List] {
        &self.lists
    }
}
