//! What a board takes, and how, as the tests say it and as the library does; and at which sizes the library's choice changes.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::driver::group;
use common::model::affine_op;
use common::space::{
    RANKS, SIZES, THRESHOLDS, Way, combines, count, operators, takes_any_length, takes_rounds, types,
    way_on_board,
};
use tocsin_nbc::board::{MEMBERS, MOST, has_few_rounds, is_short};
use tocsin_nbc::table::{self, Arguments, Block, Operation};
use tocsin_nbc::{DataType, Error, Group, Op};
use tocsin_transport::board::{LONG, OUTSTANDING, ROOM};

/// Blocks and counts that are as long on all ranks.
struct Equal {
    blocks: Vec<Block>,
    counts: Vec<usize>,
}

impl Equal {
    fn new(ranks: u32, bytes: usize, count: usize) -> Equal {
        let blocks = (0..ranks as usize).map(|rank| Block::new(rank * bytes, bytes)).collect();
        Equal { blocks, counts: vec![count; ranks as usize] }
    }

    /// A call of rank 0, of buffers that nobody looks at.
    fn arguments(&self, operation: Operation, count: usize, data_type: DataType, op: Op) -> Arguments<'_> {
        let (from, to) = (0x1000_0000 as *const u8, 0x9_0000_0000 as *mut u8);
        let (send, recv, root, bytes) = (Some(from), to, 0, count * data_type.size());
        let (blocks, counts) = (&self.blocks[..], &self.counts[..]);
        let exchanged = Some((from, blocks));
        match operation {
            Operation::Ibarrier => Arguments::Ibarrier,
            Operation::Ibcast => Arguments::Ibcast { buffer: recv, bytes, root },
            Operation::Iscatter => Arguments::Iscatter { send: from, recv: Some(recv), block: bytes, root },
            Operation::Iscatterv => {
                Arguments::Iscatterv { send: from, blocks, recv: Some(recv), bytes, root }
            }
            Operation::Igather => Arguments::Igather { send, recv, block: bytes, root },
            Operation::Igatherv => Arguments::Igatherv { send, bytes, recv, blocks, root },
            Operation::Iallgather => Arguments::Iallgather { send, recv, block: bytes },
            Operation::Iallgatherv => Arguments::Iallgatherv { send, recv, blocks },
            Operation::Ialltoall => Arguments::Ialltoall { send, recv, block: bytes },
            Operation::Ialltoallv => Arguments::Ialltoallv { send: exchanged, recv, blocks },
            Operation::Ialltoallw => Arguments::Ialltoallw { send: exchanged, recv, blocks },
            Operation::Ireduce => Arguments::Ireduce { send, recv, count, data_type, op, root },
            Operation::Iallreduce => Arguments::Iallreduce { send, recv, count, data_type, op },
            Operation::IreduceScatter => Arguments::IreduceScatter { send, recv, counts, data_type, op },
            Operation::IreduceScatterBlock => {
                Arguments::IreduceScatterBlock { send, recv, count, data_type, op }
            }
            Operation::Iscan => Arguments::Iscan { send, recv, count, data_type, op },
            Operation::Iexscan => Arguments::Iexscan { send, recv, count, data_type, op },
            other => panic!("no call of {other}"),
        }
    }
}

/// An operator that takes a type.
fn operator_of(data_type: DataType) -> Op {
    let is_so = |op: &Op| combines(data_type, *op);
    operators(affine_op()).into_iter().flatten().find(is_so).unwrap_or(affine_op())
}

/// The library refuses by name what the tests leave out, and nothing else, and takes the rest as they say.
fn agrees(
    operation: Operation,
    count: usize,
    data_type: DataType,
    ranks: u32,
    has_long: bool,
) -> Option<Way> {
    let size = data_type.size();
    let said = way_on_board(operation, count, size, ranks as usize, has_long);
    let equal = Equal::new(ranks, count * size, count);
    let arguments = equal.arguments(operation, count, data_type, operator_of(data_type));
    let what =
        format!("{operation} of {count} {data_type} on {ranks} ranks, long parts: {has_long}, {said:?}");
    let on_board = group(ranks, 0).with_board(0);
    let on_board = if has_long { on_board } else { on_board.without_long_parts() };
    match table::compile(&on_board, &arguments, Some("shm")) {
        Ok(_) => assert!(said.is_some(), "taken: {what}"),
        Err(Error::Restricted { .. }) => assert_eq!(said, None, "refused: {what}"),
        Err(error) => panic!("{error}: {what}"),
    }
    if said.is_some_and(|said| said != Way::Beside) {
        assert_eq!(is_short(&arguments, ranks as usize), said == Some(Way::Slots), "in slots: {what}");
    }
    if let Some(call) = table::call_on_board(&on_board, &arguments, Some("shm")).unwrap() {
        assert_eq!(call.is_round(), said == Some(Way::Rounds), "in rounds: {what}");
    } else {
        assert_ne!(said, Some(Way::Rounds), "{what}");
    }
    said
}

/// Of every size, of every type, on every number of ranks that tests have, with long parts and without.
#[test]
fn the_library_takes_what_the_tests_say() {
    let more = [2, 3, 4, 63, 64, 65];
    for &operation in Operation::ALL {
        let mut said = Vec::new();
        // Of what is only copied, one of each size.
        let is_first = |t: &DataType| types().into_iter().find(|other| other.size() == t.size()) == Some(*t);
        let types: Vec<DataType> =
            types().into_iter().filter(|t| operation.is_reduction() || is_first(t)).collect();
        for ranks in more.into_iter().chain(RANKS) {
            for (size, data_type) in (0..SIZES).flat_map(|size| types.iter().map(move |t| (size, *t))) {
                if operation == Operation::Ibarrier && size > 0 {
                    continue;
                }
                let count = count(size, data_type.size());
                for has_long in [true, false] {
                    said.push(agrees(operation, count, data_type, ranks, has_long));
                }
            }
        }
        let is_said = |way| said.contains(&way);
        assert!(is_said(None), "{operation}: more than 64 ranks");
        assert_eq!(is_said(Some(Way::Beside)), takes_any_length(operation), "{operation}");
        assert_eq!(is_said(Some(Way::Rounds)), takes_rounds(operation), "{operation}");
        assert_eq!(is_said(Some(Way::Slots)), !takes_any_length(operation), "{operation}");
    }
}

/// Likewise of elements that are so wide that one of each rank is about as much as is combined at once.
#[test]
fn the_library_takes_elements_as_wide_as_the_tests_say() {
    for &operation in Operation::ALL.iter().filter(|operation| operation.is_reduction()) {
        for ranks in [2, 3, 17, 33, 64] {
            let widest = (32 << 10) / ranks;
            for wide in [widest - 1, widest, widest + 1, 2 * widest] {
                let counts = [0, 1, 2, (1 << 20) / wide as usize, (4 << 20) / wide as usize];
                let said = counts.map(|count| agrees(operation, count, DataType::Opaque(wide), ranks, true));
                assert_eq!(said[0], Some(Way::Slots));
                assert_eq!(said[1].is_some(), wide <= widest, "{operation} of elements of {wide} bytes");
            }
        }
    }
}

/// Bytes of a vector, or of each block, after which the library chooses another algorithm.
fn changes(operation: Operation, group: &Group) -> Vec<usize> {
    let name = |bytes: usize| {
        let equal = Equal::new(group.size(), bytes, bytes);
        table::choose_for(&equal.arguments(operation, bytes, DataType::U8, Op::Sum), group).name
    };
    let looks = (0..1024).map(|at| at << 6).chain((16..=1280).map(|at| at << 12));
    let seen: Vec<(usize, &str)> = looks.map(|bytes| (bytes, name(bytes))).collect();
    let between = |two: &[(usize, &'static str)]| {
        let (mut low, mut high) = (two[0].0, two[1].0);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if name(middle) == two[0].1 { low = middle } else { high = middle }
        }
        low
    };
    seen.windows(2).filter(|two| two[0].1 != two[1].1).map(between).collect()
}

/// A rank's group, on every kind of machine.
fn groups(ranks: u32, board: bool) -> impl Iterator<Item = Group> {
    (0..16).map(move |kind: u32| {
        let is = |bit: u32| kind >> bit & 1 == 1;
        let group = Group::new(&(0..ranks).collect::<Vec<_>>(), 0).unwrap();
        let group = if board { group.with_board(0) } else { group };
        let group = group.with_shared_cores(is(0)).with_one_process(is(1));
        group.with_far_cache(is(2)).with_single_copies(is(3))
    })
}

/// Where the library chooses by size alone, and on a board of two, the tests have sizes on both sides of where it does.
#[test]
fn where_choices_change_sizes_are_tried() {
    let mut all = 0;
    for &operation in Operation::ALL {
        let by_messages = [1, 2, 3, 4, 5, 8, 16, 32].into_iter().flat_map(|ranks| groups(ranks, false));
        for group in by_messages.chain(groups(2, true)) {
            for last in changes(operation, &group) {
                // Elements have 16 bytes at most, and so have the words that stand beside a block.
                let is_tried = THRESHOLDS.iter().any(|at| (at - 16..=*at).contains(&last));
                assert!(is_tried, "{operation} on {} ranks after {last} bytes: {group:?}", group.size());
                all += 1;
            }
        }
    }
    assert!(all > 100, "{all} changes");
}

/// What a board has room for, and what a rank posts at most before it has made any.
#[test]
fn what_a_board_has_room_for_is_tried() {
    let part = LONG / 2;
    for bytes in [ROOM, MOST, part, LONG, part * OUTSTANDING as usize] {
        assert!(THRESHOLDS.contains(&bytes), "{bytes}");
    }
    let few =
        |bytes| has_few_rounds(&Arguments::Ibcast { buffer: std::ptr::null_mut(), bytes, root: 0 }, MEMBERS);
    assert!(few(part * OUTSTANDING as usize) && !few(part * OUTSTANDING as usize + 1));
}
