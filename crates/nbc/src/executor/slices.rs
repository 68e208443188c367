//! Steps that copy and combine, a slice at a time. A step that is longer than what a pass may do goes on in the next from where it
//! stopped; who leaves a pass with work left comes back for it, a handler by its timer. Handler-safe.
//!
//! A handler looks at the clock between slices, so that an entry ends within its time whatever an element takes: at least one
//! slice is done, else entry after entry would do nothing.

use super::is_handler;
use crate::kernels::Panicked;
use crate::schedule::{Kind, Pieces};
use tocsin_p2p::{ConstBuf, Layout, MutBuf};
use tocsin_progress::budget::Budget;
use tocsin_progress::completion::{Code, Outcome};

/// What came of a step.
pub(super) enum Step {
    /// Done; its dependants may be ready.
    Done,
    /// With the layer below, or put aside.
    Away,
    /// The budget ended in the middle of it.
    Sliced,
    /// The schedule fails.
    Failed(Outcome),
}

/// Bytes of a step that a handler copies or combines between two looks at the clock: a microsecond or two of what is quick, and
/// less than an entry's time of what is slow.
const SLICE: usize = 8 << 10;

/// Bytes of a step that are next: as many as the budget has left, at least one, and where time counts no more than a [`SLICE`].
pub(crate) fn room(budget: &Budget) -> usize {
    let left = budget.bytes_left().max(1);
    if is_handler(budget.context()) { left.min(SLICE) } else { left }
}

/// As much of a copy as the budget allows, at least a byte. At most as many turns as the budget has slices.
pub(super) fn copy(
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    done: &mut usize,
    budget: &mut Budget,
) -> Step {
    loop {
        let left = bytes.saturating_sub(*done);
        let now = left.min(room(budget));
        // SAFETY: - done + now <= bytes, and the step's ranges are valid for `bytes` and apart: promised to `post`, checked by
        //           the builder
        //         - nobody else uses them now: dependencies of the algorithm.
        unsafe { std::ptr::copy_nonoverlapping(from.add(*done), to.add(*done), now) };
        budget.take_bytes(now);
        *done = done.saturating_add(now);
        if now == left {
            return Step::Done;
        }
        if budget.exhausted() {
            return Step::Sliced;
        }
    }
}

/// Bytes that a piece touches at least, and is charged for.
const CACHE_LINE: usize = 64;

/// So many bytes of the `left` ones that are in pieces of a length are next, where there is so much room, and so many are charged for them.
#[inline]
pub(crate) fn next_of_pieces(length: usize, left: usize, room: usize) -> (usize, usize) {
    if length >= CACHE_LINE {
        let now = left.min(room);
        return (now, now);
    }
    let now = left.min((room / CACHE_LINE).max(1).saturating_mul(length));
    (now, now.div_ceil(length.max(1)).saturating_mul(CACHE_LINE))
}

/// As much of a copy from or to pieces as the budget allows, at least a byte, or a piece of less than a cache line. At most as
/// many turns as the budget has slices.
pub(super) fn spread(kind: &Kind, done: &mut usize, budget: &mut Budget) -> Step {
    let (Kind::Pack { pieces, bytes, .. } | Kind::Unpack { pieces, bytes, .. }) = *kind else {
        return Step::Done;
    };
    let Pieces { length, stride } = pieces;
    // Negative where they go backwards only: other blocks end within the address space, as `span` has seen.
    let layout =
        Layout::Strided { block: length, stride: stride as isize, count: bytes.div_ceil(length.max(1)) };
    loop {
        let left = bytes.saturating_sub(*done);
        let (now, charge) = next_of_pieces(length, left, room(budget));
        // SAFETY: - done + now <= bytes, and the step's pieces and its run, of `bytes` each, are valid and apart: promised to
        //           `post`, checked by the builder
        //         - nobody else uses them now: dependencies of the algorithm.
        unsafe {
            match *kind {
                Kind::Pack { from, to, .. } => {
                    ConstBuf { base: from, layout }.pack(*done, now, to.add(*done));
                }
                Kind::Unpack { from, to, .. } => {
                    MutBuf { base: to, layout }.unpack(*done, now, from.add(*done));
                }
                _ => {}
            }
        }
        budget.take_bytes(charge);
        *done = done.saturating_add(now);
        if now == left {
            return Step::Done;
        }
        if budget.exhausted() {
            return Step::Sliced;
        }
    }
}

/// As much of a reduction as the budget allows, at least an element. Elements do not depend on each other, so that no result
/// depends on where a slice ends. At most as many turns as the budget has slices, or elements of more than a slice.
pub(super) fn reduce(kind: &Kind, done: &mut usize, budget: &mut Budget) -> Step {
    let Kind::Reduce { left, right, out, count, operator } = *kind else { return Step::Done };
    let size = operator.size().max(1);
    loop {
        let elements = count.saturating_sub(*done);
        let now = elements.min((room(budget) / size).max(1));
        let offset = done.saturating_mul(size);
        // SAFETY: - done + now <= count, and the step's operands are valid for `count` elements: promised to `post`
        //         - `out` equals an operand or is apart from it: checked by the builder
        //         - nobody else uses them now: dependencies of the algorithm.
        let combined = unsafe { operator.combine(left.add(offset), right.add(offset), out.add(offset), now) };
        budget.take_bytes(now.saturating_mul(size));
        *done = done.saturating_add(now);
        if let Err(Panicked) = combined {
            let code = Code::UserOperatorPanicked;
            return Step::Failed(Outcome { code, ..Outcome::default() });
        }
        if now == elements {
            return Step::Done;
        }
        if budget.exhausted() {
            return Step::Sliced;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Operator;
    use crate::{DataType, Op, UserOp};
    use std::cell::Cell;
    use tocsin_progress::budget::{Context, HANDLER_BYTES, HANDLER_NS};
    use tocsin_sync::clock::now_ns;

    /// Entries of a handler that a copy takes.
    fn entries(kind: &Kind, pieces_at_most: usize, length: usize) -> usize {
        let mut done = 0;
        for entry in 1.. {
            let mut budget = Budget::limited(Context::Handler, 32, 64 << 10);
            let before = done;
            let step = spread(kind, &mut done, &mut budget);
            assert!(done - before <= pieces_at_most * length);
            match step {
                Step::Done => return entry,
                Step::Sliced => assert_eq!(budget.bytes_left(), 0),
                Step::Away | Step::Failed(_) => unreachable!(),
            }
        }
        0
    }

    #[test]
    fn a_handler_touches_as_many_cache_lines_whatever_the_pieces_are() {
        for (length, expected, at_most) in [(3, 5, 1024), (64, 5, 1024), (100, 8, 656)] {
            let (count, stride) = (5000, length + 9);
            // The last piece is a byte shorter.
            let bytes = length * count - 1;
            let spread_out: Vec<u8> = (0..stride * count).map(|i| (i % 251) as u8).collect();
            let (mut run, mut back) = (vec![0u8; bytes], vec![0u8; stride * count]);
            let pieces = Pieces { length, stride };
            let (from, to) = (spread_out.as_ptr(), run.as_mut_ptr());
            assert_eq!(entries(&Kind::Pack { from, pieces, to, bytes }, at_most, length), expected);
            let at = |i: usize| i / length * stride + i % length;
            assert!(run.iter().enumerate().all(|(i, byte)| *byte == spread_out[at(i)]));
            let (from, to) = (run.as_ptr(), back.as_mut_ptr());
            assert_eq!(entries(&Kind::Unpack { from, to, pieces, bytes }, at_most, length), expected);
            let mut right = vec![0u8; stride * count];
            (0..bytes).for_each(|i| right[at(i)] = spread_out[at(i)]);
            assert_eq!(back, right);
        }
    }

    #[test]
    fn blocks_are_reversed() {
        let from: Vec<u8> = (0..9000).map(|i| (i % 251) as u8).collect();
        for block in [1, 3, 100] {
            let mut to = vec![0u8; from.len()];
            let last = to.as_mut_ptr().wrapping_add(from.len() - block);
            let pieces = Pieces { length: block, stride: block.wrapping_neg() };
            let kind = Kind::Unpack { from: from.as_ptr(), to: last, pieces, bytes: from.len() };
            entries(&kind, 9000, block);
            let right: Vec<u8> = from.chunks(block).rev().flatten().copied().collect();
            assert_eq!(to, right, "blocks of {block}");
        }
    }

    /// Numbers whose sums round, so that another order would be seen.
    fn floats(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed) % 1000) as f32 / 7.0 + 1e6 * (i % 3) as f32).collect()
    }

    fn reduction(operands: [&[f32]; 2], out: &mut [f32], op: Op) -> Kind {
        let [left, right] = operands.map(|operand| operand.as_ptr().cast());
        let operator = Operator::new(op, DataType::F32).unwrap();
        Kind::Reduce { left, right, out: out.as_mut_ptr().cast(), count: out.len(), operator }
    }

    /// Bytes that each of the passes takes which a step needs.
    fn passes(
        step: impl Fn(&mut usize, &mut Budget) -> Step,
        size: usize,
        budget: fn() -> Budget,
    ) -> Vec<usize> {
        let (mut done, mut taken) = (0, Vec::new());
        loop {
            let (before, mut budget) = (done, budget());
            // As whoever runs a step does.
            budget.begin();
            let came = step(&mut done, &mut budget);
            taken.push((done - before) * size);
            match came {
                Step::Done => return taken,
                Step::Sliced => assert!(budget.exhausted() && done > before),
                Step::Away | Step::Failed(_) => unreachable!(),
            }
        }
    }

    #[test]
    fn a_pass_of_a_handler_takes_no_more_than_its_bytes() {
        const COUNT: usize = 50_001;
        let handler = || Budget::limited(Context::Handler, 32, HANDLER_BYTES);
        let (left, right) = (floats(COUNT, 1), floats(COUNT, 2));
        let right_sums: Vec<f32> = left.iter().zip(&right).map(|(a, b)| a + b).collect();
        let mut sums = vec![0.0; COUNT];
        let kind = reduction([&left, &right], &mut sums, Op::Sum);
        let taken = passes(|done, budget| reduce(&kind, done, budget), 4, handler);
        let expected = [HANDLER_BYTES, HANDLER_BYTES, HANDLER_BYTES, 4 * COUNT - 3 * HANDLER_BYTES];
        assert_eq!((taken, sums), (expected.to_vec(), right_sums));
        let mut copied = vec![0.0f32; COUNT];
        let (from, to) = (left.as_ptr().cast(), copied.as_mut_ptr().cast());
        let taken = passes(|done, budget| copy(from, to, 4 * COUNT, done, budget), 1, handler);
        assert_eq!((taken, copied), (expected.to_vec(), left));
    }

    /// What an operator has been called with.
    #[derive(Default)]
    struct Calls {
        most: Cell<usize>,
        number: Cell<usize>,
    }

    /// Sums, and takes all the time of an entry for it.
    unsafe fn slow_sums(calls: *const (), left: *const u8, right: *const u8, out: *mut u8, count: usize) {
        let begun = now_ns();
        // SAFETY: as the test makes it.
        let calls = unsafe { &*calls.cast::<Calls>() };
        calls.most.set(calls.most.get().max(count));
        calls.number.set(calls.number.get() + 1);
        for i in 0..count {
            // SAFETY: `count` numbers at each, promised by the caller.
            unsafe {
                let at = |base: *const u8| base.cast::<f32>().add(i).read_unaligned();
                out.cast::<f32>().add(i).write_unaligned(at(left) + at(right));
            }
        }
        while now_ns() <= begun + HANDLER_NS {}
    }

    #[test]
    fn a_handler_whose_time_is_over_ends_in_the_middle_of_a_step() {
        const COUNT: usize = 10_000;
        let (left, right) = (floats(COUNT, 3), floats(COUNT, 4));
        let right_sums: Vec<f32> = left.iter().zip(&right).map(|(a, b)| a + b).collect();
        let calls = Calls::default();
        // SAFETY: - the function is for numbers of 32 bits, which are reduced below, and wants what `calls` is
        //         - it does nothing but compute.
        let op = unsafe { UserOp::new(slow_sums, (&raw const calls).cast(), true).handler_safe() };
        let mut sums = vec![0.0; COUNT];
        let kind = reduction([&left, &right], &mut sums, Op::User(op));
        let taken = passes(|done, budget| reduce(&kind, done, budget), 4, Budget::handler);
        assert_eq!((taken.len(), calls.number.get()), (5, 5), "{taken:?}");
        assert_eq!((calls.most.get() * 4, taken.iter().max()), (SLICE, Some(&SLICE)));
        assert_eq!(sums, right_sums);
        // Whose time does not count is not asked to look.
        let calls = Calls::default();
        // SAFETY: - as above.
        let op = unsafe { UserOp::new(slow_sums, (&raw const calls).cast(), true) };
        let kind = reduction([&left, &right], &mut sums, Op::User(op));
        assert_eq!(passes(|done, budget| reduce(&kind, done, budget), 4, Budget::user), [4 * COUNT]);
        assert_eq!(calls.number.get(), 1);
    }
}
