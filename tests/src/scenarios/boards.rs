//! Communicators that come and go: each has a board, however many there were.

use tocsin_nbc::{DataType, Op};
use tocsin_world::{Comm, Error, RawRequest};

use crate::random::Random;
use crate::run::Arguments;

/// How many a rank keeps at most when it has no more use for them.
const KEPT: u64 = 2;

/// `seed`, `rounds`: in each a communicator of some of the ranks, out of the world's or out of one that was made before. Each
/// rank keeps some of them for as long as it likes, so that others are done with memory that it still has.
pub fn boards_come_back(comm: &Comm, arguments: &Arguments) {
    let (seed, me) = (arguments.number("seed"), comm.rank());
    let failed = |error: Error| -> ! { panic!("rank {me}: {error}") };
    // The same on all ranks, and one that is not.
    let mut plan = Random::new(seed);
    let mut own = Random::new(seed ^ u64::from(me) << 32 ^ 0x7777);
    let mut kept: Vec<Comm> = Vec::new();
    let mut given_up: Vec<(RawRequest, Box<[u64; 4]>)> = Vec::new();
    let mut with_board = 0;
    for round in 0..arguments.number("rounds") {
        let (form, colors) = (plan.below(4), plan.bits());
        let made = match form {
            0 => comm.dup().map(Some),
            // Two at a time, of any of the ranks.
            1 => comm.split(Some((colors >> me & 1) as u32), -(me as i32)),
            2 => comm.split((colors >> me & 1 == 1).then_some(5), 0),
            // One of those that another one was made of.
            _ => comm.split(Some((colors >> me & 1) as u32), 0).and_then(|half| match half {
                Some(half) => half.dup().map(Some),
                None => Ok(None),
            }),
        };
        let Some(new) = made.unwrap_or_else(|e| failed(e)) else { continue };
        if new.size() > 1 {
            let what = format!("rank {me}, round {round}: {new:?}, after {with_board}");
            use_it(&new, round, &what, &mut own, &mut given_up);
            with_board += 1;
        }
        kept.push(new);
        while kept.len() as u64 > own.below(KEPT + 1) {
            kept.swap_remove(own.below(kept.len() as u64) as usize);
        }
        given_up.retain(|(request, _)| !request.is_over());
    }
    let mut barrier = comm.ibarrier_raw(None).unwrap_or_else(|e| failed(e));
    barrier.wait().map(drop).unwrap_or_else(|e| failed(e));
}

/// What is done on a new communicator: all of it on its board, or the calls are refused.
fn use_it(
    new: &Comm,
    round: u64,
    what: &str,
    own: &mut Random,
    given_up: &mut Vec<(RawRequest, Box<[u64; 4]>)>,
) {
    let (here, size) = (u64::from(new.rank()), u64::from(new.size()));
    let root = (round % size) as u32;
    let mut sum = [round, here, 1, 0];
    // SAFETY: the array lives until the request is complete.
    let summed =
        unsafe { new.iallreduce_raw(None, sum.as_mut_ptr().cast(), 4, DataType::U64, Op::Sum, Some("shm")) };
    summed.and_then(|mut sum| sum.wait()).map(drop).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(sum, [round * size, size * (size - 1) / 2, size, 0], "{what}");
    // The root is done with these before any other one has seen them, and may drop the communicator.
    for n in 0..3 {
        let mine = if here == u64::from(root) { [round, n, 3, 4] } else { [0; 4] };
        let mut cast = Box::new(mine);
        // SAFETY: the memory lives until the request is over: kept in `given_up` if not.
        let request = unsafe { new.ibcast_raw(cast.as_mut_ptr().cast(), 32, root, Some("shm")) };
        let mut request = request.unwrap_or_else(|e| panic!("{what}: {e}"));
        match if n == 2 { own.below(4) } else { 4 } {
            0 => {
                given_up.push((request, cast));
                continue;
            }
            1 => {
                // It goes on, and nobody sees to the memory any more.
                Box::leak(cast);
                continue;
            }
            _ => {}
        }
        request.wait().map(drop).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(*cast, [round, n, 3, 4], "{what}");
    }
}
