//! Models of entering, deferring and leaving, run by loom over the code that ships, and of broken variants
//! that loom must catch. `RUSTFLAGS="--cfg loom" cargo test -p tocsin-progress --release --test 'loom_*'`
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use tocsin_progress::token::Token;
use tocsin_sync::atomic::{AtomicU32, Ordering};
use tocsin_sync::cell::UnsafeCell;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Work behind a token: what was posted, and what was handled (under the token only; loom checks that).
struct Shared {
    token: Token,
    posted: AtomicU32,
    handled: UnsafeCell<u32>,
    /// Somebody left with a request standing and armed the timer.
    armed: AtomicU32,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            token: Token::new(),
            posted: AtomicU32::new(0),
            handled: UnsafeCell::new(0),
            armed: AtomicU32::new(0),
        })
    }

    fn pass(&self) {
        let posted = self.posted.load(Ordering::Relaxed);
        // SAFETY: under the token; that this is exclusive is what loom checks.
        self.handled.with_mut(|handled| unsafe { *handled = posted });
    }

    fn drain(&self, limit: u32, at: impl FnMut(u32)) {
        // Both closures call it, one at a time.
        let at = std::cell::RefCell::new(at);
        let at = |point: u32| (at.borrow_mut())(point);
        let mut points = 10;
        let clean = self.token.drain(
            &mut points,
            limit,
            |point| {
                at(*point);
                *point += 1;
                false
            },
            |point| {
                at(*point);
                *point += 1;
                self.pass();
                at(*point);
                *point += 1;
                true
            },
        );
        if !clean {
            self.armed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Post, then look or leave the look to the holder.
    fn post(&self) {
        self.posted.fetch_add(1, Ordering::Relaxed);
        if self.token.request_or_lock() {
            self.drain(8, |_| ());
        }
    }

    /// Post, then look at once, as handlers do, or leave the look to the holder.
    fn post_and_look(&self) {
        self.posted.fetch_add(1, Ordering::Relaxed);
        if self.token.lock_or_request() {
            if self.token.is_requested() {
                self.token.take_requests();
            }
            self.pass();
            self.drain(8, |_| ());
        }
    }

    fn finish(&self, expected: u32) {
        if self.armed.load(Ordering::Relaxed) > 0 && self.token.request_or_lock() {
            // The timer.
            self.drain(8, |_| ());
        }
        // SAFETY: all threads are joined.
        let handled = self.handled.with(|handled| unsafe { *handled });
        assert_eq!(handled, expected, "a request was lost");
        assert!(!self.token.is_busy(), "the token was lost");
    }
}

#[test]
fn two_threads_lose_no_request() {
    check(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let thread = loom::thread::spawn(move || other.post());
        shared.post();
        thread.join().unwrap();
        shared.finish(2);
    });
}

#[test]
fn three_threads_lose_no_request() {
    check(|| {
        let shared = Shared::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let other = shared.clone();
                loom::thread::spawn(move || other.post())
            })
            .collect();
        // A user's entry, which waits for nobody here, and posts nothing.
        if shared.token.try_lock() {
            shared.drain(8, |_| ());
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
        shared.finish(2);
    });
}

/// A handler comes in at each of the thread's interrupt points in turn, while another thread posts.
#[test]
fn a_handler_at_every_point_loses_no_request() {
    for point in 0..16 {
        check(move || {
            let shared = Shared::new();
            let other = shared.clone();
            let thread = loom::thread::spawn(move || other.post());
            let mut came = false;
            let mut at = |here: u32| {
                if here == point && !came {
                    came = true;
                    shared.post();
                }
            };
            at(0);
            shared.posted.fetch_add(1, Ordering::Relaxed);
            at(1);
            shared.token.request();
            at(2);
            if shared.token.try_lock() {
                at(3);
                shared.drain(8, &mut at);
            }
            at(4);
            thread.join().unwrap();
            shared.finish(if came { 3 } else { 2 });
        });
    }
}

/// A handler's bound of one pass: what is left stands until the timer comes.
#[test]
fn a_bounded_stay_leaves_its_request_to_the_timer() {
    check(|| {
        let shared = Shared::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let other = shared.clone();
                loom::thread::spawn(move || other.post())
            })
            .collect();
        shared.posted.fetch_add(1, Ordering::Relaxed);
        if shared.token.request_or_lock() {
            shared.drain(1, |_| ());
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
        shared.finish(3);
    });
}

#[test]
fn trying_before_asking_loses_nothing() {
    check(|| {
        let shared = Shared::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let other = shared.clone();
                loom::thread::spawn(move || other.post_and_look())
            })
            .collect();
        shared.post();
        threads.into_iter().for_each(|t| t.join().unwrap());
        shared.finish(3);
    });
}

/// Broken: try first, ask when that failed. The holder may have left in between.
#[test]
#[should_panic(expected = "a request was lost")]
fn asking_after_trying_is_caught() {
    check(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let thread = loom::thread::spawn(move || {
            other.posted.fetch_add(1, Ordering::Relaxed);
            if other.token.try_lock() {
                other.pass();
                other.drain(8, |_| ());
            } else {
                other.token.request();
            }
        });
        shared.post();
        thread.join().unwrap();
        shared.finish(2);
    });
}

/// Broken: the holder takes the requests after its pass instead of before.
#[test]
#[should_panic(expected = "a request was lost")]
fn taking_requests_after_the_pass_is_caught() {
    check(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let thread = loom::thread::spawn(move || other.post());
        shared.posted.fetch_add(1, Ordering::Relaxed);
        if shared.token.request_or_lock() {
            loop {
                shared.pass();
                shared.token.take_requests();
                if shared.token.try_leave() {
                    break;
                }
            }
        }
        thread.join().unwrap();
        shared.finish(2);
    });
}

/// Broken: a bounded stay whose owner arms nothing.
#[test]
#[should_panic(expected = "a request was lost")]
fn leaving_with_a_request_and_no_timer_is_caught() {
    check(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let thread = loom::thread::spawn(move || other.post());
        shared.posted.fetch_add(1, Ordering::Relaxed);
        if shared.token.request_or_lock() {
            shared.token.take_requests();
            shared.pass();
            shared.token.leave_pending();
        }
        thread.join().unwrap();
        shared.finish(2);
    });
}
