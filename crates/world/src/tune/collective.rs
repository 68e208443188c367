//! Rows of collectives: which algorithm was the quickest, by operation, kind and number of ranks, and size.

use std::fmt;

use tocsin_nbc::{Choices, MOST_CHOICES};

use super::{MOST_ROWS, Ranks, Relation, TOO_MANY};
use crate::algorithms::{self, Operation};
use crate::launcher::MAX_RANKS;

/// The first word of a row.
pub(super) const WORD: &str = "collective";
/// The algorithm of a row that leaves the choice to the library.
const OWN: &str = "auto";

/// One row: what an operation takes on so many ranks from one size on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// What is done.
    pub operation: Operation,
    /// What the ranks are.
    pub ranks: Ranks,
    /// How many there are in the communicator, from 2 to 1024.
    pub size: u32,
    /// From this size in bytes on: the whole buffer, or the block per rank, as the operation has it. 0 for an operation
    /// whose ranks do not have [a size in common](Operation::has_common_size).
    pub from: u64,
    /// The name of the quickest algorithm; `None`: none is quicker than the one that the library takes by itself.
    pub algorithm: Option<&'static str>,
    /// What lay between the farthest two ranks; `None`: as much as can, or nothing that is known.
    pub relation: Option<Relation>,
}

impl Collective {
    /// `collective ibcast process 2 4096 chain` and perhaps `cache`, without the first word; else what is wrong with it.
    pub(super) fn parse(words: &[&str]) -> Result<Collective, &'static str> {
        const NONE: &str = "is no row";
        let (words, relation) = match words.split_last() {
            Some((relation, words)) if words.len() == 5 => {
                (words, Some(Relation::named(relation).ok_or(NONE)?))
            }
            _ => (words, None),
        };
        let &[operation, ranks, size, from, algorithm] = words else { return Err(NONE) };
        let operation: Operation = operation
            .parse()
            .map_err(|_| "names an operation that this program does not have (measure anew)")?;
        let named = |name| algorithms::find(operation, name).map(|algorithm| Some(algorithm.name));
        Ok(Collective {
            operation,
            ranks: Ranks::named(ranks).ok_or(NONE)?,
            size: size.parse().map_err(|_| NONE)?,
            from: from.parse().map_err(|_| NONE)?,
            algorithm: if algorithm == OWN { Ok(None) } else { named(algorithm) }
                .map_err(|_| "names an algorithm that the operation does not have (measure anew)")?,
            relation,
        })
    }

    /// Whether two rows are about the same operation on the same ranks in the same place.
    pub(super) fn is_beside(&self, other: &Collective) -> bool {
        let place = |row: &Collective| (row.operation, row.ranks, row.size, row.relation);
        place(self) == place(other)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Collective { operation, ranks, size, from, algorithm, relation } = self;
        write!(f, "{WORD} {operation} {} {size} {from} {}", ranks.word(), algorithm.unwrap_or(OWN))?;
        relation.map_or(Ok(()), |relation| write!(f, " {relation}"))
    }
}

/// Whether the rows make sense, each and together; else which does not, and why.
pub(super) fn check(rows: &[Collective]) -> Result<(), (usize, &'static str)> {
    for (at, row) in rows.iter().enumerate() {
        if at >= MOST_ROWS {
            return Err((at, TOO_MANY));
        }
        if !(2..=MAX_RANKS).contains(&row.size) {
            return Err((at, "a collective of 2 to 1024 ranks"));
        }
        if row.from > 0 && !row.operation.has_common_size() {
            return Err((at, "not all ranks of this operation know its sizes: its one row is from 0 on"));
        }
        if row.algorithm.is_some_and(|name| algorithms::find(row.operation, name).is_err()) {
            return Err((at, "the operation does not have this algorithm"));
        }
        let earlier = || rows.iter().take(at).filter(|other| other.is_beside(row));
        if earlier().any(|other| other.from >= row.from) {
            return Err((at, "rows of one operation on the same ranks come with greater and greater sizes"));
        }
        if earlier().count() >= MOST_CHOICES {
            return Err((at, "more than 16 rows of one operation on the same ranks"));
        }
    }
    Ok(())
}
const _: () = assert!(MAX_RANKS == 1024 && MOST_CHOICES == 16);

/// The algorithms of a communicator of `size` ranks of a kind. For each operation those that were measured with the number of
/// ranks that is nearest, which is less than twice `size` and more than half of it: of two, the one of which `size` is the smaller
/// multiple or part, and of two that are as near the smaller; of these those of ranks with the same between them, else those that do not say
/// what there was. `None`: nothing is near.
pub(super) fn choices(
    rows: &[Collective],
    ranks: Ranks,
    size: u32,
    relation: Option<Relation>,
) -> Option<Choices> {
    let fits = move |row: &&Collective| row.relation.is_none() || row.relation == relation;
    let of_kind =
        || rows.iter().filter(move |row| row.ranks == ranks && is_near(row.size, size)).filter(fits);
    let mut nearest = [None; Operation::ALL.len()];
    for row in of_kind() {
        let best = nearest.get_mut(row.operation as usize)?;
        let is_better = |(of, said): (u32, Option<Relation>)| {
            is_nearer(row.size, of, size) || row.size == of && row.relation > said
        };
        if best.is_none_or(is_better) {
            *best = Some((row.size, row.relation));
        }
    }
    let mut choices = Choices::NONE;
    let mut any = false;
    for row in of_kind() {
        if nearest.get(row.operation as usize) == Some(&Some((row.size, row.relation))) {
            let algorithm = row.algorithm.and_then(|name| algorithms::find(row.operation, name).ok());
            any |= choices.add(row.operation, row.from, algorithm);
        }
    }
    any.then_some(choices)
}

/// Less than twice as many, and more than half.
fn is_near(measured: u32, size: u32) -> bool {
    let (measured, size) = (u64::from(measured), u64::from(size));
    measured < 2 * size && size < 2 * measured
}

/// Whether `size` is a smaller multiple or part of `a` than of `b`; as near, whether `a` is smaller.
fn is_nearer(a: u32, b: u32, size: u32) -> bool {
    let ratio = |of: u32| (u64::from(of.max(size)), u64::from(of.min(size)));
    let ((more_a, less_a), (more_b, less_b)) = (ratio(a), ratio(b));
    (more_a * less_b, a) < (more_b * less_a, b)
}

/// A number that differs for tables that would have ranks of a kind choose differently; that of no rows is its own (FNV-1a,
/// 64 bits).
pub(super) fn digest(rows: &[Collective], ranks: Ranks) -> u64 {
    let lines = rows.iter().filter(|row| row.ranks == ranks).map(|row| format!("{row}\n"));
    lines.fold(EMPTY, |digest, line| {
        line.bytes()
            .fold(digest, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    })
}

/// The digest of a rank that has no table.
pub(super) const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::{Iallreduce, Ialltoallv, Ibcast};
    use Ranks::{Processes, Threads};

    fn rows(text: &str) -> Vec<Collective> {
        let row = |line: &str| Collective::parse(&line.split_ascii_whitespace().collect::<Vec<_>>());
        text.lines().map(|line| row(line).unwrap()).collect()
    }

    /// A choice of an algorithm by its name, or the library's own.
    fn only(all: &[(Operation, u64, Option<&str>)]) -> Choices {
        let mut choices = Choices::NONE;
        for (operation, from, name) in all {
            let algorithm = name.map(|name| algorithms::find(*operation, name).unwrap());
            assert!(choices.add(*operation, *from, algorithm));
        }
        choices
    }

    #[test]
    fn a_row_comes_back() {
        for text in [
            "ibcast process 2 0 auto",
            "ibcast process 2 0 chain node",
            "ireduce_scatter_block thread 1024 4096 recursive-halving",
        ] {
            let row = rows(text)[0];
            assert_eq!(row.to_string(), format!("collective {text}"));
            assert_eq!(check(&[row]), Ok(()));
        }
    }

    #[test]
    fn the_nearest_number_of_ranks_is_taken() {
        let all = rows(
            "ibcast process 2 0 linear\nibcast process 4 0 chain\nibcast process 4 9 auto\nibcast process 9 0 4-ary\n\
             iallreduce process 4 0 ring\nibcast thread 64 0 linear",
        );
        assert_eq!(check(&all), Ok(()));
        let of = |size| choices(&all, Processes, size, None);
        let ring = (Iallreduce, 0, Some("ring"));
        let (linear, quaternary) = ((Ibcast, 0, Some("linear")), (Ibcast, 0, Some("4-ary")));
        let four = [(Ibcast, 0, Some("chain")), (Ibcast, 9, None), ring];
        assert_eq!(of(1), None);
        assert_eq!(of(2), Some(only(&[linear])));
        // 3 is 4/3 of a part of 4, and 3/2 of 2; of allreduce only 4 was measured.
        assert_eq!(of(3), Some(only(&four)));
        assert_eq!(of(4), Some(only(&four)));
        // As far from 4 as from 9: the smaller.
        assert_eq!(of(6), Some(only(&four)));
        assert_eq!(of(7), Some(only(&[quaternary, ring])));
        assert_eq!(of(8), Some(only(&[quaternary])));
        assert_eq!(of(17), Some(only(&[quaternary])));
        // Twice as many are not near.
        assert_eq!(of(18), None);
        let threads = |size| choices(&all, Threads, size, None);
        assert_eq!([32, u32::MAX].map(threads), [None, None]);
        assert_eq!([33, 127].map(threads), [Some(only(&[linear])), Some(only(&[linear]))]);
    }

    #[test]
    fn ranks_take_what_was_measured_where_they_are() {
        use Relation::{Across, Cache, Node};
        let all = rows(
            "ibcast process 4 0 linear\nibcast process 4 0 chain cache\nibcast process 4 64 auto cache\n\
             ibcast process 4 0 4-ary across\nibcast process 8 0 binomial\niallreduce process 4 0 ring node",
        );
        assert_eq!(check(&all), Ok(()));
        let of = |relation| choices(&all, Processes, 4, relation);
        let linear = (Ibcast, 0, Some("linear"));
        assert_eq!(of(None), Some(only(&[linear])));
        assert_eq!(of(Some(Cache)), Some(only(&[(Ibcast, 0, Some("chain")), (Ibcast, 64, None)])));
        assert_eq!(of(Some(Node)), Some(only(&[linear, (Iallreduce, 0, Some("ring"))])));
        assert_eq!(of(Some(Across)), Some(only(&[(Ibcast, 0, Some("4-ary"))])));
        // The number of ranks goes before the place, in whatever order the rows stand.
        let binomial = Some(only(&[(Ibcast, 0, Some("binomial"))]));
        assert_eq!(choices(&all, Processes, 8, Some(Cache)), binomial);
        let turned: Vec<Collective> = all.iter().rev().copied().collect();
        assert_eq!(choices(&turned, Processes, 8, Some(Across)), binomial);
        assert_eq!(choices(&turned, Processes, 4, Some(Across)), of(Some(Across)));
    }

    #[test]
    fn a_digest_tells_what_ranks_of_a_kind_would_do() {
        let all = rows("ibcast process 2 0 linear\nibcast thread 2 0 linear");
        assert_eq!(digest(&[], Processes), EMPTY);
        assert_ne!(digest(&all, Processes), EMPTY);
        assert_eq!(digest(&all, Processes), digest(&all[..1], Processes));
        assert_eq!(digest(&all[..1], Threads), EMPTY);
        for other in [
            "ibcast process 2 0 chain",
            "ibcast process 2 1 linear",
            "ibcast process 3 0 linear",
            "ibcast process 2 0 linear cache",
        ] {
            assert_ne!(digest(&rows(other), Processes), digest(&all, Processes));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let wrong = |text: &str| check(&rows(text)).unwrap_err();
        assert!(wrong("ibcast process 1 0 linear").1.contains("2 to 1024 ranks"));
        assert!(wrong("ibcast process 1025 0 linear").1.contains("2 to 1024 ranks"));
        assert!(
            wrong("ialltoallv process 2 0 linear\nialltoallv process 2 8 pairwise")
                .1
                .contains("know its sizes")
        );
        let (at, why) = wrong("ibcast process 2 8 linear\nibcast thread 2 0 chain\nibcast process 2 8 chain");
        assert!(at == 2 && why.contains("greater and greater"), "{at}: {why}");
        let many: String = (0..=MOST_CHOICES).map(|from| format!("ibcast thread 2 {from} auto\n")).collect();
        assert_eq!(wrong(&many).0, MOST_CHOICES);
        let row = rows("ibcast process 2 0 linear")[0];
        let other = Collective { operation: Ialltoallv, algorithm: Some("bruck"), ..row };
        assert!(check(&[row, other]).unwrap_err().1.contains("does not have this algorithm"));
    }
}
