//! Messages beside a board: what is right goes on, and whoever waits for what fails hears of it, in whichever order parts and messages come.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::blocks::{CONTEXT, begin_in, outcome, with_parts};
use common::driver::{Machine, Rank, group};
use common::network::{End, network};
use tocsin_nbc::table::{self, Arguments, Block};
use tocsin_progress::budget::Budget;
use tocsin_progress::completion::Code;
use tocsin_progress::slots::Id;

/// Goes by a message.
const LONG: usize = 5000;
const ROOM: usize = 4 * LONG;

/// Ranks that begin collectives, each for itself, and their memory.
struct Ranks {
    machine: Machine<End>,
    memory: Vec<Vec<u8>>,
    begun: Vec<Vec<Id>>,
}

impl Ranks {
    fn new(ranks: usize) -> Ranks {
        Ranks::seeded(ranks, 1)
    }

    fn seeded(ranks: usize, seed: u64) -> Ranks {
        let machine = Machine::new(network(ranks as u32, seed), 2);
        Ranks { machine, memory: vec![vec![0; 2 * ROOM]; ranks], begun: vec![Vec::new(); ranks] }
    }

    fn begin(&mut self, rank: usize, arguments: &Arguments) {
        let (sequence, place) = (self.begun[rank].len() as u32, (self.begun.len(), rank));
        let group = with_parts(place, false);
        let id = begin_in(&mut self.machine.ranks[rank], &group, arguments, false, None, sequence);
        self.begun[rank].push(id);
    }

    fn barrier(&mut self, rank: usize) {
        self.begin(rank, &Arguments::Ibarrier);
    }

    fn bcast(&mut self, rank: usize, root: u32) {
        let buffer = self.memory[rank].as_mut_ptr();
        self.begin(rank, &Arguments::Ibcast { buffer, bytes: 8, root });
    }

    /// So many bytes to each, and from each.
    fn exchange(&mut self, rank: usize, sent: &[usize], received: &[usize]) {
        let blocks = |lengths: &[usize]| {
            let mut next = 0;
            let block = |length: &usize| {
                next += length;
                Block::new(next - length, *length)
            };
            lengths.iter().map(block).collect::<Vec<_>>()
        };
        let (sent, received) = (blocks(sent), blocks(received));
        let (from, to) = self.memory[rank].split_at_mut(ROOM);
        let (from, to) = (from.as_ptr(), to.as_mut_ptr());
        self.begin(rank, &Arguments::Ialltoallv { send: Some((from, &sent)), recv: to, blocks: &received });
    }

    /// A root's, with so much for the other one.
    fn scatterv(&mut self, root: usize, bytes: usize) {
        let mut blocks = [Block::default(); 2];
        blocks[1 - root] = Block::new(0, bytes);
        let (from, to) = self.memory[root].split_at_mut(ROOM);
        let (send, recv) = (from.as_ptr(), Some(to.as_mut_ptr()));
        self.begin(root, &Arguments::Iscatterv { send, blocks: &blocks, recv, bytes: 0, root: root as u32 });
    }

    /// So much for the other one, which is the root.
    fn gatherv(&mut self, rank: usize, bytes: usize) {
        let (from, to) = self.memory[rank].split_at_mut(ROOM);
        let (send, recv, root) = (Some(from.as_ptr()), to.as_mut_ptr(), 1 - rank as u32);
        self.begin(rank, &Arguments::Igatherv { send, bytes, recv, blocks: &[], root });
    }

    /// The root's, by messages, which is over at once.
    fn gatherv_of_nothing(&mut self, root: usize) {
        let recv = self.memory[root].as_mut_ptr();
        let (send, blocks) = (Some(recv.cast_const()), &[Block::default(); 2]);
        let nothing = Arguments::Igatherv { send, bytes: 0, recv, blocks, root: root as u32 };
        let group = group(self.begun.len() as u32, root as u32).with_board(0);
        let schedule = table::compile(&group, &nothing, Some("linear")).unwrap();
        let sequence = self.begun[root].len() as u32;
        let Rank { lower, nbc } = &mut self.machine.ranks[root];
        // SAFETY: nothing is read or written.
        let id = unsafe { nbc.post(lower, schedule, CONTEXT, sequence) }.unwrap();
        nbc.announce(lower);
        self.begun[root].push(id);
    }

    fn pass(&mut self, rank: usize) {
        let Rank { lower, nbc } = &mut self.machine.ranks[rank];
        nbc.progress(lower, &mut Budget::handler());
        nbc.announce(lower);
    }

    /// Passes for all, in which no message comes.
    fn passes(&mut self) {
        for _ in 0..3 {
            (0..self.begun.len()).for_each(|rank| self.pass(rank));
        }
    }

    /// Messages come to a rank.
    fn pump(&mut self, rank: usize) {
        for _ in 0..200 {
            self.machine.ranks[rank].lower.pump();
        }
    }

    fn codes(&self, rank: usize) -> Vec<Option<Code>> {
        let nbc = &self.machine.ranks[rank].nbc;
        self.begun[rank].iter().map(|id| outcome(nbc, *id).map(|outcome| outcome.code)).collect()
    }
}

#[test]
fn an_older_one_goes_on_where_a_later_one_is_wrong() {
    // So many later that slots come round, and about that.
    for between in 0..9 {
        let mut ranks = Ranks::new(2);
        (0..2).for_each(|rank| ranks.exchange(rank, &[LONG; 2], &[LONG; 2]));
        for _ in 0..between {
            (0..2).for_each(|rank| ranks.barrier(rank));
        }
        (0..2).for_each(|_| ranks.barrier(0));
        ranks.bcast(1, 1);
        ranks.passes();
        for (rank, later) in [(0, 2), (1, 1)] {
            let right = [&[None][..], &vec![Some(Code::Ok); between], &vec![Some(Code::Protocol); later]];
            assert_eq!(ranks.codes(rank), right.concat(), "{between}: {rank}");
        }
        (0..2).for_each(|rank| ranks.pump(rank));
        ranks.passes();
        assert_eq!([0, 1].map(|rank| ranks.codes(rank)[0]), [Some(Code::Ok); 2], "{between}");
    }
}

#[test]
fn what_stands_behind_the_end_of_a_message_is_looked_at() {
    let mut ranks = Ranks::new(3);
    // The third has yet to come: nobody else's part of it is for this rank.
    ranks.exchange(1, &[LONG, 0, 0], &[0; 3]);
    ranks.exchange(0, &[0; 3], &[0, LONG, 0]);
    (0..2).for_each(|rank| ranks.bcast(rank, 1));
    ranks.passes();
    assert_eq!(ranks.codes(0), [None; 2]);
    ranks.pump(0);
    ranks.pass(0);
    assert_eq!(ranks.codes(0), [Some(Code::Ok); 2]);
}

#[test]
fn who_has_given_up_gives_up_what_fails_later() {
    let mut ranks = Ranks::new(3);
    // The first expects another length of the second.
    for (rank, longer) in [(0, 0), (1, 8), (2, 0)] {
        ranks.exchange(rank, &[LONG + longer, LONG, LONG], &[LONG; 3]);
    }
    ranks.passes();
    [0, 2].iter().for_each(|rank| ranks.barrier(*rank));
    ranks.bcast(1, 1);
    ranks.passes();
    for rank in 0..3 {
        let later = ranks.codes(rank)[1];
        assert!(later.is_some() && ranks.codes(rank)[0].is_none(), "{rank}: {:?}", ranks.codes(rank));
    }
    ranks.pump(0);
    ranks.passes();
    assert_eq!([0, 1, 2].map(|rank| ranks.codes(rank)[0]), [Some(Code::Protocol); 3]);
}

#[test]
fn what_fails_before_it_is_posted_leaves_nobody_waiting() {
    for code in [Code::TooManyUnexpected, Code::PeerFinalized, Code::Protocol] {
        let mut ranks = Ranks::new(3);
        for rank in 0..2 {
            // As many as there is room for without the third.
            (0..4).for_each(|_| ranks.barrier(rank));
            let (to, from) = if rank == 0 { (0, LONG) } else { (LONG, 0) };
            ranks.exchange(rank, &[to, 0, 0], &[0, from, 0]);
            ranks.barrier(rank);
        }
        ranks.machine.ranks[0].lower.break_messages(code);
        ranks.pass(0);
        assert_eq!(ranks.codes(0)[4], Some(code));
        (0..4).for_each(|_| ranks.barrier(2));
        ranks.exchange(2, &[0; 3], &[0; 3]);
        ranks.barrier(2);
        ranks.passes();
        for rank in 0..3 {
            let codes = ranks.codes(rank);
            assert_eq!(codes[..4], [Some(Code::Ok); 4], "{code:?}: {rank}");
            assert!(codes[4].is_some() && codes[5].is_some(), "{code:?}: {rank}: {codes:?}");
        }
    }
}

/// What has failed, and into whose memory somebody still copies, has left its line.
#[test]
fn what_closes_holds_up_nobody() {
    let mut closing = 0;
    for seed in 1..40 {
        let mut ranks = Ranks::seeded(3, seed);
        ranks.machine.ranks[0].lower.linger();
        // The third has yet to come, and the second sends too much.
        ranks.exchange(1, &[LONG + 8, 0, 0], &[0; 3]);
        ranks.exchange(0, &[0; 3], &[0, LONG, LONG]);
        (0..2).for_each(|rank| ranks.bcast(rank, 1));
        ranks.pass(0);
        assert_eq!(ranks.codes(0), [None; 2]);
        while !ranks.machine.ranks[0].lower.has_completed() {
            ranks.machine.ranks[0].lower.pump();
        }
        ranks.pass(0);
        let is_closing = ranks.machine.ranks[0].lower.closing() > 0;
        let first = if is_closing { None } else { Some(Code::Protocol) };
        assert_eq!(ranks.codes(0), [first, Some(Code::Ok)], "{seed}");
        ranks.pump(0);
        ranks.pass(0);
        assert_eq!(ranks.codes(0), [Some(Code::Protocol), Some(Code::Ok)], "{seed}");
        closing += u32::from(is_closing);
    }
    assert!(closing > 5, "{closing}");
}

/// Whoever has a message hears of it though its own part was over before anybody saw it, and though the other has none, or is done.
#[test]
fn a_message_for_one_that_does_something_else_is_given_up() {
    for way in 0..4 {
        for first in [0, 1] {
            let mut ranks = Ranks::new(2);
            for rank in [first, 1 - first] {
                match (rank, way) {
                    (0, 0 | 1) => ranks.scatterv(0, LONG),
                    (0, _) => ranks.gatherv(0, LONG),
                    (_, 0) => ranks.barrier(1),
                    (_, 1) => ranks.bcast(1, 0),
                    (_, 2) => ranks.bcast(1, 1),
                    _ => ranks.gatherv_of_nothing(1),
                }
            }
            ranks.passes();
            (0..2).for_each(|rank| ranks.bcast(rank, 0));
            ranks.passes();
            let codes = [0, 1].map(|rank| ranks.codes(rank));
            assert!(codes.iter().flatten().all(Option::is_some), "{way} {first}: {codes:?}");
            assert_eq!(codes[0][0], Some(Code::Protocol), "{way} {first}");
        }
    }
}
