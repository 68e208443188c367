//! Collectives whose blocks stand anywhere: where, and how they are begun.

use super::Random;
use super::driver::{Lower, Rank, group};
use tocsin_nbc::table::{self, Arguments, Block, Origin};
use tocsin_nbc::{Group, Nbc};
use tocsin_progress::completion::Outcome;
use tocsin_progress::slots::Id;

/// Of the board of the [`Machine`](super::driver::Machine).
pub const CONTEXT: u32 = 1 << 31 | 1;

/// Blocks of these lengths, one after the other or between each other, in pieces or not, the last of which may be shorter.
pub fn places(lengths: &[usize], random: &mut Random) -> Vec<Block> {
    let piece = *random.pick(&[1, 3, 8, 64, 100]);
    if random.chance(30) {
        // The columns of a matrix.
        let row = piece * lengths.len();
        let column = |(at, length): (usize, &usize)| {
            shortened(Block::strided(at * piece, length.div_ceil(piece), piece, row), *length)
        };
        return lengths.iter().enumerate().map(column).collect();
    }
    let mut next = 0;
    let one = |length: &usize| {
        let gap = random.below(20);
        let block = match random.chance(50) {
            true => Block::new(next + gap, *length),
            false => {
                shortened(Block::strided(next + gap, length.div_ceil(piece), piece, piece + gap), *length)
            }
        };
        next = block.end().unwrap();
        block
    };
    lengths.iter().map(one).collect()
}

fn shortened(mut block: Block, bytes: usize) -> Block {
    block.bytes = bytes;
    block
}

pub fn put(memory: &mut [u8], block: &Block, bytes: &[u8]) {
    let mut done = 0;
    for (at, run) in block.runs() {
        memory[at..at + run].copy_from_slice(&bytes[done..done + run]);
        done += run;
    }
}

pub fn outcome(nbc: &Nbc, id: Id) -> Option<Outcome> {
    // SAFETY: valid as long as the Nbc.
    unsafe { nbc.completion(id)?.as_ref() }.outcome()
}

/// Starts it on a rank: one that is prepared, here or before, or one that is posted, by a schedule that was kept if there is one.
pub fn begin<L: Lower>(
    rank: &mut Rank<L>,
    place: (usize, usize),
    arguments: &Arguments,
    persistent: bool,
    again: Option<Id>,
    sequence: u32,
) -> Id {
    begin_in(rank, &with_board(place), arguments, persistent, again, sequence)
}

/// So many ranks, of which this is one, with a board.
pub fn with_board((ranks, rank): (usize, usize)) -> Group {
    group(ranks as u32, rank as u32).with_board(0)
}

/// The same, with long parts, or what fits into no slot goes beside the board.
pub fn with_parts(place: (usize, usize), long: bool) -> Group {
    let group = with_board(place).with_shared_cores(long);
    if long { group } else { group.without_long_parts() }
}

/// [`begin`], of this group.
pub fn begin_in<L: Lower>(
    Rank { lower, nbc }: &mut Rank<L>,
    group: &Group,
    arguments: &Arguments,
    persistent: bool,
    again: Option<Id>,
    sequence: u32,
) -> Id {
    let compiled = || table::compile(group, arguments, Some("shm")).unwrap();
    // SAFETY: the buffers live longer than the machine's last step.
    let id = unsafe {
        if persistent {
            let id = again.unwrap_or_else(|| nbc.prepare(lower, compiled(), CONTEXT).unwrap());
            nbc.start(lower, id, sequence).unwrap();
            id
        } else {
            let origin = Origin::new(group, arguments, Some("shm")).unwrap();
            let kept = nbc.post_again(lower, &origin, CONTEXT, sequence).unwrap();
            kept.unwrap_or_else(|| nbc.post(lower, compiled(), CONTEXT, sequence).unwrap())
        }
    };
    nbc.announce(lower);
    id
}
