//! Any two of what a collective depends on together, on more ranks than all of it is tried on: operation and algorithm (or the
//! library's own choice), ranks, root, size, type, operator, in place or not, and where blocks stand.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;

use common::driver::Machine;
use common::model::{AFFINE, Case, Layout, affine_op};
use common::network::network;
use common::pairwise::{Model, Pair, pairs_of};
use common::space::{
    RANKS, SIZES, Way, about, bytes_of_all, called, combines, count, has_blocks, operators, types,
};
use common::{Random, space, supply};
use tocsin_nbc::Op;
use tocsin_nbc::table::{self, Arguments, Operation};

/// All layouts, and blocks as they fall.
fn model() -> Model<impl Fn(&[Option<usize>]) -> bool> {
    space::model(affine_op(), 65 << 20, 1 + Layout::ALL.len(), 1, |_| true)
}

fn case(row: &[usize], random: &mut Random) -> (u32, Case) {
    let [call, ranks, root, size, data_type, operator, in_place, layout, _] = *row else { unreachable!() };
    let (operation, algorithm, _) = called()[call];
    let (ranks, data_type) = (RANKS[ranks], types()[data_type]);
    let word = Layout::any(random.word());
    let case = Case {
        operation,
        algorithm: algorithm.map(|a| a.name),
        root: [0, 1, ranks - 1][root],
        data_type,
        op: operators(affine_op())[operator].unwrap_or(Op::Sum),
        count: count(size, data_type.size()),
        in_place: in_place == 1,
        layout: layout.checked_sub(1).map_or(word, |layout| Layout::ALL[layout].of(word)),
    };
    (ranks, case)
}

/// Bytes of the buffers of one side of all ranks.
fn bytes(ranks: u32, case: &Case) -> usize {
    bytes_of_all(case.operation, case.count * case.data_type.size(), ranks)
}

/// Of each operation that a board makes in rounds, the shortest row that is.
fn shortest_in_rounds(rows: &[Vec<usize>]) -> BTreeSet<usize> {
    let bytes = |number: &usize| {
        let (ranks, case) = case(&rows[*number], &mut Random(0));
        bytes(ranks, &case)
    };
    let in_rounds = called().into_iter().enumerate().filter(|(_, (_, _, way))| *way == Some(Way::Rounds));
    let shortest = |call: usize| (0..rows.len()).filter(|number| rows[*number][0] == call).min_by_key(bytes);
    in_rounds.map(|(call, _)| shortest(call).unwrap()).collect()
}

/// Runs some of the rows, each with a seed of its own, those that are to run `always` among them; which pairs they have.
fn run(
    rows: &[Vec<usize>],
    which: impl Iterator<Item = usize>,
    always: &BTreeSet<usize>,
    deep: bool,
) -> (usize, BTreeSet<Pair>) {
    let (mut done, mut run) = (BTreeSet::new(), 0);
    for number in which {
        let mut random = Random(0x70c5_0007 + number as u64);
        let (ranks, case) = case(&rows[number], &mut random);
        // Of what is long, fewer.
        let one_in = if bytes(ranks, &case) > 2 << 20 { 450 } else { 30 };
        if !deep && random.below(one_in) > 0 && !always.contains(&number) {
            continue;
        }
        Machine::new(network(ranks, random.word()), random.word()).run(&[case]);
        done.extend(pairs_of(&rows[number]));
        run += 1;
    }
    (run, done)
}

/// On the network of these tests: a seeded sample, with a case of each operation that is made in rounds, and under `TOCSIN_TEST_DEEP=1` every pair of
/// values, of which those in rounds alone take 3 minutes of processor time.
#[test]
fn any_two_values_together() {
    let deep = std::env::var_os("TOCSIN_TEST_DEEP").is_some_and(|v| v == "1");
    let rows = model().rows();
    let always = shortest_in_rounds(&rows);
    let workers = std::thread::available_parallelism().unwrap().get();
    let parts = std::thread::scope(|scope| {
        let part = |first: usize| (first..rows.len()).step_by(workers);
        let (rows, always) = (&rows, &always);
        let workers: Vec<_> =
            (0..workers).map(|first| scope.spawn(move || run(rows, part(first), always, deep))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    let count = parts.iter().map(|(run, _)| run).sum::<usize>();
    let done: BTreeSet<Pair> = parts.into_iter().flat_map(|(_, done)| done).collect();
    println!("{count} of {} cases, {} pairs", rows.len(), done.len());
    if deep {
        assert_eq!(done, model().allowed(), "pairs that were not run, or may not be");
    }
    assert!(count > 30, "{count}");
}

/// What the restrictions of algorithms leave out, and no more.
#[test]
fn what_may_stand_together_does() {
    let allowed = model().allowed();
    let (calls, operators, types) = (called(), operators(affine_op()), types());
    for (number, (operation, algorithm, way)) in calls.iter().enumerate() {
        let with = |at: usize, value: usize| allowed.contains(&[(0, number), (at, value)]);
        let name = algorithm.map_or("choice", |a| a.name).to_owned();
        let name = if *way == Some(Way::Rounds) { name + ", in rounds" } else { name };
        for (value, ranks) in RANKS.into_iter().enumerate() {
            let takes = algorithm.is_none_or(|a| !a.restrictions.power_of_two || ranks.is_power_of_two());
            // More than 1 MiB from each to each is too much for these tests among 16.
            let is_too_much = *operation == Operation::Iallgather && way.is_some() && ranks >= 16;
            let takes = takes && !is_too_much;
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
        let on_board = algorithm.is_some_and(|a| a.restrictions.needs_board());
        let takes_five = algorithm.is_none_or(|a| !a.restrictions.power_of_two);
        // Of five ranks, which have least, or of eight: what all buffers may have in all, or a board takes of each or for all together.
        let last = match operation {
            Operation::Ibarrier => 0,
            Operation::Iallgatherv if on_board => about(1 << 20, 0),
            Operation::IreduceScatter if on_board => about(128 << 10, 1),
            _ if has_blocks(*operation) && !operation.has_root() => {
                about(if takes_five { 2 << 20 } else { 1 << 20 }, 1)
            }
            _ => about(4 << 20, 1),
        };
        // Of 33, which have most, in rounds: what is too much for one.
        let first = match operation {
            _ if way.is_none() => 0,
            // Blocks for 32 others.
            Operation::Iscatter | Operation::Ialltoall => about(32 << 10, 1),
            // For all 33.
            Operation::IreduceScatterBlock => about(32 << 10, -1),
            // In 128 pieces, of which 32 KiB are read at once.
            Operation::Iallreduce => about(128 << 10, -1),
            _ => about(1 << 20, 1),
        };
        for size in 0..SIZES {
            let takes = (first..=last).contains(&size);
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

/// The library takes the same types for each operator as the tests say.
#[test]
fn operators_take_their_types() {
    let group = common::driver::group(1, 0);
    for data_type in types() {
        for op in operators(affine_op()).into_iter().flatten().filter(|op| !matches!(op, Op::User(_))) {
            let arguments =
                Arguments::Iallreduce { send: None, recv: std::ptr::null_mut(), count: 0, data_type, op };
            let taken = table::compile(&group, &arguments, None).is_ok();
            assert_eq!(taken, combines(data_type, op), "{op} of {data_type}");
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

/// Of each type: a part is that of the whole, also where the supply goes round; two lots, and two types of one size, have different elements.
#[test]
fn a_supply_is_cut_as_a_vector_would_be() {
    for bytes in [48, 1 << 12, 3 << 20] {
        for data_type in types() {
            let size = data_type.size();
            let whole = supply::cut(data_type, 4_000, bytes, 0..bytes);
            for part in [0..bytes, size..bytes, bytes - size..bytes, bytes / 2..bytes / 2 + size, size..size]
            {
                let part = part.start / size * size..part.end / size * size;
                assert!(
                    supply::cut(data_type, 4_000, bytes, part.clone()) == whole[part.clone()],
                    "{part:?}"
                );
            }
            assert!(supply::cut(data_type, 4_001, bytes, 0..bytes - size) != whole[..bytes - size]);
            assert!(
                supply::cut(data_type, 4_001, bytes, 0..bytes - size) == whole[size..],
                "{data_type:?}: the next place has the next element"
            );
            let others = types().into_iter().filter(|other| *other != data_type && other.size() == size);
            others
                .for_each(|other| assert!(supply::cut(other, 4_000, bytes, 0..bytes) != whole, "{other:?}"));
        }
    }
}
