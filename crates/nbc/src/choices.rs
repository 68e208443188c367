//! Which algorithms were measured to be the quickest: what the dispatcher takes before its own choice.

use crate::table::{ALGORITHMS, Algorithm, Operation};
use crate::trace;

/// Most sizes at which the choice for one operation changes.
pub const MOST: usize = 16;

/// From one size on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Choice {
    /// In bytes.
    from: u64,
    /// By its number in the [trace]; 0: the dispatcher's own.
    algorithm: u16,
}

/// The algorithms of communicators of one size, by operation and bytes. All ranks of a communicator must have the same:
/// their algorithms differ else, and they wait for each other for ever.
///
/// # Implementation details
/// A table of a fixed size that is private to its rank; a look at it is a walk along at most [`MOST`] rows, which neither
/// allocates nor waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choices {
    /// By operation, the first [`count`](Self::counts) of them ascending.
    rows: [[Choice; MOST]; OPERATIONS],
    counts: [u8; OPERATIONS],
}

const OPERATIONS: usize = Operation::ALL.len();
const _: () = assert!(MOST <= u8::MAX as usize && ALGORITHMS.len() < u16::MAX as usize);

impl Default for Choices {
    fn default() -> Choices {
        Choices::NONE
    }
}

impl Choices {
    /// None: the dispatcher's own.
    pub const NONE: Choices =
        Choices { rows: [[Choice { from: 0, algorithm: 0 }; MOST]; OPERATIONS], counts: [0; OPERATIONS] };

    /// Adds what an operation takes from so many bytes on: an algorithm, or (`None`) the dispatcher's own choice. Bytes are
    /// the whole buffer or the block per rank, as the operation has it; where the ranks do not have
    /// [a size in common](Operation::has_common_size) only what begins at 0 is ever met.
    ///
    /// False, and nothing changes: the operation has [`MOST`] rows, or one that begins there or later, or the algorithm is
    /// another operation's.
    #[must_use]
    pub fn add(&mut self, operation: Operation, from: u64, algorithm: Option<&'static Algorithm>) -> bool {
        let at = operation as usize;
        let (Some(rows), Some(count)) = (self.rows.get_mut(at), self.counts.get_mut(at)) else {
            return false;
        };
        let used = usize::from(*count);
        let follows = used.checked_sub(1).and_then(|last| rows.get(last)).is_none_or(|last| last.from < from);
        let fits = algorithm.is_none_or(|algorithm| algorithm.operation == operation);
        match rows.get_mut(used) {
            Some(row) if follows && fits => {
                *row = Choice { from, algorithm: algorithm.map_or(0, trace::number_of) };
                *count += 1;
                true
            }
            _ => false,
        }
    }

    /// What an operation of so many bytes takes, by its number in the [trace]; `None`: what the dispatcher takes by itself.
    pub(crate) fn find(&self, operation: Operation, bytes: u64) -> Option<u16> {
        let at = operation as usize;
        let rows = self.rows.get(at)?.get(..usize::from(*self.counts.get(at)?))?;
        let row = rows.iter().rfind(|row| row.from <= bytes)?;
        (row.algorithm != 0).then_some(row.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::find;

    #[test]
    fn the_last_row_that_begins_below_is_taken() {
        let named = |operation, name| Some(find(operation, name).unwrap());
        let mut choices = Choices::default();
        assert_eq!(choices, Choices::NONE);
        let chain = named(Operation::Ibcast, "chain");
        assert!(choices.add(Operation::Ibcast, 100, chain));
        assert!(choices.add(Operation::Ibcast, 200, None));
        assert!(choices.add(Operation::Ibcast, 300, named(Operation::Ibcast, "linear")));
        // Not in order, a tie, another's algorithm: nothing changes.
        let before = choices.clone();
        assert!(!choices.add(Operation::Ibcast, 250, chain));
        assert!(!choices.add(Operation::Ibcast, 300, chain));
        assert!(!choices.add(Operation::Ireduce, 0, chain));
        assert_eq!(choices, before);
        let name = |bytes| {
            let number = choices.find(Operation::Ibcast, bytes);
            number.and_then(trace::algorithm).map(|algorithm| algorithm.name)
        };
        for (bytes, right) in [
            (0, None),
            (99, None),
            (100, Some("chain")),
            (199, Some("chain")),
            (200, None),
            (299, None),
            (300, Some("linear")),
            (u64::MAX, Some("linear")),
        ] {
            assert_eq!(name(bytes), right, "{bytes}");
        }
        assert_eq!(choices.find(Operation::Iexscan, 100), None);
    }

    #[test]
    fn there_is_an_end_of_rows() {
        let mut choices = Choices::NONE;
        for at in 0..MOST as u64 {
            assert!(choices.add(Operation::Iexscan, at, None));
        }
        assert!(!choices.add(Operation::Iexscan, MOST as u64, None));
        assert!(choices.add(Operation::Iscan, 0, None));
    }
}
