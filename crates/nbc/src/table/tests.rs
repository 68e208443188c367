//! Properties of every schedule that the table can make, without running it.

use super::*;
use crate::schedule::{Kind, Pieces, Step};
use crate::{DataType, Hierarchy, Op, UserOp};
use std::collections::BTreeMap;
use std::sync::Arc;
use tocsin_topology::Topology;

mod measured;

// Addresses that nobody follows: compiling looks at no memory.
const SEND: usize = 0x1000_0000;
const RECV: usize = 0x9000_0000;

fn group(ranks: u32, me: u32) -> Group {
    // World ranks that differ from the group's, so that a mix-up shows.
    Group::new(&(0..ranks).map(|r| 7 + 3 * r).collect::<Vec<_>>(), me).unwrap()
}

/// Ranks all over a machine whose parts have parts; of some nobody knows where they are.
fn hierarchy(ranks: u32) -> Option<Arc<Hierarchy>> {
    let machine = Topology::synthetic("package:2 numa:2 l3:2 core:3").unwrap();
    let cpu = |rank| Some(rank as usize * 11 % machine.pus()).filter(|cpu| cpu % 7 > 0);
    let cpus: Vec<Option<usize>> = (0..ranks).map(cpu).collect();
    Hierarchy::new(&machine.localities(&cpus)).map(Arc::new)
}

fn group_with_board(ranks: u32, me: u32) -> Group {
    group(ranks, me).with_board(0)
}

/// Blocks in reverse order with gaps, or three pieces of each between those of the others. Where each pair of ranks has a
/// length of its own, all are alike here.
fn blocks(operation: Operation, ranks: u32, bytes: usize, strided: bool) -> Vec<Block> {
    let exchange = matches!(operation, Operation::Ialltoallv | Operation::Ialltoallw);
    let length = |rank: u32| if exchange { bytes } else { [bytes, 0, bytes / 2][rank as usize % 3] };
    let place = |rank: u32| Block::new((ranks - rank) as usize * (bytes + 8), length(rank));
    let spread = |rank: u32| {
        let (piece, room) = (length(rank) / 3, bytes / 3 + 8);
        Block::strided((ranks - rank) as usize * room, 3, piece, (ranks as usize + 1) * room)
    };
    (0..ranks).map(|rank| if strided { spread(rank) } else { place(rank) }).collect()
}

/// Whether it has lists of blocks.
fn takes_blocks(operation: Operation) -> bool {
    use Operation::{Iallgatherv, Ialltoallv, Ialltoallw, Igatherv, Iscatterv};
    matches!(operation, Iscatterv | Igatherv | Iallgatherv | Ialltoallv | Ialltoallw)
}

/// Lengths of the parts of a reduce-scatter.
fn counts(ranks: u32, bytes: usize) -> Vec<usize> {
    (0..ranks).map(|rank| [bytes / 2, bytes, 0][rank as usize % 3]).collect()
}

/// The arguments of rank `me`; `at` are [`blocks`] and [`counts`]. A root's part is in place with `in_place`, nobody else's.
fn arguments<'a>(
    operation: Operation,
    bytes: usize,
    root: u32,
    in_place: bool,
    me: u32,
    (at, counts): (&'a [Block], &'a [usize]),
) -> Arguments<'a> {
    let in_place = in_place && (!operation.has_root() || root == me);
    let (from, recv) = (SEND as *const u8, RECV as *mut u8);
    let (send, to) = ((!in_place).then_some(from), (!in_place).then_some(recv));
    let own = at.get(me as usize).map_or(0, |b| b.bytes);
    let exchanged = send.map(|send| (send, at));
    let (data_type, op, count) = (DataType::U8, Op::Sum, bytes);
    match operation {
        Operation::Ibarrier => Arguments::Ibarrier,
        Operation::Ibcast => Arguments::Ibcast { buffer: recv, bytes, root },
        Operation::Iscatter => Arguments::Iscatter { send: from, recv: to, block: bytes, root },
        Operation::Iscatterv => Arguments::Iscatterv { send: from, blocks: at, recv: to, bytes: own, root },
        Operation::Igather => Arguments::Igather { send, recv, block: bytes, root },
        Operation::Igatherv => Arguments::Igatherv { send, bytes: own, recv, blocks: at, root },
        Operation::Iallgather => Arguments::Iallgather { send, recv, block: bytes },
        Operation::Iallgatherv => Arguments::Iallgatherv { send, recv, blocks: at },
        Operation::Ialltoall => Arguments::Ialltoall { send, recv, block: bytes },
        Operation::Ialltoallv => Arguments::Ialltoallv { send: exchanged, recv, blocks: at },
        Operation::Ialltoallw => Arguments::Ialltoallw { send: exchanged, recv, blocks: at },
        Operation::Ireduce => Arguments::Ireduce { send, recv, count, data_type, op, root },
        Operation::Iallreduce => Arguments::Iallreduce { send, recv, count, data_type, op },
        Operation::IreduceScatter => Arguments::IreduceScatter { send, recv, counts, data_type, op },
        Operation::IreduceScatterBlock => Arguments::IreduceScatterBlock { send, recv, count, data_type, op },
        Operation::Iscan => Arguments::Iscan { send, recv, count, data_type, op },
        Operation::Iexscan => Arguments::Iexscan { send, recv, count, data_type, op },
    }
}

/// Whether the algorithm takes so many ranks, by messages.
fn takes(algorithm: &Algorithm, ranks: u32) -> bool {
    !algorithm.restrictions.needs_board()
        && ranks <= algorithm.restrictions.max_ranks
        && (!algorithm.restrictions.power_of_two || ranks.is_power_of_two())
}

/// Ranges of pieces.
fn runs(
    start: usize,
    pieces: Pieces,
    bytes: usize,
    writes: bool,
) -> impl Iterator<Item = (usize, usize, bool)> {
    let Pieces { length, stride } = pieces;
    (0..bytes.div_ceil(length))
        .map(move |i| (start.wrapping_add(i.wrapping_mul(stride)), length.min(bytes - i * length), writes))
}

/// Ranges that a step reads and writes.
fn accesses(kind: &Kind) -> Vec<(usize, usize, bool)> {
    match *kind {
        Kind::Send { from, bytes, .. } => vec![(from as usize, bytes, false)],
        Kind::Recv { to, bytes, .. } => vec![(to as usize, bytes, true)],
        Kind::Copy { from, to, bytes } => vec![(from as usize, bytes, false), (to as usize, bytes, true)],
        Kind::Pack { from, pieces, to, bytes } => {
            runs(from as usize, pieces, bytes, false).chain([(to as usize, bytes, true)]).collect()
        }
        Kind::Unpack { from, to, pieces, bytes } => {
            runs(to as usize, pieces, bytes, true).chain([(from as usize, bytes, false)]).collect()
        }
        Kind::Reduce { left, right, out, count, operator } => {
            let bytes = count * operator.size();
            vec![(left as usize, bytes, false), (right as usize, bytes, false), (out as usize, bytes, true)]
        }
        Kind::Join => vec![],
    }
}

/// Two steps of which one writes what the other uses are ordered.
fn check_hazards(schedule: &Schedule, what: &str) {
    let n = schedule.steps.len();
    let words = n.div_ceil(64);
    // Row i, as a bit set: the steps that precede step i. Algorithms name only earlier steps, so one sweep does.
    let mut before = vec![0u64; n * words];
    let precedes = |before: &[u64], j: usize, i: usize| before[i * words + j / 64] >> (j % 64) & 1 == 1;
    for i in 0..n {
        let step = &schedule.steps[i];
        let first = step.first_dependant as usize;
        for &next in &schedule.dependants[first..first + step.dependants as usize] {
            let next = next as usize;
            assert!(next > i);
            for word in 0..words {
                before[next * words + word] |= before[i * words + word];
            }
            before[next * words + i / 64] |= 1 << (i % 64);
        }
    }
    let used: Vec<_> = schedule.steps.iter().map(|step| accesses(&step.kind)).collect();
    for i in 0..n {
        for j in 0..i {
            if precedes(&before, j, i) {
                continue;
            }
            for a in &used[i] {
                for b in &used[j] {
                    let apart = a.0 + a.1 <= b.0 || b.0 + b.1 <= a.0 || a.1 == 0 || b.1 == 0;
                    assert!(apart || !(a.2 || b.2), "{what}: steps {j} and {i} race: {schedule:?}");
                }
            }
        }
    }
}

/// Who receives the last of a schedule's messages sends nothing that waits for it.
fn check_last(schedules: &[Box<Schedule>], what: &str) {
    for schedule in schedules {
        let me = schedule.group().world_rank(schedule.group().rank()).unwrap();
        for step in &schedule.steps {
            let Kind::Send { peer, round, last: true, .. } = step.kind else { continue };
            let there = schedule.group().world_ranks().iter().position(|rank| *rank == peer).unwrap();
            let there = &schedules[there];
            let is_it = |kind: &Kind| matches!(kind, Kind::Recv { peer, round: at, .. } if (*peer, *at) == (me, round));
            let mut after: Vec<usize> =
                (0..there.steps.len()).filter(|at| is_it(&there.steps[*at].kind)).collect();
            assert!(!after.is_empty(), "{what}: {me} to {peer}");
            while let Some(at) = after.pop() {
                let Step { kind, first_dependant, dependants, .. } = there.steps[at];
                assert!(!matches!(kind, Kind::Send { .. }), "{what}: {peer} sends on what {me} sends last");
                let first = first_dependant as usize;
                let next = &there.dependants[first..first + dependants as usize];
                after.extend(next.iter().map(|next| *next as usize));
            }
        }
    }
}

/// Every message that is sent is received, with the same round and length.
fn check_messages(schedules: &[Box<Schedule>], what: &str) {
    let mut open: BTreeMap<(u32, u32, u32, usize), i32> = BTreeMap::new();
    for schedule in schedules {
        let me = schedule.group().world_rank(schedule.group().rank()).unwrap();
        for step in &schedule.steps {
            match step.kind {
                Kind::Send { peer, round, bytes, .. } => {
                    *open.entry((me, peer, round, bytes)).or_default() += 1
                }
                Kind::Recv { peer, round, bytes, .. } => {
                    *open.entry((peer, me, round, bytes)).or_default() -= 1
                }
                _ => {}
            }
        }
    }
    open.retain(|_, n| *n != 0);
    assert!(open.is_empty(), "{what}: (from, to, round, bytes) without a partner: {open:?}");
}

#[test]
fn schedules_have_no_races_and_no_lost_messages() {
    for algorithm in ALGORITHMS {
        for ranks in (1..=17).chain([32, 33]).filter(|ranks| takes(algorithm, *ranks)) {
            let sizes: &[usize] = if ranks <= 9 { &[0, 1, 5, 100, 70_000, 200_000] } else { &[5, 70_000] };
            let hierarchy = hierarchy(ranks);
            for &bytes in sizes {
                for (in_place, strided) in [(false, false), (true, false), (false, true), (true, true)] {
                    let root = (ranks * 2 / 3) % ranks;
                    let at = blocks(algorithm.operation, ranks, bytes, strided);
                    let counts = counts(ranks, bytes);
                    let of = |me| arguments(algorithm.operation, bytes, root, in_place, me, (&at, &counts));
                    if strided && !takes_blocks(algorithm.operation) {
                        continue;
                    }
                    let what = format!("{:?} by {} on {ranks} ranks", of(0), algorithm.name);
                    let placed = |me| group(ranks, me).with_hierarchy(hierarchy.clone());
                    let schedules: Vec<_> = (0..ranks)
                        .map(|me| compile(&placed(me), &of(me), Some(algorithm.name)).unwrap())
                        .collect();
                    check_messages(&schedules, &what);
                    check_last(&schedules, &what);
                    for schedule in &schedules {
                        check_hazards(schedule, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn logarithmic_algorithms_are() {
    for ranks in 1..=130u32 {
        let log = ranks.next_power_of_two().trailing_zeros() as usize;
        let most = |operation, name| {
            let of = |me| arguments(operation, 1000, 0, false, me, (&[], &[]));
            let sent = |me| compile(&group(ranks, me), &of(me), Some(name)).unwrap().sent().0;
            (0..ranks).map(sent).max().unwrap()
        };
        assert_eq!(most(Operation::Ibarrier, "dissemination"), log);
        assert_eq!(most(Operation::Ibcast, "binomial"), log);
        assert_eq!(most(Operation::Iscatter, "binomial"), log);
        assert!(most(Operation::Igather, "binomial") <= 1);
        assert_eq!(most(Operation::Iallgather, "bruck"), log);
        if ranks.is_power_of_two() {
            assert_eq!(most(Operation::Iallgather, "recursive-doubling"), log);
        }
        assert_eq!(most(Operation::Ialltoall, "bruck"), log);
        assert_eq!(most(Operation::Iallreduce, "recursive-doubling"), log);
        assert_eq!(most(Operation::Iscan, "recursive-doubling"), log);
        assert_eq!(most(Operation::Iexscan, "recursive-doubling"), log);
        assert!(most(Operation::Ireduce, "binomial-root") <= 1);
        assert!(most(Operation::Ireduce, "rabenseifner") <= log + 1);
        assert!(most(Operation::IreduceScatterBlock, "recursive-halving") <= log + 1);
        assert!(most(Operation::Iallreduce, "rabenseifner") <= 2 * log + 1);
    }
}

#[test]
fn orders_cover_all_elements_and_ranks() {
    for algorithm in ALGORITHMS {
        let Some(order) = algorithm.order else {
            assert!(!algorithm.operation.is_reduction(), "a reduction states its order");
            continue;
        };
        let operation = algorithm.operation;
        for ranks in 1..40 {
            for (count, rank) in [(1, 0), (2, ranks - 1), (39, ranks / 2), (40, ranks / 3), (1000, 0)] {
                let hierarchy = hierarchy(ranks);
                let hierarchy = hierarchy.as_deref();
                let shares = order(&Shape { ranks, count, root: ranks / 2, rank, hierarchy });
                let part_of = match operation {
                    Operation::Iscan => 0..rank + 1,
                    Operation::Iexscan => 0..rank,
                    _ => 0..ranks,
                };
                let mut next = 0;
                for share in &shares {
                    assert_eq!(share.elements.start, next);
                    next = share.elements.end;
                    let mut all = share.order.ranks();
                    if algorithm.restrictions.commutative {
                        all.sort_unstable();
                    }
                    assert!(all.into_iter().eq(part_of.clone()), "{operation} by {}", algorithm.name);
                }
                assert_eq!(next, if part_of.is_empty() { 0 } else { count });
            }
        }
    }
}

#[test]
fn the_table_is_well_formed() {
    for operation in Operation::ALL {
        assert_eq!(operation.name().parse::<Operation>().unwrap(), *operation);
        let mut names: Vec<_> = of(*operation).map(|a| a.name).collect();
        let first = of(*operation).next().unwrap().restrictions;
        assert!(
            !first.needs_board() && first.max_ranks == u32::MAX && !first.commutative && !first.power_of_two
        );
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(before, names.len());
        for ranks in [1, 2, 3, 8, 1000, 100_000] {
            for bytes in [0, 1, 1 << 12, 1 << 20, 1 << 27] {
                let arguments = arguments(*operation, bytes, 0, false, 0, (&[], &[]));
                for chosen in [choose(&arguments, ranks), choose_sharing(&arguments, ranks)] {
                    assert_eq!(chosen.operation, *operation);
                    assert!(takes(chosen, ranks));
                }
            }
        }
    }
    assert!("bcast".parse::<Operation>().unwrap_err().to_string().contains("ibcast"));
}

#[test]
fn a_group_says_whether_its_ranks_share_cores() {
    let alltoall = |bytes| arguments(Operation::Ialltoall, bytes, 0, false, 0, (&[], &[]));
    for (ranks, bytes, name) in
        [(3, 1 << 20, "linear"), (4, 512 << 10, "linear"), (4, 1 << 20, "pairwise"), (8, 1 << 20, "linear")]
    {
        assert_eq!(choose_sharing(&alltoall(bytes), ranks).name, name, "{ranks} ranks, {bytes} bytes");
    }
    let crowded = |ranks: u32| {
        let all: Vec<u32> = (0..ranks).collect();
        Group::new(&all, 0).unwrap().with_shared_cores(true)
    };
    for (ranks, bytes, name, threads) in [
        (3, 1 << 20, "linear", "linear"),
        (4, 128 << 10, "linear", "linear"),
        (4, 256 << 10, "pairwise", "linear"),
        (4, 1 << 20, "pairwise", "pairwise"),
        (8, 1 << 20, "pairwise", "linear"),
        (9, 1 << 20, "linear", "linear"),
    ] {
        let name_in = |group: &Group| choose_for(&alltoall(bytes), group).name;
        assert_eq!(name_in(&crowded(ranks)), name, "{ranks} ranks, {bytes} bytes");
        assert_eq!(name_in(&crowded(ranks).with_one_process(true)), threads, "{ranks} ranks, {bytes} bytes");
    }
    for (ranks, bytes, own, sharing, threads) in [
        (2, 1 << 20, "binomial", "binomial", "binomial"),
        (4, 1 << 20, "pipelined-chain", "linear", "linear"),
        (3, 2 << 20, "pipelined-chain", "linear", "linear"),
        (4, 2 << 20, "pipelined-chain", "2-ary", "linear"),
    ] {
        let bcast = Arguments::Ibcast { buffer: RECV as *mut u8, bytes, root: 0 };
        let all: Vec<u32> = (0..ranks).collect();
        let group = Group::new(&all, 0).unwrap();
        let name = |group: &Group| choose_for(&bcast, group).name;
        assert_eq!((name(&group), name(&crowded(ranks))), (own, sharing), "{ranks} ranks, {bytes} bytes");
        assert_eq!(name(&crowded(ranks).with_one_process(true)), threads, "{ranks} ranks, {bytes} bytes");
    }
}

unsafe fn nothing(_: *const (), _: *const u8, _: *const u8, _: *mut u8, _: usize) {}

#[test]
fn bad_arguments_are_clear_errors() {
    // SAFETY: - the operator is never applied.
    let ordered = Op::User(unsafe { UserOp::new(nothing, std::ptr::null(), false) });
    let reduce = |count, data_type, op| Arguments::Iallreduce {
        send: None,
        recv: RECV as *mut u8,
        count,
        data_type,
        op,
    };
    let bcast = |root, bytes| Arguments::Ibcast { buffer: RECV as *mut u8, bytes, root };
    let huge = isize::MAX as usize;
    let four = [0, 8, 16, 24].map(|offset| Block::new(offset, 8));
    let twice = [0, 8, 15, 24].map(|offset| Block::new(offset, 8));
    let far = [0, 8, huge - 3, 24].map(|offset| Block::new(offset, 8));
    // Columns, of which the second and the third meet; one that is longer than its distances; one that nothing can hold.
    let columns = [0, 8, 15, 24].map(|offset| Block::strided(offset, 3, 8, 32));
    let tight = [0, 8, 16, 24].map(|offset| Block::strided(offset, 3, 8, 7));
    let long = [0, 8, 16, 24].map(|offset| Block::strided(offset, 3, 8, huge));
    let own = [0, 8, 16, 24].map(|offset| Block::strided(offset, 2, 4, 32));
    fn scatterv(blocks: &[Block], bytes: usize) -> Arguments<'_> {
        Arguments::Iscatterv { send: SEND as *const u8, blocks, recv: Some(RECV as *mut u8), bytes, root: 0 }
    }
    fn allgatherv(send: Option<usize>, blocks: &[Block]) -> Arguments<'_> {
        let send = send.map(|address| address as *const u8);
        Arguments::Iallgatherv { send, recv: RECV as *mut u8, blocks }
    }
    let allgather = |send: Option<usize>| {
        let send = send.map(|address| address as *const u8);
        Arguments::Iallgather { send, recv: RECV as *mut u8, block: 8 }
    };
    let gather = |send, root| Arguments::Igather { send, recv: RECV as *mut u8, block: 8, root };
    let scatter = |counts| Arguments::IreduceScatter {
        send: None,
        recv: RECV as *mut u8,
        counts,
        data_type: DataType::F64,
        op: Op::Sum,
    };
    let to_root = |send, root| Arguments::Ireduce {
        send,
        recv: RECV as *mut u8,
        count: 9,
        data_type: DataType::F64,
        op: ordered,
        root,
    };
    let table: &[(Arguments, Option<&str>, &str)] = &[
        (bcast(4, 1), None, "root 4 does not exist: this communicator has ranks 0 to 3"),
        (bcast(0, huge + 1), None, "does not fit the address space"),
        (
            bcast(0, 8),
            Some("tree"),
            "ibcast has no algorithm `tree`; it has: binomial, 2-ary, 4-ary, 8-ary, chain, pipelined-chain, scatter-allgather, linear, topology-aware, split-tree, shm",
        ),
        (
            Arguments::Ibarrier,
            Some("ring"),
            "ibarrier has no algorithm `ring`; it has: dissemination, tree, linear, topology-aware, shm",
        ),
        (reduce(1, DataType::F64, Op::BAnd), None, "operator band does not exist for elements of type f64"),
        (reduce(1, DataType::F32, Op::LOr), None, "logical operators take integers"),
        (reduce(1, DataType::Byte, Op::Sum), None, "operator sum does not exist for elements of type byte"),
        (reduce(1, DataType::I32, Op::MinLoc), None, "pairs of a value and an index"),
        (reduce(1, DataType::I64Index, Op::Sum), None, "operator sum does not exist"),
        (reduce(1, DataType::Opaque(0), ordered), None, "at least one byte"),
        (reduce(huge, DataType::F64, Op::Sum), None, "does not fit the address space"),
        (reduce(9, DataType::F64, ordered), Some("ring"), "needs a commutative operator; leave the choice"),
        (Arguments::Ialltoall { send: None, recv: RECV as *mut u8, block: huge }, None, "does not fit"),
        (scatterv(&four[..3], 8), None, "the send buffer has 3 blocks: give one for each of the 4 ranks"),
        (scatterv(&four, 7), None, "is sent with another length than it is received"),
        (scatterv(&far, 8), None, "does not fit the address space"),
        (allgatherv(None, &twice), None, "two blocks of the receive buffer overlap"),
        (allgatherv(None, &columns), None, "two blocks of the receive buffer overlap"),
        (allgatherv(None, &tight), None, "make its stride at least the length of a piece"),
        (scatterv(&tight, 24), None, "make its stride at least the length of a piece"),
        (allgatherv(None, &long), None, "does not fit the address space"),
        (allgatherv(Some(RECV), &own), None, "the send and the receive buffer overlap"),
        // The block itself, too: the same address on all ranks would be right on this one alone.
        (allgatherv(Some(RECV), &four), None, "the send and the receive buffer overlap"),
        (allgather(Some(RECV)), None, "the send and the receive buffer overlap"),
        (allgatherv(Some(RECV + 12), &four), None, "the send and the receive buffer overlap"),
        (scatter(&[1, 2, 3]), None, "the send buffer has 3 blocks: give one for each of the 4 ranks"),
        (scatter(&[1, 2, 3, usize::MAX]), None, "does not fit the address space"),
        (to_root(None, 1), None, "only the root has an in-place form"),
        (to_root(Some((RECV + 8) as *const u8), 0), None, "the send and the receive buffer overlap"),
        (to_root(None, 0), Some("binomial-root"), "needs a commutative operator"),
        (Arguments::Ibarrier, Some("shm"), "needs memory that all ranks of the communicator share"),
        (gather(None, 1), None, "only the root has an in-place form"),
        (gather(Some(SEND as *const u8), 9), None, "root 9 does not exist"),
        (gather(Some((RECV + 4) as *const u8), 0), None, "the send and the receive buffer overlap"),
        (reduce(huge / 8, DataType::F64, Op::Sum), Some("reduce-bcast"), "no memory for a schedule"),
    ];
    for (arguments, algorithm, message) in table {
        let error = compile(&group(4, 0), arguments, *algorithm).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    // Alone there is nothing to share.
    for algorithm in
        ALGORITHMS.iter().filter(|a| a.restrictions.needs_board() && a.operation == Operation::Ibarrier)
    {
        compile(&group(1, 0), &Arguments::Ibarrier, Some(algorithm.name)).unwrap();
    }
    assert!(Group::new(&[0, 1], 2).unwrap_err().to_string().contains("rank 2 does not exist"));
}

/// What does not fit into a core's own caches, where the others are far: one copy by the kernel is quicker than two. And what is combined goes by the board where they are near.
#[test]
fn far_caches_have_long_exchanges_go_by_messages() {
    let single = std::cell::Cell::new(true);
    let on_board = |operation, bytes, far| {
        let counts = [bytes; 2];
        let at = [Block::new(0, bytes), Block::new(bytes, bytes)];
        let of = arguments(operation, bytes, 0, false, 0, (&at, &counts));
        let group = group_with_board(2, 0).with_far_cache(far).with_single_copies(single.get());
        let chosen = choose_for(&of, &group);
        assert_eq!(goes_on_board(&group, &of, None), chosen.restrictions.needs_board());
        chosen.restrictions.needs_board()
    };
    for operation in [
        Operation::Iallgather,
        Operation::Iallgatherv,
        Operation::Ialltoall,
        Operation::IreduceScatterBlock,
        Operation::Iscan,
    ] {
        for far in [false, true] {
            assert!(on_board(operation, 511 << 10, far));
            single.set(true);
            assert_eq!(on_board(operation, 512 << 10, far), !far);
            single.set(false);
            assert!(on_board(operation, 512 << 10, far));
        }
    }
    for (operation, bytes, near, far) in [
        (Operation::Ibcast, 31 << 10, false, false),
        (Operation::Ibcast, 32 << 10, true, true),
        (Operation::Ibcast, 1 << 20, true, true),
        (Operation::Ibcast, 2 << 20, true, false),
        (Operation::Iallreduce, 31 << 10, true, false),
        (Operation::Iallreduce, 32 << 10, true, false),
        (Operation::Iallreduce, 96 << 10, true, true),
        (Operation::Ireduce, 16 << 10, true, false),
        (Operation::Ireduce, 256 << 10, true, true),
    ] {
        let takes = [false, true].map(|is_far| on_board(operation, bytes, is_far));
        assert_eq!(takes, [near, far], "{operation} of {bytes}");
    }
    for (bytes, far, takes) in [
        (11 << 10, true, true),
        (12 << 10, true, false),
        (95 << 10, true, false),
        (96 << 10, true, true),
        (16 << 10, false, true),
        (128 << 10, false, true),
        (129 << 10, false, false),
    ] {
        let of = arguments(Operation::Iallreduce, bytes, 0, false, 0, (&[], &[]));
        let group = group_with_board(2, 0).with_far_cache(far).with_one_process(true);
        assert_eq!(choose_for(&of, &group).restrictions.needs_board(), takes, "{bytes} between threads");
    }
    // Messages of threads are copied once.
    for (bytes, takes) in [(32 << 10, true), (64 << 10, true), (65 << 10, false), (769 << 10, false)] {
        let of = arguments(Operation::Ibcast, bytes, 0, false, 0, (&[], &[]));
        let group = group_with_board(2, 0).with_far_cache(true).with_one_process(true);
        assert_eq!(choose_for(&of, &group).restrictions.needs_board(), takes, "{bytes} between threads");
    }
}

/// Messages of threads are copied once: what is long goes by them, where it would go by the board between processes.
#[test]
fn threads_send_what_is_long() {
    let chosen = |operation, bytes, ranks, threads| {
        let of = arguments(operation, bytes, 0, false, 0, (&[], &[]));
        let group = group_with_board(ranks, 0).with_shared_cores(ranks > 2).with_one_process(threads);
        choose_for(&of, &group).name
    };
    for (operation, ranks, long) in [
        (Operation::Iallgather, 2, "linear"),
        (Operation::Ialltoall, 2, "pairwise"),
        (Operation::Iallreduce, 2, "linear"),
        (Operation::Ireduce, 2, "binomial-root"),
        (Operation::Ibcast, 4, "linear"),
        (Operation::Iallgather, 4, "linear"),
        (Operation::Iallreduce, 4, "rabenseifner"),
    ] {
        for threads in [false, true] {
            assert_eq!(chosen(operation, 8, ranks, threads), "shm");
            let name = if threads { long } else { "shm" };
            assert_eq!(chosen(operation, 1 << 20, ranks, threads), name, "{operation} of {ranks}");
        }
    }
    for (threads, name) in [(false, "pipelined-chain"), (true, "recursive-doubling")] {
        let of = arguments(Operation::Iscan, 1 << 20, 0, false, 0, (&[], &[]));
        assert_eq!(choose_for(&of, &group(4, 0).with_one_process(threads)).name, name);
    }
    // What they combine they would copy first.
    for threads in [false, true] {
        assert_eq!(chosen(Operation::Iscan, 1 << 20, 2, threads), "shm");
        assert_eq!(chosen(Operation::IreduceScatterBlock, 1 << 20, 4, threads), "shm");
    }
    // What one copies alone for all the others is not long.
    for (operation, bytes) in [(Operation::Iscatter, 128 << 10), (Operation::Igather, 512 << 10)] {
        let by = |bytes, ranks, threads| chosen(operation, bytes, ranks, threads);
        assert_eq!(
            [by(bytes, 4, false), by(bytes + 8, 4, false), by(4 << 20, 2, false)],
            ["shm", "linear", "shm"]
        );
        assert_eq!([2, 4].map(|ranks| by(128 << 10, ranks, true)), ["shm"; 2]);
        assert!([2, 4].iter().all(|ranks| by((128 << 10) + 8, *ranks, true) != "shm"));
    }
    let scatter = |bytes, ranks, threads| chosen(Operation::IreduceScatterBlock, bytes, ranks, threads);
    for ranks in [2, 8] {
        assert_eq!([false, true].map(|threads| scatter(128 << 10, ranks, threads)), ["shm"; 2]);
        assert_eq!([false, true].map(|threads| scatter(256 << 10, ranks, threads)), ["shm", "pairwise"]);
    }
    // Of many, each combines what is before it.
    assert_eq!(
        [64 << 10, 256 << 10].map(|n| chosen(Operation::Iscan, n, 16, false)),
        ["shm", "pipelined-chain"]
    );
}

/// The schedule of a call serves another whose lists say the same, wherever these are, and none whose lists say anything else.
#[test]
fn a_schedule_serves_calls_with_the_same_lists() {
    let blocks = |gap: usize| [0, 1, 2].map(|at| Block::new(at * (8 + gap), 8));
    let origin = |operation, at: &[Block], counts: &[usize], in_place| {
        let of = arguments(operation, 8, 0, in_place, 0, (at, counts));
        compile(&group(3, 0), &of, None).unwrap().origin.unwrap()
    };
    for operation in Operation::ALL.iter().copied() {
        let listed = |gap, last, in_place| origin(operation, &blocks(gap), &[8, 8, last], in_place);
        let first = listed(0, 8, false);
        assert_eq!(first, listed(0, 8, false), "{operation}");
        let counted = operation == Operation::IreduceScatter;
        assert_eq!(first == listed(0, 9, false), !counted, "{operation}");
        let placed = [
            Operation::Iscatterv,
            Operation::Igatherv,
            Operation::Iallgatherv,
            Operation::Ialltoallv,
            Operation::Ialltoallw,
        ];
        assert_eq!(first == listed(4, 8, false), !placed.contains(&operation), "{operation}");
        let has_place = ![Operation::Ibarrier, Operation::Ibcast].contains(&operation);
        assert_eq!(first == listed(0, 8, true), !has_place, "{operation}");
    }
}

/// What needs long memory goes by messages on a board that has none, and is refused there by name; what is short is not.
#[test]
fn a_board_without_long_memory_takes_what_is_short() {
    let whole = group_with_board(3, 1).with_shared_cores(true);
    let short = whole.clone().without_long_parts();
    for operation in [Operation::Ibcast, Operation::Iallreduce, Operation::Ialltoall] {
        for (bytes, takes) in [(8, true), (64 << 10, false)] {
            let of = arguments(operation, bytes, 1, false, 1, (&[], &[]));
            assert!(choose_for(&of, &whole).restrictions.needs_board());
            assert_eq!(choose_for(&of, &short).restrictions.needs_board(), takes);
            for name in [None, Some("shm")] {
                assert_eq!(call_on_board(&short, &of, name).unwrap().is_some(), takes);
            }
            match compile(&short, &of, Some("shm")) {
                Ok(schedule) => assert!(takes && schedule.board.is_some()),
                Err(why) => assert!(!takes && why.to_string().contains("no more than 2 KiB"), "{why}"),
            }
        }
    }
}

/// What is short is found at once, and nothing else: the same call as by the long way, wherever that makes one.
#[test]
fn what_is_short_is_the_same_call_at_once() {
    let mut found = 0;
    for (operation, bytes, me) in Operation::ALL.iter().flat_map(|operation| {
        let sizes = [0, 8, 512, 2048, 2056, 64 << 10, 4 << 20];
        sizes.into_iter().flat_map(move |bytes| (0..3).map(move |me| (*operation, bytes, me)))
    }) {
        let counts = [bytes; 3];
        let of = arguments(operation, bytes, 1, false, me, (&[], &counts));
        let whole = group_with_board(3, me);
        let chosen = measured::only(Operation::Iallreduce, "ring");
        let groups = [
            whole.clone(),
            whole.clone().without_long_parts(),
            whole.clone().with_shared_cores(true),
            whole.with_choices(chosen),
            group(3, me),
        ];
        for (group, name) in groups.iter().flat_map(|g| [None, Some("shm"), Some("ring")].map(|n| (g, n))) {
            let at_length = call_on_board(group, &of, name).unwrap();
            let at_once = short_on_board(group, &of, name);
            let in_doubt = name.is_none() && group.choices().is_some();
            let is_short = at_length.as_ref().is_some_and(|call| !call.long);
            assert_eq!(at_once.is_some(), is_short && !in_doubt, "{operation:?} {bytes} {name:?}");
            if let (Some(one), Some(other)) = (at_once, at_length) {
                assert_eq!(format!("{one:?}"), format!("{other:?}"));
                found += 1;
            }
        }
    }
    assert!(found > 100, "{found}");
    // A root that is none is for the long way to refuse.
    let nowhere = Arguments::Ibcast { buffer: std::ptr::null_mut(), bytes: 8, root: 3 };
    assert!(short_on_board(&group_with_board(3, 1), &nowhere, None).is_none());
    assert!(call_on_board(&group_with_board(3, 1), &nowhere, None).is_err());
}

/// Which sizes go by the board, that all ranks agree, and what is compiled then.
#[test]
fn the_board_takes_what_fits() {
    let fits = |operation, bytes, ranks: u32| {
        let counts = vec![bytes; ranks as usize];
        let at: Vec<Block> = (0..ranks as usize).map(|rank| Block::new(rank * bytes, bytes)).collect();
        let of = |me| arguments(operation, bytes, 1, false, me, (&at, &counts));
        let names = (0..ranks).map(|me| {
            let chosen = choose_for(&of(me), &group_with_board(ranks, me));
            let schedule = compile(&group_with_board(ranks, me), &of(me), None).unwrap();
            let on_board = chosen.restrictions.needs_board();
            let by_pairs = of(me).is_between_pairs();
            let is_something = bytes > 0 || operation == Operation::Ibarrier || by_pairs;
            assert_eq!(schedule.board.is_some(), on_board && is_something);
            assert!(!on_board || schedule.steps.is_empty() || by_pairs && bytes > 16);
            let by_name = compile(&group_with_board(ranks, me), &of(me), Some("shm"));
            assert_eq!(by_name.is_ok(), ranks <= 64 && crate::board::fits(&of(me), ranks as usize));
            // Where ranks share cores, nearly all that fits in a few rounds.
            let crowded = group_with_board(ranks, me).with_shared_cores(true);
            let by_name = by_name.ok().filter(|_| crate::board::has_few_rounds(&of(me), ranks as usize));
            assert_eq!(choose_for(&of(me), &crowded).restrictions.needs_board(), by_name.is_some());
            let has_list = of(me).has_lists_on_board();
            assert_eq!(
                call_on_board(&crowded, &of(me), None).unwrap().is_some(),
                by_name.as_ref().is_some_and(|s| s.board.is_some()) && !has_list
            );
            assert_eq!(goes_on_board(&crowded, &of(me), None), by_name.is_some());
            assert!(!choose_for(&of(me), &group(ranks, me)).restrictions.needs_board());
            chosen.name
        });
        let names: std::collections::BTreeSet<_> = names.collect();
        assert_eq!(names.len(), 1);
        names.contains("shm")
    };
    for operation in
        Operation::ALL.iter().filter(|operation| of(**operation).any(|a| a.restrictions.needs_board()))
    {
        assert!(fits(*operation, 8, 2) && fits(*operation, 0, 3) && fits(*operation, 8, 64));
        let any_length =
            arguments(*operation, 8, 0, false, 0, (&[Block::new(0, 8); 2], &[8; 2])).is_between_pairs();
        assert_eq!(fits(*operation, 4096, 3), *operation == Operation::Ibarrier || any_length);
        let longest = match operation {
            Operation::Ibarrier => usize::MAX,
            Operation::Iallgatherv => 1 << 20,
            // From each, of parts for both.
            Operation::IreduceScatter => 512 << 10,
            Operation::IreduceScatterBlock => 2 << 20,
            other if other.has_common_size() => 4 << 20,
            Operation::Igatherv => 32 << 10,
            // Beside the words that say how long.
            _ => (2 << 20) - 16,
        };
        for bytes in [4096, 512 << 10, (512 << 10) + 8, 1 << 20, (1 << 20) + 8].into_iter().chain([
            2 << 20,
            (2 << 20) + 8,
            4 << 20,
            (4 << 20) + 8,
        ]) {
            let as_long = *operation != Operation::Ibcast || bytes >= 32 << 10;
            let takes = bytes <= longest && as_long;
            let counts = [bytes; 2];
            let at = [Block::new(bytes, bytes), Block::new(0, bytes)];
            let of = arguments(*operation, bytes, 1, false, 0, (&at, &counts));
            let chosen = choose_for(&of, &group_with_board(2, 0));
            assert_eq!(chosen.restrictions.needs_board(), takes, "{operation:?} of {bytes} bytes");
        }
    }
    assert!(fits(Operation::Iallreduce, 31 << 10, 2) && fits(Operation::Iallreduce, 32 << 10, 2));
    assert!(fits(Operation::Ibcast, 2048, 64) && !fits(Operation::Ibcast, 2049, 2));
    assert!(fits(Operation::Iallreduce, 2048, 16) && !fits(Operation::Iallreduce, 2048, 17));
    assert!(fits(Operation::Ialltoall, 512, 4) && !fits(Operation::Ialltoall, 513, 4));
    assert!(fits(Operation::Iallreduce, 4 << 20, 2) && !fits(Operation::Iallreduce, 4097 << 10, 2));
    assert!(fits(Operation::Iallgather, 512, 64) && !fits(Operation::Iallgather, 513, 64));
    assert!(fits(Operation::Iscatter, 512, 4) && !fits(Operation::Iscatter, 513, 4));
    assert!(fits(Operation::IreduceScatter, 512, 4) && !fits(Operation::IreduceScatter, 513, 4));
    assert!(fits(Operation::IreduceScatterBlock, 512, 4) && !fits(Operation::IreduceScatterBlock, 513, 4));
    assert!(fits(Operation::Igather, 512, 64) && !fits(Operation::Igather, 513, 64));
    assert!(fits(Operation::Iscan, 2048, 16) && !fits(Operation::Iexscan, 2049, 3));
    assert!(!fits(Operation::Ibarrier, 0, 65));
    // The longest counts, and all together.
    let short = |lengths: &[usize]| {
        let blocks: Vec<Block> = lengths.iter().map(|bytes| Block::new(0, *bytes)).collect();
        let of = arguments(Operation::Iallgatherv, 8, 1, false, 0, (&blocks, &[]));
        crate::board::is_short(&of, lengths.len())
    };
    assert!(short(&[2048, 0, 1]) && !short(&[2049, 0, 1]));
    assert!(short(&[2048; 16]) && !short(&[[2048; 17].as_slice(), &[0; 20]].concat()));
    // What is longer goes there by name, in rounds or up to a limit.
    let by_name = |operation, bytes, ranks: usize| {
        crate::board::fits(&arguments(operation, bytes, 1, false, 0, (&[], &[])), ranks)
    };
    let of_lists = |bytes| {
        let at = [Block::new(0, bytes), Block::new(bytes, 8)];
        crate::board::fits(&arguments(Operation::Iallgatherv, 8, 1, false, 0, (&at, &[])), 2)
    };
    assert!(of_lists(1 << 20) && !of_lists((1 << 20) + 1));
    let in_rounds =
        |operation: Operation| on_board(operation).is_some_and(|algorithm| algorithm.restrictions.in_rounds);
    let has_list = [Operation::Iallgatherv, Operation::IreduceScatter];
    for operation in Operation::ALL.iter().filter(|o| o.has_common_size() && !has_list.contains(o)) {
        let any = in_rounds(*operation) || *operation == Operation::Ibarrier;
        assert_eq!(by_name(*operation, 1 << 30, 64), any, "{operation:?}");
    }
}

/// The number of a board that is over may be another communicator's next, of the same members: what was kept for the first is of no use to that if the one has long
/// memory and the other has none.
#[test]
fn what_is_kept_is_for_boards_of_a_kind() {
    let at = [Block::new(0, 4096), Block::new(4096, 4096)];
    let of = arguments(Operation::Iallgatherv, 4096, 1, false, 0, (&at, &[]));
    let whole = group_with_board(2, 0);
    let origin = |group: &Group| Origin::new(group, &of, None).unwrap();
    assert_eq!(origin(&whole), origin(&whole.clone()));
    assert_ne!(origin(&whole), origin(&whole.clone().without_long_parts()));
    assert_ne!(origin(&whole), origin(&group(2, 0)));
}

/// Of a group whose members are elsewhere than another's, of more or fewer members.
#[test]
fn what_is_said_of_others_is_left_out() {
    assert!(hierarchy(9).is_some());
    assert!(group(9, 0).with_hierarchy(hierarchy(9)).hierarchy().is_some());
    assert!(group(8, 0).with_hierarchy(hierarchy(9)).hierarchy().is_none());
}

/// The part of a vector that is longer than 4 GiB begins where it does, in each of its rounds.
#[test]
fn parts_of_long_vectors_begin_where_they_do() {
    for (ranks, me, block) in [(2u32, 1u32, 4usize << 30), (3, 2, 2 << 30), (64, 63, 69 << 20)] {
        let of = arguments(Operation::IreduceScatterBlock, block, 0, true, me, (&[], &[]));
        let call = call_on_board(&group_with_board(ranks, me), &of, Some("shm")).unwrap().unwrap();
        let crate::board::Use::ReduceScatter { at, count, .. } = call.then else { panic!("{call:?}") };
        assert_eq!((at, call.bytes), (me as usize * count, ranks as usize * count));
    }
}
