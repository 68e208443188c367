//! What stands where it goes is not copied, and not counted as copied, in whichever collective.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::driver::{Machine, Rank, group};
use common::network::network;
use tocsin_nbc::Posted;
use tocsin_nbc::table::{self, Arguments, Block};
use tocsin_progress::budget::Budget;

const BYTES: usize = 1000;

fn copied_in_place(equal_blocks: bool) -> Vec<u64> {
    let mut machine = Machine::new(network(2, 5), 6);
    let mut buffers = [vec![1u8; 2 * BYTES], vec![2u8; 2 * BYTES]];
    let blocks = [0, 1].map(|rank| Block::new(rank * BYTES, BYTES));
    for (rank, buffer) in buffers.iter_mut().enumerate() {
        let recv = buffer.as_mut_ptr();
        let arguments = match equal_blocks {
            true => Arguments::Iallgather { send: None, recv, block: BYTES },
            false => Arguments::Iallgatherv { send: None, recv, blocks: &blocks },
        };
        let schedule = table::compile(&group(2, rank as u32).with_board(0), &arguments, Some("shm")).unwrap();
        let Rank { lower, nbc } = &mut machine.ranks[rank];
        // SAFETY: the buffers live longer than the machine's last step.
        let id = unsafe { nbc.post(lower, schedule, 1 << 31, 1) }.unwrap();
        let _waits = Posted::Waits(id);
    }
    let mut copied = Vec::new();
    for (Rank { lower, nbc }, buffer) in machine.ranks.iter_mut().zip(&buffers) {
        nbc.progress(lower, &mut Budget::user());
        assert_eq!(nbc.outstanding(), 0);
        assert_eq!((buffer[..BYTES].to_vec(), buffer[BYTES..].to_vec()), (vec![1; BYTES], vec![2; BYTES]));
        copied.push(nbc.copied().user);
    }
    copied
}

#[test]
fn of_blocks_in_a_list() {
    assert_eq!(copied_in_place(false), [BYTES as u64; 2]);
}

#[test]
fn of_equal_blocks() {
    assert_eq!(copied_in_place(true), [BYTES as u64; 2]);
}
