//! Members of a board that disagree, lie or leave.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::driver::{Machine, Rank};
use common::network::{End, network};
use std::ptr::NonNull;
use tocsin_nbc::messages::{Envelope, Messages};
use tocsin_nbc::table::{self, Arguments};
use tocsin_nbc::{DataType, Error, Nbc, Op, Posted};
use tocsin_progress::budget::Budget;
use tocsin_progress::completion::{Code, Outcome};
use tocsin_progress::slots::Id;
use tocsin_transport::board::{Area, Board};

/// Two ranks, of whom the first alone is driven; and the board as the second sees it.
fn with_other() -> (Machine<End>, Board) {
    let machine = Machine::new(network(2, 5), 6);
    let areas = machine.areas.iter().map(|area| NonNull::from(&**area)).collect();
    // SAFETY: the machine, which the tests keep, has the areas; its own board of this rank is not used.
    let other = unsafe { Board::new(areas, 1, 1) }.unwrap();
    (machine, other)
}

/// Posts an allreduce of so many numbers on a rank.
fn post<M: Messages>(lower: &mut M, nbc: &mut Nbc, me: u32, numbers: &mut [u64]) -> Posted {
    post_kind(lower, nbc, (2, me), Kind::Allreduce, numbers)
}

/// What the ranks may disagree about.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Barrier,
    Bcast(u32),
    Reduce(u32),
    Allreduce,
}

/// Posts a collective on a rank of so many, on the board, and waits for it.
fn post_kind<M: Messages>(
    lower: &mut M,
    nbc: &mut Nbc,
    place: (u32, u32),
    kind: Kind,
    numbers: &mut [u64],
) -> Posted {
    let posted = post_as(lower, nbc, place, (kind, Way::Board), 0, numbers);
    nbc.want_all(lower);
    posted
}

/// How a collective is done.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Board,
    Messages,
}

/// Posts a collective with a sequence number on a rank of so many.
fn post_as<M: Messages>(
    lower: &mut M,
    nbc: &mut Nbc,
    (ranks, me): (u32, u32),
    (kind, way): (Kind, Way),
    sequence: u32,
    numbers: &mut [u64],
) -> Posted {
    let group = common::driver::group(ranks, me).with_board(0);
    let (recv, count, data_type, op) = (numbers.as_mut_ptr().cast(), numbers.len(), DataType::U64, Op::Sum);
    let send = None;
    let arguments = match kind {
        Kind::Barrier => Arguments::Ibarrier,
        Kind::Bcast(root) => Arguments::Ibcast { buffer: recv, bytes: 8 * count, root },
        Kind::Reduce(root) if root == me => Arguments::Ireduce { send, recv, count, data_type, op, root },
        Kind::Reduce(root) => {
            Arguments::Ireduce { send: Some(recv.cast_const()), recv, count, data_type, op, root }
        }
        Kind::Allreduce => Arguments::Iallreduce { send, recv, count, data_type, op },
    };
    if way == Way::Board {
        let mut call = table::call_on_board(&group, &arguments, None).unwrap().unwrap();
        call.number(sequence);
        // SAFETY: the tests keep the numbers until the request is over.
        return unsafe { nbc.post_on_board(lower, &call, 1 << 31, sequence) }.unwrap();
    }
    let algorithm = match kind {
        Kind::Barrier => "dissemination",
        Kind::Bcast(_) | Kind::Reduce(_) => "binomial",
        Kind::Allreduce => "recursive-doubling",
    };
    let schedule = table::compile(&group, &arguments, Some(algorithm)).unwrap();
    // SAFETY: as above.
    Posted::Waits(unsafe { nbc.post(lower, schedule, 1 << 31, sequence) }.unwrap())
}

fn outcome(nbc: &Nbc, posted: Posted) -> Option<Outcome> {
    match posted {
        Posted::Done => Some(Outcome::default()),
        Posted::Failed(outcome) => Some(outcome),
        // SAFETY: valid as long as the Nbc.
        Posted::Waits(id) => unsafe { nbc.completion(id).unwrap().as_ref() }.outcome(),
    }
}

/// Who posts before the other, and who after.
fn both_orders(act: impl Fn(&mut Board), ends: Code) {
    for other_first in [true, false] {
        let (mut machine, mut other) = with_other();
        let Rank { lower, nbc } = &mut machine.ranks[0];
        let mut numbers = [1u64, 2];
        if other_first {
            act(&mut other);
        }
        let posted = post(lower, nbc, 0, &mut numbers);
        if !other_first {
            assert_eq!(outcome(nbc, posted), None);
            act(&mut other);
            while nbc.work_left() {
                nbc.progress(lower, &mut Budget::handler());
            }
        }
        let end = outcome(nbc, posted).unwrap();
        assert_eq!((end.code, end.source), (ends, u32::from(ends != Code::Ok)));
        if ends == Code::Protocol {
            // Nothing that comes later on this board can be trusted.
            assert!(matches!(
                post(lower, nbc, 0, &mut numbers),
                Posted::Failed(Outcome { code: Code::Protocol, .. })
            ));
        }
    }
}

#[test]
fn what_is_about_something_else_is_an_error() {
    both_orders(
        |other| {
            // SAFETY: no bytes.
            unsafe { other.post(0x1234, std::ptr::null(), 0) };
        },
        Code::Protocol,
    );
}

/// Of a member that does something else because of a death the death is heard, not a disagreement: before and after this rank posts, by
/// who does it on the board and by messages, and of all that comes later.
#[test]
fn what_follows_from_a_death_is_no_disagreement() {
    let dead = Outcome { code: Code::PeerDead, source: 1, ..Outcome::default() };
    for (other_first, way) in
        [(false, Way::Board), (false, Way::Messages), (true, Way::Board), (true, Way::Messages)]
    {
        let (mut machine, mut other) = with_other();
        let Rank { lower, nbc } = &mut machine.ranks[0];
        let mut numbers = [1u64, 2];
        let mut die = |lower: &mut End| {
            lower.kill_unheard(1);
            // SAFETY: no bytes.
            unsafe { other.post(0, std::ptr::null(), 0) };
        };
        if other_first {
            die(lower);
        }
        let first = post_as(lower, nbc, (2, 0), (Kind::Allreduce, way), 0, &mut numbers);
        if !other_first {
            assert_eq!(outcome(nbc, first), None);
            die(lower);
            // Somebody asks it to look.
            other.ask(0);
        }
        while nbc.work_left() {
            nbc.progress(lower, &mut Budget::handler());
        }
        assert_eq!(outcome(nbc, first), Some(dead), "{other_first} {way:?}");
        for (sequence, way) in [(1, Way::Board), (2, Way::Messages), (3, Way::Board)] {
            let later = post_as(lower, nbc, (2, 0), (Kind::Barrier, way), sequence, &mut numbers);
            assert_eq!(outcome(nbc, later), Some(dead), "{other_first} {sequence} {way:?}");
        }
    }
}

#[test]
fn a_part_from_the_future_is_an_error() {
    both_orders(
        |other| {
            for _ in 0..9 {
                // SAFETY: no bytes.
                unsafe { other.post(0, std::ptr::null(), 0) };
            }
        },
        Code::Protocol,
    );
}

#[test]
fn ranks_that_disagree_about_sizes_hear_of_it() {
    let mut machine = Machine::new(network(2, 5), 6);
    let [first, second] = &mut machine.ranks[..] else { unreachable!() };
    let (mut few, mut many) = ([1u64; 2], [1u64; 3]);
    let waits = post(&mut first.lower, &mut first.nbc, 0, &mut few);
    let late = post(&mut second.lower, &mut second.nbc, 1, &mut many);
    assert_eq!(outcome(&second.nbc, late).unwrap().code, Code::Protocol);
    first.nbc.progress(&mut first.lower, &mut Budget::user());
    assert_eq!(outcome(&first.nbc, waits).unwrap().code, Code::Protocol);
    assert_eq!((few, many), ([1; 2], [1; 3]));
}

/// Notes who is rung.
struct Rung(End, Vec<u32>);
impl Messages for Rung {
    fn reserve(&mut self) -> Result<Id, Error> {
        self.0.reserve()
    }
    fn prepare_peer(&mut self, peer: u32, bytes: usize) -> Result<(), Error> {
        self.0.prepare_peer(peer, bytes)
    }
    fn release(&mut self, request: Id) {
        self.0.release(request);
    }
    unsafe fn start_send(&mut self, request: Id, envelope: &Envelope, from: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.start_send(request, envelope, from, bytes) }
    }
    unsafe fn start_recv(&mut self, request: Id, envelope: &Envelope, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.start_recv(request, envelope, to, bytes) }
    }
    fn eager_max(&self) -> usize {
        self.0.eager_max()
    }
    fn copied(&self) -> u64 {
        0
    }
    fn abandon(&mut self, request: Id) -> bool {
        self.0.abandon(request)
    }
    fn next_completed(&mut self) -> Option<(u64, Outcome)> {
        self.0.next_completed()
    }
    fn failures(&self) -> u64 {
        0
    }
    fn failed_among(&self, _: &[u32]) -> Option<(u32, Code)> {
        None
    }
    fn announce(&mut self, rank: u32) {
        self.1.push(rank);
    }
    fn would_signal(&self, _: u32) -> bool {
        true
    }
}

/// Whoever waits is rung by the last to come, nobody else is, and nobody twice.
#[test]
fn the_last_rings_those_who_wait() {
    for looks in [false, true] {
        let mut machine = Machine::new(network(2, 5), 6);
        let mut ranks: Vec<_> =
            machine.ranks.drain(..).map(|Rank { lower, nbc }| (Rung(lower, Vec::new()), nbc)).collect();
        let [(one, first), (two, second)] = &mut ranks[..] else { unreachable!() };
        let (mut mine, mut theirs) = ([5u64], [6u64]);
        let posted = post(one, first, 0, &mut mine);
        first.announce(one);
        assert!(one.1.is_empty());
        let Posted::Waits(id) = posted else { unreachable!() };
        if looks {
            assert!(first.begin_look(id) && !first.look(id));
        }
        assert!(matches!(post(two, second, 1, &mut theirs), Posted::Done));
        // A signal is held back as long as the other waits.
        assert_eq!(second.announce_quietly(two), !looks);
        assert!(two.1.is_empty());
        second.announce(two);
        assert_eq!(two.1, if looks { vec![] } else { vec![0] });
        second.announce(two);
        assert!(two.1.len() < 2);
        assert!(if looks {
            first.look(id)
        } else {
            first.progress(one, &mut Budget::handler()) != tocsin_progress::Pass::Idle
        });
        assert_eq!((mine, theirs), ([11], [11]));
        assert!(first.release(one, id));
        drop(machine);
    }
}

/// A root that has no room yet copies its part in later, as much as a handler may at a time: who waits for it copies out what is there meanwhile, in calls and in handlers, and is
/// done when all is.
#[test]
fn who_waits_copies_out_what_is_there() {
    for looks in [false, true] {
        let mut machine = Machine::new(network(2, 5), 6);
        let [root, other] = &mut machine.ranks[..] else { unreachable!() };
        let sent: Vec<Vec<u64>> =
            (0..5u64).map(|of| (0..50_000).map(|at| (of << 32) + at + 1).collect()).collect();
        let mut got = vec![vec![0u64; 50_000]; 5];
        let post = |rank: &mut Rank<End>, me: u32, sequence: usize, numbers: *const u64| {
            let buffer = numbers.cast_mut().cast();
            let arguments = Arguments::Ibcast { buffer, bytes: 8 * 50_000, root: 0 };
            let group = common::driver::group(2, me).with_board(0);
            let mut call = table::call_on_board(&group, &arguments, Some("shm")).unwrap().unwrap();
            call.number(sequence as u32);
            // SAFETY: the numbers outlive the machine's collectives; a root's are only read.
            unsafe { rank.nbc.post_on_board(&mut rank.lower, &call, 1 << 31, sequence as u32) }.unwrap()
        };
        let roots: Vec<Posted> = (0..5).map(|at| post(root, 0, at, sent[at].as_ptr())).collect();
        assert_eq!(outcome(&root.nbc, roots[4]), None, "there is room for four");
        let others: Vec<Posted> = (0..5).map(|at| post(other, 1, at, got[at].as_mut_ptr())).collect();
        let Posted::Waits(id) = others[4] else { panic!("nobody has posted it") };
        if looks {
            assert!(other.nbc.begin_look(id));
        }
        let mut before = 0;
        while outcome(&root.nbc, roots[4]).is_none() {
            root.nbc.progress(&mut root.lower, &mut Budget::handler());
            if outcome(&root.nbc, roots[4]).is_some() {
                break;
            }
            match looks {
                true => assert!(!other.nbc.look(id)),
                false => {
                    assert!(other.nbc.work_left());
                    other.nbc.progress(&mut other.lower, &mut Budget::handler());
                }
            }
            assert_eq!(outcome(&other.nbc, others[4]), None);
            let there = got[4].iter().take_while(|number| **number > 0).count();
            assert!(there > before && there < 50_000 && got[4][..there] == sent[4][..there]);
            before = there;
        }
        assert!(before > 0, "the root was done at once");
        if looks {
            assert!(other.nbc.look(id));
        }
        while outcome(&other.nbc, others[4]).is_none() {
            other.nbc.progress(&mut other.lower, &mut Budget::handler());
        }
        assert!(
            got == sent && others.iter().all(|posted| outcome(&other.nbc, *posted).unwrap().code == Code::Ok)
        );
    }
}

/// Ranks that post, and then get a pass only when they are rung.
struct Rungs {
    ranks: Vec<(Rung, Nbc)>,
    /// What each has posted, with the memory.
    posted: Vec<Vec<(Posted, Box<[u64; 1]>)>>,
    _areas: Vec<Box<Area>>,
}

impl Rungs {
    fn new(ranks: u32, seed: u64) -> Rungs {
        let mut machine = Machine::new(network(ranks, seed), seed);
        let posted = (0..ranks).map(|_| Vec::new()).collect();
        let rung = |Rank { lower, nbc }| (Rung(lower, Vec::new()), nbc);
        let ranks = machine.ranks.drain(..).map(rung).collect();
        Rungs { ranks, posted, _areas: std::mem::take(&mut machine.areas) }
    }

    fn post(&mut self, rank: usize, kind: Kind) {
        self.post_as(rank, kind, Way::Board);
    }

    /// Posts, and waits for it.
    fn post_as(&mut self, rank: usize, kind: Kind, way: Way) {
        self.post_and_compute(rank, kind, way);
        self.wait(rank);
    }

    fn wait(&mut self, rank: usize) {
        let (lower, nbc) = &mut self.ranks[rank];
        nbc.want_all(lower);
        nbc.announce(lower);
    }

    fn post_and_compute(&mut self, rank: usize, kind: Kind, way: Way) {
        let place = (self.ranks.len() as u32, rank as u32);
        let sequence = self.posted[rank].len() as u32;
        let (lower, nbc) = &mut self.ranks[rank];
        let mut number = Box::new([1]);
        let posted = post_as(lower, nbc, place, (kind, way), sequence, &mut *number);
        nbc.announce(lower);
        self.posted[rank].push((posted, number));
    }

    /// Who is rung, for what stands on the board or for messages that have come, after all messages have.
    fn rung(&mut self) -> Option<u32> {
        for _ in 0..20 {
            self.ranks.iter_mut().for_each(|(lower, _)| lower.0.pump());
        }
        let for_board = self.ranks.iter_mut().find_map(|(lower, _)| lower.1.pop());
        let has_completed = |(lower, _): &(Rung, Nbc)| lower.0.has_completed();
        for_board.or_else(|| self.ranks.iter().position(has_completed).map(|rank| rank as u32))
    }

    /// Passes for those who are rung, until nobody is.
    fn settle(&mut self) {
        let mut rings = 0;
        while let Some(rung) = self.rung() {
            rings += 1;
            assert!(rings < 100_000, "rings without end");
            let (lower, nbc) = &mut self.ranks[rung as usize];
            let mut passes = 0;
            while nbc.progress(lower, &mut Budget::handler()) == tocsin_progress::Pass::More {
                passes += 1;
                assert!(passes < 1000, "passes without end");
            }
            assert!(!nbc.work_left(), "a look finds what a pass does not");
            nbc.announce(lower);
        }
    }

    fn code(&self, rank: usize, at: usize) -> Option<Code> {
        outcome(&self.ranks[rank].1, self.posted[rank][at].0).map(|outcome| outcome.code)
    }
}

/// What others need of a rank that computes is posted.
#[test]
fn who_computes_is_rung_for_nothing() {
    let mut ranks = Rungs::new(3, 5);
    for rank in [0, 1, 2] {
        ranks.post_and_compute(rank, Kind::Allreduce, Way::Board);
    }
    assert_eq!(ranks.rung(), None);
    assert_eq!([0, 1, 2].map(|rank| ranks.code(rank, 0)), [None, None, Some(Code::Ok)]);
    // It finds it when it waits.
    ranks.wait(1);
    assert_eq!([0, 1].map(|rank| ranks.code(rank, 0)), [None, Some(Code::Ok)]);
}

/// Nothing ends before what stands in front of it.
#[test]
fn who_waits_is_rung_for_all_that_must_end_before() {
    for wanted in [0, 1] {
        let mut ranks = Rungs::new(2, 6);
        for _ in 0..3 {
            ranks.post_and_compute(0, Kind::Allreduce, Way::Board);
        }
        let Posted::Waits(id) = ranks.posted[0][wanted].0 else { panic!("nobody else has posted") };
        let (lower, nbc) = &mut ranks.ranks[0];
        assert_eq!(nbc.want(lower, id, &mut Budget::user()), tocsin_progress::Pass::Idle);
        for at in 0..3 {
            ranks.post_and_compute(1, Kind::Allreduce, Way::Board);
            ranks.settle();
            // The last is found by the next look.
            assert_eq!(ranks.code(0, at).is_some(), at <= wanted, "{at} of {wanted}");
        }
    }
}

/// What is lined up behind a full board can be posted only when the first ones have ended, and others may wait for it.
#[test]
fn who_computes_is_rung_for_what_it_has_yet_to_post() {
    let mut ranks = Rungs::new(2, 7);
    for _ in 0..7 {
        ranks.post_and_compute(0, Kind::Allreduce, Way::Board);
    }
    for at in 0..7 {
        ranks.post(1, Kind::Allreduce);
        ranks.settle();
        assert_eq!(ranks.code(1, at), Some(Code::Ok), "{at}");
    }
}

/// The last to come sees for all, though it needs nobody itself.
#[test]
fn who_waits_is_rung_by_one_who_does_not() {
    let mut ranks = Rungs::new(3, 7);
    ranks.post(0, Kind::Allreduce);
    ranks.post(1, Kind::Allreduce);
    ranks.post(2, Kind::Reduce(0));
    assert_eq!(ranks.code(2, 0), Some(Code::Protocol));
    ranks.settle();
    assert_eq!([0, 1].map(|rank| ranks.code(rank, 0)), [Some(Code::Protocol); 2]);
}

/// A member that was done before the others disagreed with it hears of it when it needs them, or room.
#[test]
fn who_saw_nothing_hears_of_it_later() {
    for later in [Kind::Barrier, Kind::Bcast(0)] {
        let mut ranks = Rungs::new(3, 8);
        ranks.post(0, Kind::Bcast(0));
        ranks.post(1, Kind::Bcast(0));
        ranks.post(2, Kind::Allreduce);
        ranks.settle();
        let first = [0, 1, 2].map(|rank| ranks.code(rank, 0));
        assert_eq!(first, [Some(Code::Ok), Some(Code::Ok), Some(Code::Protocol)]);
        for _ in 0..5 {
            ranks.post(0, later);
        }
        // Who comes last sees it, and tells.
        ranks.post(1, later);
        assert_eq!(ranks.code(1, 1), Some(Code::Protocol));
        ranks.settle();
        let ok = if later == Kind::Barrier { 0 } else { 4 };
        for at in 1..=5 {
            let right = if at <= ok { Code::Ok } else { Code::Protocol };
            assert_eq!(ranks.code(0, at), Some(right), "{later:?} {at}");
        }
    }
}

/// Who is refused memory for what the others may have begun says so to all, on the board and beside it, whoever comes first.
#[test]
fn who_is_refused_memory_is_named_by_all() {
    const POOR: usize = 2;
    let refuse = |ranks: &mut Rungs| {
        let (lower, nbc) = &mut ranks.ranks[POOR];
        assert!(nbc.refuse(lower, Some(0)) && !nbc.refuse(lower, None));
        nbc.announce(lower);
    };
    for (way, early) in [Way::Board, Way::Messages].into_iter().flat_map(|way| [(way, true), (way, false)]) {
        let mut ranks = Rungs::new(4, 9);
        for rank in 0..4 {
            ranks.post(rank, Kind::Allreduce);
        }
        ranks.settle();
        if early {
            refuse(&mut ranks);
        }
        for rank in [0, 1, 3] {
            ranks.post_as(rank, Kind::Allreduce, way);
        }
        if !early {
            refuse(&mut ranks);
        }
        ranks.settle();
        // Nor can anything later be done.
        for rank in [0, 1, POOR, 3] {
            ranks.post_as(rank, Kind::Barrier, way);
        }
        ranks.settle();
        for rank in [0, 1, POOR, 3] {
            let ends: Vec<_> = ranks.posted[rank].iter().map(|(posted, _)| *posted).collect();
            let ends = ends.into_iter().map(|posted| outcome(&ranks.ranks[rank].1, posted));
            let ends: Vec<_> = ends.map(|end| end.map(|end| (end.code, end.source))).collect();
            assert_eq!(ends[0].unwrap().0, Code::Ok);
            let named = Some((Code::OutOfMemory, POOR as u32));
            assert!(ends[1..].iter().all(|end| *end == named), "{way:?} {early} {rank}: {ends:?}");
        }
    }
}

/// Whatever ranks post where one of them posts something else: nobody waits for ever, what came before ends well, and what
/// comes much later is an error at every rank.
#[test]
fn after_a_disagreement_nobody_waits_for_ever() {
    const POSTS: usize = 14;
    let mut random = common::Random(0xd15a);
    for round in 0..2000 {
        let size = 2 + random.below(5) as u32;
        let mut kind = || {
            let root = random.below(size as usize) as u32;
            [Kind::Barrier, Kind::Bcast(root), Kind::Reduce(root), Kind::Allreduce][random.below(4)]
        };
        let agreed: Vec<Kind> = (0..POSTS).map(|_| kind()).collect();
        let other = kind();
        let (odd, at) = (random.below(size as usize), random.below(POSTS - 6));
        let differ = agreed[at] != other;
        let mut ranks = Rungs::new(size, random.word());
        let mut left: Vec<usize> = (0..size as usize).flat_map(|rank| [rank; POSTS]).collect();
        while !left.is_empty() {
            let rank = left.swap_remove(random.below(left.len()));
            let next = ranks.posted[rank].len();
            ranks.post(rank, if (rank, next) == (odd, at) { other } else { agreed[next] });
            if random.chance(30) {
                ranks.settle();
            }
        }
        ranks.settle();
        for rank in 0..size as usize {
            for n in 0..POSTS {
                let code = ranks.code(rank, n);
                let what =
                    format!("round {round}, rank {rank}, {n}: {agreed:?}, but {odd} at {at}: {other:?}");
                match code {
                    None => panic!("waits for ever: {what}"),
                    Some(Code::Ok) => assert!(!differ || n < at + 6, "nobody has noticed: {what}"),
                    Some(code) => assert!(differ && n >= at && code == Code::Protocol, "{code:?}: {what}"),
                }
            }
        }
    }
}

/// Some on the board and some by messages, whoever comes first: all hear of it, and whom they disagree with.
#[test]
fn who_is_on_the_board_and_who_is_not_hear_of_each_other() {
    // Of so many, which go by messages.
    let parts =
        [(2, 0b01), (2, 0b10), (3, 0b001), (3, 0b110), (3, 0b010), (3, 0b101), (4, 0b0011), (5, 0b10110)];
    for ((size, beside), kind) in
        parts.into_iter().flat_map(|part| [Kind::Barrier, Kind::Allreduce].map(|kind| (part, kind)))
    {
        for first in 0..size {
            let mut ranks = Rungs::new(size as u32, 11);
            for rank in (0..size).map(|n| (first + n) % size) {
                let way = if beside >> rank & 1 == 1 { Way::Messages } else { Way::Board };
                ranks.post_as(rank, kind, way);
            }
            ranks.settle();
            for rank in 0..size {
                let end = outcome(&ranks.ranks[rank].1, ranks.posted[rank][0].0);
                let end = end.unwrap_or_else(|| panic!("rank {rank} waits for ever: {beside:b} {kind:?}"));
                assert_eq!(end.code, Code::Protocol);
                assert_ne!(beside >> end.source & 1, beside >> rank & 1, "rank {rank} and {}", end.source);
            }
        }
    }
}

/// One has given up and refuses what the others do by messages, who know nothing of the reason: they hear of it, whether it refuses
/// before they begin or after, and whichever way it is to do that itself.
#[test]
fn who_does_by_messages_what_another_one_refuses_hears_of_it() {
    for (late, way) in
        [(false, Way::Board), (false, Way::Messages), (true, Way::Board), (true, Way::Messages)]
    {
        let mut ranks = Rungs::new(3, 12);
        let refuse = |ranks: &mut Rungs| {
            ranks.post(2, Kind::Allreduce);
            assert_eq!(ranks.code(2, 0), Some(Code::Protocol));
            ranks.post_as(2, Kind::Barrier, way);
            assert_eq!(ranks.code(2, 1), Some(Code::Protocol));
        };
        ranks.post(0, Kind::Bcast(0));
        ranks.post(1, Kind::Bcast(0));
        ranks.settle();
        if !late {
            refuse(&mut ranks);
        }
        for rank in [0, 1] {
            ranks.post_as(rank, Kind::Barrier, Way::Messages);
            ranks.settle();
        }
        if late {
            assert_eq!([0, 1].map(|rank| ranks.code(rank, 1)), [None; 2]);
            refuse(&mut ranks);
            ranks.settle();
        }
        for rank in [0, 1] {
            assert_eq!(ranks.code(rank, 0), Some(Code::Ok));
            let end = outcome(&ranks.ranks[rank].1, ranks.posted[rank][1].0);
            let end = end.unwrap_or_else(|| panic!("rank {rank} waits for ever: {late} {way:?}"));
            assert_eq!((end.code, end.source), (Code::Protocol, 2), "{late} {way:?}");
        }
    }
}

/// What all have begun by messages goes on, whatever they disagree about later.
#[test]
fn what_was_begun_by_messages_before_a_disagreement_goes_on() {
    let mut ranks = Rungs::new(3, 13);
    for rank in [0, 1, 2] {
        ranks.post_as(rank, Kind::Barrier, Way::Messages);
    }
    ranks.post(0, Kind::Allreduce);
    ranks.post(1, Kind::Allreduce);
    ranks.post(2, Kind::Reduce(0));
    assert_eq!(ranks.code(2, 1), Some(Code::Protocol));
    assert!((0..3).any(|rank| ranks.code(rank, 0).is_none()), "it is under way");
    ranks.settle();
    assert_eq!([0, 1, 2].map(|rank| ranks.code(rank, 0)), [Some(Code::Ok); 3]);
    assert_eq!([0, 1].map(|rank| ranks.code(rank, 1)), [Some(Code::Protocol); 2]);
}

/// Whatever ranks post on the board and by messages where some of them do something the other way: nobody waits for ever, what came
/// before ends well, and what comes much later on the board is an error at every rank.
#[test]
fn whoever_goes_by_messages_alone_nobody_waits_for_ever() {
    const POSTS: usize = 16;
    let mut random = common::Random(0xbe51);
    let mut heard = 0;
    for round in 0..2000 {
        let size = 2 + random.below(5) as u32;
        let agreed: Vec<(Kind, Way)> = (0..POSTS)
            .map(|_| {
                let root = random.below(size as usize) as u32;
                let kind = [Kind::Barrier, Kind::Bcast(root), Kind::Reduce(root), Kind::Allreduce];
                (kind[random.below(4)], [Way::Board, Way::Board, Way::Messages][random.below(3)])
            })
            .collect();
        // In some rounds, nobody; in some, one after the other, where the ranks may have given up already.
        let times = [0, 1, 1, 2, 5][random.below(5)];
        let odd: Vec<(usize, usize)> =
            (0..times).map(|_| (random.below(size as usize), random.below(POSTS - 6))).collect();
        let at = odd.iter().map(|(_, at)| *at).min().unwrap_or(POSTS);
        let way_of = |rank: usize, n: usize| match (odd.contains(&(rank, n)), agreed[n].1) {
            (false, way) => way,
            (true, Way::Board) => Way::Messages,
            (true, Way::Messages) => Way::Board,
        };
        // Where all of them are odd, they agree again.
        let differs = (0..POSTS).any(|n| (1..size as usize).any(|rank| way_of(rank, n) != way_of(0, n)));
        let mut ranks = Rungs::new(size, random.word());
        let mut left: Vec<usize> = (0..size as usize).flat_map(|rank| [rank; POSTS]).collect();
        while !left.is_empty() {
            let rank = left.swap_remove(random.below(left.len()));
            let next = ranks.posted[rank].len();
            ranks.post_as(rank, agreed[next].0, way_of(rank, next));
            if random.chance(30) {
                ranks.settle();
            }
        }
        ranks.settle();
        for rank in 0..size as usize {
            for n in 0..POSTS {
                let code = ranks.code(rank, n);
                let what = format!("round {round}, rank {rank}, {n}: {agreed:?}, but {odd:?}");
                match code {
                    None => panic!("waits for ever: {what}"),
                    Some(Code::Ok) => {}
                    Some(code) => {
                        assert!(differs && n >= at && code == Code::Protocol, "{code:?}: {what}");
                        heard += 1;
                    }
                }
            }
            let last = odd.iter().map(|(_, at)| *at).max().unwrap_or(at);
            let much_later = (last..POSTS).filter(|n| agreed[*n].1 == Way::Board && *n > last).skip(5);
            for n in much_later.filter(|_| differs) {
                assert_eq!(
                    ranks.code(rank, n),
                    Some(Code::Protocol),
                    "round {round}, rank {rank}, {n}: {agreed:?}"
                );
            }
        }
    }
    assert!(heard > 0);
}

/// A board is left when what was started there has ended, and not before; it is over when all have left.
#[test]
fn a_board_is_left_when_nothing_is_left_to_do() {
    let mut ranks = Rungs::new(2, 9);
    ranks.post(0, Kind::Allreduce);
    for (_, nbc) in &mut ranks.ranks {
        assert!(!nbc.is_board_over(0, |_| true), "it is open");
    }
    ranks.ranks[0].1.close_board(0);
    assert!(!ranks.ranks[0].1.is_board_over(0, |_| true), "something waits there");
    ranks.post(1, Kind::Allreduce);
    ranks.ranks[1].1.close_board(0);
    assert!(!ranks.ranks[1].1.is_board_over(0, |_| false), "the other has not left");
    ranks.settle();
    assert_eq!([0, 1].map(|rank| ranks.code(rank, 0)), [Some(Code::Ok); 2]);
    for (_, nbc) in &mut ranks.ranks {
        assert!(nbc.is_board_over(0, |_| false));
        assert!(!nbc.is_board_over(0, |_| false), "it is given back once");
    }
    // Their numbers are free.
    let areas: Vec<Box<Area>> = (0..2).map(|_| Box::new(Area::new())).collect();
    for ((_, nbc), me) in ranks.ranks.iter_mut().zip(0..) {
        let board = areas.iter().map(|area| NonNull::from(&**area)).collect();
        // SAFETY: the areas are kept.
        let board = unsafe { Board::new(board, me, 2) }.unwrap();
        assert_eq!(nbc.open_board(board, &common::driver::group(2, me)).unwrap(), 0);
    }
    drop(ranks);
}
