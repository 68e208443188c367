//! The tree over the parts of a machine (Karonis and others, "Exploiting hierarchy in parallel computer networks to optimize
//! collective operation performance", 2000).
//!
//! Each part has a leader: the root, if it is inside, else its first rank. The leaders of a part's own parts are a binomial tree with
//! the part's leader at its top, from the widest parts in to the ranks. So of the messages along the tree only one enters each part but
//! the root's. Where nothing is known of hierarchy, the ranks are one part, and the tree is the binomial one.

use super::tree::Tree;
use crate::Hierarchy;

/// Whom a rank hears from and tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kin {
    /// `None`: this is the root.
    pub parent: Option<u32>,
    /// Those of the widest parts first, and among these the largest subtree first.
    pub children: Vec<Child>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub rank: u32,
    /// Whether it tells nobody.
    pub is_leaf: bool,
}

/// The kin of a rank among `size` ranks.
pub(super) fn kin(hierarchy: Option<&Hierarchy>, size: u32, rank: u32, root: u32) -> Kin {
    let position = |rank: u32| hierarchy.map_or(rank, |hierarchy| hierarchy.position(rank));
    let (mine, top) = (position(rank), position(root));
    let mut kin = Kin { parent: None, children: Vec::new() };
    let mut part = 0..size;
    // Behind the levels of parts, the ranks themselves.
    for level in 0..=hierarchy.map_or(0, Hierarchy::depth) {
        let starts = hierarchy.map_or(&[][..], |hierarchy| hierarchy.starts(level, &part));
        // How many parts there are in this one, which of them a position is in, and where one begins and ends.
        let count = if starts.is_empty() { part.end - part.start } else { starts.len() as u32 };
        let index = |position: u32| match starts.is_empty() {
            true => position - part.start,
            false => starts.partition_point(|start| *start <= position).saturating_sub(1) as u32,
        };
        let start = |index: u32| match starts.get(index as usize) {
            Some(start) => *start,
            None if starts.is_empty() => part.start + index,
            None => part.end,
        };
        let inside = |index: u32| start(index)..start(index + 1);
        let leader = |index: u32| if inside(index).contains(&top) { top } else { start(index) };
        let own = index(mine);
        if leader(own) == mine {
            let first = if part.contains(&top) { index(top) } else { 0 };
            let tree = Tree::new(own, count, first);
            let rank_of = |place: u32| {
                let at = leader(tree.member(place));
                hierarchy.map_or(at, |hierarchy| hierarchy.rank_at(at))
            };
            if let Some(parent) = tree.parent_place() {
                kin.parent = Some(rank_of(parent));
            }
            kin.children.extend(tree.children().map(|(place, span)| Child {
                rank: rank_of(place),
                is_leaf: span == 1 && inside(tree.member(place)).len() == 1,
            }));
        }
        part = inside(own);
    }
    kin
}

#[cfg(test)]
mod tests;
