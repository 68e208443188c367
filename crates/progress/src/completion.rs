//! "Done", visible to any thread without the engine's token.
//!
//! # Protocol
//! One state word: bit 0 = done, bit 1 = a callback is set. The engine stores the outcome, then adds 1; a
//! user's thread stores its callback, then adds 2. Both are `xadd` of one word, so exactly one of the two
//! sees the other's bit: whoever comes second takes the callback (one `xchg` of its pointer, so that even a
//! withdrawal takes part in "exactly once").

use crate::callbacks::Node;
use crate::testing::{Real, Variant};
use core::ptr;
use tocsin_sync::HandlerSafe;
use tocsin_sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

const DONE: u32 = 1;
const CALLBACK: u32 = 2;

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[repr(u32)]
#[non_exhaustive]
pub enum Code {
    /// As asked.
    #[default]
    Ok = 0,
    /// The message was longer than the buffer.
    Truncated = 1,
    /// A rank that the operation needs died; `source` names it.
    PeerDead = 2,
    /// A rank that the operation needs finalized; `source` names it.
    PeerFinalized = 3,
    /// Cancelled by its owner.
    Cancelled = 4,
    /// The communicator was revoked.
    Revoked = 5,
    /// A peer sent what the protocol does not allow; `source` names it.
    Protocol = 6,
    /// The unexpected messages of this rank reached their hard limit.
    TooManyUnexpected = 7,
    /// A reduction operator of the user's panicked.
    UserOperatorPanicked = 8,
    /// The world was aborted; `detail` is the code.
    Aborted = 9,
    /// Memory that the operation needed was refused.
    OutOfMemory = 10,
    /// This rank has finalized.
    Finalized = 11,
    /// `source` will never receive the message: it leaves, or has dropped the communicator.
    NeverReceived = 12,
}

impl Code {
    /// The code with this number; [`Code::Protocol`] for a number that is none.
    #[inline]
    pub fn from_u32(n: u32) -> Code {
        match n {
            0 => Code::Ok,
            1 => Code::Truncated,
            2 => Code::PeerDead,
            3 => Code::PeerFinalized,
            4 => Code::Cancelled,
            5 => Code::Revoked,
            7 => Code::TooManyUnexpected,
            8 => Code::UserOperatorPanicked,
            9 => Code::Aborted,
            10 => Code::OutOfMemory,
            11 => Code::Finalized,
            12 => Code::NeverReceived,
            _ => Code::Protocol,
        }
    }
}

/// What an operation ended with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// How it ended.
    pub code: Code,
    /// The rank at the other end, or the rank at fault.
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// Bytes transferred.
    pub bytes: u64,
    /// Depends on the code.
    pub detail: u64,
}

/// State shared by request slots and schedules; it lives in memory that is not freed before the engine.
///
/// Handlers may call all but what says otherwise. Progress class: wait-free, bounds beside the methods.
/// Memory: 48 bytes.
#[derive(Debug)]
pub struct Completion {
    state: AtomicU32,
    code: AtomicU32,
    source: AtomicU32,
    tag: AtomicU32,
    bytes: AtomicU64,
    detail: AtomicU64,
    callback: AtomicPtr<Node>,
}

// SAFETY: no method waits, allocates, frees or panics; `finish`, the only writer that a handler runs, is
// serialised by the engine's token, and its single xadd is the only step that others act upon.
unsafe impl HandlerSafe for Completion {}

impl Default for Completion {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Completion {
    /// Frees a callback that never ran. Slabs of completions are dropped by user threads only.
    fn drop(&mut self) {
        let node = self.take_callback();
        if !node.is_null() {
            // SAFETY: the swap gave us the node, which `Callbacks` boxed.
            drop(unsafe { Box::from_raw(node) });
        }
    }
}

impl Completion {
    /// Pending, without a callback.
    pub fn new() -> Completion {
        Completion {
            state: AtomicU32::new(0),
            code: AtomicU32::new(0),
            source: AtomicU32::new(0),
            tag: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            detail: AtomicU64::new(0),
            callback: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Makes it pending again, for the slot's next use. Holder of the token only, when no owner of the last
    /// use is left. A callback of the last use must have run or been withdrawn
    /// ([`Callbacks::withdraw`](crate::Callbacks::withdraw)). One store.
    #[inline]
    pub fn reset(&self) {
        self.state.store(0, Ordering::Relaxed);
    }

    /// Whether it is done. After true, [`outcome`](Self::outcome) answers and all that the operation wrote
    /// (the received bytes, say) is visible. Any thread. One load.
    #[inline]
    pub fn is_done(&self) -> bool {
        // SYNC POINT: Acquire pairs with `finish`'s Release: the buffer's bytes and the outcome.
        self.state.load(Ordering::Acquire) & DONE != 0
    }

    /// Ends the operation; a second end is ignored. Holder of the token only. If a callback is set, it is
    /// queued; whoever next leaves the engine outside a handler runs it.
    ///
    /// Wait-free: one load, five stores, one `xadd`; with a callback one `xchg` and at most two
    /// compare-and-swaps more.
    #[inline]
    pub fn finish(&self, outcome: Outcome) {
        self.finish_as::<Real>(outcome);
    }

    /// [`finish`](Self::finish) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn finish_as<V: Variant>(&self, outcome: Outcome) {
        // Only holders of the token write DONE, so a plain look decides. A second xadd of 1 would carry into
        // the callback's bit.
        if self.state.load(Ordering::Relaxed) & DONE != 0 {
            return;
        }
        self.write(outcome);
        // SYNC POINT: Release publishes the outcome and the operation's writes; Acquire pairs with `attach`:
        // its bit vouches for the callback's pointer. `fetch_add` is `xadd`; a `fetch_or` whose other bits
        // are used would be a compare-and-swap loop.
        let before = self.state.fetch_add(DONE, V::FINISH);
        if before & CALLBACK != 0 {
            let node = self.take_callback();
            if !node.is_null() {
                // SAFETY: the swap gave this call the node, which nobody else refers to any more.
                unsafe { Node::queue(node, outcome) };
            }
        }
    }

    /// [`finish`](Self::finish) while nobody attaches a callback: whoever might would have said so under the token before. Holder of the
    /// token only.
    ///
    /// Wait-free: one load, six stores; where a callback is attached already, as [`finish`](Self::finish).
    #[inline(always)]
    pub fn finish_alone(&self, outcome: Outcome) {
        if self.state.load(Ordering::Relaxed) != 0 {
            return self.finish(outcome);
        }
        self.write(outcome);
        // SYNC POINT: Release, as in `finish`. A store, because nobody else writes the word meanwhile.
        self.state.store(DONE, Ordering::Release);
    }

    #[inline(always)]
    fn write(&self, outcome: Outcome) {
        self.code.store(outcome.code as u32, Ordering::Relaxed);
        self.source.store(outcome.source, Ordering::Relaxed);
        self.tag.store(outcome.tag as u32, Ordering::Relaxed);
        self.bytes.store(outcome.bytes, Ordering::Relaxed);
        self.detail.store(outcome.detail, Ordering::Relaxed);
    }

    /// What it ended with; None while pending. Any thread. Six loads.
    #[inline]
    pub fn outcome(&self) -> Option<Outcome> {
        if !self.is_done() {
            return None;
        }
        Some(Outcome {
            code: Code::from_u32(self.code.load(Ordering::Relaxed)),
            source: self.source.load(Ordering::Relaxed),
            tag: self.tag.load(Ordering::Relaxed) as i32,
            bytes: self.bytes.load(Ordering::Relaxed),
            detail: self.detail.load(Ordering::Relaxed),
        })
    }

    /// Whether a callback was attached since the last reset. One load.
    #[inline]
    pub(crate) fn has_callback(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CALLBACK != 0
    }

    /// Attaches a node. True: `finish` will queue it. False: already done; the caller has the node back.
    /// User threads, one at a time, at most once per use.
    pub(crate) fn attach(&self, node: *mut Node) -> bool {
        self.callback.store(node, Ordering::Relaxed);
        // SYNC POINT: Release publishes the node to `finish`; Acquire: when DONE is seen, so is the outcome.
        let before = self.state.fetch_add(CALLBACK, Ordering::AcqRel);
        before & DONE == 0 || self.take_callback().is_null()
    }

    /// Attaches another node to a completion that had one. User threads that hold the token, while pending.
    pub(crate) fn reattach(&self, node: *mut Node) {
        // SYNC POINT: Release; `finish` runs under the token too, so after this.
        self.callback.store(node, Ordering::Release);
    }

    /// Takes the callback's node, if it is still there. Exactly one of all callers gets it. One `xchg`.
    #[inline]
    pub(crate) fn take_callback(&self) -> *mut Node {
        // SYNC POINT: Acquire, because the node may come by way of another taker's view of the state.
        self.callback.swap(ptr::null_mut(), Ordering::AcqRel)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn finishes_once() {
        let completion = Completion::new();
        assert_eq!(completion.outcome(), None);
        let first = Outcome { code: Code::Truncated, source: 3, tag: -7, bytes: 9, detail: 1 };
        completion.finish(first);
        completion.finish(Outcome::default());
        assert!(completion.is_done());
        assert_eq!(completion.outcome(), Some(first));
        completion.reset();
        assert!(!completion.is_done());
    }

    #[test]
    fn finishes_alone_once_and_with_its_callback() {
        let completion = Completion::new();
        let first = Outcome { code: Code::Ok, source: 3, tag: 7, bytes: 9, detail: 0 };
        completion.finish_alone(first);
        completion.finish_alone(Outcome::default());
        assert_eq!(completion.outcome(), Some(first));
        completion.reset();
        let (callbacks, (send, receive)) = (crate::Callbacks::new(false), std::sync::mpsc::channel());
        callbacks.set(&completion, Box::new(move |outcome| send.send(outcome).unwrap())).unwrap();
        completion.finish_alone(first);
        assert_eq!(callbacks.run(), 1, "it was attached before");
        assert_eq!((receive.recv().unwrap(), completion.outcome()), (first, Some(first)));
    }

    #[test]
    fn codes_survive_their_numbers() {
        for n in 0..=12 {
            assert_eq!(Code::from_u32(n) as u32, n);
        }
        assert_eq!(Code::from_u32(77), Code::Protocol);
    }
}
