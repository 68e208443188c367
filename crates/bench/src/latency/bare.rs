//! `tocsin bench latency --self`, `--stack`, `--burst`, `--mask`: a mechanism alone, within one process.
//!
//! Not through the doorbell, which has its handlers on one stack and lets rings collapse before anything is sent: here each
//! post is a `tgkill` or a SENDUIPI, and what runs is a bare handler, which stamps the time first. What the doorbell adds is the
//! difference to the rows without these options.
//!
//! A burst of posts is sent as fast as they go. Its time ends with the handler's run that is the first to find the last of them sent. What
//! runs after it, for posts that had collapsed no more, still counts as a run.

mod signal;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod uintr;

use super::{BATCH, PATIENCE_NS, statistics};
use crate::bench::ignored;
use crate::cli::Latency;
use crate::compute::compute;
use crate::error::{Error, doing};
use crate::plot::{self, latency::Distribution};
use crate::row::{Row, Sink};
use crate::started::apart;
use crate::stats::Times;
use crate::values::{HandlerStack, Mechanism};
use std::sync::mpsc::channel;
use tocsin_sync::atomic::real::{AtomicU64, AtomicUsize, Ordering};
use tocsin_sync::clock::now_ns;
use tocsin_topology::{Distance, Topology};

/// How often a handler unmasks and masks with `--mask`: many times what its two stamps cost.
const MASKS: u64 = 16;

/// What handlers and who rings share. One measurement at a time.
struct Board {
    /// Posts so far.
    posted: AtomicU64,
    /// Those that a handler has found sent, and when the first that did so had begun.
    seen: AtomicU64,
    stamp: AtomicU64,
    /// Handlers' runs that have begun and that have ended.
    begun: AtomicU64,
    runs: AtomicU64,
    /// How often each is to unmask and mask; how often all have, and how long they took for that.
    masks: AtomicU64,
    masked: AtomicU64,
    masked_ns: AtomicU64,
    /// Where the last run's stack was.
    place: AtomicUsize,
}

static BOARD: Board = Board {
    posted: AtomicU64::new(0),
    seen: AtomicU64::new(0),
    stamp: AtomicU64::new(0),
    begun: AtomicU64::new(0),
    runs: AtomicU64::new(0),
    masks: AtomicU64::new(0),
    masked: AtomicU64::new(0),
    masked_ns: AtomicU64::new(0),
    place: AtomicUsize::new(0),
};

/// So many runs may stand within each other: their stack is as large.
const DEEPEST: u64 = 16;

/// What a handler does that began at `now`. `unmask_and_mask` may let another run in between.
#[inline(always)]
fn rung(now: u64, unmask_and_mask: impl Fn()) {
    let local = 0u8;
    BOARD.place.store((&raw const local).addr(), Ordering::Relaxed);
    // SYNC POINT: Acquire pairs with the Release before the post: what was posted is there to be seen.
    let posted = BOARD.posted.load(Ordering::Acquire);
    if posted > BOARD.seen.load(Ordering::Relaxed) {
        BOARD.stamp.store(now, Ordering::Relaxed);
        // SYNC POINT: Release: who sees the post sees its stamp.
        BOARD.seen.store(posted, Ordering::Release);
    }
    // Runs on the same thread only, each within the one before.
    let deep = BOARD.begun.fetch_add(1, Ordering::Relaxed).wrapping_sub(BOARD.runs.load(Ordering::Relaxed));
    let masks = BOARD.masks.load(Ordering::Relaxed);
    if masks > 0 && deep < DEEPEST {
        let start = now_ns();
        (0..masks).for_each(|_| unmask_and_mask());
        BOARD.masked.fetch_add(masks, Ordering::Relaxed);
        BOARD.masked_ns.fetch_add(now_ns().saturating_sub(start), Ordering::Relaxed);
    }
    // SYNC POINT: Release: who counts the run has what its masking took.
    BOARD.runs.fetch_add(1, Ordering::Release);
}

/// What makes the calling thread's handler run, until it is dropped.
enum Installed {
    Signal {
        _caught: signal::Caught,
    },
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Uintr {
        _receiver: tocsin_uintr_sys::Receiver,
    },
}

/// What posts to it.
enum Bell {
    Signal(signal::Target),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Uintr(tocsin_uintr_sys::Sender),
}

impl Bell {
    #[inline]
    fn ring(&self) -> bool {
        match self {
            Bell::Signal(target) => target.ring(),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Bell::Uintr(sender) => sender.send(),
        }
    }
}

/// One combination that is measured.
#[derive(Clone, Copy)]
struct Case {
    mechanism: Mechanism,
    stack: HandlerStack,
    burst: u64,
    /// How often a handler unmasks and masks.
    masks: u64,
    /// How far the other thread's processor is, and which; to oneself there is none.
    other: Option<(Distance, usize)>,
}

/// What the bursts of one combination add up to.
#[derive(Default)]
struct Sum {
    times: Times,
    /// Handlers' runs.
    runs: u64,
    /// An unmasking and a masking, in hundredths of a nanosecond.
    mask: Times,
}

/// Times of masking are kept so fine: two instructions take a few nanoseconds.
const UNIT: f64 = 100.0;

impl Case {
    /// Makes the calling thread the one that posts reach.
    fn install(&self) -> Result<(Installed, Bell), Error> {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.mechanism == Mechanism::Uintr {
            let (receiver, sender) = uintr::install(self.stack)?;
            return Ok((Installed::Uintr { _receiver: receiver }, Bell::Uintr(sender)));
        }
        let (caught, target) = signal::Caught::install(self.stack)?;
        Ok((Installed::Signal { _caught: caught }, Bell::Signal(target)))
    }

    /// So many bursts after one that is dropped, from the calling thread.
    fn batch(&self, bursts: u64, sum: &mut Sum) -> Result<(), Error> {
        BOARD.masks.store(self.masks, Ordering::Relaxed);
        let Some((_, cpu)) = self.other else {
            let (_installed, bell) = self.install()?;
            return self.bursts(&bell, bursts, sum);
        };
        let (ready, installed) = channel();
        let stop = &AtomicU64::new(0);
        std::thread::scope(|scope| {
            let receive = move || {
                let install = || {
                    tocsin_topology::bind_thread(cpu).map_err(Error::failed)?;
                    self.install()
                };
                let _installed = match install() {
                    Ok((installed, bell)) => ready.send(Ok(bell)).map(|()| installed),
                    Err(error) => return drop(ready.send(Err(error))),
                };
                let mut seed = 1u64;
                while stop.load(Ordering::Acquire) == 0 {
                    seed = seed.wrapping_add(1);
                    // The opaque loop that is interrupted.
                    compute(100, seed);
                }
            };
            std::thread::Builder::new()
                .spawn_scoped(scope, receive)
                .map_err(doing("starting the receiver"))?;
            let ended = |_| Error::Failed("the receiver of the latency measurement ended".into());
            let measured = installed
                .recv()
                .map_err(ended)
                .and_then(|bell| bell)
                .and_then(|bell| self.bursts(&bell, bursts, sum));
            stop.store(1, Ordering::Release);
            measured
        })
    }

    fn bursts(&self, bell: &Bell, bursts: u64, sum: &mut Sum) -> Result<(), Error> {
        for number in 0..=bursts {
            pause(number);
            let runs = BOARD.runs.load(Ordering::Acquire);
            let masked = BOARD.masked.load(Ordering::Relaxed);
            let masked_ns = BOARD.masked_ns.load(Ordering::Relaxed);
            let took = self.burst(bell)?;
            // What comes late is still a run of this burst, and what has begun goes on to its end.
            pause(number);
            self.wait_until("end", || {
                BOARD.runs.load(Ordering::Acquire) == BOARD.begun.load(Ordering::Relaxed)
            })?;
            let runs = BOARD.runs.load(Ordering::Acquire).wrapping_sub(runs);
            let masked_ns = BOARD.masked_ns.load(Ordering::Relaxed).wrapping_sub(masked_ns);
            if number > 0 {
                sum.times.add(took);
                sum.runs += runs;
                let pairs = BOARD.masked.load(Ordering::Relaxed).wrapping_sub(masked);
                if pairs > 0 {
                    sum.mask.add((masked_ns as f64 / pairs as f64 * UNIT) as u64);
                }
            }
        }
        Ok(())
    }

    /// Nanoseconds from just before the first post until a handler has found the last one sent.
    fn burst(&self, bell: &Bell) -> Result<u64, Error> {
        let before = BOARD.posted.load(Ordering::Relaxed);
        let last = before + self.burst;
        let sent = now_ns();
        for post in before + 1..=last {
            // SYNC POINT: Release: who is told of the post finds it sent.
            BOARD.posted.store(post, Ordering::Release);
            if !bell.ring() {
                return Err(Error::last_os("sending a notification"));
            }
        }
        self.wait_until("run", || BOARD.seen.load(Ordering::Acquire) >= last)?;
        Ok(BOARD.stamp.load(Ordering::Relaxed).saturating_sub(sent))
    }

    /// Waits for what a handler does.
    fn wait_until(&self, what: &str, done: impl Fn() -> bool) -> Result<(), Error> {
        let start = now_ns();
        while !done() {
            std::hint::spin_loop();
            if now_ns().saturating_sub(start) > PATIENCE_NS {
                let what = format!("no handler of a {} did {what} within 2 s", self.mechanism);
                return Err(Error::Failed(what));
            }
        }
        Ok(())
    }

    fn placement(&self) -> &'static str {
        self.other.map_or("self", |(distance, _)| distance.name())
    }

    fn row(&self, sum: &Sum) -> Row {
        let row = Row::new("latency")
            .set("backend", self.mechanism.to_string())
            .set("kind", "thread")
            .set("ranks", 1 + u64::from(self.other.is_some()))
            .set("rounds", sum.times.len())
            .set("mechanism", self.mechanism.to_string())
            .set("placement", self.placement())
            .set("stack", self.stack.to_string())
            .set("burst", self.burst);
        let row = statistics(row, &sum.times).number("handlers", sum.runs as f64 / sum.times.len() as f64);
        match self.masks {
            0 => row,
            masks => row
                .set("masks", masks)
                .number("mask_ns_min", sum.mask.min() / UNIT)
                .number("mask_ns_p50", sum.mask.median() / UNIT),
        }
    }

    fn distribution<'a>(&self, sum: &'a Sum) -> Distribution<'a> {
        let panel = match self.other {
            None => "a thread to itself, no doorbell".to_owned(),
            Some((distance, _)) => format!("two threads, {distance} cores, no doorbell"),
        };
        let burst = if self.burst == 1 { String::new() } else { format!(", {} posts", self.burst) };
        let name = format!("{}, {} stack{burst}", self.mechanism, self.stack);
        Distribution { panel, name, times: &sum.times }
    }
}

/// So that posts come in no step with anything, and what was sent has arrived.
fn pause(number: u64) {
    let until = now_ns() + 10_000 + number.wrapping_mul(7919) % 10_000;
    while now_ns() < until {
        std::hint::spin_loop();
    }
}

/// Whether the command line asks for this.
pub(super) fn asked(args: &Latency) -> bool {
    args.oneself || args.mask || args.burst.is_some() || !args.stack.is_empty()
}

/// Runs the command.
pub(super) fn run(args: &Latency, mechanisms: &[Mechanism]) -> Result<(), Error> {
    let common = &args.common;
    let without_handler = |m: &Mechanism| !matches!(m, Mechanism::Uintr | Mechanism::Signal);
    ignored(
        "latency",
        &[
            ("--kind (here: thread)", !common.kind.is_empty()),
            ("a --mechanism without handlers", args.mechanism.iter().any(without_handler)),
            (
                "--mask (for uintr on the alternate stack)",
                args.mask && args.stack.contains(&NO_MASKS.1) && mechanisms.contains(&NO_MASKS.0),
            ),
            (
                "--stack trampoline (for signal)",
                args.stack.contains(&HandlerStack::Trampoline) && mechanisms.contains(&Mechanism::Signal),
            ),
        ],
    );
    let machine = Topology::machine().map_err(Error::failed)?;
    let pairs: Vec<_> =
        Distance::ALL.into_iter().filter_map(|d| machine.pair(d).map(|pair| (d, pair))).collect();
    let (here, others) = match (args.oneself, pairs.first()) {
        (true, _) => (machine.cores.first().and_then(|core| core.cpus.first()).copied(), vec![None]),
        (false, Some(_)) => (None, pairs.iter().map(|pair| Some(*pair)).collect()),
        (false, None) => {
            let what = "there are no two cores to measure between: with --self, one will do";
            return Err(Error::Failed(what.into()));
        }
    };
    let mut all = Vec::new();
    for other in others {
        let cases = cases(args, mechanisms, other.map(|(distance, (_, there))| (distance, there)))?;
        let here = other.map(|(_, (here, _))| here).or(here);
        let rounds = (common.warmup, common.rounds.unwrap_or(5000));
        all.extend(apart(|| measure(cases, here, rounds))?);
    }
    let mut sink = Sink::new(common.json);
    all.iter().for_each(|(case, sum)| sink.row(&case.row(sum)));
    if let Some(dir) = &common.plot {
        let all: Vec<_> = all.iter().map(|(case, sum)| case.distribution(sum)).collect();
        plot::announce(&plot::latency::draw(dir, &all)?);
    }
    Ok(())
}

/// A handler that must not be interrupted by its like.
const NO_MASKS: (Mechanism, HandlerStack) = (Mechanism::Uintr, HandlerStack::Alternate);

/// Every combination of what is asked for, those left out that there are not.
fn cases(
    args: &Latency,
    mechanisms: &[Mechanism],
    other: Option<(Distance, usize)>,
) -> Result<Vec<Case>, Error> {
    let stacks = if args.stack.is_empty() { &[HandlerStack::Alternate][..] } else { &args.stack };
    let bursts = args.burst.as_ref().map_or(&[1][..], |list| &list.0);
    let masks = if args.mask { MASKS } else { 0 };
    let mut all = Vec::new();
    for &mechanism in mechanisms {
        for &stack in stacks {
            let has = match mechanism {
                Mechanism::Uintr => true,
                Mechanism::Signal => stack != HandlerStack::Trampoline,
                Mechanism::Futex | Mechanism::Eventfd | Mechanism::Cacheline => false,
            };
            // The CPU begins each interrupt at the top of that stack: a handler that lets one in would lose its own frame.
            let masks = if (mechanism, stack) == NO_MASKS { 0 } else { masks };
            if has {
                all.extend(bursts.iter().map(|&burst| Case { mechanism, stack, burst, masks, other }));
            }
        }
    }
    if all.is_empty() {
        let what = "no handler runs by that: --mechanism uintr and signal have handlers, and signal no --stack trampoline";
        return Err(Error::Usage(what.into()));
    }
    Ok(all)
}

/// All cases in turn, a batch each.
fn measure(
    cases: Vec<Case>,
    here: Option<usize>,
    (warmup, rounds): (u64, u64),
) -> Result<Vec<(Case, Sum)>, Error> {
    if let Some(here) = here {
        tocsin_topology::bind_thread(here).map_err(Error::failed)?;
    }
    for case in &cases {
        case.batch(warmup, &mut Sum::default())?;
    }
    let mut all: Vec<(Case, Sum)> = cases.into_iter().map(|case| (case, Sum::default())).collect();
    let mut left = rounds;
    while left > 0 {
        let batch = left.min(BATCH);
        left -= batch;
        for (case, sum) in &mut all {
            case.batch(batch, sum)?;
        }
    }
    Ok(all)
}
