//! Any two of what a collective depends on together, on more ranks than all of it is tried on: operation and algorithm (or the
//! library's own choice), ranks, root, size, type, operator, in place or not, and where blocks stand.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;

use common::driver::{Machine, group};
use common::model::{AFFINE, Case, Layout, affine_op};
use common::network::network;
use common::pairwise::{Model, Pair, pairs_of};
use common::{Random, fits_board, has_blocks, has_layout, takes};
use tocsin_nbc::table::{self, Algorithm, Arguments, Operation};
use tocsin_nbc::{DataType, Op};

const RANKS: [u32; 6] = [5, 8, 16, 17, 32, 33];
/// Bytes from which on something is done otherwise: short blocks, a slot of a board, a piece, segments, what a handler reads at
/// once, temporaries, pipelines, own choices, long parts. Each with one element less and one more, too.
const THRESHOLDS: [usize; 11] = [
    256,
    2 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    768 << 10,
    1 << 20,
];
/// None, one, and three about each threshold.
const SIZES: usize = 2 + 3 * THRESHOLDS.len();
/// All buffers of one side of all ranks together.
const MOST: usize = 65 << 20;

/// Elements of a size.
fn count(size: usize, data_type: DataType) -> usize {
    match size.checked_sub(2) {
        None => size,
        Some(about) => THRESHOLDS[about / 3] / data_type.size() + about % 3 - 1,
    }
}

/// What is called: an operation by each of its algorithms, or by the library's choice.
fn calls() -> Vec<(Operation, Option<&'static Algorithm>)> {
    let named = table::ALGORITHMS.iter().map(|a| (a.operation, Some(a)));
    named.chain(Operation::ALL.iter().map(|operation| (*operation, None))).collect()
}

fn types() -> Vec<DataType> {
    DataType::BUILT_IN.iter().copied().chain([AFFINE]).collect()
}

/// `None`: of what combines nothing.
fn operators() -> Vec<Option<Op>> {
    let all = Op::BUILT_IN.iter().copied().chain([affine_op()]);
    [None].into_iter().chain(all.map(Some)).collect()
}

/// Of the buffers of one side.
fn bytes_of_all(operation: Operation, count: usize, data_type: DataType, ranks: u32) -> usize {
    let ranks = ranks as usize;
    count * data_type.size() * ranks * if has_blocks(operation) { ranks } else { 1 }
}

/// Whether the operator takes the type.
fn combines(data_type: DataType, op: Op) -> bool {
    if matches!(op, Op::User(_)) {
        return data_type == AFFINE;
    }
    let arguments = Arguments::Iallreduce { send: None, recv: std::ptr::null_mut(), count: 0, data_type, op };
    table::compile(&group(1, 0), &arguments, None).is_ok()
}

/// Call, ranks, root (0, 1, the last), size, type, operator, in place, layout (as it falls, and one of each).
fn model() -> Model<impl Fn(&[Option<usize>]) -> bool> {
    let (calls, types, operators) = (calls(), types(), operators());
    let values =
        vec![calls.len(), RANKS.len(), 3, SIZES, types.len(), operators.len(), 2, 1 + Layout::ALL.len()];
    let combines: Vec<Vec<bool>> = types
        .iter()
        .map(|data_type| operators.iter().map(|op| op.is_none_or(|op| combines(*data_type, op))).collect())
        .collect();
    let allows = move |row: &[Option<usize>]| {
        let [call, ranks, root, size, data_type, operator, in_place, layout] = row else { unreachable!() };
        if let (Some(data_type), Some(operator)) = (data_type, operator)
            && !combines[*data_type][*operator]
        {
            return false;
        }
        let Some((operation, algorithm)) = call.map(|call| calls[call]) else { return true };
        let is_barrier = operation == Operation::Ibarrier;
        let op = operator.map(|operator| operators[operator]);
        let commutes = |algorithm: &Algorithm| {
            !algorithm.restrictions.commutative || op.flatten().is_none_or(|op| op.is_commutative())
        };
        let ranks = ranks.map(|ranks| RANKS[ranks]);
        let count =
            size.zip(*data_type).map(|(size, data_type)| (count(size, types[data_type]), types[data_type]));
        op.is_none_or(|op| op.is_some() == operation.is_reduction())
            && root.is_none_or(|root| root == 0 || operation.has_root())
            && in_place.is_none_or(|it| it == 0 || !is_barrier && operation != Operation::Ibcast)
            && layout.is_none_or(|layout| layout == 0 || has_layout(operation))
            && !(is_barrier && (size.is_some_and(|size| size > 0) || data_type.is_some_and(|t| t > 0)))
            && algorithm.is_none_or(commutes)
            && algorithm.zip(ranks).is_none_or(|(algorithm, ranks)| takes(algorithm, ranks))
            && ranks.zip(count).is_none_or(|(ranks, (count, data_type))| {
                let on_board = algorithm.is_some_and(|a| a.restrictions.needs_board());
                bytes_of_all(operation, count, data_type, ranks) <= MOST
                    && (!on_board || fits_board(operation, count, data_type, ranks as usize))
            })
    };
    Model { values, allows }
}

fn case(row: &[usize], random: &mut Random) -> (u32, Case) {
    let [call, ranks, root, size, data_type, operator, in_place, layout] = *row else { unreachable!() };
    let (operation, algorithm) = calls()[call];
    let (ranks, data_type) = (RANKS[ranks], types()[data_type]);
    let word = Layout::any(random.word());
    let case = Case {
        operation,
        algorithm: algorithm.map(|a| a.name),
        root: [0, 1, ranks - 1][root],
        data_type,
        op: operators()[operator].unwrap_or(Op::Sum),
        count: count(size, data_type),
        in_place: in_place == 1,
        layout: layout.checked_sub(1).map_or(word, |layout| Layout::ALL[layout].of(word)),
    };
    (ranks, case)
}

/// On the network of these tests: every pair of values under `TOCSIN_TEST_DEEP=1`, a seeded sample else.
#[test]
fn any_two_values_together() {
    let deep = std::env::var_os("TOCSIN_TEST_DEEP").is_some_and(|v| v == "1");
    let (model, mut random) = (model(), Random(0x70c5_0007));
    let rows = model.rows();
    let mut done: BTreeSet<Pair> = BTreeSet::new();
    let mut run = 0;
    for row in &rows {
        let (ranks, case) = case(row, &mut random);
        let (network, seed) = (network(ranks, random.word()), random.word());
        // Of what is long, fewer.
        let is_long = bytes_of_all(case.operation, case.count, case.data_type, ranks) > 2 << 20;
        if !deep && random.below(if is_long { 300 } else { 20 }) > 0 {
            continue;
        }
        Machine::new(network, seed).run(&[case]);
        done.extend(pairs_of(row));
        run += 1;
    }
    println!("{run} of {} cases, {} pairs", rows.len(), done.len());
    if deep {
        assert_eq!(done, model.allowed(), "pairs that were not run, or may not be");
    }
    assert!(run > 30, "{run}");
}

/// What the restrictions of algorithms leave out, and no more.
#[test]
fn what_may_stand_together_does() {
    let allowed = model().allowed();
    let (calls, operators, types) = (calls(), operators(), types());
    for (number, (operation, algorithm)) in calls.iter().enumerate() {
        let with = |at: usize, value: usize| allowed.contains(&[(0, number), (at, value)]);
        let name = algorithm.map_or("choice", |a| a.name);
        for (value, ranks) in RANKS.into_iter().enumerate() {
            let takes = algorithm.is_none_or(|a| !a.restrictions.power_of_two || ranks.is_power_of_two());
            assert_eq!(with(1, value), takes, "{operation} by {name} of {ranks} ranks");
        }
        for (value, op) in operators.iter().enumerate() {
            let takes = match op {
                None => !operation.is_reduction(),
                Some(op) => {
                    let commutative = algorithm.is_some_and(|a| a.restrictions.commutative);
                    operation.is_reduction() && (op.is_commutative() || !commutative)
                }
            };
            assert_eq!(with(5, value), takes, "{operation} by {name} with {op:?}");
        }
        for size in 0..SIZES {
            let on_board = algorithm.is_some_and(|a| a.restrictions.needs_board());
            let takes = match operation {
                Operation::Ibarrier => size == 0,
                // Blocks for all others, or parts of all together, have to fit.
                Operation::Ialltoall if on_board => size <= 24,
                Operation::Iallreduce if on_board => size <= 31,
                _ => !on_board || size < SIZES - 1,
            };
            assert_eq!(with(3, size), takes, "{operation} by {name}, size {size}");
        }
        for (value, data_type) in types.iter().enumerate() {
            let any = || operators.iter().flatten().any(|op| combines(*data_type, *op));
            let takes =
                (!operation.is_reduction() || any()) && (*operation != Operation::Ibarrier || value == 0);
            let affine = *data_type == AFFINE && algorithm.is_some_and(|a| a.restrictions.commutative);
            assert_eq!(with(4, value), takes && !affine, "{operation} by {name} of {data_type}");
        }
    }
}

/// Against all rows of a small model, two of whose rules say nothing before they know all.
#[test]
fn rows_have_every_pair_that_there_is() {
    let rule = |row: &[Option<usize>]| {
        let [a, b, c, d] = *row else { unreachable!() };
        let odd = a == Some(1) && b == Some(2);
        let three = a == Some(0) && c == Some(1) && d == Some(0);
        let all = row.iter().flatten().sum::<usize>() == 9 && row.iter().all(Option::is_some);
        !odd && !three && !all
    };
    let model = Model { values: vec![2, 3, 4, 5], allows: rule };
    let mut right = BTreeSet::new();
    for number in 0..2 * 3 * 4 * 5 {
        let row = [number % 2, number / 2 % 3, number / 6 % 4, number / 24];
        if rule(&row.map(Some)) {
            right.extend(pairs_of(&row));
        }
    }
    let rows = model.rows();
    assert!(rows.iter().all(|row| rule(&row.iter().copied().map(Some).collect::<Vec<_>>())), "{rows:?}");
    assert_eq!(rows.iter().flat_map(|row| pairs_of(row)).collect::<BTreeSet<_>>(), right);
    assert_eq!(model.allowed(), right);
    // One of two values leaves out the other's: 20 pairs of the last two parameters are the fewest.
    assert!((20..30).contains(&rows.len()), "{}", rows.len());
}
