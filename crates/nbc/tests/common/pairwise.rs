//! Pairwise coverage: few rows in which any two values of two parameters stand together at least once, where they may. The
//! cross-crate tests have this file, too.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Two parameters, the lower one first, each with one of its values.
pub type Pair = [(usize, usize); 2];

/// The parameters, by how many values each has, and which values go together.
pub struct Model<A> {
    pub values: Vec<usize>,
    /// Whether a row may be so: false as soon as nothing that is open (`None`) can mend it.
    pub allows: A,
}

/// The pairs of a row.
pub fn pairs_of(row: &[usize]) -> impl Iterator<Item = Pair> {
    (0..row.len()).flat_map(move |q| (0..q).map(move |p| [(p, row[p]), (q, row[q])]))
}

impl<A: Fn(&[Option<usize>]) -> bool> Model<A> {
    /// Every pair that some row has.
    pub fn allowed(&self) -> BTreeSet<Pair> {
        self.pairs().filter(|pair| self.with(pair, |_, _| 0).is_some()).collect()
    }

    /// Rows that have every pair that a row can have: each from a pair that is still missing, filled with what brings most
    /// others.
    pub fn rows(&self) -> Vec<Vec<usize>> {
        let mut missing: BTreeSet<Pair> = self.pairs().collect();
        let mut rows = Vec::new();
        let mut used: Vec<Vec<usize>> = self.values.iter().map(|n| vec![0; *n]).collect();
        while let Some(first) = missing.first().copied() {
            let worth = |row: &[Option<usize>], (at, value): (usize, usize)| {
                let others = row.iter().enumerate().filter_map(|(i, v)| Some((i, (*v)?)));
                let news = others.filter(|other| {
                    let mut pair = [*other, (at, value)];
                    pair.sort_unstable();
                    missing.contains(&pair)
                });
                // Else what was seldom taken.
                (news.count() << 32) as isize - used[at][value] as isize
            };
            let Some(row) = self.with(&first, worth) else {
                missing.remove(&first);
                continue;
            };
            for pair in pairs_of(&row) {
                missing.remove(&pair);
            }
            row.iter().enumerate().for_each(|(at, value)| used[at][*value] += 1);
            rows.push(row);
        }
        rows
    }

    fn pairs(&self) -> impl Iterator<Item = Pair> + '_ {
        let of = |p: usize| (0..self.values[p]).map(move |v| (p, v));
        let two = (0..self.values.len()).flat_map(|q| (0..q).map(move |p| (p, q)));
        two.flat_map(move |(p, q)| of(p).flat_map(move |a| of(q).map(move |b| [a, b])))
    }

    /// A row with this pair, if there is one; of the values of a parameter the one of most worth that can be.
    fn with(
        &self,
        pair: &Pair,
        worth: impl Fn(&[Option<usize>], (usize, usize)) -> isize,
    ) -> Option<Vec<usize>> {
        let mut row = vec![None; self.values.len()];
        pair.iter().for_each(|(at, value)| row[*at] = Some(*value));
        (self.allows)(&row).then_some(())?;
        self.fill(&mut row, &worth).then_some(())?;
        row.into_iter().collect()
    }

    fn fill(
        &self,
        row: &mut Vec<Option<usize>>,
        worth: &impl Fn(&[Option<usize>], (usize, usize)) -> isize,
    ) -> bool {
        let can = |row: &mut Vec<Option<usize>>, at: usize| {
            let values = (0..self.values[at]).filter(|value| {
                row[at] = Some(*value);
                (self.allows)(row)
            });
            let values: Vec<usize> = values.collect();
            row[at] = None;
            (at, values)
        };
        let open = (0..row.len()).filter(|at| row[*at].is_none()).collect::<Vec<_>>();
        // First what leaves no choice, so that dead ends are seen at once.
        let fewest = open.into_iter().map(|at| can(row, at)).min_by_key(|(_, values)| values.len());
        let Some((at, mut values)) = fewest else { return true };
        values.sort_by_cached_key(|value| Reverse(worth(row, (at, *value))));
        for value in values {
            row[at] = Some(value);
            if self.fill(row, worth) {
                return true;
            }
        }
        row[at] = None;
        false
    }
}
