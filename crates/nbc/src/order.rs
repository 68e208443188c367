//! The order in which an algorithm combines the ranks' contributions, as data, so that a test (or a user who wants to
//! reproduce a floating-point result) can replay it exactly.

use std::ops::Range;

use crate::Hierarchy;

/// What the order of a reduction depends on.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Number of ranks.
    pub ranks: u32,
    /// Elements of the result: of the whole vector, or of the part that a rank gets.
    pub count: usize,
    /// The rank that gets the result, where one does.
    pub root: u32,
    /// The rank whose result it is, where ranks get different ones.
    pub rank: u32,
    /// In which parts of the machine ranks are: that of the [group](crate::Group::hierarchy).
    pub hierarchy: Option<&'a Hierarchy>,
}

/// An expression over the contributions of the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Combination {
    /// The contribution of a rank.
    Rank(u32),
    /// Left operand, right operand.
    Join(Box<Combination>, Box<Combination>),
}

/// A range of elements that are combined alike.
#[derive(Clone, Debug)]
pub struct Share {
    /// The elements.
    pub elements: Range<usize>,
    /// Their order.
    pub order: Combination,
}

impl Combination {
    /// Both operands as one expression.
    pub fn join(left: Combination, right: Combination) -> Combination {
        Combination::Join(Box::new(left), Box::new(right))
    }

    /// The ranks from left to right.
    pub fn ranks(&self) -> Vec<u32> {
        match self {
            Combination::Rank(r) => vec![*r],
            Combination::Join(l, r) => [l.ranks(), r.ranks()].concat(),
        }
    }

    /// The value, given each rank's contribution and the operator.
    pub fn evaluate<T>(&self, contribution: &dyn Fn(u32) -> T, op: &dyn Fn(T, T) -> T) -> T {
        match self {
            Combination::Rank(r) => contribution(*r),
            Combination::Join(l, r) => {
                let left = l.evaluate(contribution, op);
                op(left, r.evaluate(contribution, op))
            }
        }
    }
}

/// The order of a binary tree over `items`, where neighbours at distance 1, 2, 4, ... join; one order for all
/// elements.
pub(crate) fn doubling(items: Vec<Combination>) -> Option<Combination> {
    let mut level = items;
    while level.len() > 1 {
        let mut next = Vec::with_capacity(level.len().div_ceil(2));
        let mut pairs = level.into_iter();
        while let Some(left) = pairs.next() {
            next.push(match pairs.next() {
                Some(right) => Combination::join(left, right),
                None => left,
            });
        }
        level = next;
    }
    level.pop()
}

/// From left to right, one after the other.
pub(crate) fn in_turn(ranks: impl Iterator<Item = u32>) -> Option<Combination> {
    ranks.map(Combination::Rank).reduce(Combination::join)
}

/// One order for all elements.
pub(crate) fn uniform(shape: &Shape, order: Option<Combination>) -> Vec<Share> {
    order.map(|order| Share { elements: 0..shape.count, order }).into_iter().collect()
}
