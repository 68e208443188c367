//! Large messages whose ranks compute and call nothing until they have ended.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tocsin_sync::atomic::{AtomicBool, Ordering};
use tocsin_world::{Comm, ConstBuf, Error, Mode, MutBuf, RawRequest, wait_any};

use crate::memory::Buffer;
use crate::random::Random;
use crate::run::Arguments;

const TAG: i32 = 3;
/// Of a message for which who computes waits before.
const OTHER: i32 = 4;

/// Longer than any message takes.
const LIMIT: Duration = Duration::from_secs(20);

/// `rounds` messages of `bytes` from rank 0 to rank 1. `who` computes (`send`, `receive`, `both`) from its post on, until a callback says that its message has ended; `quiet`: nobody has a callback, a receiver
/// looks at its buffer, and a sender for a note of the receiver's in a folder of that name. `leaves`: it waits before, for longer in each round, and leaves when that is over (`time`), or when one from the other rank has come, which does not compute (`any`). Who does not compute waits. In every other
/// round the receive is posted first.
pub fn messages_while_computing(comm: &Comm, arguments: &Arguments) {
    let bytes = arguments.number("bytes") as usize;
    let (leaves, quiet) = (arguments.optional("leaves"), arguments.optional("quiet"));
    let sends = comm.rank() == 0;
    let computes = match arguments.text("who") {
        "both" => true,
        "send" => sends,
        "receive" => !sends,
        other => panic!("who={other}: send, receive, both"),
    };
    for round in 0..arguments.number("rounds") {
        let mut sent = vec![0; bytes];
        Random::fill(round, &mut sent);
        let buffer = if sends { sent.clone() } else { vec![0xa5; bytes] };
        let mut buffer = Buffer::from(buffer).share(comm, round / 2 + u64::from(comm.rank()));
        barrier(comm);
        let second = sends == (round % 2 == 1);
        if second {
            // The other one has posted, or is about to.
            pause(Duration::from_micros(50));
        }
        let start = buffer.as_ptr();
        let mut request = post(comm, &mut buffer, sends, TAG);
        let ended = Arc::new(AtomicBool::new(false));
        if quiet.is_none() {
            let tells = ended.clone();
            request.on_complete(Box::new(move |outcome| {
                assert!(outcome.is_ok(), "{outcome:?}");
                tells.store(true, Ordering::Release);
            }));
        }
        let note = quiet.map(|folder| Path::new(folder).join(round.to_string()));
        let has_ended = || match &note {
            None => ended.load(Ordering::Acquire),
            Some(note) if sends => note.exists(),
            // SAFETY: it is read as whoever copies may write it.
            Some(_) => (0..bytes).all(|at| unsafe { start.wrapping_add(at).read_volatile() } == sent[at]),
        };
        let patience = Duration::from_micros(20 * round);
        let (mut word, mut small) = (Buffer::from(vec![0; 8]), None);
        match (leaves, computes) {
            (None, _) | (Some("time"), false) => {}
            (Some("time"), true) => drop(request.wait_timeout(patience)),
            (Some("any"), true) => {
                let other = small.insert(post(comm, &mut word, false, OTHER));
                assert!(wait_any(&mut [&mut request, other]).is_some());
            }
            (Some("any"), false) => {
                pause(patience);
                small = Some(post(comm, &mut word, true, OTHER));
            }
            (Some(other), _) => panic!("leaves={other}: time, any"),
        }
        if computes {
            let begun = Instant::now();
            while !has_ended() {
                assert!(
                    begun.elapsed() < LIMIT,
                    "rank {}, round {round}: {arguments:?}: it waits for a call",
                    comm.rank()
                );
                std::hint::spin_loop();
            }
        }
        let tell = || match &note {
            Some(note) if !sends => fs::write(note, []).unwrap_or_else(|error| panic!("{error}")),
            _ => {}
        };
        if computes {
            tell();
        }
        for request in [Some(request), small].iter_mut().flatten() {
            request.wait().unwrap_or_else(|error| panic!("{error}"));
        }
        if !computes {
            tell();
        }
        assert!(buffer[..] == sent[..], "round {round}: {arguments:?}");
        barrier(comm);
    }
}

fn post(comm: &Comm, buffer: &mut Buffer, sends: bool, tag: i32) -> RawRequest {
    let other = 1 - comm.rank();
    // SAFETY: the caller waits before it looks at the buffer, or drops it.
    let posted = unsafe {
        if sends {
            comm.isend_raw(ConstBuf::contiguous(buffer.as_ptr(), buffer.len()), other, tag, Mode::Standard)
        } else {
            comm.irecv_raw(MutBuf::contiguous(buffer.as_mut_ptr(), buffer.len()), Some(other), Some(tag))
        }
    };
    posted.unwrap_or_else(|error| panic!("{error}"))
}

fn barrier(comm: &Comm) {
    let ended: Result<_, Error> = comm.ibarrier_raw(None).and_then(|mut barrier| barrier.wait());
    ended.unwrap_or_else(|error| panic!("{error}"));
}

fn pause(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}
