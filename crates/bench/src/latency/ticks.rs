//! `tocsin bench latency --ticks`: notifications in ticks of the CPU's time-stamp counter.
//!
//! On a real machine a tick is a fraction of a nanosecond, the same whatever the CPU's clock does. In the emulated machine at
//! quantum 1 it is an instruction, which is what can be compared there: a loop of known length, measured first, says
//! whether it is.
//!
//! Each notification is sent by one thread to itself, or to a computing thread on another core. Three stamps: just before
//! the ring, first thing in the entry function that the doorbell runs (after the trampoline, or the kernel's and the C
//! library's way into a signal handler), and, for a ring to oneself, at the first instruction after it, when the handler
//! has returned.

use crate::compute::compute;
use crate::error::{Error, doing};
use crate::row::Row;
use crate::stats::Times;
use crate::values::Mechanism;
use std::sync::Arc;
use tocsin_doorbell::{BackendKind, Cause, Config, Connection, Descriptor, Mark, Own, Receiver, Urgency};
use tocsin_progress::engine::{Engine, EngineConfig};
use tocsin_progress::stats::Stats;
use tocsin_progress::{Budget, Pass, Work};
use tocsin_sync::atomic::{AtomicU64, Ordering, fence};
use tocsin_topology::{Distance, Topology};

/// Steps of the loop of known length: two instructions each.
const LOOP_STEPS: u64 = 1500;
/// Such loops between two rings: several times what a notification takes.
const PAUSE: u32 = 16;

/// The time-stamp counter.
#[inline(always)]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a counter, which Linux lets programs read.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        0
    }
}

/// A loop of `2 * LOOP_STEPS` instructions and what surrounds it.
fn known_loop() -> u64 {
    let start = ticks();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: counts a register down to 0.
    unsafe {
        core::arch::asm!("2:", "dec {0}", "jnz 2b", inout(reg) LOOP_STEPS => _, options(nostack, nomem));
    }
    ticks().wrapping_sub(start)
}

/// An engine with nothing to do.
struct Nothing;

// SAFETY: does nothing.
unsafe impl Work for Nothing {
    fn progress(&mut self, _budget: &mut Budget) -> Pass {
        Pass::Idle
    }

    fn leave(&mut self) {}

    fn wants_plain(&self) -> bool {
        false
    }

    fn wants_offers(&self) -> bool {
        false
    }

    fn work_left(&self) -> bool {
        false
    }
}

/// What the entry function writes, and the engine that it enters.
struct Rung {
    descriptor: Descriptor,
    engine: Engine<Nothing>,
    entered: AtomicU64,
    left: AtomicU64,
    count: AtomicU64,
}

impl Rung {
    fn new() -> Arc<Rung> {
        Arc::new_cyclic(|this: &std::sync::Weak<Rung>| {
            // SAFETY: the descriptor stands beside the engine, in one allocation that never moves; the engine's `Own`
            // is used while it lives.
            let own = unsafe { Own::new(&raw const (*this.as_ptr()).descriptor) };
            let config = EngineConfig { callback_thread: false, ..EngineConfig::default() };
            Rung {
                descriptor: Descriptor::new(),
                engine: Engine::new(Nothing, own, config, Arc::new(Stats::new())),
                entered: AtomicU64::new(0),
                left: AtomicU64::new(0),
                count: AtomicU64::new(0),
            }
        })
    }
}

/// What runs when the doorbell rings: a stamp, an empty engine, a stamp.
///
/// # Safety
/// `context` is a [`Rung`] that lives while the receiver is installed.
unsafe fn rung(context: *const (), cause: Cause) {
    let now = ticks();
    // SAFETY: the caller's promise.
    let this = unsafe { &*context.cast::<Rung>() };
    this.entered.store(now, Ordering::Relaxed);
    // SAFETY: the engine's address, as its entry wants it.
    unsafe { Engine::<Nothing>::handler_entry((&raw const this.engine).cast(), cause) };
    this.left.store(ticks(), Ordering::Relaxed);
    // SYNC POINT: Release: who sees the count sees the stamps.
    this.count.fetch_add(1, Ordering::Release);
}

/// Makes the calling thread the one that rings to `rung` reach.
///
/// # Safety
/// The receiver is dropped before `rung` and before the thread ends.
unsafe fn install(rung_by: &Rung, mechanism: Mechanism) -> Result<Receiver, Error> {
    let backend = if mechanism == Mechanism::Uintr { BackendKind::Uintr } else { BackendKind::Signal };
    let context = core::ptr::from_ref(rung_by).cast();
    // SAFETY: the caller's promise; `rung` neither allocates nor waits.
    unsafe { Receiver::install(&raw const rung_by.descriptor, &Config::new(backend), rung, context) }
        .map_err(Error::failed)
}

fn connect(rung_by: &Rung, mechanism: Mechanism) -> Result<Option<Connection>, Error> {
    if mechanism != Mechanism::Uintr {
        return Ok(None);
    }
    tocsin_doorbell::connect(&rung_by.descriptor).map(Some).map_err(Error::failed)
}

#[derive(Default)]
struct Counted {
    /// The loop of known length, just before each ring.
    known: Times,
    to_handler: Times,
    in_handler: Times,
    to_resumed: Times,
}

/// Rings once and waits for the answer: the ticks of its three parts.
fn ring_once(rung_by: &Rung, mark: &Mark, counted: &mut Counted, to_oneself: bool) {
    // Handlers may take half of a rank's time: less, so that they are not held back.
    for _ in 0..PAUSE {
        counted.known.add(known_loop());
    }
    let before = rung_by.count.load(Ordering::Acquire);
    mark.clear_if_set();
    fence(Ordering::SeqCst);
    let sent = ticks();
    let _outcome = tocsin_doorbell::ring(&rung_by.descriptor, mark, 0, Urgency::Urgent);
    let resumed = ticks();
    while rung_by.count.load(Ordering::Acquire) == before {
        std::hint::spin_loop();
    }
    let (entered, left) = (rung_by.entered.load(Ordering::Relaxed), rung_by.left.load(Ordering::Relaxed));
    counted.to_handler.add(entered.saturating_sub(sent));
    counted.in_handler.add(left.saturating_sub(entered));
    // A signal to oneself is delivered at the end of the system call, a user interrupt after the instruction.
    if to_oneself && resumed > left {
        counted.to_resumed.add(resumed.saturating_sub(sent));
    }
}

fn to_oneself(mechanism: Mechanism, rounds: u64) -> Result<Counted, Error> {
    let rung_by = Rung::new();
    // SAFETY: dropped at the end of this function, before `rung_by`.
    let _receiver = unsafe { install(&rung_by, mechanism) }?;
    let _connection = connect(&rung_by, mechanism)?;
    let (mark, mut counted) = (Mark::new(), Counted::default());
    ring_once(&rung_by, &mark, &mut Counted::default(), true);
    for _ in 0..rounds {
        ring_once(&rung_by, &mark, &mut counted, true);
    }
    Ok(counted)
}

fn to_another(mechanism: Mechanism, rounds: u64, cpu: usize) -> Result<Counted, Error> {
    let (rung_by, stop) = (Rung::new(), Arc::new(AtomicU64::new(0)));
    let (target, until) = (rung_by.clone(), stop.clone());
    let receive = move || {
        tocsin_topology::bind_thread(cpu).map_err(Error::failed)?;
        // SAFETY: dropped at the end of this closure, before `target`.
        let _receiver = unsafe { install(&target, mechanism) }?;
        until.store(1, Ordering::Release);
        let mut seed = 1u64;
        while until.load(Ordering::Acquire) != 2 {
            seed = seed.wrapping_add(1);
            compute(100, seed);
        }
        Ok::<(), Error>(())
    };
    let computing = std::thread::Builder::new().spawn(receive).map_err(doing("starting the receiver"))?;
    while stop.load(Ordering::Acquire) == 0 && !computing.is_finished() {
        std::thread::yield_now();
    }
    let counted = if computing.is_finished() {
        Err(Error::Failed("the receiver of the latency measurement ended".into()))
    } else {
        connect(&rung_by, mechanism).map(|_connection| {
            let (mark, mut counted) = (Mark::new(), Counted::default());
            ring_once(&rung_by, &mark, &mut Counted::default(), false);
            (0..rounds).for_each(|_| ring_once(&rung_by, &mark, &mut counted, false));
            counted
        })
    };
    stop.store(2, Ordering::Release);
    match computing.join() {
        Ok(ended) => ended.and(counted),
        Err(_) => Err(Error::Failed("the receiver's thread panicked".into())),
    }
}

/// A row per mechanism and target.
pub(super) fn rows(mechanisms: &[Mechanism], rounds: u64) -> Result<Vec<Row>, Error> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(Error::Failed("--ticks reads the time-stamp counter of x86-64".into()));
    }
    let machine = Topology::machine().map_err(Error::failed)?;
    let Some((here, there)) = machine.pair(Distance::Near) else {
        return Err(Error::Failed("latency is measured between two cores of one NUMA node".into()));
    };
    tocsin_topology::bind_thread(here).map_err(Error::failed)?;
    let mut rows = Vec::new();
    for &mechanism in mechanisms {
        if !matches!(mechanism, Mechanism::Uintr | Mechanism::Signal) {
            continue;
        }
        for target in ["self", "cross"] {
            let counted = match target {
                "self" => to_oneself(mechanism, rounds)?,
                _ => to_another(mechanism, rounds, there)?,
            };
            rows.push(
                Row::new("latency")
                    .set("mechanism", mechanism.to_string())
                    .set("target", target)
                    .set("rounds", rounds)
                    .set("loop_instructions", 2 * LOOP_STEPS)
                    .number("loop_ticks", counted.known.median())
                    .number("handler_ticks_min", counted.to_handler.min())
                    .number("handler_ticks_p50", counted.to_handler.median())
                    .number("resumed_ticks_min", counted.to_resumed.min())
                    .number("resumed_ticks_p50", counted.to_resumed.median())
                    .number("in_handler_ticks_p50", counted.in_handler.median()),
            );
        }
    }
    Ok(rows)
}
