//! Who receives one small message after the other goes on with everybody else's business between.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};
use tocsin_sync::atomic::real::{AtomicU32, Ordering};

use tocsin_world::{BackendKind, Comm, Config, ConstBuf, Mode, MutBuf, RawRequest, threads};

/// Rank that receives.
const RECEIVER: u32 = 0;
/// Rank whose messages lie there before the first is received.
const FLOOD: u32 = 1;
/// Rank that has business with the receiver meanwhile.
const OTHER: u32 = 2;
/// As many as a lane holds without the receiver's help.
const MESSAGES: u32 = 64;
/// So many are received, at most, before all else has its turn.
const TURN: u32 = 8;
const SMALL: usize = 8;
const WAITING: i32 = 1;
const FLOODING: i32 = 2;

fn send(comm: &Comm, dest: u32, tag: i32, mode: Mode) {
    let data = [7u8; SMALL];
    // SAFETY: the data outlives the call.
    unsafe { comm.send_raw(ConstBuf::contiguous(data.as_ptr(), SMALL), dest, tag, mode) }.unwrap();
}

fn recv(comm: &Comm, source: u32, tag: i32) {
    let mut data = [0u8; SMALL];
    let buf = MutBuf::contiguous(data.as_mut_ptr(), SMALL);
    // SAFETY: the data outlives the call and is not used during it.
    let status = unsafe { comm.recv_raw(buf, Some(source), Some(tag)) }.unwrap();
    assert_eq!((status.source, status.bytes, data), (source, SMALL, [7; SMALL]));
}

/// What the ranks tell each other without a message, which would be progress.
struct Stage(AtomicU32);

impl Stage {
    fn reach(&self, stage: u32) {
        self.0.fetch_max(stage, Ordering::AcqRel);
    }

    /// Without a library call.
    fn wait(&self, stage: u32) {
        let begun = Instant::now();
        while self.0.load(Ordering::Acquire) < stage {
            assert!(begun.elapsed() < Duration::from_secs(60), "stage {stage} was never reached");
            std::thread::yield_now();
        }
    }
}

/// The receiver starts something with the other rank, which does its part and says so; then it receives the flood's
/// first messages. By then what it started has ended, and the other rank gets its answer without more.
fn ends_within_a_turn(
    start: impl Fn(&Comm, &mut [u8; SMALL]) -> RawRequest + Sync,
    take_part: impl Fn(&Comm, &dyn Fn()) + Sync,
) {
    let stage = Stage(AtomicU32::new(0));
    let mut config = Config::default();
    config.backend = Some(BackendKind::Poll);
    let ended = threads(3, &config, |comm| {
        let stage = &stage;
        if comm.rank() != RECEIVER {
            // Connected, both ways.
            send(&comm, RECEIVER, WAITING, Mode::Standard);
            recv(&comm, RECEIVER, WAITING);
        }
        match comm.rank() {
            RECEIVER => {
                for peer in [FLOOD, OTHER] {
                    recv(&comm, peer, WAITING);
                    send(&comm, peer, WAITING, Mode::Standard);
                }
                let mut data = [7; SMALL];
                let mut request = start(&comm, &mut data);
                stage.reach(1);
                stage.wait(3);
                assert!(!request.is_over(), "nobody has looked yet");
                for _ in 0..TURN {
                    recv(&comm, FLOOD, FLOODING);
                }
                assert!(request.is_over(), "not within {TURN} receives");
                stage.wait(4);
                for _ in TURN..MESSAGES {
                    recv(&comm, FLOOD, FLOODING);
                }
                request.wait().unwrap();
            }
            FLOOD => {
                stage.wait(1);
                (0..MESSAGES).for_each(|_| send(&comm, RECEIVER, FLOODING, Mode::Standard));
                stage.reach(2);
            }
            _ => {
                stage.wait(2);
                take_part(&comm, &|| stage.reach(3));
                stage.reach(4);
            }
        }
    });
    ended.unwrap();
}

/// A receive is posted, so that each packet of the flood is looked at in the general way.
#[test]
fn a_synchronous_send_is_answered() {
    ends_within_a_turn(
        |comm, data| {
            let buf = MutBuf::contiguous(data.as_mut_ptr(), SMALL);
            // SAFETY: the caller waits for the request before the data go.
            unsafe { comm.irecv_raw(buf, Some(OTHER), Some(WAITING)) }.unwrap()
        },
        |comm, done| {
            let data = [7u8; SMALL];
            let buf = ConstBuf::contiguous(data.as_ptr(), SMALL);
            // SAFETY: it is waited for before the data go.
            let mut request = unsafe { comm.isend_raw(buf, RECEIVER, WAITING, Mode::Synchronous) }.unwrap();
            done();
            request.wait().unwrap();
        },
    );
}

/// No receive is posted: the flood's packets take the short way.
#[test]
fn an_answer_is_taken_in() {
    ends_within_a_turn(
        |comm, data| {
            let buf = ConstBuf::contiguous(data.as_ptr(), SMALL);
            // SAFETY: the caller waits for the request before the data go.
            unsafe { comm.isend_raw(buf, OTHER, WAITING, Mode::Synchronous) }.unwrap()
        },
        |comm, done| {
            recv(comm, RECEIVER, WAITING);
            done();
        },
    );
}
