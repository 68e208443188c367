//! Blocking short messages between ranks, most of which nothing is in the way of, and all that may be: what was posted or has come before, longer messages,
//! buffers with too little room, other threads of the rank, cancelled receives, the rank itself, and ranks that leave.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Barrier;

use tocsin_tests as _; // Links the tripwire allocator.
use tocsin_tests::run::BACKENDS;
use tocsin_world::{Comm, Config, ConstBuf, Error, Mode, MutBuf, RawRequest, Status};

fn each_backend(ranks: u32, body: impl Fn(Comm) + Sync) {
    for backend in BACKENDS {
        let mut config = Config::default();
        config.backend = Some(backend);
        tocsin_world::threads(ranks, &config, &body).unwrap();
    }
}

fn send(comm: &Comm, to: u32, tag: i32, data: &[u8]) {
    let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
    // SAFETY: the data outlive the call.
    let status = unsafe { comm.send_raw(buf, to, tag, Mode::Standard) }.unwrap();
    assert_eq!(status, Status { source: comm.rank(), tag, bytes: data.len() });
}

fn try_recv(comm: &Comm, from: Option<u32>, tag: Option<i32>, data: &mut [u8]) -> Result<Status, Error> {
    // SAFETY: the data outlive the call.
    unsafe { comm.recv_raw(MutBuf::contiguous(data.as_mut_ptr(), data.len()), from, tag) }
}

/// Receives exactly that.
fn expect(comm: &Comm, from: Option<u32>, tag: Option<i32>, source: u32, sent: (i32, &[u8])) {
    let mut data = [0xee; 64];
    let status = try_recv(comm, from, tag, &mut data).unwrap();
    assert_eq!(status, Status { source, tag: sent.0, bytes: sent.1.len() });
    assert_eq!(&data[..sent.1.len()], sent.1);
    assert!(data[sent.1.len()..].iter().all(|byte| *byte == 0xee));
}

fn post(comm: &Comm, from: Option<u32>, tag: Option<i32>, data: &mut [u8]) -> RawRequest {
    // SAFETY: each caller waits for the request, or cancels it, before the data go.
    unsafe { comm.irecv_raw(MutBuf::contiguous(data.as_mut_ptr(), data.len()), from, tag) }.unwrap()
}

/// There and back, of all short lengths and some longer ones, by name and by any.
#[test]
fn there_and_back() {
    each_backend(2, |comm| {
        let (me, other) = (comm.rank(), 1 - comm.rank());
        for round in 0..600usize {
            let data: Vec<u8> = (0..round % 23).map(|i| (round + i) as u8).collect();
            let tag = round as i32;
            if me == 0 {
                send(&comm, other, tag, &data);
            }
            let from = (round % 7 != 0).then_some(other);
            let wanted = (round % 5 != 0).then_some(tag);
            expect(&comm, from, wanted, other, (tag, &data));
            if me == 1 {
                send(&comm, other, tag, &data);
            }
        }
    });
}

/// Order, by what was posted before and by what has come before.
#[test]
fn nothing_is_overtaken() {
    each_backend(2, |comm| {
        if comm.rank() == 0 {
            for round in 0..200u8 {
                send(&comm, 1, 1, &[round]);
                send(&comm, 1, 2, &[round, 0]);
                send(&comm, 1, 1, &[round, 1]);
                expect(&comm, Some(1), Some(9), 1, (9, &[round]));
            }
            return;
        }
        for round in 0..200u8 {
            let mut before = [0xee; 2];
            match round % 4 {
                // Of whatever source and tag: the first is for it.
                0 => {
                    let mut posted = post(&comm, None, None, &mut before);
                    expect(&comm, Some(0), Some(1), 0, (1, &[round, 1]));
                    assert_eq!(posted.wait().unwrap(), Status { source: 0, tag: 1, bytes: 1 });
                    expect(&comm, Some(0), Some(2), 0, (2, &[round, 0]));
                }
                // The first is taken in on the way to the second.
                1 => {
                    expect(&comm, Some(0), Some(2), 0, (2, &[round, 0]));
                    expect(&comm, Some(0), Some(1), 0, (1, &[round]));
                    expect(&comm, Some(0), None, 0, (1, &[round, 1]));
                }
                // One that was posted before, and is wanted no more.
                2 => {
                    let mut posted = post(&comm, Some(0), Some(3), &mut before);
                    expect(&comm, Some(0), Some(1), 0, (1, &[round]));
                    assert!(posted.cancel());
                    expect(&comm, Some(0), Some(2), 0, (2, &[round, 0]));
                    expect(&comm, Some(0), Some(1), 0, (1, &[round, 1]));
                }
                // Too little room: an error, and the next is the next.
                _ => {
                    expect(&comm, Some(0), Some(1), 0, (1, &[round]));
                    let error = try_recv(&comm, Some(0), Some(2), &mut before[..1]).unwrap_err();
                    assert!(matches!(error, Error::Truncated { .. }), "{error}");
                    assert_eq!(before, [round, 0xee]);
                    expect(&comm, Some(0), None, 0, (1, &[round, 1]));
                }
            }
            send(&comm, 0, 9, &[round]);
        }
    });
}

/// More than a lane holds, before the first is received; and to itself.
#[test]
fn floods_and_the_rank_itself() {
    each_backend(2, |comm| {
        let (me, other) = (comm.rank(), 1 - comm.rank());
        send(&comm, me, 4, b"self");
        if me == 0 {
            for n in 0..2000u32 {
                send(&comm, other, 5, &n.to_le_bytes());
            }
        } else {
            for n in 0..2000u32 {
                expect(&comm, Some(other), Some(5), other, (5, &n.to_le_bytes()));
            }
        }
        expect(&comm, Some(me), Some(4), me, (4, b"self"));
    });
}

/// Two threads of each rank, each with its own tag, and now and then a receive that the other's thread finds the engine held by.
#[test]
fn threads_of_a_rank_keep_their_own() {
    each_backend(2, |comm| {
        let (other, begin) = (1 - comm.rank(), Barrier::new(2));
        std::thread::scope(|threads| {
            for tag in 0..2 {
                let (comm, begin) = (&comm, &begin);
                threads.spawn(move || {
                    begin.wait();
                    for n in 0..300u32 {
                        if comm.rank() == 0 {
                            send(comm, other, tag, &n.to_le_bytes());
                        }
                        expect(comm, Some(other), Some(tag), other, (tag, &n.to_le_bytes()));
                        if comm.rank() == 1 {
                            send(comm, other, tag, &n.to_le_bytes());
                        }
                    }
                });
            }
        });
    });
}

/// What was sent by who has left is received; then there is nobody.
#[test]
fn who_has_left_is_heard_to_the_end() {
    each_backend(2, |comm| {
        if comm.rank() == 0 {
            send(&comm, 1, 1, b"first");
            expect(&comm, Some(1), Some(1), 1, (1, b"go"));
            send(&comm, 1, 1, b"last");
        } else {
            expect(&comm, Some(0), Some(1), 0, (1, b"first"));
            send(&comm, 0, 1, b"go");
            expect(&comm, Some(0), Some(1), 0, (1, b"last"));
            let error = try_recv(&comm, Some(0), Some(1), &mut [0; 4]).unwrap_err();
            assert!(matches!(error, Error::PeerFinalized { .. }), "{error}");
        }
    });
}
