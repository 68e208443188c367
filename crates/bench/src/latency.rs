//! `tocsin bench latency`: from just before a notification is sent to the first instruction that sees it.
//!
//! Protocol (report 002, section 4.5): two bound threads or processes, a time stamp just before the send and first
//! thing in the handler, the first iteration of each batch dropped. The mechanisms and kinds are measured in turn, a
//! batch each.

mod bare;
mod probe;
mod receiver;
mod ticks;

use crate::bench::{ignored, two_ranks};
use crate::cli::Latency;
use crate::error::{Error, doing};
use crate::plot::{self, latency::Distribution};
use crate::row::{Row, Sink};
use crate::shared::{Region, wake_sleepers};
use crate::started::{Started, apart};
use crate::stats::Times;
use crate::values::{Kind, Lmt, Mechanism};
pub use probe::Probe;
pub(crate) use receiver::{Peer, peer};
use receiver::{word, words_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tocsin_doorbell::{Connection, Descriptor, Mark, RingOutcome, Urgency};
use tocsin_sync::atomic::{AtomicU64, Ordering, fence};
use tocsin_sync::clock::now_ns;
use tocsin_topology::{Distance, Topology};
use tocsin_world::say;

/// Posts per mechanism before it is another's turn.
const BATCH: u64 = 250;
/// A receiver that has not answered for this long is asked whether it lives.
const PATIENCE_NS: u64 = 2_000_000_000;

/// What `measure` found for one mechanism and kind.
#[derive(Debug)]
pub struct Measured {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Threads or processes.
    pub kind: Kind,
    /// How far apart the two are.
    pub placement: Distance,
    /// The times.
    pub times: Times,
}

/// Runs the command.
pub(crate) fn run(args: &Latency) -> Result<(), Error> {
    let kinds =
        if args.common.kind.is_empty() { &[Kind::Process, Kind::Thread][..] } else { &args.common.kind };
    let common = &args.common;
    two_ranks(common, "latency")?;
    plot::prepare(common.plot.as_deref().filter(|_| !args.ticks))?;
    ignored(
        "latency",
        &[
            ("--backend (see --mechanism)", !common.backend.is_empty()),
            ("--lmt", common.lmt != Lmt::Auto),
            ("--sizes", common.sizes.is_some()),
            ("--bind", common.bind.is_some()),
            ("--progress", !common.progress.is_empty()),
            ("--plot (with --ticks)", args.ticks && common.plot.is_some()),
        ],
    );
    let rounds = common.rounds.unwrap_or(5000);
    let mechanisms = mechanisms(&args.mechanism)?;
    if bare::asked(args) {
        return bare::run(args, &mechanisms);
    }
    if args.ticks {
        let mut sink = Sink::new(args.common.json);
        ticks::rows(&mechanisms, args.common.rounds.unwrap_or(1000))?.iter().for_each(|row| sink.row(row));
        return Ok(());
    }
    let all = measure(&mechanisms, kinds, common.warmup, rounds)?;
    let mut sink = Sink::new(args.common.json);
    all.iter().for_each(|measured| sink.row(&row(measured)));
    if let Some(dir) = &args.common.plot {
        let all: Vec<_> = all.iter().map(distribution).collect();
        plot::announce(&plot::latency::draw(dir, &all)?);
    }
    Ok(())
}

/// Those asked for, or those this machine has.
fn mechanisms(asked: &[Mechanism]) -> Result<Vec<Mechanism>, Error> {
    let why_not = tocsin_uintr_sys::why_not();
    if let Some(why) = why_not.as_ref().filter(|_| asked.contains(&Mechanism::Uintr)) {
        return Err(Error::Failed(format!("mechanism uintr is not usable here: {why}")));
    }
    if !asked.is_empty() {
        return Ok(asked.to_vec());
    }
    let mut all = vec![Mechanism::Signal, Mechanism::Futex, Mechanism::Eventfd, Mechanism::Cacheline];
    match why_not {
        None => all.insert(0, Mechanism::Uintr),
        Some(why) => say(format_args!("tocsin bench latency: mechanism uintr is left out: {why}")),
    }
    Ok(all)
}

fn row(measured: &Measured) -> Row {
    let times = &measured.times;
    let backend = match measured.mechanism {
        Mechanism::Uintr => Some("uintr"),
        Mechanism::Signal => Some("signal"),
        Mechanism::Futex | Mechanism::Eventfd | Mechanism::Cacheline => None,
    };
    let row = Row::new("latency")
        .set("backend", backend)
        .set("kind", measured.kind.to_string())
        .set("ranks", 2)
        .set("rounds", times.len())
        .set("mechanism", measured.mechanism.to_string())
        .set("placement", measured.placement.name());
    statistics(row, times)
}

fn statistics(row: Row, times: &Times) -> Row {
    row.number("mean_ns", times.mean())
        .number("std_ns", times.std())
        .number("min_ns", times.min())
        .number("p10_ns", times.percentile(10.0))
        .number("p50_ns", times.median())
        .number("p95_ns", times.percentile(95.0))
        .number("p99_ns", times.percentile(99.0))
        .number("max_ns", times.max())
}

fn distribution(measured: &Measured) -> Distribution<'_> {
    let what = if measured.kind == Kind::Process { "processes" } else { "threads" };
    Distribution {
        panel: format!("two {what}, {} cores", measured.placement),
        name: measured.mechanism.to_string(),
        times: &measured.times,
    }
}

/// Measures every mechanism with every kind, `rounds` times each after `warmup` uncounted posts, on every pair of cores that this machine has
/// (near, far, very far).
///
/// # Errors
/// When there are no two cores to measure between, or the kernel refuses something.
pub fn measure(
    mechanisms: &[Mechanism],
    kinds: &[Kind],
    warmup: u64,
    rounds: u64,
) -> Result<Vec<Measured>, Error> {
    let machine = Topology::machine().map_err(Error::failed)?;
    let distances = Distance::ALL.into_iter().filter_map(|d| machine.pair(d).map(|pair| (d, pair)));
    let mut all = Vec::new();
    for (placement, (here, there)) in distances {
        all.extend(apart(|| measure_pair(mechanisms, kinds, warmup, rounds, placement, here, there))?);
    }
    if all.is_empty() {
        return Err(Error::Failed(format!(
            "latency is measured between two cores, and this thread may use {} only",
            machine.summary()
        )));
    }
    Ok(all)
}

fn measure_pair(
    mechanisms: &[Mechanism],
    kinds: &[Kind],
    warmup: u64,
    rounds: u64,
    placement: Distance,
    here: usize,
    there: usize,
) -> Result<Vec<Measured>, Error> {
    tocsin_topology::bind_thread(here).map_err(Error::failed)?;
    let mut pairs = kinds.iter().map(|kind| Pair::start(*kind, there)).collect::<Result<Vec<_>, _>>()?;
    let mut all: Vec<Measured> = Vec::new();
    for kind in kinds {
        for mechanism in mechanisms {
            all.push(Measured { mechanism: *mechanism, kind: *kind, placement, times: Times::default() });
        }
    }
    for (at, measured) in all.iter().enumerate() {
        pairs[at / mechanisms.len()].batch(measured.mechanism, warmup, &mut Times::default())?;
    }
    let mut left = rounds;
    while left > 0 {
        let batch = left.min(BATCH);
        left -= batch;
        for (at, measured) in all.iter_mut().enumerate() {
            pairs[at / mechanisms.len()].batch(measured.mechanism, batch, &mut measured.times)?;
        }
    }
    pairs.into_iter().try_for_each(Pair::stop)?;
    Ok(all)
}

enum Other {
    Process(Started),
    Thread(JoinHandle<Result<(), Error>>),
}

/// The sender's side.
struct Pair {
    region: Arc<Region>,
    eventfd: OwnedFd,
    mark: Mark,
    other: Other,
    posted: u64,
}

impl Pair {
    fn start(kind: Kind, cpu: usize) -> Result<Pair, Error> {
        let region = Arc::new(Region::create(word::COUNT)?);
        // Inherited on purpose: no CLOEXEC.
        // SAFETY: no pointers; the result is checked.
        let fd = unsafe { libc::eventfd(0, 0) };
        if fd < 0 {
            return Err(Error::last_os("eventfd"));
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let eventfd = unsafe { OwnedFd::from_raw_fd(fd) };
        let other = match kind {
            Kind::Process => {
                let program = std::env::current_exe().map_err(doing("finding this program"))?;
                Other::Process(spawn(&program, &region, fd, cpu)?)
            }
            Kind::Thread => {
                let region = Arc::clone(&region);
                let run = move || receiver::serve(&region, fd, cpu);
                Other::Thread(std::thread::Builder::new().spawn(run).map_err(doing("starting the receiver"))?)
            }
        };
        Ok(Pair { region, eventfd, mark: Mark::new(), other, posted: 0 })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.region.words()[at]
    }

    /// `posts` posts by one mechanism after one that is dropped.
    fn batch(&mut self, mechanism: Mechanism, posts: u64, times: &mut Times) -> Result<(), Error> {
        // Posts are numbered through the whole run: nothing is ever reset under a receiver that still looks.
        let _connection = (mechanism == Mechanism::Uintr).then(|| self.connect()).transpose()?;
        let first = self.posted + 1;
        self.posted += posts + 1;
        self.tell(receiver::number(mechanism), first, posts + 1);
        for post in first..=self.posted {
            self.wait_for(word::READY, post)?;
            // So that a receiver that sleeps does sleep, and posts come in no step with anything.
            let pause = now_ns() + 10_000 + post.wrapping_mul(7919) % 10_000;
            while now_ns() < pause {
                std::hint::spin_loop();
            }
            let sent = now_ns();
            self.post(mechanism, post)?;
            self.wait_for(word::SEEN, post)?;
            let seen = self.word(word::STAMP).load(Ordering::Relaxed);
            if post > first {
                times.add(seen.saturating_sub(sent));
            }
        }
        Ok(())
    }

    fn tell(&self, mechanism: u64, first: u64, posts: u64) {
        self.word(word::MECHANISM).store(mechanism, Ordering::Relaxed);
        self.word(word::FIRST).store(first, Ordering::Relaxed);
        self.word(word::POSTS).store(posts, Ordering::Relaxed);
        // SYNC POINT: Release: who sees the turn sees the mechanism and the number.
        self.word(word::TURN).fetch_add(1, Ordering::Release);
        wake_sleepers(self.word(word::TURN));
    }

    fn descriptor(&self) -> &Descriptor {
        // SAFETY: it lies in the region, aligned (checked where the offsets stand), and consists of atomics; zeroed
        // memory is a valid one.
        unsafe { &*self.region.words()[word::DESCRIPTOR..].as_ptr().cast::<Descriptor>() }
    }

    /// While it lives, rings go by user interrupt; before and after, by signal.
    fn connect(&mut self) -> Result<Connection, Error> {
        // The receiver is installed once it has asked for the first turn.
        while self.word(word::ALIVE).load(Ordering::Acquire) == 0 {
            if !self.lives() {
                return Err(Error::Failed("the receiver of the latency measurement ended".into()));
            }
            std::thread::yield_now();
        }
        let connection = tocsin_doorbell::connect(self.descriptor()).map_err(Error::failed)?;
        if !connection.by_user_interrupt() {
            return Err(Error::Failed("the receiver takes no user interrupts".into()));
        }
        Ok(connection)
    }

    #[inline]
    fn post(&self, mechanism: Mechanism, post: u64) -> Result<(), Error> {
        match mechanism {
            Mechanism::Uintr | Mechanism::Signal => {
                let target = self.descriptor();
                self.mark.clear_if_set();
                fence(Ordering::SeqCst);
                let outcome = tocsin_doorbell::ring(target, &self.mark, 0, Urgency::Urgent);
                let rang = match mechanism {
                    Mechanism::Uintr => outcome == RingOutcome::Rang,
                    _ => outcome.rang(),
                };
                if !rang {
                    return Err(Error::Failed(format!(
                        "the doorbell did not ring by {mechanism:?}: {outcome:?}"
                    )));
                }
            }
            Mechanism::Futex => {
                self.word(word::LINE).store(post, Ordering::Release);
                wake_sleepers(self.word(word::LINE));
            }
            Mechanism::Eventfd => {
                let one = 1u64;
                // SAFETY: eight bytes are read from `one`.
                let wrote = unsafe { libc::write(self.eventfd.as_raw_fd(), (&raw const one).cast(), 8) };
                if wrote != 8 {
                    return Err(Error::last_os("writing to the eventfd"));
                }
            }
            Mechanism::Cacheline => self.word(word::LINE).store(post, Ordering::Release),
        }
        Ok(())
    }

    fn wait_for(&mut self, at: usize, value: u64) -> Result<(), Error> {
        let mut asked = now_ns();
        let mut spins = 0u32;
        while self.word(at).load(Ordering::Acquire) < value {
            std::hint::spin_loop();
            spins += 1;
            if spins.is_multiple_of(4096) && now_ns() - asked > PATIENCE_NS {
                asked = now_ns();
                if !self.lives() {
                    return Err(Error::Failed("the receiver of the latency measurement ended".into()));
                }
            }
        }
        Ok(())
    }

    fn lives(&mut self) -> bool {
        match &mut self.other {
            Other::Process(process) => process.lives(),
            Other::Thread(thread) => !thread.is_finished(),
        }
    }

    fn stop(self) -> Result<(), Error> {
        self.tell(receiver::STOP, 0, 0);
        match self.other {
            Other::Process(mut process) => {
                let status = process.wait().map_err(doing("waiting for the receiver"))?;
                if status.success() {
                    Ok(())
                } else {
                    Err(Error::Failed(format!("the receiver ended: {status}")))
                }
            }
            Other::Thread(thread) => match thread.join() {
                Ok(ended) => ended,
                Err(_) => Err(Error::Failed("the receiver's thread panicked".into())),
            },
        }
    }
}

fn spawn(program: &Path, region: &Region, eventfd: RawFd, cpu: usize) -> Result<Started, Error> {
    let mut command = Command::new(program);
    command.args(["peer", "--region", &region.path()]);
    command.args(["--eventfd", &eventfd.to_string(), "--cpu", &cpu.to_string()]);
    let process = Started::new(&mut command, "starting the receiving process")?;
    // It publishes itself when it is ready; the first batch waits for that. A program that is not `tocsin` (the
    // criterion bench) never answers, and is found out here.
    let start = now_ns();
    while words_of(region)[word::ALIVE].load(Ordering::Acquire) == 0 {
        if now_ns() - start > 10_000_000_000 {
            return Err(Error::Failed(format!("{} peer: no answer within 10 s", program.display())));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(process)
}
