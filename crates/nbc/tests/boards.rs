//! Members of a board that disagree, lie or leave.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::driver::{Machine, Rank};
use common::members::{Kind, Rungs, Way, outcome, post, post_as};
use common::network::{End, network};
use std::ptr::NonNull;
use tocsin_nbc::table::{self, Arguments, Block};
use tocsin_nbc::{DataType, Op, Posted};
use tocsin_progress::budget::Budget;
use tocsin_progress::completion::{Code, Outcome};
use tocsin_transport::board::{Area, Board};

/// Two ranks, of whom the first alone is driven; and the board as the second sees it.
fn with_other() -> (Machine<End>, Board) {
    let machine = Machine::new(network(2, 5), 6);
    let areas = machine.areas.iter().map(|area| NonNull::from(&**area)).collect();
    // SAFETY: the machine, which the tests keep, has the areas; its own board of this rank is not used.
    let other = unsafe { Board::new(areas, 1, 1) }.unwrap();
    (machine, other)
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

#[test]
fn ranks_that_disagree_about_lengths_hear_of_it() {
    // As many bytes in all, for others, long or not; and equal ones, of which none are taken for any others.
    for lengths in [
        [[64, 40], [40, 64]],
        [[4096, 100_000], [100_000, 4096]],
        [[368, 368], [3438, 3438]],
        [[3074, 3074], [3096, 3096]],
        [[3074, 3074], [3074, 3075]],
        [[1 << 20, 1 << 20], [0, 1 << 20]],
    ] {
        let mut machine = Machine::new(network(2, 5), 6);
        let mut buffers = lengths.map(|lengths: [usize; 2]| vec![0u8; lengths[0] + lengths[1]]);
        let mut posted = Vec::new();
        for (rank, lengths) in lengths.iter().enumerate() {
            let blocks = [Block::new(0, lengths[0]), Block::new(lengths[0], lengths[1])];
            let recv = buffers[rank].as_mut_ptr();
            let arguments = Arguments::Iallgatherv { send: None, recv, blocks: &blocks };
            let group = common::driver::group(2, rank as u32).with_board(0);
            let schedule = table::compile(&group, &arguments, Some("shm")).unwrap();
            let Rank { lower, nbc } = &mut machine.ranks[rank];
            // SAFETY: the buffers live longer than the machine's last step.
            posted.push(unsafe { nbc.post(lower, schedule, 1 << 31, 0) }.unwrap());
        }
        for Rank { lower, nbc } in &mut machine.ranks {
            nbc.progress(lower, &mut Budget::user());
        }
        for (rank, id) in posted.into_iter().enumerate() {
            let nbc = &machine.ranks[rank].nbc;
            assert_eq!(outcome(nbc, Posted::Waits(id)).unwrap().code, Code::Protocol, "{lengths:?}");
        }
        drop(buffers);
    }
}

/// Of the same vector each rank takes other parts.
#[test]
fn ranks_that_disagree_about_parts_hear_of_it() {
    let one_short = [[2040, 0].as_slice(), &[0; 15]].concat();
    for counts in [
        vec![vec![4096, 100_000], vec![100_000, 4096]],
        vec![vec![64, 40], vec![40, 64]],
        // Short by one and long by the others.
        [vec![one_short], vec![vec![120; 17]; 16]].concat(),
    ] {
        let ranks = counts.len();
        let mut machine = Machine::new(network(ranks as u32, 5), 6);
        let whole: usize = counts[0].iter().sum();
        let (send, mut recv) = (vec![1u8; whole], vec![vec![0u8; whole]; ranks]);
        let mut posted = Vec::new();
        for (rank, counts) in counts.iter().enumerate() {
            let (data_type, op) = (DataType::U8, Op::Sum);
            let (send, recv) = (Some(send.as_ptr()), recv[rank].as_mut_ptr());
            let arguments = Arguments::IreduceScatter { send, recv, counts, data_type, op };
            let group = common::driver::group(ranks as u32, rank as u32).with_board(0);
            let schedule = table::compile(&group, &arguments, Some("shm")).unwrap();
            let Rank { lower, nbc } = &mut machine.ranks[rank];
            // SAFETY: the buffers live longer than the machine's last step.
            posted.push(unsafe { nbc.post(lower, schedule, 1 << 31, 0) }.unwrap());
        }
        for _ in 0..2 {
            for Rank { lower, nbc } in &mut machine.ranks {
                nbc.progress(lower, &mut Budget::user());
            }
        }
        for (rank, id) in posted.into_iter().enumerate() {
            let nbc = &machine.ranks[rank].nbc;
            assert_eq!(outcome(nbc, Posted::Waits(id)).unwrap().code, Code::Protocol, "{counts:?}");
        }
    }
}

/// What is counted is bytes, not what short pieces are charged.
#[test]
fn pieces_are_counted_by_their_bytes() {
    let mut machine = Machine::new(network(2, 5), 6);
    let mut buffers = [vec![1u8; 2000], vec![2u8; 2000]];
    let blocks = [0, 1].map(|rank| Block::strided(rank, 1000, 1, 2));
    for (rank, buffer) in buffers.iter_mut().enumerate() {
        let arguments = Arguments::Iallgatherv { send: None, recv: buffer.as_mut_ptr(), blocks: &blocks };
        let group = common::driver::group(2, rank as u32).with_board(0);
        let schedule = table::compile(&group, &arguments, Some("shm")).unwrap();
        let Rank { lower, nbc } = &mut machine.ranks[rank];
        // SAFETY: the buffers live longer than the machine's last step.
        unsafe { nbc.post(lower, schedule, 1 << 31, 0) }.unwrap();
    }
    for (Rank { lower, nbc }, buffer) in machine.ranks.iter_mut().zip(&buffers) {
        nbc.progress(lower, &mut Budget::user());
        assert_eq!((nbc.outstanding(), nbc.copied().user), (0, 1000));
        assert!(buffer.iter().copied().eq([1, 2].into_iter().cycle().take(2000)));
    }
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
        let mut kind = || Kind::any(&mut random, size);
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
                let kind = Kind::any(&mut random, size);
                (kind, [Way::Board, Way::Board, Way::Messages][random.below(3)])
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
