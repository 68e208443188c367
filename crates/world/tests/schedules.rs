//! Whatever schedules the progress threads, all that ranks have posted completes while they are outside the library.
#![allow(missing_docs, clippy::unwrap_used)] // a test

use std::sync::mpsc;
use std::time::Duration;
use tocsin_world::{
    Arguments, BackendKind, Bind, Comm, Config, ConstBuf, DataType, Mode, MutBuf, Op, ProgressPlacement,
    RawRequest, Schedule,
};

const RANKS: u32 = 6;
/// More than travels in one packet.
const LONG: usize = 200_000;
const ELEMENTS: usize = 1000;

/// Leaves the request to whoever makes progress, and has `done` told of its end.
fn leave(mut request: RawRequest, done: &mpsc::Sender<bool>) {
    let done = done.clone();
    request.on_complete(Box::new(move |result| done.send(result.is_ok()).unwrap()));
}

/// A ring of long messages, a reduction and a chain, while the rank waits for a channel.
fn round(comm: &Comm, round: u64) {
    let (rank, ranks) = (comm.rank(), comm.size());
    let (right, left) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let stamp = |rank: u32| (u64::from(rank) * 7 + round) as u8;
    let (sent, mut got) = (vec![stamp(rank); LONG], vec![0u8; LONG]);
    let mine = vec![f64::from(rank) + round as f64; ELEMENTS];
    let (mut sum, mut prefix) = (vec![0.0f64; ELEMENTS], vec![0.0f64; ELEMENTS]);
    let (done, ends) = mpsc::channel();
    // SAFETY: the buffers are of these sizes, and are neither touched nor dropped before the last end has been heard of; a panic
    // before that would drop them, so there is none: what goes wrong ends the process.
    unsafe {
        let posts = (|| {
            let data_type = DataType::F64;
            let from = mine.as_ptr().cast::<u8>();
            let scan = Arguments::Iscan {
                send: Some(from),
                recv: prefix.as_mut_ptr().cast(),
                count: ELEMENTS,
                data_type,
                op: Op::Sum,
            };
            leave(comm.irecv_raw(MutBuf::contiguous(got.as_mut_ptr(), LONG), Some(left), Some(1))?, &done);
            leave(
                comm.isend_raw(ConstBuf::contiguous(sent.as_ptr(), LONG), right, 1, Mode::Standard)?,
                &done,
            );
            let to = sum.as_mut_ptr().cast();
            leave(comm.iallreduce_raw(Some(from), to, ELEMENTS, data_type, Op::Sum, None)?, &done);
            leave(comm.start_raw(&scan, Some("pipelined-chain"))?, &done);
            Ok::<(), tocsin_world::Error>(())
        })();
        let ended = posts.is_ok() && (0..4).all(|_| ends.recv_timeout(Duration::from_secs(60)) == Ok(true));
        if !ended {
            eprintln!("rank {rank}, round {round}: {posts:?}");
            std::process::abort();
        }
    }
    assert!(got.iter().all(|byte| *byte == stamp(left)));
    let total = |last: u32| (0..=last).map(|rank| f64::from(rank) + round as f64).sum::<f64>();
    assert!(sum.iter().all(|x| *x == total(ranks - 1)) && prefix.iter().all(|x| *x == total(rank)));
}

#[test]
fn everything_completes_under_every_schedule() {
    for schedule in [
        Schedule::Event,
        Schedule::RoundRobin,
        Schedule::Suspend,
        Schedule::Semaphore,
        Schedule::Priority(0),
        Schedule::Priority(20),
    ] {
        // All on one core, with the ranks; and on none.
        for (bind, progress) in
            [(Bind::Scatter, ProgressPlacement::Bind), (Bind::None, ProgressPlacement::None)]
        {
            let mut config = Config::default();
            if bind != Bind::None {
                config.reserve = config.machine().unwrap().cores.len() as u32 - 1;
            }
            config.backend = Some(BackendKind::Thread);
            (config.bind, config.progress, config.schedule) = (bind, progress, schedule);
            let turns = tocsin_world::threads(RANKS, &config, |comm| {
                (0..5).for_each(|number| round(&comm, number));
                comm.stats().turns
            });
            let turns: u64 = turns.unwrap().iter().sum();
            let alone = bind == Bind::None && schedule == Schedule::Event;
            assert_eq!(turns > 0, !alone, "{schedule}, {bind}: {turns} turns");
        }
    }
}
