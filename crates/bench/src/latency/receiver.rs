//! The receiving side: a thread that computes, sleeps or polls, and stamps the time when it is reached.

use crate::compute::compute;
use crate::error::Error;
use crate::shared::{Region, sleep_while};
use crate::values::Mechanism;
use std::os::fd::RawFd;
use std::time::Duration;
use tocsin_doorbell::{BackendKind, Cause, Config, Descriptor, Receiver};
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;

/// Arguments of the hidden command `tocsin peer`.
#[derive(Debug, clap::Args)]
pub(crate) struct Peer {
    #[arg(long)]
    pub region: String,
    #[arg(long)]
    pub eventfd: RawFd,
    #[arg(long)]
    pub cpu: usize,
}

/// Offsets in the shared words: each has cache lines of its own.
pub(super) mod word {
    /// Changes when there is something new to do.
    pub const TURN: usize = 0;
    /// By which mechanism, how often.
    pub const MECHANISM: usize = 1;
    pub const POSTS: usize = 2;
    /// Not 0: the receiver runs.
    pub const ALIVE: usize = 3;
    /// The number of the turn's first post.
    pub const FIRST: usize = 4;
    /// The post that the receiver waits for.
    pub const READY: usize = 16;
    /// The last post it has seen, and when.
    pub const SEEN: usize = 32;
    pub const STAMP: usize = 33;
    /// Written by the sender: futexes and cache lines.
    pub const LINE: usize = 48;
    /// The doorbell's descriptor.
    pub const DESCRIPTOR: usize = 64;
    pub const COUNT: usize = 128;
    const _: () = assert!((DESCRIPTOR * 8).is_multiple_of(align_of::<tocsin_doorbell::Descriptor>()));
    const _: () = assert!((COUNT - DESCRIPTOR) * 8 >= size_of::<tocsin_doorbell::Descriptor>());
}

/// The number that means "no more".
pub(super) const STOP: u64 = 0;

const MECHANISMS: [Mechanism; 5] =
    [Mechanism::Uintr, Mechanism::Signal, Mechanism::Futex, Mechanism::Eventfd, Mechanism::Cacheline];

/// A mechanism as a number.
pub(super) fn number(mechanism: Mechanism) -> u64 {
    MECHANISMS.iter().position(|m| *m == mechanism).map_or(STOP, |at| at as u64 + 1)
}

pub(super) fn words_of(region: &Region) -> &[AtomicU64] {
    region.words()
}

/// Runs the hidden command.
pub(crate) fn peer(args: &Peer) -> Result<(), Error> {
    let region = Region::open(&args.region)?;
    if region.words().len() < word::COUNT {
        return Err(Error::Usage("`tocsin peer` is started by `tocsin bench latency` only".into()));
    }
    serve(&region, args.eventfd, args.cpu)
}

/// What runs when the doorbell rings: the time stamp first.
///
/// # Safety
/// `context` is the first of the region's words, mapped while the receiver is installed.
unsafe fn rung(context: *const (), _cause: Cause) {
    let now = now_ns();
    // SAFETY: `serve` passes a region that outlives the receiver.
    let words = unsafe { std::slice::from_raw_parts(context.cast::<AtomicU64>(), word::COUNT) };
    words[word::STAMP].store(now, Ordering::Relaxed);
    // The sender waits for each post, so the one being waited for is the one that is seen.
    // SYNC POINT: Release: who sees the post sees its stamp.
    words[word::SEEN].store(words[word::READY].load(Ordering::Relaxed), Ordering::Release);
}

/// Serves until told to stop.
pub(super) fn serve(region: &Region, eventfd: RawFd, cpu: usize) -> Result<(), Error> {
    tocsin_topology::bind_thread(cpu).map_err(Error::failed)?;
    let words = region.words();
    let descriptor = words[word::DESCRIPTOR..].as_ptr().cast::<Descriptor>();
    // A receiver of user interrupts takes signals from senders that are not connected to it: both are measured on it.
    let backend = match tocsin_uintr_sys::why_not() {
        None => BackendKind::Uintr,
        Some(_) => BackendKind::Signal,
    };
    // SAFETY:
    // - the descriptor is aligned (asserted above), zeroed, and mapped as long as `region`, which outlives the receiver;
    // - `rung` neither allocates nor waits, and its context is mapped as long;
    // - the receiver is dropped at the end of this function, on this thread.
    let receiver =
        unsafe { Receiver::install(descriptor, &Config::new(backend), rung, words.as_ptr().cast()) };
    let _receiver = receiver.map_err(Error::failed)?;
    words[word::ALIVE].store(1, Ordering::Release);
    let mut turn = 0;
    loop {
        // SYNC POINT: Acquire pairs with the sender's Release: mechanism and number are those of this turn.
        while words[word::TURN].load(Ordering::Acquire) == turn {
            sleep_while(&words[word::TURN], turn, Duration::from_secs(10));
        }
        turn = words[word::TURN].load(Ordering::Acquire);
        let mechanism = words[word::MECHANISM].load(Ordering::Relaxed);
        let Some(mechanism) = mechanism.checked_sub(1).and_then(|at| MECHANISMS.get(at as usize)) else {
            return Ok(());
        };
        let first = words[word::FIRST].load(Ordering::Relaxed);
        for post in first..first + words[word::POSTS].load(Ordering::Relaxed) {
            await_post(words, *mechanism, eventfd, post)?;
        }
    }
}

fn await_post(words: &[AtomicU64], mechanism: Mechanism, eventfd: RawFd, post: u64) -> Result<(), Error> {
    words[word::READY].store(post, Ordering::Release);
    match mechanism {
        Mechanism::Uintr | Mechanism::Signal => {
            while words[word::SEEN].load(Ordering::Acquire) < post {
                // The opaque loop that is interrupted.
                compute(100, post);
            }
            return Ok(());
        }
        Mechanism::Futex => loop {
            let line = words[word::LINE].load(Ordering::Acquire);
            if line >= post {
                break;
            }
            sleep_while(&words[word::LINE], line, Duration::from_secs(10));
        },
        Mechanism::Eventfd => {
            let mut count = 0u64;
            // SAFETY: eight bytes are written to `count`.
            while unsafe { libc::read(eventfd, (&raw mut count).cast(), 8) } != 8 {
                let error = std::io::Error::last_os_error();
                if error.raw_os_error() != Some(libc::EINTR) {
                    return Err(Error::System { what: "reading the eventfd".into(), source: error });
                }
            }
        }
        Mechanism::Cacheline => {
            while words[word::LINE].load(Ordering::Acquire) < post {
                std::hint::spin_loop();
            }
        }
    }
    words[word::STAMP].store(now_ns(), Ordering::Relaxed);
    // SYNC POINT: Release: who sees the post sees its stamp.
    words[word::SEEN].store(post, Ordering::Release);
    Ok(())
}
