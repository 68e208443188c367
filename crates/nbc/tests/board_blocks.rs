//! Allgathers on a board whose blocks stand anywhere: posted anew, again and as persistent ones, in lines, by handlers with their budgets.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::Random;
use common::blocks::{begin, outcome, places, put};
use common::driver::{Machine, Rank};
use common::network::network;
use tocsin_nbc::table::{Arguments, Block};
use tocsin_progress::completion::Code;

/// An allgather, as each rank has it.
struct Gather {
    lengths: Vec<usize>,
    blocks: Vec<Vec<Block>>,
    in_place: Vec<bool>,
    own: Vec<Vec<u8>>,
    received: Vec<Vec<u8>>,
}

impl Gather {
    fn any(ranks: usize, random: &mut Random) -> Gather {
        let longest = *random.pick(&[0, 8, 700, 2048, 2049, 9000, 120_000]);
        let equal = random.chance(40);
        let lengths: Vec<usize> =
            (0..ranks).map(|_| if equal { longest } else { random.below(longest + 1) }).collect();
        let blocks: Vec<Vec<Block>> = (0..ranks).map(|_| places(&lengths, random)).collect();
        let end = |blocks: &Vec<Block>| blocks.iter().filter_map(Block::end).max().unwrap_or(0);
        Gather {
            own: lengths.iter().map(|length| vec![0; *length]).collect(),
            received: blocks.iter().map(|blocks| vec![0; end(blocks) + 8]).collect(),
            in_place: (0..ranks).map(|_| random.chance(50)).collect(),
            lengths,
            blocks,
        }
    }

    /// Gives each rank something to send, and forgets what has come.
    fn fill(&mut self, random: &mut Random) {
        for rank in 0..self.lengths.len() {
            let salt = random.below(256) as u8;
            for (at, byte) in self.own[rank].iter_mut().enumerate() {
                *byte = (at as u8).wrapping_mul(31) ^ salt;
            }
            self.received[rank].fill(0xee);
            if self.in_place[rank] {
                put(&mut self.received[rank], &self.blocks[rank][rank], &self.own[rank]);
            }
        }
    }

    fn arguments<'a>(&mut self, rank: usize, blocks: &'a [Block]) -> Arguments<'a> {
        let send = (!self.in_place[rank]).then_some(self.own[rank].as_ptr());
        Arguments::Iallgatherv { send, recv: self.received[rank].as_mut_ptr(), blocks }
    }

    /// What a rank has to have, between the blocks, too.
    fn right(&self, rank: usize) -> Vec<u8> {
        let mut right = vec![0xee; self.received[rank].len()];
        for (block, own) in self.blocks[rank].iter().zip(&self.own) {
            put(&mut right, block, own);
        }
        right
    }
}

#[test]
fn blocks_come_to_where_they_belong() {
    for seed in 0..120 {
        let mut random = Random(0xb10c + seed);
        let ranks = *random.pick(&[2, 2, 3, 5]);
        let mut machine = Machine::new(network(ranks as u32, random.word()), random.word());
        machine.only_handlers = random.chance(40).then_some(0);
        let count = 1 + random.below(9);
        let mut gathers: Vec<Gather> = (0..count).map(|_| Gather::any(ranks, &mut random)).collect();
        let persistent = random.chance(40);
        let mut ids = vec![vec![None; ranks]; count];
        for round in 0..3 {
            gathers.iter_mut().for_each(|gather| gather.fill(&mut random));
            let mut posted = vec![0; ranks];
            let mut idle = 0;
            loop {
                let rank = random.below(ranks);
                while posted[rank] < count && random.chance(60) {
                    let number = posted[rank];
                    // Gone after the call.
                    let blocks = gathers[number].blocks[rank].clone();
                    let arguments = gathers[number].arguments(rank, &blocks);
                    let sequence = (round * count + number) as u32;
                    let again = ids[number][rank].filter(|_| persistent);
                    ids[number][rank] = Some(begin(
                        &mut machine.ranks[rank],
                        (ranks, rank),
                        &arguments,
                        persistent,
                        again,
                        sequence,
                    ));
                    posted[rank] += 1;
                }
                let worked = machine.step(rank);
                idle = if worked == tocsin_progress::budget::Pass::Idle { idle + 1 } else { 0 };
                assert!(idle < 50_000, "{seed}: nobody goes on");
                let ended = |number: usize, rank: usize| {
                    posted[rank] > number
                        && ids[number][rank].is_some_and(|id| outcome(&machine.ranks[rank].nbc, id).is_some())
                };
                if (0..count).all(|number| (0..ranks).all(|rank| ended(number, rank))) {
                    break;
                }
            }
            for (number, gather) in gathers.iter().enumerate() {
                for (rank, id) in ids[number].iter().enumerate() {
                    let (id, Rank { lower, nbc }) = (id.unwrap(), &mut machine.ranks[rank]);
                    assert_eq!(outcome(nbc, id).unwrap().code, Code::Ok, "{seed}");
                    assert!(persistent || nbc.release(lower, id));
                    assert!(gather.received[rank] == gather.right(rank), "{seed}: {:?}", gather.blocks[rank]);
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
