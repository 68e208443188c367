//! The binomial tree.
//!
//! Ranks are counted from the root: *places*. A place's parent is the place with its lowest set bit cleared; the places of
//! a subtree follow its top.

/// This rank in the tree.
#[derive(Clone, Copy)]
pub(super) struct Tree {
    pub place: u32,
    root: u32,
    size: u32,
}

/// Level, counted from 1 at the leaves, of the message between a place other than the root's and its parent.
pub(super) fn level(place: u32) -> u32 {
    place.trailing_zeros() + 1
}

/// Places whose ranks are neighbours.
pub(super) struct Run {
    /// The first of them.
    pub place: u32,
    /// Its rank.
    pub rank: u32,
    pub ranks: u32,
}

impl Tree {
    pub(super) fn new(rank: u32, size: u32, root: u32) -> Tree {
        let place = if rank >= root { rank - root } else { size - root + rank };
        Tree { place, root, size }
    }

    /// The rank at a place.
    pub(super) fn member(&self, place: u32) -> u32 {
        let before_wrap = self.size - self.root;
        if place < before_wrap { self.root + place } else { place - before_wrap }
    }

    /// Distance to the parent, for which a subtree has room; all places for the root.
    fn reach(&self) -> u32 {
        if self.place == 0 { self.size.next_power_of_two() } else { 1 << self.place.trailing_zeros() }
    }

    pub(super) fn parent(&self) -> Option<u32> {
        self.parent_place().map(|place| self.member(place))
    }

    pub(super) fn parent_place(&self) -> Option<u32> {
        (self.place > 0).then(|| self.place - self.reach())
    }

    /// Places of this subtree, from this one on.
    pub(super) fn span(&self) -> u32 {
        self.reach().min(self.size - self.place)
    }

    /// Place and span of each child, the largest subtree first.
    pub(super) fn children(&self) -> impl DoubleEndedIterator<Item = (u32, u32)> + use<> {
        let (place, size) = (self.place, self.size);
        (0..self.reach().trailing_zeros()).rev().filter_map(move |level| {
            let (bit, room) = (1 << level, size - place);
            (bit < room).then(|| (place + bit, bit.min(room - bit)))
        })
    }

    /// Consecutive places as runs of neighbouring ranks: one, or two where the ranks begin again at 0.
    pub(super) fn runs(&self, place: u32, count: u32) -> Vec<Run> {
        let before_wrap = self.size - self.root;
        let first = count.min(before_wrap.saturating_sub(place));
        let run = |place: u32, ranks: u32| Run { place, rank: self.member(place), ranks };
        let mut runs = Vec::new();
        if first > 0 {
            runs.push(run(place, first));
        }
        if count > first {
            runs.push(run(place + first, count - first));
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtrees_part_the_places() {
        for size in 1..40 {
            for root in 0..size {
                for rank in 0..size {
                    let tree = Tree::new(rank, size, root);
                    assert_eq!(tree.member(tree.place), rank);
                    let mut next = tree.place + 1;
                    for (place, span) in tree.children().rev() {
                        assert_eq!(place, next);
                        next += span;
                        let child = Tree::new(tree.member(place), size, root);
                        assert_eq!((child.span(), child.parent()), (span, Some(rank)));
                        let ranks: Vec<u32> =
                            tree.runs(place, span).iter().flat_map(|r| r.rank..r.rank + r.ranks).collect();
                        assert_eq!(ranks, (place..place + span).map(|p| tree.member(p)).collect::<Vec<_>>());
                    }
                    assert_eq!(next, tree.place + tree.span());
                }
            }
        }
    }
}
