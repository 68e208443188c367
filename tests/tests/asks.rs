//! Programs that do nothing else than to ask whether something is complete, on cores that ranks share: each way of asking makes progress, and says what is complete. (That they give their cores away is tested in `progress`.)
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::thread::available_parallelism;

use tocsin_tests as _; // Links the tripwire allocator.
use tocsin_tests::run::BACKENDS;
use tocsin_world::{Comm, Config, ConstBuf, Mode, MutBuf, RawRequest, test_all, test_any, threads};

const LAPS: u64 = 20;

/// One way to ask until both requests are complete.
type Ask = fn(&Comm, &mut [RawRequest; 2]);

const WAYS: [(&str, Ask); 6] = [
    ("test", |_, [a, b]| {
        let (mut first, mut second) = (None, None);
        while first.is_none() || second.is_none() {
            first = first.or_else(|| a.test());
            second = second.or_else(|| b.test());
        }
        first.unwrap().unwrap();
        second.unwrap().unwrap();
    }),
    ("test_all", |_, [a, b]| {
        while !test_all(&[a, b]) {}
        a.wait().unwrap();
        b.wait().unwrap();
    }),
    ("test_any", |_, both| {
        let mut left: Vec<&mut RawRequest> = both.iter_mut().collect();
        while !left.is_empty() {
            if let Some(at) = test_any(&left) {
                left.swap_remove(at).wait().unwrap();
            }
        }
    }),
    ("progress and is_done", |comm, [a, b]| {
        while !a.is_done() || !b.is_done() {
            comm.progress();
        }
        a.wait().unwrap();
        b.wait().unwrap();
    }),
    ("is_done of both, complete or not", |comm, both| {
        while !both.iter().all(RawRequest::is_done) {
            comm.progress();
            for request in both.iter() {
                request.is_done();
            }
        }
        for request in both {
            request.wait().unwrap();
        }
    }),
    ("wait_timeout", |_, [a, b]| {
        while a.wait_timeout(std::time::Duration::ZERO).is_none() {}
        while b.wait_timeout(std::time::Duration::ZERO).is_none() {}
    }),
];

#[test]
fn messages_go_round_where_ranks_only_ask() {
    let ranks = u32::try_from(available_parallelism().unwrap().get()).unwrap() + 2;
    for backend in BACKENDS {
        for (name, ask) in WAYS {
            let mut config = Config::default();
            config.backend = Some(backend);
            threads(ranks, &config, |comm| {
                let (before, after) = ((comm.rank() + ranks - 1) % ranks, (comm.rank() + 1) % ranks);
                for lap in 0..LAPS {
                    let (mine, mut theirs) = (lap << 32 | u64::from(comm.rank()), u64::MAX);
                    let receive = MutBuf::contiguous((&raw mut theirs).cast(), 8);
                    let send = ConstBuf::contiguous((&raw const mine).cast(), 8);
                    // SAFETY: both words live until both requests are complete.
                    let mut both = unsafe {
                        let received = comm.irecv_raw(receive, Some(before), Some(1)).unwrap();
                        [received, comm.isend_raw(send, after, 1, Mode::Standard).unwrap()]
                    };
                    ask(&comm, &mut both);
                    assert_eq!(theirs, lap << 32 | u64::from(before), "{name}");
                }
            })
            .unwrap();
        }
    }
}

#[test]
fn who_only_probes_finds_what_comes() {
    let ranks = u32::try_from(available_parallelism().unwrap().get()).unwrap() + 2;
    for backend in BACKENDS {
        let mut config = Config::default();
        config.backend = Some(backend);
        threads(ranks, &config, |comm| {
            let (before, after) = ((comm.rank() + ranks - 1) % ranks, (comm.rank() + 1) % ranks);
            for lap in 0..LAPS {
                let send = ConstBuf::contiguous((&raw const lap).cast(), 8);
                // SAFETY: the word lives as long as the call.
                unsafe { comm.send_raw(send, after, 1, Mode::Standard) }.unwrap();
                let found = loop {
                    if let Some(found) = comm.iprobe(None, Some(1)).unwrap() {
                        break found;
                    }
                };
                assert_eq!((found.source, found.bytes), (before, 8));
                let mut got = u64::MAX;
                let receive = MutBuf::contiguous((&raw mut got).cast(), 8);
                let message = loop {
                    if let Some((message, _)) = comm.improbe(Some(before), None).unwrap() {
                        break message;
                    }
                };
                // SAFETY: as above, until the request is complete.
                unsafe { comm.mrecv_raw(message, receive) }.unwrap().wait().unwrap();
                assert_eq!(got, lap);
            }
        })
        .unwrap();
    }
}
