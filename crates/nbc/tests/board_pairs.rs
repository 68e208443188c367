//! Collectives on a board of whose blocks each two ranks know the lengths, short and long, posted anew, again and as persistent ones, in lines, by handlers
//! with their budgets; and ranks that disagree about a length.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::Random;
use common::blocks::{begin_in, outcome, places, put, with_parts};
use common::driver::{Machine, Rank};
use common::network::network;
use tocsin_nbc::table::{Arguments, Block};
use tocsin_progress::budget::{Budget, Context, HANDLER_BYTES, Pass};
use tocsin_progress::completion::Code;
use tocsin_transport::board::Part;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Scatter(usize),
    Gather(usize),
    All,
    InPlace,
}

/// What each rank has for each other one.
struct Pairs {
    way: Way,
    /// By sender, by receiver.
    sent: Vec<Vec<Vec<u8>>>,
    from: Vec<Vec<Block>>,
    to: Vec<Vec<Block>>,
    send: Vec<Vec<u8>>,
    recv: Vec<Vec<u8>>,
}

impl Pairs {
    /// `long`: blocks may be as long as parts in long memory.
    fn any(ranks: usize, long: bool, random: &mut Random) -> Pairs {
        let root = random.below(ranks);
        let way = *random.pick(&[Way::Scatter(root), Way::Gather(root), Way::All, Way::All, Way::InPlace]);
        // On both sides of what goes on a board of so many.
        let most = *random.pick(match long {
            true => &[8, 300, 2100, 9000, 50_000, 140_000],
            false => &[8, 40, 300, 1100, 2100, 9000],
        });
        let travels = |from: usize, to: usize| match way {
            Way::Scatter(root) => from == root,
            Way::Gather(root) => to == root,
            Way::All | Way::InPlace => true,
        };
        let mut length = |from: usize, to: usize| match random.below(5) {
            _ if !travels(from, to) => 0,
            0 => 0,
            1 => most,
            _ => random.below(most + 1),
        };
        let mut lengths: Vec<Vec<usize>> = Vec::new();
        for from in 0..ranks {
            // In place as much as is sent takes its place.
            let back = |to: usize| lengths.get(to).filter(|_| way == Way::InPlace).map(|of| of[from]);
            lengths.push((0..ranks).map(|to| back(to).unwrap_or_else(|| length(from, to))).collect());
        }
        // One run where the form has but one block.
        let mut of = |lengths: Vec<usize>, one: bool| match one {
            true => lengths.iter().map(|length| Block::new(0, *length)).collect(),
            false => places(&lengths, random),
        };
        let (gathers, scatters) = (matches!(way, Way::Gather(_)), matches!(way, Way::Scatter(_)));
        let to: Vec<Vec<Block>> =
            (0..ranks).map(|to| of((0..ranks).map(|from| lengths[from][to]).collect(), scatters)).collect();
        let from: Vec<Vec<Block>> = match way {
            Way::InPlace => to.clone(),
            _ => lengths.iter().map(|lengths| of(lengths.clone(), gathers)).collect(),
        };
        let buffer =
            |blocks: &Vec<Block>| vec![0; blocks.iter().filter_map(Block::end).max().unwrap_or(0) + 8];
        Pairs {
            way,
            sent: lengths.iter().map(|of| of.iter().map(|length| vec![0; *length]).collect()).collect(),
            send: from.iter().map(buffer).collect(),
            recv: to.iter().map(buffer).collect(),
            from,
            to,
        }
    }

    fn fill(&mut self, random: &mut Random) {
        for rank in 0..self.sent.len() {
            self.recv[rank].fill(0xee);
            for to in 0..self.sent.len() {
                let salt = random.below(256) as u8;
                for (at, byte) in self.sent[rank][to].iter_mut().enumerate() {
                    *byte = (at as u8).wrapping_mul(31) ^ salt;
                }
                let place = if self.way == Way::InPlace { &mut self.recv } else { &mut self.send };
                put(&mut place[rank], &self.from[rank][to], &self.sent[rank][to]);
            }
        }
    }

    fn arguments<'a>(&mut self, rank: usize, (from, to): (&'a [Block], &'a [Block])) -> Arguments<'a> {
        let (send, recv) = (self.send[rank].as_ptr(), self.recv[rank].as_mut_ptr());
        match self.way {
            Way::Scatter(root) => {
                let (recv, bytes, root) = (Some(recv), to[root].bytes, root as u32);
                Arguments::Iscatterv { send, blocks: from, recv, bytes, root }
            }
            Way::Gather(root) => {
                let (send, bytes, root) = (Some(send), from[root].bytes, root as u32);
                Arguments::Igatherv { send, bytes, recv, blocks: to, root }
            }
            Way::All => Arguments::Ialltoallv { send: Some((send, from)), recv, blocks: to },
            Way::InPlace => Arguments::Ialltoallw { send: None, recv, blocks: to },
        }
    }

    /// What a rank has to have, between the blocks, too.
    fn right(&self, rank: usize) -> Vec<u8> {
        let mut right = vec![0xee; self.recv[rank].len()];
        for (from, block) in self.to[rank].iter().enumerate() {
            put(&mut right, block, &self.sent[from][rank]);
        }
        right
    }
}

#[test]
fn blocks_of_any_length_come_to_where_they_belong() {
    for seed in 0..400 {
        let mut random = Random(0x9a1e5 + seed);
        let ranks = *random.pick(&[2, 2, 3, 4, 7]);
        let mut machine = Machine::new(network(ranks as u32, random.word()), random.word());
        machine.only_handlers = random.chance(40).then_some(0);
        let long = random.chance(40);
        let count = 1 + random.below(9);
        let mut all: Vec<Pairs> = (0..count).map(|_| Pairs::any(ranks, long, &mut random)).collect();
        let persistent = random.chance(40);
        let mut ids = vec![vec![None; ranks]; count];
        for round in 0..3 {
            all.iter_mut().for_each(|pairs| pairs.fill(&mut random));
            let mut posted = vec![0; ranks];
            let mut idle = 0;
            loop {
                let rank = random.below(ranks);
                while posted[rank] < count && random.chance(60) {
                    let number = posted[rank];
                    // Gone after the call.
                    let (from, to) = (all[number].from[rank].clone(), all[number].to[rank].clone());
                    let arguments = all[number].arguments(rank, (&from, &to));
                    let again = ids[number][rank].filter(|_| persistent);
                    let sequence = (round * count + number) as u32;
                    let group = with_parts((ranks, rank), long);
                    let here = &mut machine.ranks[rank];
                    let id = begin_in(here, &group, &arguments, persistent, again, sequence);
                    ids[number][rank] = Some(id);
                    posted[rank] += 1;
                }
                let worked = machine.step(rank);
                idle = if worked == Pass::Idle { idle + 1 } else { 0 };
                assert!(idle < 50_000, "{seed}: nobody goes on");
                let ended = |number: usize, rank: usize| {
                    posted[rank] > number
                        && ids[number][rank].is_some_and(|id| outcome(&machine.ranks[rank].nbc, id).is_some())
                };
                if (0..count).all(|number| (0..ranks).all(|rank| ended(number, rank))) {
                    break;
                }
            }
            for (number, pairs) in all.iter().enumerate() {
                for (rank, id) in ids[number].iter().enumerate() {
                    let (id, Rank { lower, nbc }) = (id.unwrap(), &mut machine.ranks[rank]);
                    assert_eq!(outcome(nbc, id).unwrap().code, Code::Ok, "{seed}");
                    assert!(persistent || nbc.release(lower, id));
                    assert!(pairs.recv[rank] == pairs.right(rank), "{seed}: {:?} {rank}", pairs.way);
                }
            }
        }
        for (rank, id) in ids.iter().flat_map(|ids| ids.iter().copied().enumerate()).filter(|_| persistent) {
            let Rank { lower, nbc } = &mut machine.ranks[rank];
            assert!(nbc.release(lower, id.unwrap()));
        }
        machine.check_long();
        machine.forget();
    }
}

/// Of two short ones, of a short one and one that goes by a message, and of two such: who expects another length hears of it, and whoever then waits for one that has given up.
#[test]
fn ranks_that_disagree_about_a_length_hear_of_it() {
    const MOST: usize = 3 << 20;
    let lengths =
        [(8, 16), (16, 8), (0, 8), (8, 0), (8, 5000), (5000, 8), (0, 5000), (5000, 6000), (6000, 5000)];
    // By messages; and what is long on the board, too, and what is too long for that.
    let shared =
        [(8, 60_000), (60_000, 8), (60_000, 0), (60_000, 70_000), (60_000, MOST), (MOST, 60_000), (0, MOST)];
    let cases = lengths
        .iter()
        .map(|case| (case, false))
        .chain(lengths.iter().chain(&shared).map(|case| (case, true)));
    for ((sent, expected), long) in cases.map(|(case, shares)| (*case, shares)) {
        for receiver_first in [false, true] {
            let mut machine = Machine::new(network(2, 5), 6);
            let mut buffers = [vec![0u8; 2 * MOST], vec![0u8; 2 * MOST]];
            let mut ids = [None; 2];
            let order = if receiver_first { [1, 0] } else { [0, 1] };
            for rank in order {
                let other = 1 - rank;
                let lengths = |own: usize| {
                    let mut blocks = [Block::new(0, 0); 2];
                    blocks[other] = Block::new(0, own);
                    blocks
                };
                // Back comes something long, so that the sender waits, too.
                let (from, to) = match rank {
                    0 => (lengths(sent), lengths(7000)),
                    _ => (lengths(7000), lengths(expected)),
                };
                let (send, recv) = buffers[rank].split_at_mut(MOST);
                let arguments = Arguments::Ialltoallv {
                    send: Some((send.as_ptr(), &from)),
                    recv: recv.as_mut_ptr(),
                    blocks: &to,
                };
                let (group, here) = (with_parts((2, rank), long), &mut machine.ranks[rank]);
                ids[rank] = Some(begin_in(here, &group, &arguments, false, None, 0));
            }
            for _ in 0..200 {
                for rank in 0..2 {
                    machine.step(rank);
                    let Rank { lower, nbc } = &mut machine.ranks[rank];
                    nbc.progress(lower, &mut Budget::user());
                    nbc.announce(lower);
                }
            }
            let ends =
                [0, 1].map(|rank| outcome(&machine.ranks[rank].nbc, ids[rank].unwrap()).map(|end| end.code));
            assert_eq!(ends[1], Some(Code::Protocol), "{sent} {expected} {receiver_first}: {ends:?}");
            assert!(ends[0].is_some(), "{sent} {expected} {receiver_first}: {ends:?}");
            drop(buffers);
        }
    }
}

/// Who takes a block for a long one sends or awaits a message, of which who takes it for a short one knows nothing: both end, and so do all whose blocks were right.
#[test]
fn who_alone_takes_a_block_for_a_long_one_hears_of_it() {
    // All others.
    const BEHIND: usize = 300_000;
    let lengths = [(9000, 8), (8, 9000), (9000, 0), (0, 9000)];
    for seed in 0..300 {
        let mut random = Random(0xa10e + seed);
        let ranks = *random.pick(&[2, 3, 4]);
        let (sent, expected) = *random.pick(&lengths);
        let (from, to) = (random.below(ranks), random.below(ranks));
        if from == to {
            continue;
        }
        let mut pairs = Pairs::any(ranks, false, &mut random);
        let travels = match pairs.way {
            Way::Scatter(root) => from == root,
            Way::Gather(root) => to == root,
            Way::All => true,
            Way::InPlace => false,
        };
        if !travels {
            continue;
        }
        // Who expects long ones of others, and of this one nothing, waits for no word of it.
        let is_short = |(member, block): (usize, &Block)| member != from && (1..=600).contains(&block.bytes);
        if expected == 0 && ranks > 2 && !pairs.to[to].iter().enumerate().any(is_short) {
            continue;
        }
        pairs.from[from][to] = Block::new(BEHIND, sent);
        pairs.to[to][from] = Block::new(BEHIND, expected);
        (pairs.send[from], pairs.recv[to]) = (vec![0; BEHIND + 9000], vec![0; BEHIND + 9000]);
        let mut machine = Machine::new(network(ranks as u32, random.word()), random.word());
        let persistent = random.chance(50);
        let mut ids = vec![None; ranks];
        let mut order: Vec<usize> = (0..ranks).collect();
        order.rotate_left(random.below(ranks));
        for rank in order {
            let (from, to) = (pairs.from[rank].clone(), pairs.to[rank].clone());
            let arguments = pairs.arguments(rank, (&from, &to));
            ids[rank] = Some(begin_in(
                &mut machine.ranks[rank],
                &with_parts((ranks, rank), false),
                &arguments,
                persistent,
                None,
                0,
            ));
            for _ in 0..random.below(8) {
                machine.step(random.below(ranks));
            }
        }
        for _ in 0..3000 {
            machine.step(random.below(ranks));
        }
        let code = |rank: usize| outcome(&machine.ranks[rank].nbc, ids[rank].unwrap()).map(|end| end.code);
        let ends: Vec<_> = (0..ranks).map(code).collect();
        let told = format!("{seed}: {sent} {expected} {from} {to} of {ranks}: {ends:?}");
        assert!(ends.iter().all(Option::is_some), "{told}");
        assert_eq!(ends[to], Some(Code::Protocol), "{told}");
        assert!(sent < expected || ends[from] == Some(Code::Protocol), "{told}");
    }
}

/// Nobody stops a handler in the middle of a block but its budget: pieces that lie far from each other take many entries.
#[test]
fn a_handler_takes_out_as_many_pieces_as_it_may() {
    for (length, entries) in [(1, 2), (8, 1), (100, 1)] {
        let mut machine = Machine::new(network(2, 5), 6);
        let (whole, stride) = (1990, 160);
        let spread = |bytes: usize| {
            let mut block = Block::strided(0, bytes.div_ceil(length), length, stride);
            block.bytes = bytes;
            block
        };
        let nothing = [Block::default(); 2];
        let (sent, received) = ([Block::new(0, whole), nothing[1]], [nothing[0], spread(whole)]);
        let bytes: Vec<u8> = (0..whole).map(|at| (at % 251) as u8).collect();
        let mut to = vec![0xee; received[1].end().unwrap()];
        let mut begin_on = |rank: usize| {
            let (from, to, blocks, others) = match rank {
                0 => (to.as_ptr(), to.as_mut_ptr(), &received, &nothing),
                _ => (bytes.as_ptr(), std::ptr::null_mut(), &nothing, &sent),
            };
            let arguments = Arguments::Ialltoallv { send: Some((from, others)), recv: to, blocks };
            begin_in(&mut machine.ranks[rank], &with_parts((2, rank), false), &arguments, false, None, 0)
        };
        let ids = [begin_on(0), begin_on(1)];
        let Rank { lower, nbc } = &mut machine.ranks[0];
        for entry in 1..=entries {
            let mut budget = Budget::limited(Context::Handler, 32, HANDLER_BYTES);
            let before = nbc.copied().handler;
            let pass = nbc.progress(lower, &mut budget);
            let pieces = (nbc.copied().handler - before).div_ceil(length as u64);
            assert!(pieces <= HANDLER_BYTES as u64 / 64, "{length}: {pieces}");
            assert_eq!(pass == Pass::More, entry < entries, "{length}: {entry}");
        }
        assert_eq!(outcome(nbc, ids[0]).unwrap().code, Code::Ok);
        let mut right = vec![0xee; to.len()];
        put(&mut right, &received[1], &bytes);
        assert!(to == right, "{length}");
    }
}

/// What a member says of its compartments may be anything: it is as expected, or an error.
#[test]
fn a_member_that_lies_about_its_compartments_is_an_error() {
    let honest = [(8, 8), (16, 8), (2032, 8)];
    let lies = [
        (0, 8),
        (7, 8),
        (8, 0),
        (8, 9),
        (8, u64::MAX),
        (2033, 8),
        (2040, 8),
        (1 << 40, 8),
        (u64::MAX, 8),
        (u64::MAX - 15, 8),
    ];
    for (at, (room, length)) in honest.into_iter().chain(lies).enumerate() {
        let mut machine = Machine::new(network(2, 5), 6);
        let mut other = machine.board_of(1);
        let (blocks, mut recv) = ([Block::new(0, 0), Block::new(3, 8)], vec![0xeeu8; 64]);
        let arguments = Arguments::Ialltoallv {
            send: Some((recv.as_ptr(), &[Block::default(); 2])),
            recv: recv.as_mut_ptr(),
            blocks: &blocks,
        };
        let id = begin_in(&mut machine.ranks[0], &with_parts((2, 0), false), &arguments, false, None, 0);
        let Part::Here { about } = other.part(0, 1) else { panic!("nothing is posted") };
        let said = [room, length, 0x0102_0304_0506_0708];
        // SAFETY: as many bytes.
        unsafe { other.post(about, said.as_ptr().cast(), 24) };
        let Rank { lower, nbc } = &mut machine.ranks[0];
        nbc.progress(lower, &mut Budget::handler());
        let right = if at < honest.len() { Code::Ok } else { Code::Protocol };
        assert_eq!(outcome(nbc, id).unwrap().code, right, "{room} {length}");
        let block = if right == Code::Ok { 0x0102_0304_0506_0708u64.to_ne_bytes() } else { [0xee; 8] };
        assert!(recv[3..11] == block && recv[11..].iter().all(|byte| *byte == 0xee), "{room} {length}");
    }
}

/// The same of long ones.
#[test]
fn a_member_that_lies_about_its_long_part_is_an_error() {
    const BLOCK: u64 = 60_000;
    let limit = (2u64 << 20) - 16;
    // In the slot and in the place, and what is said of the block there; nothing where there is no long part.
    let cases = [
        (BLOCK, Some(BLOCK), Code::Ok),
        (BLOCK, Some(BLOCK - 1), Code::Protocol),
        (BLOCK, Some(u64::MAX), Code::Protocol),
        (BLOCK - 8, Some(BLOCK), Code::Protocol),
        (limit, Some(BLOCK), Code::Ok),
        (limit + 8, Some(BLOCK), Code::Protocol),
        (u64::MAX, Some(BLOCK), Code::Protocol),
        (2032, Some(BLOCK), Code::Protocol),
        (BLOCK, None, Code::Protocol),
    ];
    for (room, said, right) in cases {
        let mut machine = Machine::new(network(2, 5), 6);
        let mut other = machine.board_of(1);
        let (blocks, mut recv) = ([Block::default(), Block::new(3, BLOCK as usize)], vec![0xeeu8; 60_010]);
        let arguments = Arguments::Ialltoallv {
            send: Some((recv.as_ptr(), &[Block::default(); 2])),
            recv: recv.as_mut_ptr(),
            blocks: &blocks,
        };
        let group = with_parts((2, 0), true);
        let id = begin_in(&mut machine.ranks[0], &group, &arguments, false, None, 0);
        let Part::Here { about } = other.part(0, 1) else { panic!("nothing is posted") };
        let mut part = vec![7u8; 16 + BLOCK as usize];
        part[..8].copy_from_slice(&room.to_ne_bytes());
        match said {
            Some(said) => {
                part[8..16].copy_from_slice(&said.to_ne_bytes());
                other.next_place(part.len());
                // SAFETY: as many bytes.
                unsafe { other.fill((0, part.len()), part.as_ptr(), part.len()) };
                other.post_long_and(about, &room.to_ne_bytes());
            }
            // SAFETY: as many bytes.
            None => unsafe {
                other.post(about, part.as_ptr(), 24);
            },
        }
        for _ in 0..3 {
            let Rank { lower, nbc } = &mut machine.ranks[0];
            nbc.progress(lower, &mut Budget::handler());
        }
        let Rank { nbc, .. } = &machine.ranks[0];
        assert_eq!(outcome(nbc, id).unwrap().code, right, "{room} {said:?}");
        let block = if right == Code::Ok { 7 } else { 0xee };
        let (inside, beside) = (&recv[3..3 + BLOCK as usize], &recv[3 + BLOCK as usize..]);
        assert!(
            inside.iter().all(|byte| *byte == block) && beside.iter().all(|byte| *byte == 0xee),
            "{room}"
        );
    }
}
