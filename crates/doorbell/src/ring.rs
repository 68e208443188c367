//! The ringer's side.

use crate::attention::Attention;
use crate::descriptor::{Descriptor, Mark};
use crate::kind::{BackendKind, RingOutcome, Urgency};
use crate::{fork, sys};
use tocsin_sync::atomic::Ordering;

/// A mark older than this never suppresses a ring: whatever went wrong, it heals within a millisecond of
/// the next message.
pub const MARK_LIFE_NS: u64 = 1_000_000;

/// The vector that [`wake_any`] posts. Vectors 0 to 62 are the caller's.
pub const VECTOR_WAKE: u8 = 63;

/// A place inside the protocol where a ringer may stop for ever.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Step {
    Entered,
    AttentionRead,
    Posted,
    SequenceBumped,
    SleepersWoken,
    MarkRead,
    MarkSet,
    RingCounted,
    Signalled,
}

/// How many [`Step`]s there are.
#[doc(hidden)]
pub const RING_STEPS: u8 = 9;

/// The ringer stopped at a step.
#[doc(hidden)]
#[derive(Debug)]
pub struct Stopped;

/// The protocol's variation points. [`Real`] is what ships; the others exist in tests, to be caught.
#[doc(hidden)]
pub trait Variant {
    /// The owner's fence after it stops to poll or sleep.
    const OWNER_FENCE: bool = true;
    /// The sleeper's fence between "I sleep" and its last look.
    const SLEEPER_FENCE: bool = true;
    /// Wakers change the word that sleepers wait on.
    const BUMP_SEQUENCE: bool = true;
    /// A user interrupt is sent only to the installation that the ringer connected to.
    const CHECK_SERIAL: bool = true;
    /// Who got no answer within [`MARK_LIFE_NS`] sends the signal, too.
    const SIGNAL_THE_SILENT: bool = true;
    /// Called at each step; `Err` stops the ringer there.
    #[inline(always)]
    fn at(&self, _step: Step) -> Result<(), Stopped> {
        Ok(())
    }
}

/// The protocol as it ships.
#[doc(hidden)]
#[derive(Debug)]
pub struct Real;
impl Variant for Real {}

/// Tells the target's owner to look, if it does not look by itself.
///
/// **Precondition**: the data is published and the caller has executed `fence(SeqCst)` since. `mark` is the
/// one from the calling rank to the target, used by one context at a time (the engine's token sees to it).
///
/// Asks the attention word: pollers look by themselves; sleepers are woken; a throttled thread is left alone, and
/// one that does not want messages of this urgency; otherwise the thread is interrupted, unless this ringer has
/// rung within the last millisecond and the owner has not looked since. Posts `vector` (0 to 62; more is cut to
/// 6 bits) for those it does not leave alone.
///
/// Progress class: wait-free: at most 3 read-modify-writes, 6 loads, 1 store, 1 clock reading, 1 system call.
/// Handlers may call it; it may change `errno`.
#[inline]
pub fn ring(target: &Descriptor, mark: &Mark, vector: u8, urgency: Urgency) -> RingOutcome {
    match ring_as(&Real, target, mark, vector, urgency) {
        Ok(outcome) => outcome,
        Err(Stopped) => RingOutcome::Gone,
    }
}

/// [`ring`] with variation points.
#[doc(hidden)]
#[inline]
pub fn ring_as<V: Variant>(
    variant: &V,
    target: &Descriptor,
    mark: &Mark,
    vector: u8,
    urgency: Urgency,
) -> Result<RingOutcome, Stopped> {
    variant.at(Step::Entered)?;
    if fork::disowned() {
        return Ok(RingOutcome::Gone);
    }
    // SYNC POINT: ordered after the data by the caller's fence(SeqCst), which pairs with the owner's after
    // `end_poll` / `suppress(false)` / `set_wants` that asks for more. Acquire: a thread id comes with the pid, signal
    // and backend that were stored before it.
    let attention = Attention(target.attention.load(Ordering::Acquire));
    variant.at(Step::AttentionRead)?;
    if attention.leaves_alone(urgency) {
        return Ok(RingOutcome::NotNeeded);
    }
    // Only now: who is left alone keeps the line of its descriptor, which its peers read for each message.
    // SYNC POINT: Release: who takes the vector sees what was published for it. The unused result makes
    // this one `lock or`.
    target.pir.fetch_or(1 << (vector & 63), Ordering::Release);
    variant.at(Step::Posted)?;
    if attention.sleepers() > 0 {
        wake_sleepers(variant, target)?;
        return Ok(RingOutcome::Woke);
    }
    match target.backend() {
        Some(kind @ (BackendKind::Signal | BackendKind::Uintr)) => {
            interrupt(variant, target, attention, mark, kind)
        }
        // No thread to interrupt: their owners look when they wake or call.
        Some(BackendKind::Thread | BackendKind::Poll) | None => Ok(RingOutcome::NotNeeded),
    }
}

/// Whether [`ring`] would tell nobody, as it mostly does: the owner looks by itself, or wants no messages of this urgency.
///
/// **Precondition**: as [`ring`]'s. Progress class: wait-free: one load. Handlers may call it.
#[inline]
pub fn is_left_alone(target: &Descriptor, urgency: Urgency) -> bool {
    // SYNC POINT: as in `ring`.
    Attention(target.attention.load(Ordering::Acquire)).leaves_alone(urgency)
}

/// Wakes every thread of the target's rank that sleeps, and interrupts nobody: for who is about to publish what they wait for, and rings
/// for it then.
///
/// Progress class: wait-free: a read-modify-write, a system call. Handlers may call it; it may change `errno`.
pub fn rouse(target: &Descriptor) {
    if !fork::disowned() {
        let _never_stops = wake_sleepers(&Real, target);
    }
}

/// Wakes every thread of the rank that sleeps. A waker that dies before the call leaves the sleepers
/// counted, so that the next one still wakes them.
#[inline]
pub(crate) fn wake_sleepers<V: Variant>(variant: &V, target: &Descriptor) -> Result<(), Stopped> {
    if V::BUMP_SEQUENCE {
        // SYNC POINT: Release pairs with the sleeper's Acquire reading of the sequence. The kernel compares
        // the word under the lock that FUTEX_WAKE takes: who has not slept yet then will not.
        target.wake_seq.fetch_add(1, Ordering::Release);
    }
    variant.at(Step::SequenceBumped)?;
    sys::wake_all(target);
    variant.at(Step::SleepersWoken)
}

fn interrupt<V: Variant>(
    variant: &V,
    target: &Descriptor,
    attention: Attention,
    mark: &Mark,
    kind: BackendKind,
) -> Result<RingOutcome, Stopped> {
    let now = sys::now_ns(target);
    // SYNC POINT: ordered after the data by the caller's fence(SeqCst), which pairs with the owner's between
    // clearing the mark and looking: who reads the mark as set here is looked at after the clearing.
    let set = mark.0.load(Ordering::Relaxed);
    variant.at(Step::MarkRead)?;
    // A mark from the future (a lying or confused peer) wraps to a huge age and does not suppress.
    if set != 0 && now.wrapping_sub(set) < MARK_LIFE_NS {
        return Ok(RingOutcome::Suppressed);
    }
    mark.0.store(now, Ordering::Relaxed);
    variant.at(Step::MarkSet)?;
    let outcome = match kind {
        BackendKind::Uintr => user_interrupt(variant, target, attention, set != 0)?,
        _ => kick(variant, target, attention)?,
    };
    if !outcome.rang() {
        // Nobody was told, so nothing may be suppressed.
        mark.0.store(0, Ordering::Relaxed);
    }
    Ok(outcome)
}

/// Sends the user interrupt; and the signal, if this process is not connected to the target, or if the target has not
/// answered an earlier ring: it may be blocked in a system call of its own, where user interrupts wait, or gone,
/// which SENDUIPI does not tell.
fn user_interrupt<V: Variant>(
    variant: &V,
    target: &Descriptor,
    attention: Attention,
    silent: bool,
) -> Result<RingOutcome, Stopped> {
    variant.at(Step::RingCounted)?;
    // SYNC POINT: SENDUIPI is a locked read-modify-write of the receiver's hardware descriptor, ordered after the data
    // and the mark: whoever's handler it starts sees both.
    if sys::user_interrupt::<V>(target) && !(V::SIGNAL_THE_SILENT && silent) {
        variant.at(Step::Signalled)?;
        return Ok(RingOutcome::Rang);
    }
    let outcome = kick(variant, target, attention)?;
    Ok(if outcome.rang() { RingOutcome::RangBySignal } else { outcome })
}

/// Holds back a ring that would send a signal, in case the owner comes to look by itself: a signal takes the sender some microseconds, and
/// the owner as long again. False: it would send none, or to who has computed for long and will not come, and is to be made at once.
///
/// **Precondition**: as [`ring`]'s. Sets the mark, although nobody is rung: an owner that looks clears it, fences and then looks, so
/// that who finds it clear ([`Mark::is_set`]) need not ring. Who gives up calls [`release`] and then [`ring`], with the engine's token
/// held from here to there, for until then this rank's other rings are suppressed.
///
/// Progress class: wait-free: six loads, a store, two clock readings. Handlers may call it.
#[inline]
pub fn hold_back(target: &Descriptor, mark: &Mark, urgency: Urgency) -> bool {
    // SYNC POINT: as in `ring`.
    let attention = Attention(target.attention.load(Ordering::Acquire));
    // One that was rung and has not looked is not rung again by `ring` either.
    let holds = !mark.is_set() && would_come(target, attention, urgency) && !fork::disowned();
    if holds {
        // SYNC POINT: after the data, by the caller's fence(SeqCst), which pairs with the owner's between its clearing and its look:
        // an owner whose clearing follows this store finds the data.
        mark.0.store(sys::now_ns(target).max(1), Ordering::Relaxed);
    }
    holds
}

/// Whether a ring that is held back would still send a signal, to who may still come. Progress class: wait-free: five loads, a clock reading.
/// Handlers may call it.
#[inline]
pub fn is_held(target: &Descriptor, mark: &Mark, urgency: Urgency) -> bool {
    // SYNC POINT: Relaxed: the mark was set by this rank, so that zero is the owner's. The attention word: as in `ring`.
    mark.is_set() && would_come(target, Attention(target.attention.load(Ordering::Acquire)), urgency)
}

/// Takes a held mark back, so that [`ring`] rings. Progress class: wait-free: one store. Handlers may call it.
#[inline]
pub fn release(mark: &Mark) {
    // A child of fork must not have its parent believe that the owner has looked.
    if fork::disowned() {
        return;
    }
    // SYNC POINT: Relaxed: only this rank suppresses anything by it.
    mark.0.store(0, Ordering::Relaxed);
}

/// Whether the target would be sent a signal, and may come to look by itself before.
fn would_come(target: &Descriptor, attention: Attention, urgency: Urgency) -> bool {
    would_signal(target, attention, urgency) && !target.computes()
}

fn would_signal(target: &Descriptor, attention: Attention, urgency: Urgency) -> bool {
    target.backend() == Some(BackendKind::Signal)
        && attention.pollers() == 0
        && attention.sleepers() == 0
        && !attention.throttled()
        && attention.wants(urgency)
        && attention.tid() != 0
}

/// Rings again if the last ring with this mark was not answered: `None` when it was. For who waits for the answer of a
/// thread that a user interrupt cannot reach, blocked in a system call of its own: called once more a millisecond
/// ([`MARK_LIFE_NS`]) after the ring, or in any loop, it sends the signal.
///
/// Arguments, progress class and bound as [`ring`]'s. Handlers may call it; it may change `errno`.
#[inline]
pub fn remind(target: &Descriptor, mark: &Mark, vector: u8, urgency: Urgency) -> Option<RingOutcome> {
    mark.is_set().then(|| ring(target, mark, vector, urgency))
}

/// Sends the signal, whatever the attention word says.
pub(crate) fn kick<V: Variant>(
    variant: &V,
    target: &Descriptor,
    attention: Attention,
) -> Result<RingOutcome, Stopped> {
    let pid = target.pid.load(Ordering::Relaxed);
    let signal = target.signal.load(Ordering::Relaxed);
    // Read from shared memory: checked before use. kill-like calls give 0 and negative ids other meanings,
    // and no peer may talk us into sending SIGKILL.
    let (Ok(pid @ 1..), Ok(tid @ 1..), Some(signal)) =
        (i32::try_from(pid), i32::try_from(attention.tid()), crate::signal::permitted(signal))
    else {
        return Ok(RingOutcome::Gone);
    };
    target.rung.fetch_add(1, Ordering::Relaxed);
    variant.at(Step::RingCounted)?;
    let outcome = match sys::signal(target, pid, tid, signal) {
        Ok(()) => RingOutcome::Rang,
        Err(libc::EAGAIN) => RingOutcome::Retry,
        // ESRCH: the thread ended. EPERM: the id belongs to somebody else by now.
        Err(_) => RingOutcome::Gone,
    };
    variant.at(Step::Signalled)?;
    Ok(outcome)
}

/// Makes every thread of the target's rank look, whatever its attention word says: wakes the sleepers and
/// interrupts the interruptible thread. For whoever reports a death or an abort.
///
/// Progress class: wait-free; at most 2 system calls. Handlers may call it; it may change `errno`.
pub fn wake_any(target: &Descriptor) {
    if fork::disowned() {
        return;
    }
    // SYNC POINT: Release, as in `ring`.
    target.pir.fetch_or(1 << VECTOR_WAKE, Ordering::Release);
    let _never_stops = wake_sleepers(&Real, target);
    let attention = Attention(target.attention.load(Ordering::Acquire));
    if target.backend().is_some_and(BackendKind::interrupts) && attention.tid() != 0 {
        // A failure means that the thread is gone or that rings to it fail anyway: nothing to retry for.
        let _best_effort = kick(&Real, target, attention);
    }
}
