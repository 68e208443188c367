//! Work that is left while its rank's thread is in the library again and again.

use super::*;
use crate::budget::{HANDLER_PACKETS, USER_PACKETS};
use crate::engine::handler::RECEIVES;
use crate::engine::{RECEIVING_NS, UNFINISHED_NS};
use crate::{Completion, Outcome};
use std::mem::MaybeUninit;

/// Asserts that the timer was not set to go off sooner than that.
fn comes_back_late(engine: &Engine<Counting>, begun: u64) {
    // Before the clock: it may go off between.
    let goes_off = engine.timer.load(SeqCst);
    let earliest = begun + UNFINISHED_NS;
    assert!(goes_off >= earliest || goes_off == 0 && now_ns() >= earliest, "{}", earliest - goes_off);
}

#[test]
fn what_a_wait_for_short_messages_leaves_comes_back_late() {
    let all = u64::from(USER_PACKETS) * 100;
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Signal);
    shared.posted[0].store(all, SeqCst);
    let begun = now_ns();
    assert!(engine.wait_unannounced(|| shared.handled.load(SeqCst) > 0, None));
    comes_back_late(&engine, begun);
    compute_until("nobody comes back", || shared.handled.load(SeqCst) == all);
    drop(receiver);
}

/// Who has posted a long copy, or waits next, mostly comes to go on with it: a handler before that would have itself called again and again.
#[test]
fn what_a_post_leaves_of_a_long_copy_comes_back_late() {
    let all = u64::from(USER_PACKETS) * 100;
    for (unfinished, stays) in [(false, false), (true, false), (false, true), (true, true)] {
        let shared = Shared::new();
        shared.unfinished.store(unfinished, SeqCst);
        let engine = engine(&shared, 0);
        let receiver = install(&shared, &engine, BackendKind::Signal);
        let begun = now_ns();
        let mut inside = engine.enter();
        // As a post does.
        let _work: &mut Counting = &mut inside;
        shared.posted[0].store(all, SeqCst);
        inside.ask_for_pass();
        if stays {
            inside.stay_to_copy();
        }
        drop(inside);
        let goes_off = engine.timer.load(SeqCst);
        assert!(shared.handled.load(SeqCst) < all || engine.stats().snapshot().interrupts > 0);
        if unfinished || stays {
            comes_back_late(&engine, begun);
        } else {
            assert!(goes_off > 0 || engine.stats().snapshot().interrupts > 0);
        }
        compute_until("nobody comes back", || shared.handled.load(SeqCst) == all);
        drop(receiver);
    }
}

#[test]
fn what_a_handler_leaves_is_the_waits_that_it_interrupted() {
    let all = u64::from(HANDLER_PACKETS) * 100;
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Signal);
    let begun = now_ns();
    let over = engine.wait_unannounced(
        || {
            if shared.posted() == 0 {
                shared.posted[0].store(all - 1, SeqCst);
                shared.post(0, Urgency::Urgent);
                assert!(engine.stats().snapshot().interrupts > 0 && shared.handled.load(SeqCst) < all);
                comes_back_late(&engine, begun);
            }
            shared.handled.load(SeqCst) == all
        },
        None,
    );
    assert!(over);
    // Outside of waits it comes back as soon as ever.
    shared.posted[0].fetch_add(all, SeqCst);
    shared.post(0, Urgency::Urgent);
    compute_until("nobody comes back", || shared.handled.load(SeqCst) == 2 * all + 1);
    assert!(shared.handled_by_handler.load(SeqCst) > all);
    drop(receiver);
}

/// Who receives one message after the other takes the rest by itself; but not who has received a few before it computes, or has an operation under way.
#[test]
fn what_a_handler_leaves_is_left_to_who_receives() {
    for (received, operations, late) in
        [(RECEIVES, false, true), (RECEIVES - 1, false, false), (RECEIVES, true, false)]
    {
        let all = u64::from(HANDLER_PACKETS) * 4;
        let shared = Shared::new();
        shared.idle.store(!operations, SeqCst);
        let engine = engine(&shared, 0);
        let receiver = install(&shared, &engine, BackendKind::Signal);
        (0..received).for_each(|_| engine.note_received());
        let begun = now_ns();
        shared.posted[0].store(all - 1, SeqCst);
        shared.post(0, Urgency::Urgent);
        let (handled, goes_off) = (shared.handled.load(SeqCst), engine.timer.load(SeqCst));
        let earliest = begun + RECEIVING_NS;
        if late {
            let now = now_ns();
            let soon = (earliest..=now + RECEIVING_NS).contains(&goes_off);
            assert!(handled < all && soon || now >= earliest, "{handled} {goes_off} {now}");
        } else {
            assert!(handled == all || engine.stats().snapshot().throttles > 0, "{handled}");
        }
        compute_until("nobody comes back", || shared.handled.load(SeqCst) == all);
        drop(receiver);
    }
}

/// By no timer, which costs a thread of a virtual machine more than what it is for.
#[test]
fn what_a_handler_leaves_is_done_before_its_thread_goes_on() {
    const ENTRIES: u64 = 20;
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Signal);
    shared.posted[0].store(u64::from(HANDLER_PACKETS) * ENTRIES - 1, SeqCst);
    shared.post(0, Urgency::Urgent);
    let handled = shared.handled.load(SeqCst);
    let stats = engine.stats().snapshot();
    // The machine may have taken so long that the handlers' share is used up.
    assert!(handled == shared.posted() || stats.throttles > 0, "{handled} of {}: {stats:?}", shared.posted());
    assert!(stats.interrupts >= ENTRIES || stats.throttles > 0, "{stats:?}");
    compute_until("the rest", || shared.handled.load(SeqCst) == shared.posted());
    drop(receiver);
}

#[test]
fn another_thread_that_wants_the_engine_gets_in_between() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Signal);
    let inside = engine.enter();
    let other = engine.clone();
    let wants = std::thread::spawn(move || drop(other.enter()));
    compute_until("somebody wants the engine", || engine.wanting.load(SeqCst) == 1);
    drop(inside);
    wants.join().unwrap();
    assert_eq!(engine.wanting.load(SeqCst), 0);
    // The handler takes some, and sets the timer for the others where it would go on.
    for wanted in [true, false] {
        engine.wanting.store(u32::from(wanted), SeqCst);
        shared.posted[0].fetch_add(u64::from(HANDLER_PACKETS) * 4 - 1, SeqCst);
        let handled = shared.handled.load(SeqCst);
        after_one_handler(
            || shared.post(0, Urgency::Urgent),
            || {
                assert_eq!(shared.handled.load(SeqCst), handled + u64::from(HANDLER_PACKETS));
                assert_eq!(engine.timer.load(SeqCst) != 0, wanted);
            },
        );
        compute_until("the rest", || shared.handled.load(SeqCst) == shared.posted());
    }
    engine.wanting.store(0, SeqCst);
    drop(receiver);
}

/// Calls `first` with all signals blocked, takes one, and calls `then` with all blocked again.
#[allow(unsafe_code)] // to take one signal and no other
fn after_one_handler(first: impl FnOnce(), then: impl FnOnce()) {
    let (mut all, mut before) =
        (MaybeUninit::<libc::sigset_t>::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
    // SAFETY: - sigfillset makes the set, pthread_sigmask the mask before.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
    }
    first();
    // SAFETY: - the mask came from `pthread_sigmask`.
    unsafe { libc::sigsuspend(before.as_ptr()) };
    then();
    // SAFETY: - as before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
}

#[test]
fn a_look_between_takes_in_what_is_there() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Signal);
    shared.posted[0].store(3, SeqCst);
    engine.look_between();
    assert_eq!(shared.handled.load(SeqCst), 3);
    let all = u64::from(USER_PACKETS) * 100;
    shared.posted[0].store(all, SeqCst);
    let begun = now_ns();
    engine.look_between();
    comes_back_late(&engine, begun);
    compute_until("nobody comes back", || shared.handled.load(SeqCst) == all);
    let inside = engine.enter();
    engine.look_between();
    drop(inside);
    drop(receiver);
}

#[test]
fn what_a_handler_leaves_beside_a_callback_of_a_wait_is_gone_on_with_at_once() {
    // One that was itself interrupted for long has had its share of the time, which says nothing.
    let seen = (0..20).find_map(|_| goes_on_at_once_beside_a_callback());
    assert_eq!(seen, Some(true), "as late as beside the wait itself");
}

/// Whether a handler that interrupts a callback of a wait, and leaves something, has itself called again at once, by no timer. None: it had had its share.
fn goes_on_at_once_beside_a_callback() -> Option<bool> {
    let all = u64::from(HANDLER_PACKETS) * 100;
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Signal);
    let seen = Arc::new(std::sync::Mutex::new(None));
    let completion = Completion::new();
    let call = {
        let (shared, engine, seen) = (shared.clone(), engine.clone(), seen.clone());
        move |_| {
            shared.posted[0].store(all - 1, SeqCst);
            after_one_handler(
                || shared.post(0, Urgency::Urgent),
                || {
                    assert_eq!(shared.handled.load(SeqCst), u64::from(HANDLER_PACKETS));
                    let throttled = engine.stats().snapshot().throttles > 0;
                    *seen.lock().unwrap() = (!throttled).then(|| engine.timer.load(SeqCst) == 0);
                },
            );
            compute_until("nobody comes back", || shared.handled.load(SeqCst) == all);
        }
    };
    engine.callbacks.set(&completion, Box::new(call)).unwrap();
    completion.finish(Outcome::default());
    assert!(engine.wait_unannounced(|| shared.handled.load(SeqCst) == all, None));
    drop(receiver);
    *seen.lock().unwrap()
}

/// A callback that a pass has queued may last: for a long copy that the same pass has begun, and left to a wait that comes after it, the rank comes back.
#[test]
fn what_is_left_to_a_wait_comes_back_beside_a_callback() {
    for copies in [true, false] {
        let shared = Shared::new();
        let engine = engine(&shared, 0);
        let receiver = install(&shared, &engine, BackendKind::Signal);
        let (called, came_back) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let completion = Completion::new();
        let call = {
            let (engine, called, came_back) = (engine.clone(), called.clone(), came_back.clone());
            move |_| {
                called.store(true, SeqCst);
                compute_until("nobody comes back", || engine.stats().snapshot().interrupts > 0);
                came_back.store(true, SeqCst);
            }
        };
        engine.callbacks.set(&completion, Box::new(call)).unwrap();
        shared.completes.store((&raw const completion).cast_mut(), SeqCst);
        let mut inside = engine.enter();
        let _work: &mut Counting = &mut inside;
        // Something short arrives, beside the announcement of something long.
        shared.posted[0].store(1, SeqCst);
        inside.ask_for_pass();
        if copies {
            inside.stay_to_copy();
        } else {
            inside.stay();
        }
        drop(inside);
        assert!(called.load(SeqCst), "in the drop");
        assert!(came_back.load(SeqCst));
        drop(receiver);
    }
}
