//! Large messages by pages that are given up half-way: no buffer that is somebody else's again is received from, and pipes go with their world.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Mutex, PoisonError};

use tocsin::{Config, Error, World};
use tocsin_tests::random::Random;

const LEN: usize = 700_001;

/// Descriptors are the process's: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

fn config(backend: &str) -> Config {
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", backend).unwrap();
    config.set("TOCSIN_LMT", "vmsplice").unwrap();
    config
}

/// Both ranks send and receive, and one of them revokes the communicator at some moment; the buffers are written as soon as they may be.
#[test]
fn what_is_revoked_is_received_whole_or_not_at_all() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for backend in ["signal", "thread", "poll"] {
        let ends = World::threads_with(2, &config(backend), |comm| {
            let (me, other) = (comm.rank(), 1 - comm.rank());
            let mut random = Random::new(7 + u64::from(me));
            let (mut data, mut got) = (vec![0u8; LEN + 8], vec![0u8; LEN]);
            let (mut whole, mut revoked) = (0, 0);
            for round in 0..200u32 {
                let dup = comm.dup()?;
                let text = |rank: u32| (round % 100) as u8 * 2 + rank as u8;
                let at = (round % 8) as usize;
                data.fill(text(me));
                let mine = data.as_mut_ptr();
                // SAFETY: inside the vector, which lives on and is not moved.
                let sent = unsafe { std::slice::from_raw_parts(mine.add(at), LEN) };
                let received = dup.scope(|scope| {
                    let recv = scope.irecv(&mut got, other, 0)?;
                    let send = scope.isend(sent, other, 0);
                    for _ in 0..random.below(30_000) {
                        std::hint::spin_loop();
                    }
                    if round % 4 == me {
                        dup.revoke();
                    }
                    let _end = send.and_then(|send| send.wait());
                    // SAFETY: as above; the send is over.
                    unsafe { mine.write_bytes(0xff, LEN + 8) };
                    recv.wait().map(drop)
                });
                match received {
                    Ok(()) => {
                        whole += 1;
                        assert!(got.iter().all(|byte| *byte == text(other)), "round {round}");
                    }
                    Err(_) => revoked += 1,
                }
                // What comes next is not what was left.
                data.fill(text(me) ^ 0x55);
                comm.scope(|scope| {
                    let recv = scope.irecv(&mut got, other, 1)?;
                    scope.isend(&data[..LEN], other, 1)?.wait()?;
                    recv.wait().map(drop)
                })?;
                assert!(got.iter().all(|byte| *byte == text(other) ^ 0x55), "after round {round}");
            }
            Ok::<_, Error>((whole, revoked))
        });
        for end in ends.unwrap() {
            let (whole, revoked) = end.unwrap();
            assert!(whole > 0 && revoked > 0, "{backend}: {whole} {revoked}");
        }
    }
}

/// Each pair of ranks has two pipes, of which nothing is left.
#[test]
fn descriptors_go_with_their_world() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let run = || {
        let ends = World::threads_with(3, &config("poll"), |comm| {
            let (next, before) = ((comm.rank() + 1) % 3, (comm.rank() + 2) % 3);
            for _ in 0..3 {
                let recv = comm.irecv(vec![0u8; LEN], before, 0)?;
                comm.isend(vec![1u8; LEN], next, 0)?.wait()?;
                assert!(recv.wait()? == [1; LEN]);
            }
            Ok::<_, Error>(open())
        });
        ends.unwrap().into_iter().map(Result::unwrap).max().unwrap()
    };
    run();
    let before = open();
    let most = (0..20).map(|_| run()).max().unwrap();
    assert_eq!(open(), before);
    assert!(most > before, "there were none");
}
