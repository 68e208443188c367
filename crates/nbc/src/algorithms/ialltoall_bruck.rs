//! All-to-all in a logarithmic number of messages (Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for
//! all-to-all communications in multiport message-passing systems", 1997).
//!
//! Blocks are numbered by the distance they have to go. In round k every block whose distance has bit k set travels 2^k
//! ranks upward, all of them in one message; then each block is where it belongs, and only has to be put in order.

use crate::Error;
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

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
        // Runs of neighbours with the bit set.
        let runs: Vec<(usize, usize)> =
            (bit..size).step_by(2 * bit).map(|start| (start, bit.min(size - start))).collect();
        let bytes = block * runs.iter().map(|(_, length)| length).sum::<usize>();
        let (packed, arrived) = (b.temp(bytes), b.temp(bytes));
        let mut copies = Vec::new();
        let mut offset = 0;
        for &(start, length) in &runs {
            let bytes = block * length;
            copies.push(b.copy(blocks.at(block * start), packed.at(offset), bytes, &[ready]));
            offset += bytes;
        }
        let full = b.join(&copies);
        b.send(((rank + bit) % size) as u32, round, packed, bytes, &[full]);
        let arrival = b.recv(((rank + size - bit) % size) as u32, round, arrived, bytes, &[]);
        let mut copies = vec![full];
        let mut offset = 0;
        for &(start, length) in &runs {
            let bytes = block * length;
            copies.push(b.copy(arrived.at(offset), blocks.at(block * start), bytes, &[full, arrival]));
            offset += bytes;
        }
        ready = b.join(&copies);
        bit *= 2;
        round += 1;
    }
    for distance in 0..size {
        let source = (rank + size - distance) % size;
        b.copy(blocks.at(block * distance), to.at(block * source), block, &[ready]);
    }
    Ok(())
}
