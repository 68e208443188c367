//! Collectives on a board that are made in rounds: who is rung for them, and what becomes of those who disagree or leave in the midst.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::driver::{Machine, Rank};
use common::members::{Rung, outcome};
use common::network::network;
use tocsin_nbc::table::{self, Arguments};
use tocsin_nbc::{DataType, Nbc, Op, Posted, UserOp};
use tocsin_progress::budget::{Budget, Pass};
use tocsin_progress::completion::Code;

const MIB: usize = 1 << 20;
/// Numbers of a vector of four rounds, all that a rank may post, and of one of more.
const FEW: usize = 2 * MIB / 8;
const MANY: usize = 6 * MIB / 8 + 1;

/// Ranks that post, and then get a pass of a handler's only when they are rung.
struct Ranks {
    ranks: Vec<(Rung, Nbc)>,
    posted: Vec<Vec<Posted>>,
    /// Longer than what is posted from there.
    buffers: Vec<Vec<u64>>,
    _machine: Machine<common::network::End>,
}

impl Ranks {
    fn new(ranks: u32, numbers: usize) -> Ranks {
        let mut machine = Machine::new(network(ranks, 5), 6);
        let rung = |Rank { lower, nbc }| (Rung(lower, Vec::new()), nbc);
        Ranks {
            ranks: machine.ranks.drain(..).map(rung).collect(),
            posted: (0..ranks).map(|_| Vec::new()).collect(),
            buffers: (1..=u64::from(ranks)).map(|rank| vec![rank; numbers]).collect(),
            _machine: machine,
        }
    }

    /// Posts, and computes.
    fn post(&mut self, rank: usize, of: impl Fn(*mut u8) -> Arguments<'static>) {
        let group = common::driver::group(self.ranks.len() as u32, rank as u32).with_board(0);
        let arguments = of(self.buffers[rank].as_mut_ptr().cast());
        let sequence = self.posted[rank].len() as u32;
        let mut call = table::call_on_board(&group, &arguments, Some("shm")).unwrap().unwrap();
        call.number(sequence);
        let (lower, nbc) = &mut self.ranks[rank];
        // SAFETY: the buffers live as long as the ranks.
        let posted = unsafe { nbc.post_on_board(lower, &call, 1 << 31, sequence) }.unwrap();
        nbc.announce(lower);
        self.posted[rank].push(posted);
    }

    fn wait(&mut self, rank: usize) {
        let (lower, nbc) = &mut self.ranks[rank];
        nbc.want_all(lower);
        nbc.announce(lower);
    }

    /// A call that looks, and does not wait.
    fn test(&mut self, rank: usize) {
        let (lower, nbc) = &mut self.ranks[rank];
        while nbc.progress(lower, &mut Budget::user()) == Pass::More {}
        nbc.announce(lower);
    }

    /// Passes for those who are rung, until nobody is: how often anybody was.
    fn settle(&mut self) -> u32 {
        let mut rings = 0;
        while let Some(rung) = self.ranks.iter_mut().find_map(|(lower, _)| lower.1.pop()) {
            rings += 1;
            assert!(rings < 1000, "rings without end");
            let (lower, nbc) = &mut self.ranks[rung as usize];
            let mut passes = 0;
            while nbc.progress(lower, &mut Budget::handler()) == Pass::More {
                passes += 1;
                assert!(passes < 10_000, "passes without end");
            }
            nbc.announce(lower);
        }
        rings
    }

    fn code(&self, rank: usize, at: usize) -> Option<Code> {
        outcome(&self.ranks[rank].1, self.posted[rank][at]).map(|outcome| outcome.code)
    }
}

fn sum(count: usize) -> impl Fn(*mut u8) -> Arguments<'static> {
    move |recv| Arguments::Iallreduce { send: None, recv, count, data_type: DataType::U64, op: Op::Sum }
}

fn bcast(bytes: usize) -> impl Fn(*mut u8) -> Arguments<'static> {
    move |buffer| Arguments::Ibcast { buffer, bytes, root: 0 }
}

/// What nobody waits for interrupts nobody.
#[test]
fn where_all_compute_nobody_is_rung() {
    for numbers in [FEW, MANY] {
        let mut ranks = Ranks::new(3, numbers);
        for rank in [0, 1, 2] {
            ranks.post(rank, sum(numbers));
            // But for room.
            assert!(ranks.settle() == 0 || numbers == MANY, "{numbers}");
        }
        assert_eq!([0, 1, 2].map(|rank| ranks.code(rank, 0)), [None; 3]);
        for rank in [0, 1, 2] {
            ranks.wait(rank);
            ranks.settle();
        }
        assert_eq!([0, 1, 2].map(|rank| ranks.code(rank, 0)), [Some(Code::Ok); 3]);
        assert!(ranks.buffers.iter().flatten().all(|number| *number == 6));
    }
}

/// Of those who compute, handlers post what the one that waits lacks, and make nothing of it.
#[test]
fn who_waits_has_those_rung_who_compute() {
    for looks_only in [false, true] {
        let mut ranks = Ranks::new(3, FEW);
        for rank in [1, 2, 0] {
            ranks.post(rank, sum(FEW));
        }
        match looks_only {
            false => {
                ranks.wait(0);
                // For each of three rounds, both of them, and who waits.
                assert_eq!(ranks.settle(), 9);
            }
            true => {
                for _ in 0..3 {
                    assert_eq!(ranks.code(0, 0), None);
                    ranks.test(0);
                    let rung = ranks.ranks[0].0.1.len();
                    ranks.test(0);
                    assert_eq!((rung, ranks.ranks[0].0.1.len()), (2, 2), "once for each round");
                    ranks.settle();
                }
                ranks.test(0);
            }
        }
        assert_eq!([0, 1, 2].map(|rank| ranks.code(rank, 0)), [Some(Code::Ok), None, None]);
        assert!(ranks.buffers[0].iter().all(|number| *number == 6));
        assert!([2, 3].iter().zip(&ranks.buffers[1..]).all(|(own, buffer)| buffer.iter().all(|n| n == own)));
        // The first round was copied in by the call that posted it.
        let in_handlers = [1, 2].map(|rank| ranks.ranks[rank].1.copied().handler as usize);
        assert_eq!(in_handlers, [8 * FEW / 4 * 3; 2]);
        for rank in [1, 2] {
            ranks.wait(rank);
            assert_eq!(ranks.code(rank, 0), Some(Code::Ok));
            assert!(ranks.buffers[rank].iter().all(|number| *number == 6));
        }
    }
}

/// A collective of some kind, long or short, on memory that has room for it.
fn some(
    kind: usize,
    (members, rank, root): (usize, usize, u32),
    numbers: usize,
    memory: *mut u8,
) -> Arguments<'static> {
    let (send, recv, bytes) =
        (Some(memory.cast_const()).filter(|_| rank != root as usize), memory, 8 * numbers);
    let (data_type, op) = (DataType::U64, Op::Sum);
    match kind {
        0 => sum(numbers)(memory),
        1 => Arguments::Ibcast { buffer: memory, bytes, root },
        2 => Arguments::Iallgather { send: None, recv, block: bytes },
        3 => Arguments::Ialltoall { send: None, recv, block: bytes / (members - 1) },
        4 => Arguments::Ireduce { send, recv, count: numbers, data_type, op, root },
        5 => Arguments::Igather { send, recv, block: 8, root },
        _ => Arguments::Ibarrier,
    }
}

/// Whoever waits when, however many rounds there are, and whatever stands in front or behind: who is rung when it should be has all that it waits for in the end, though one of the others
/// computes all the time.
#[test]
fn nobody_sleeps_through_a_round() {
    for seed in 0..600 {
        let mut random = common::Random(seed);
        let members = 2 + random.below(3);
        let numbers = (1 + random.below(3)) * (MIB / 8) + random.below(2) * 4097;
        let mut ranks = Ranks::new(members as u32, numbers * members);
        let kinds: Vec<usize> = (0..1 + random.below(4)).map(|_| random.below(7)).collect();
        let roots: Vec<u32> = kinds.iter().map(|_| random.below(members) as u32).collect();
        let computes = random.below(members + 1);
        let mut waits: Vec<bool> = (0..members).map(|rank| rank == computes).collect();
        let what =
            format!("{seed}: {members} ranks, {kinds:?} of {numbers}, roots {roots:?}, {computes} computes");
        while waits.contains(&false)
            || ranks.posted.iter().any(|posted| posted.len() < kinds.len())
            || ranks.ranks.iter().any(|(lower, _)| !lower.1.is_empty())
        {
            let rank = random.below(members);
            let posted = ranks.posted[rank].len();
            if posted < kinds.len() && random.chance(50) {
                let root = roots[posted];
                ranks.post(rank, |memory| some(kinds[posted], (members, rank, root), numbers, memory));
            } else if posted == kinds.len() && !waits[rank] && random.chance(20) {
                waits[rank] = true;
                match ranks.posted[rank].last() {
                    Some(Posted::Waits(last)) if random.chance(50) => {
                        let (lower, nbc) = &mut ranks.ranks[rank];
                        if nbc.begin_look(*last) {
                            nbc.look(*last);
                            nbc.end_look(lower, *last);
                            nbc.announce(lower);
                        } else {
                            ranks.wait(rank);
                        }
                    }
                    _ => ranks.wait(rank),
                }
            }
            // Who computes calls for something else.
            if computes < members && !ranks.posted[computes].is_empty() && random.chance(10) {
                ranks.test(computes);
            }
            // Somebody who is rung has a pass: a handler's, or its own, where it waits.
            let rung = ranks.ranks.iter_mut().find_map(|(lower, _)| {
                let many = lower.1.len();
                (many > 0).then(|| lower.1.swap_remove(random.below(many)))
            });
            if let Some(rung) = rung {
                let (lower, nbc) = &mut ranks.ranks[rung as usize];
                let is_user = waits[rung as usize] && rung as usize != computes;
                let budget = || if is_user { Budget::user() } else { Budget::handler() };
                while nbc.progress(lower, &mut budget()) == Pass::More {}
                nbc.announce(lower);
            }
        }
        for rank in (0..members).filter(|rank| *rank != computes) {
            let codes: Vec<_> = (0..kinds.len()).map(|at| ranks.code(rank, at)).collect();
            assert!(codes.iter().all(|code| *code == Some(Code::Ok)), "{rank} has {codes:?}: {what}");
        }
        if computes < members {
            ranks.wait(computes);
            assert!((0..kinds.len()).all(|at| ranks.code(computes, at) == Some(Code::Ok)), "{what}");
        }
    }
}

/// Whose operator panics in a round posts no more of them, and all hear of it.
#[test]
fn an_operator_that_panics_in_a_round() {
    /// # Safety
    /// Touches nothing.
    unsafe fn panics(_: *const (), _: *const u8, _: *const u8, _: *mut u8, _: usize) {
        panic!("on purpose");
    }
    /// # Safety
    /// Touches nothing.
    unsafe fn leaves(_: *const (), _: *const u8, _: *const u8, _: *mut u8, _: usize) {}
    let mut ranks = Ranks::new(2, FEW);
    // SAFETY: they touch nothing.
    let [good, bad] = [leaves, panics].map(|f| unsafe { UserOp::new(f, std::ptr::null(), true) });
    // SAFETY: it does nothing.
    let (good, bad) = (Op::User(unsafe { good.handler_safe() }), Op::User(bad));
    let of = |recv, op| Arguments::Iallreduce { send: None, recv, count: FEW, data_type: DataType::U64, op };
    for (rank, op) in [(1, good), (0, bad)] {
        ranks.post(rank, |recv| of(recv, op));
        ranks.post(rank, |_| Arguments::Ibarrier);
        ranks.wait(rank);
        ranks.settle();
    }
    for rank in [0, 1] {
        for at in [0, 1] {
            assert_eq!(ranks.code(rank, at), Some(Code::UserOperatorPanicked), "{rank} {at}");
        }
    }
}

/// Who sleeps after a look of its own is rung for each round that follows, also of those that its handler has posted ahead of it: the root of a reduction, in front of whom others
/// run ahead.
#[test]
fn who_sleeps_is_rung_for_each_round() {
    let mut ranks = Ranks::new(3, FEW);
    for rank in [2, 1, 0] {
        ranks.post(rank, |memory| some(5, (3, rank, 2), FEW, memory));
        ranks.post(rank, |memory| some(4, (3, rank, 0), FEW, memory));
    }
    ranks.settle();
    // A ring for something else.
    let (lower, nbc) = &mut ranks.ranks[0];
    while nbc.progress(lower, &mut Budget::handler()) == Pass::More {}
    nbc.announce(lower);
    let Posted::Waits(id) = ranks.posted[0][1] else { panic!("nobody else has posted all") };
    if nbc.begin_look(id) {
        assert!(!nbc.look(id));
        nbc.end_look(lower, id);
        nbc.announce(lower);
    }
    let mut left = true;
    while left {
        let (lower, nbc) = &mut ranks.ranks[2];
        left = nbc.progress(lower, &mut Budget::handler()) != Pass::Idle;
        nbc.announce(lower);
        if lower.1.contains(&0) {
            ranks.test(0);
        }
        ranks.ranks.iter_mut().for_each(|(lower, _)| lower.1.clear());
    }
    assert_eq!(ranks.code(0, 1), Some(Code::Ok));
}

/// Who has yet to begin what stands behind rounds, and owes none of them, is not rung for it.
#[test]
fn who_owes_nothing_is_not_rung() {
    let mut ranks = Ranks::new(2, FEW);
    for rank in [0, 1] {
        ranks.post(rank, sum(FEW));
        ranks.wait(rank);
    }
    ranks.settle();
    assert_eq!([0, 1].map(|rank| ranks.code(rank, 0)), [Some(Code::Ok); 2]);
    ranks.post(0, |_| Arguments::Ibarrier);
    ranks.wait(0);
    assert_eq!(ranks.settle(), 0);
}

/// What stands behind rounds is owed by who computes, too.
#[test]
fn what_stands_behind_rounds_comes() {
    for kind in [1, 4] {
        let mut ranks = Ranks::new(2, FEW);
        // A root that waits for nobody, and one for which the others do not.
        let computes = if kind == 1 { 1 } else { 0 };
        for rank in [computes, 1 - computes] {
            ranks.post(rank, |memory| some(kind, (2, rank, 0), FEW, memory));
            ranks.post(rank, |_| Arguments::Ibarrier);
        }
        assert_eq!(ranks.settle(), 0, "who has begun something may compute");
        ranks.wait(1 - computes);
        ranks.settle();
        assert_eq!([0, 1].map(|at| ranks.code(1 - computes, at)), [Some(Code::Ok); 2], "{kind}");
    }
}

/// Who has no room for more rounds makes those in front, in handlers, too; and what is posted behind them waits for them.
#[test]
fn more_rounds_than_there_is_room_for() {
    let mut ranks = Ranks::new(2, MANY);
    for rank in [1, 0] {
        ranks.post(rank, sum(MANY));
        ranks.post(rank, |_| Arguments::Ibarrier);
    }
    ranks.wait(0);
    ranks.settle();
    assert_eq!([0, 1].map(|at| ranks.code(0, at)), [Some(Code::Ok); 2]);
    assert!(ranks.buffers[0].iter().all(|number| *number == 3));
    ranks.wait(1);
    assert_eq!([0, 1].map(|at| ranks.code(1, at)), [Some(Code::Ok); 2]);
    assert!(ranks.buffers[1].iter().all(|number| *number == 3));
}

/// Rounds of the same length, but not as many of them, or none: it is found in the last that both have, whoever is ahead.
#[test]
fn who_has_other_rounds_hears_of_it() {
    for lengths in
        [[3 * MIB / 2, 2 * MIB], [2 * MIB, 3 * MIB / 2], [MIB / 2, 3 * MIB / 2], [2 * MIB, MIB / 2]]
    {
        for (first, casts) in [(0, true), (1, true), (0, false), (1, false)] {
            let mut ranks = Ranks::new(2, FEW);
            for rank in [first, 1 - first] {
                let length = lengths[rank];
                match casts {
                    true => ranks.post(rank, bcast(length)),
                    false => ranks.post(rank, sum(length / 8)),
                }
                ranks.wait(rank);
                ranks.settle();
            }
            // A root is done when it has posted all.
            let [root, other] = [0, 1].map(|rank| ranks.code(rank, 0));
            let ends = root == Some(Code::Protocol) || casts && root == Some(Code::Ok);
            assert!(ends && other == Some(Code::Protocol), "{root:?} {other:?} {lengths:?} {first} {casts}");
        }
    }
}

/// Of two members' long parts it depends on the operator's kind how they are made: who has a user's where the other has the library's hears of it, whatever the length.
#[test]
fn whose_operator_it_is_is_agreed_upon() {
    /// # Safety
    /// Touches nothing.
    unsafe fn leaves(_: *const (), _: *const u8, _: *const u8, _: *mut u8, _: usize) {}
    // SAFETY: it touches nothing.
    let user = Op::User(unsafe { UserOp::new(leaves, std::ptr::null(), true) });
    let all = [(4, false), (4, true), (8192, false), (8192, true), (FEW, false), (FEW / 2, true)];
    for ((count, scatters), first) in all.into_iter().flat_map(|of| [(of, 0), (of, 1)]) {
        let mut ranks = Ranks::new(2, FEW);
        for rank in [first, 1 - first] {
            let (send, data_type, op) = (None, DataType::U64, [Op::Sum, user][rank]);
            ranks.post(rank, |recv| match scatters {
                true => Arguments::IreduceScatterBlock { send, recv, count, data_type, op },
                false => Arguments::Iallreduce { send, recv, count, data_type, op },
            });
            ranks.wait(rank);
            ranks.settle();
        }
        ranks.wait(first);
        for rank in [0, 1] {
            assert_eq!(ranks.code(rank, 0), Some(Code::Protocol), "{count} {scatters} {first}");
        }
    }
}

/// A member that dies between two rounds: who waits for it ends with that, and so does what stands behind it.
#[test]
fn a_round_that_never_comes() {
    let mut machine = Machine::new(network(2, 5), 6);
    let mut buffers = [vec![1u64; FEW], vec![2; FEW]];
    let [first, second] = &mut machine.ranks[..] else { unreachable!() };
    let mut post = |rank: &mut Rank<common::network::End>, me: usize| {
        let group = common::driver::group(2, me as u32).with_board(0);
        let of = sum(FEW)(buffers[me].as_mut_ptr().cast());
        let call = table::call_on_board(&group, &of, Some("shm")).unwrap().unwrap();
        // SAFETY: the buffers live longer than the machine's last step.
        unsafe { rank.nbc.post_on_board(&mut rank.lower, &call, 1 << 31, 0) }.unwrap()
    };
    let (waits, _) = (post(first, 0), post(second, 1));
    first.nbc.want_all(&mut first.lower);
    assert_eq!(outcome(&first.nbc, waits), None);
    first.lower.kill(1);
    while first.nbc.progress(&mut first.lower, &mut Budget::user()) == Pass::More {}
    assert_eq!(outcome(&first.nbc, waits).unwrap().code, Code::PeerDead);
    let again = post(first, 0);
    assert_eq!(outcome(&first.nbc, again).unwrap().code, Code::PeerDead);
    drop(buffers);
}
