//! What a user wants run when an operation is done. Never in a handler.
//!
//! # Where callbacks run
//! On whichever user's thread next leaves the engine (any library call), or on a callback thread, which
//! exists only if a callback was ever set, sleeps on a futex, and is woken by a handler that completed an
//! operation with a callback. One runs at a time; one that completes further operations does not nest.
//! A callback may start operations; it must not wait for one whose completion needs another callback.
//!
//! # Implementation details
//! A node is boxed by the user's thread that sets the callback and freed by the thread that ran it.
//! [`Completion::finish`] pushes it on a list, newest first; a runner takes the whole list with one `xchg`
//! and reverses it. Pushes are serialised by the engine's token, so a push's compare-and-swap can fail only
//! because a runner took the list, and a second time not at all: there is nothing left to take. (Were two
//! engines to share one list, pushes would still be correct, but lock-free only.)

use crate::completion::{Completion, Outcome};
use crate::testing::{Real, Variant};
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use tocsin_sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A callback. It gets what the operation ended with.
pub type Callback = Box<dyn FnOnce(Outcome) + Send>;
/// What the callback thread does when it is asked to.
pub type Chore = Box<dyn Fn() + Send + Sync>;

/// One callback that waits for its operation. Opaque; public only because [`Completion`] holds one.
pub struct Node {
    call: Callback,
    outcome: Outcome,
    next: *mut Node,
    list: Arc<List>,
}

impl core::fmt::Debug for Node {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl Node {
    /// Puts a node whose operation ended on its list. Handler-safe: one or two compare-and-swaps.
    ///
    /// # Safety
    /// The caller owns the node, which came from a [`Completion`].
    // Few completions have one: what all run through stays short, and has no loop.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn queue(node: *mut Node, outcome: Outcome) {
        // SAFETY: the caller owns the node; the list lives at least as long, because the node keeps a count.
        let list = unsafe {
            (*node).outcome = outcome;
            Arc::as_ptr(&(*node).list)
        };
        // SAFETY: as above; `Callbacks` holds the list for longer than any call into the engine takes.
        let shared = unsafe { &(*list).head };
        let mut head = shared.load(Ordering::Relaxed);
        loop {
            // SAFETY: still owned: the node is published by the compare-and-swap below only.
            unsafe { (*node).next = head };
            // SYNC POINT: Release publishes the node's fields to the runner's Acquire swap.
            match shared.compare_exchange(head, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

struct List {
    head: AtomicPtr<Node>,
    /// Somebody runs callbacks; others need not.
    running: AtomicBool,
    /// The callback thread's futex: changes whenever there may be something to run.
    wake: AtomicU32,
    /// Whether the callback thread exists.
    thread: AtomicBool,
    stop: AtomicBool,
    count: AtomicU64,
    /// See [`Callbacks::set_chore`].
    chore: OnceLock<Chore>,
    /// Somebody asked for the chore.
    chore_due: AtomicBool,
    /// See [`Callbacks::set_look`].
    look: OnceLock<Chore>,
}

impl List {
    #[inline]
    fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Runs what is queued, unless somebody else is at it. Answers how many ran.
    fn run(&self) -> usize {
        let mut ran = 0;
        while !self.is_empty() {
            // SYNC POINT: both swaps of `running` are AcqRel: if this one finds it set, the runner's swap
            // below comes after it and acquires what we saw, so the runner's next look sees our push.
            if self.running.swap(true, Ordering::AcqRel) {
                return ran;
            }
            // Of a thread that waits.
            tocsin_sync::slice::give_back();
            // SYNC POINT: Acquire pairs with the Release in `Node::queue`.
            let mut newest = self.head.swap(ptr::null_mut(), Ordering::Acquire);
            let mut oldest: *mut Node = ptr::null_mut();
            while !newest.is_null() {
                // SAFETY: the swap made the whole chain ours.
                let next = unsafe { (*newest).next };
                // SAFETY: as above.
                unsafe { (*newest).next = oldest };
                oldest = newest;
                newest = next;
            }
            while !oldest.is_null() {
                // SAFETY: ours, and boxed by `Callbacks::set`.
                let node = unsafe { Box::from_raw(oldest) };
                oldest = node.next;
                let Node { call, outcome, .. } = *node;
                // A panic in a user's callback is reported by the panic hook; it must not unwind through
                // the engine or kill the thread that happened to run it.
                if let Err(payload) = catch_unwind(AssertUnwindSafe(move || call(outcome))) {
                    // Its own drop could panic again: leak it.
                    core::mem::forget(payload);
                }
                ran += 1;
                self.count.fetch_add(1, Ordering::Relaxed);
            }
            self.running.swap(false, Ordering::AcqRel);
        }
        ran
    }
}

impl List {
    /// Looks for more as long as that brings callbacks. The callback thread's.
    fn look_on(&self) {
        let Some(look) = self.look.get() else { return };
        let count = || self.count.load(Ordering::Relaxed);
        let mut before = count();
        while !self.stop.load(Ordering::Relaxed) {
            look();
            self.run();
            // What comes without end keeps nobody waiting for something else.
            self.do_chore();
            if count() == core::mem::replace(&mut before, count()) {
                break;
            }
        }
    }

    /// Does the chore if somebody asked for it. The callback thread's.
    fn do_chore(&self) {
        // SYNC POINT: Acquire pairs with `ask_chore`.
        if self.chore_due.swap(false, Ordering::AcqRel)
            && let Some(chore) = self.chore.get()
        {
            chore();
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // A queued node holds an Arc of the list, so a list that is dropped is empty.
        debug_assert!(self.head.load(Ordering::Relaxed).is_null());
    }
}

/// The callbacks of one rank.
pub struct Callbacks {
    list: Arc<List>,
    with_thread: bool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl core::fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Callbacks").field("with_thread", &self.with_thread).finish_non_exhaustive()
    }
}

/// A callback was not set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// The operation has a callback already.
    #[error("the operation already has a callback; set one per operation")]
    Occupied,
    /// The thread that runs callbacks could not be started.
    #[error("the callback thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl Callbacks {
    /// No callbacks yet, no thread. `with_thread`: start a callback thread with the first callback; without
    /// it callbacks run in library calls only (the `poll` backend, where nothing completes elsewhere).
    pub fn new(with_thread: bool) -> Callbacks {
        Callbacks {
            list: Arc::new(List {
                head: AtomicPtr::new(ptr::null_mut()),
                running: AtomicBool::new(false),
                wake: AtomicU32::new(0),
                thread: AtomicBool::new(false),
                stop: AtomicBool::new(false),
                count: AtomicU64::new(0),
                chore: OnceLock::new(),
                chore_due: AtomicBool::new(false),
                look: OnceLock::new(),
            }),
            with_thread,
            thread: Mutex::new(None),
        }
    }

    /// Has `call` run once the operation is done; at once, on this thread, if it is already. User threads
    /// only, never in a handler: it allocates.
    ///
    /// # Errors
    /// [`SetError::Occupied`] when the operation has a callback, [`SetError::Thread`] when the callback
    /// thread was refused. `call` is dropped then.
    pub fn set(&self, completion: &Completion, call: Callback) -> Result<(), SetError> {
        if completion.has_callback() {
            return Err(SetError::Occupied);
        }
        self.start_thread()?;
        let node = Box::into_raw(Box::new(Node {
            call,
            outcome: Outcome::default(),
            next: ptr::null_mut(),
            list: self.list.clone(),
        }));
        if !completion.attach(node) {
            // SAFETY: `attach` gave the node back.
            let node = unsafe { Box::from_raw(node) };
            (node.call)(completion.outcome().unwrap_or_default());
        }
        Ok(())
    }

    /// Takes a callback back before its operation is done. False: there was none, or it was queued or run
    /// already. User threads only, holding the engine's token. Afterwards the completion counts as one that
    /// had its callback until its next [`reset`](Completion::reset).
    pub fn withdraw(&self, completion: &Completion) -> bool {
        let node = completion.take_callback();
        if node.is_null() {
            return false;
        }
        // SAFETY: the swap gave us the node.
        drop(unsafe { Box::from_raw(node) });
        true
    }

    /// Replaces the callback of an operation that may be pending or done: what a waker needs that changes
    /// from poll to poll. User threads only, holding the engine's token. True: set. False: the operation is
    /// done, `call` was dropped, look at the outcome.
    ///
    /// # Errors
    /// [`SetError::Thread`] as for [`set`](Self::set).
    pub fn replace(&self, completion: &Completion, call: Callback) -> Result<bool, SetError> {
        self.start_thread()?;
        if completion.is_done() {
            return Ok(false);
        }
        // The token keeps `finish` away, so the operation stays pending throughout.
        let had = completion.has_callback();
        self.withdraw(completion);
        let node = Box::into_raw(Box::new(Node {
            call,
            outcome: Outcome::default(),
            next: ptr::null_mut(),
            list: self.list.clone(),
        }));
        if had {
            completion.reattach(node);
        } else {
            completion.attach(node);
        }
        Ok(true)
    }

    /// Whether something waits to be run: a hint. One load. Handlers may call it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether some wait for a thread to run them, and none is at it: a hint. Two loads. Handlers may call it.
    #[inline]
    pub(crate) fn are_left(&self) -> bool {
        !self.is_empty() && !self.are_running()
    }

    /// Whether a thread runs some: a hint. One load. Handlers may call it.
    #[inline]
    pub(crate) fn are_running(&self) -> bool {
        self.list.running.load(Ordering::Relaxed)
    }

    /// Whether some wait that nobody sees who is at it: for a thread that runs them then, and else sleeps. One load, and mostly nothing else.
    #[inline]
    pub(crate) fn need_a_thread(&self) -> bool {
        self.need_a_thread_as::<Real>()
    }

    /// `need_a_thread` with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn need_a_thread_as<V: Variant>(&self) -> bool {
        if self.is_empty() {
            return false;
        }
        if V::ASK_RUNNER_BY_SWAP {
            // SYNC POINT: as in `run`: a read-modify-write that finds it set is before the runner's last swap, which acquires that the list is not empty.
            // A load might be late, and so might the runner's look at the list be.
            !self.list.running.fetch_or(false, Ordering::AcqRel)
        } else {
            self.are_left()
        }
    }

    /// Runs what is queued, unless another thread is at it; answers how many ran. Not for handlers.
    pub fn run(&self) -> usize {
        self.list.run()
    }

    /// Callbacks run so far.
    pub fn count(&self) -> u64 {
        self.list.count.load(Ordering::Relaxed)
    }

    /// Wakes the callback thread if there is one and something to run. One load, or two loads, one `xadd`
    /// and one futex call. Handlers may call it.
    #[inline]
    pub fn notify(&self) {
        if self.is_empty() || !self.list.thread.load(Ordering::Relaxed) {
            return;
        }
        wake(&self.list);
    }

    /// Says what the callback thread does when a handler needs something done that handlers may not do, such as
    /// allocating. The first call counts.
    pub fn set_chore(&self, chore: Chore) {
        // A second one is dropped: there is one rank per engine.
        drop(self.list.chore.set(chore));
    }

    /// Says how the callback thread looks for more when it has run callbacks, and runs those of what it finds: what completes often is then
    /// completed by it, and not by one interrupt after the other. It goes on as long as there are callbacks, and then sleeps. The
    /// first call counts.
    pub fn set_look(&self, look: Chore) {
        // A second one is dropped, as above.
        drop(self.list.look.set(look));
    }

    /// Has the callback thread do its chore soon, if there is a callback thread. One load, or a load, a store, one
    /// `xadd` and one futex call. Handlers may call it.
    #[inline]
    pub fn ask_chore(&self) {
        if !self.list.thread.load(Ordering::Relaxed) {
            return;
        }
        // SYNC POINT: Release pairs with the callback thread's swap: it sees what the asker saw. The wake count, which
        // changes after it, keeps the thread from sleeping past it.
        self.list.chore_due.store(true, Ordering::Release);
        wake(&self.list);
    }

    fn start_thread(&self) -> Result<(), std::io::Error> {
        if !self.with_thread || self.list.thread.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let list = self.list.clone();
            *thread = Some(
                std::thread::Builder::new()
                    .name("tocsin-callbacks".into())
                    .stack_size(1 << 20)
                    .spawn(move || serve(&list))?,
            );
            self.list.thread.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for Callbacks {
    /// Runs what is queued (a callback is never lost), then ends the thread. Never in a handler.
    fn drop(&mut self) {
        if tocsin_doorbell::fork::disowned() {
            // A child of fork(): what is queued is its parent's to run, and the thread is not here to be joined.
            core::mem::forget(self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take());
            return;
        }
        self.list.run();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.list.stop.store(true, Ordering::Release);
            wake(&self.list);
            // The thread may itself drop the last owner of the rank, from inside a callback.
            if thread.thread().id() != std::thread::current().id() {
                drop(thread.join());
            }
        }
    }
}

#[inline]
fn wake(list: &List) {
    list.wake.fetch_add(1, Ordering::Release);
    futex(&list.wake, libc::FUTEX_WAKE, i32::MAX as u32);
}

/// The callback thread.
fn serve(list: &List) {
    crate::block_signals();
    loop {
        // SYNC POINT: the wake count is read before the list, and the futex compares it: a push and its wake
        // between our look and our sleep make the sleep return at once.
        let seen = list.wake.load(Ordering::Acquire);
        if list.run() > 0 {
            list.look_on();
        }
        list.do_chore();
        if list.stop.load(Ordering::Acquire) {
            return;
        }
        futex(&list.wake, libc::FUTEX_WAIT, seen);
    }
}

#[cfg(not(loom))]
#[inline]
fn futex(word: &AtomicU32, operation: i32, value: u32) {
    // SAFETY: the word outlives the call, and the kernel only compares it; there is no time-out pointer.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            ptr::null::<libc::timespec>(),
        );
    }
}

#[cfg(loom)]
fn futex(_word: &AtomicU32, _operation: i32, _value: u32) {
    // Models run the callbacks themselves.
    tocsin_sync::model::thread::yield_now();
}

#[cfg(all(test, not(loom)))]
mod tests;
