//! All-to-all in a logarithmic number of messages (Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for
//! all-to-all communications in multiport message-passing systems", 1997).
//!
//! Blocks are numbered by the distance they have to go. In round k every block whose distance has bit k set travels 2^k
//! ranks upward, all of them in one message; then each block is where it belongs, and only has to be put in order.

use crate::Error;
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Block, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ialltoall,
    name: "bruck",
    source: "Bruck, Ho, Kipnis, Upfal, Weathersby 1997",
    cost: "ceil(log2 p) (a + p/2 n b)",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Ialltoall { send, recv, block } = *arguments else { return Err(misplaced()) };
    if block == 0 {
        return Ok(());
    }
    let (rank, size) = (b.rank() as usize, b.size() as usize);
    let (from, to) = (Mem::read_only(send.unwrap_or(recv)), Mem::User(recv));

    // blocks[d] = what has to go d ranks upward.
    let blocks = b.temp(block * size);
    let upper = size - rank;
    let mut rotated = vec![b.copy(from.at(block * rank), blocks, block * upper, &[])];
    if rank > 0 {
        rotated.push(b.copy(from, blocks.at(block * upper), block * rank, &[]));
    }
    let mut ready = b.join(&rotated);

    let mut bit = 1;
    let mut round = 0;
    while bit < size {
        // Runs of neighbours with the bit set; the last may be shorter.
        let runs = (size - bit).div_ceil(2 * bit);
        let shorter = (2 * bit * runs).saturating_sub(size).min(bit);
        let mut with_bit = Block::strided(block * bit, runs, block * bit, 2 * block * bit);
        with_bit.bytes -= block * shorter;
        let bytes = with_bit.bytes;
        let (packed, arrived) = (b.temp(bytes), b.temp(bytes));
        let full = b.pack(blocks, &with_bit, packed, &[ready]);
        b.send(((rank + bit) % size) as u32, round, packed, bytes, &[full]);
        let arrival = b.recv(((rank + size - bit) % size) as u32, round, arrived, bytes, &[]);
        ready = b.unpack(arrived, blocks, &with_bit, &[full, arrival]);
        bit *= 2;
        round += 1;
    }
    // Who is farther below has a smaller rank, up to rank 0, and then again from the last rank on.
    b.reverse(blocks, to, block, rank + 1, &[ready]);
    if rank + 1 < size {
        let others = block * (rank + 1);
        b.reverse(blocks.at(others), to.at(others), block, size - rank - 1, &[ready]);
    }
    Ok(())
}
