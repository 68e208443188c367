//! Who is rung for what stands on a board, and what is copied out before all of it does.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::driver::{Machine, Rank};
use common::members::{Kind, Rung, Rungs, Way, outcome, post};
use common::network::{End, network};
use tocsin_nbc::Posted;
use tocsin_nbc::table::{self, Arguments};
use tocsin_progress::budget::Budget;
use tocsin_progress::completion::Code;

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

/// Where ranks share cores, who waits asks whether what it lacks comes from this one.
#[test]
fn what_is_lacked_is_known() {
    let mut ranks = Rungs::new(4, 8);
    let lacks = |ranks: &Rungs, at: usize, of: &[u32]| {
        let Posted::Waits(id) = ranks.posted[1][at].0 else { return false };
        ranks.ranks[1].1.lacks_any(id, |rank| of.contains(&rank))
    };
    for kind in [Kind::Barrier, Kind::Bcast(2)] {
        ranks.post_and_compute(1, kind, Way::Board);
    }
    assert!([0, 2, 3].iter().all(|of| lacks(&ranks, 0, &[*of])) && !lacks(&ranks, 0, &[1]));
    assert_eq!([0, 1, 2, 3].map(|of| lacks(&ranks, 1, &[of])), [false, false, true, false], "the root's");
    ranks.post_and_compute(0, Kind::Barrier, Way::Board);
    ranks.post_and_compute(2, Kind::Barrier, Way::Board);
    assert_eq!([0, 2, 3].map(|of| lacks(&ranks, 0, &[of])), [false, false, true]);
    assert!(lacks(&ranks, 0, &[0, 2, 3]));
    ranks.post_and_compute(3, Kind::Barrier, Way::Board);
    assert!(!lacks(&ranks, 0, &[0, 1, 2, 3]));
    ranks.wait(1);
    assert_eq!((ranks.code(1, 0), ranks.code(1, 1)), (Some(Code::Ok), None));
    assert!(!lacks(&ranks, 0, &[0, 1, 2, 3]) && lacks(&ranks, 1, &[2]));
    [0, 2, 3].iter().for_each(|rank| ranks.post_and_compute(*rank, Kind::Bcast(2), Way::Board));
    ranks.wait(1);
    assert!(ranks.code(1, 1) == Some(Code::Ok) && !lacks(&ranks, 1, &[2]));
    // Those before it; and all, or nobody.
    for (at, kind, of) in [
        (2, Kind::Scan, [true, false, false, false]),
        (3, Kind::Reduce(1), [true, false, true, true]),
        (4, Kind::Gather(0), [false; 4]),
    ] {
        ranks.post_and_compute(1, kind, Way::Board);
        assert_eq!([0, 1, 2, 3].map(|rank| lacks(&ranks, at, &[rank])), of, "{kind:?}");
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

/// Of a prefix reduction each needs the parts of those before it: the last of these rings it, whoever else has yet to come, and who comes after it does not.
#[test]
fn who_waits_for_those_before_it_is_rung_by_the_last_of_them() {
    for kind in [Kind::Scan, Kind::Exscan] {
        for order in permutations(4) {
            let mut ranks = Rungs::new(4, 8);
            for (at, rank) in order.iter().enumerate() {
                ranks.post(*rank, kind);
                let here = &order[..=at];
                let all_before = |rank: usize| (0..rank).all(|before| here.contains(&before));
                let (mut rung, mut due): (Vec<u32>, Vec<u32>) = (ranks.ranks[*rank].0.1.clone(), Vec::new());
                due.extend(here.iter().filter(|of| **of > *rank && all_before(**of)).map(|of| *of as u32));
                rung.sort_unstable();
                due.sort_unstable();
                assert_eq!(rung, due, "{kind:?} in the order {order:?}, after {rank}");
                ranks.settle();
                for of in 0..4 {
                    let over = here.contains(&of) && all_before(of);
                    assert_eq!(here.contains(&of) && ranks.code(of, 0) == Some(Code::Ok), over, "{of}");
                }
            }
            let results: Vec<u64> = (0..4).map(|rank| ranks.posted[rank][0].1[0]).collect();
            assert_eq!(results, if kind == Kind::Scan { [1, 2, 3, 4] } else { [1, 1, 2, 3] });
        }
    }
}

/// The root of a scatter rings those who wait for it, and who gives to a gather the root, if it is the last.
#[test]
fn roots_ring_and_are_rung() {
    let mut ranks = Rungs::new(3, 9);
    ranks.post(2, Kind::Scatter(1));
    ranks.post(0, Kind::Scatter(1));
    assert_eq!(ranks.rung(), None);
    ranks.post(1, Kind::Scatter(1));
    let mut rung = std::mem::take(&mut ranks.ranks[1].0.1);
    rung.sort_unstable();
    assert_eq!(rung, [0, 2]);
    ranks.post(1, Kind::Gather(1));
    ranks.post(2, Kind::Gather(1));
    assert_eq!(ranks.ranks[2].0.1, [], "one is missing");
    ranks.post(0, Kind::Gather(1));
    assert_eq!(ranks.ranks[0].0.1, [1]);
    ranks.settle();
    for rank in 0..3 {
        let (lower, nbc) = &mut ranks.ranks[rank];
        nbc.progress(lower, &mut Budget::handler());
        assert_eq!([0, 1].map(|at| ranks.code(rank, at)), [Some(Code::Ok); 2], "{rank}");
    }
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(n - 1);
    shorter.iter().flat_map(|of| (0..n).map(|at| [&of[..at], &[n - 1], &of[at..]].concat())).collect()
}
