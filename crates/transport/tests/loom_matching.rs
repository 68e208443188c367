//! Models of messages' order where a sender copies into a receive that was posted before: an earlier message still in the lane, one that
//! waits for room before a full lane, one that is for another receive, an earlier receive of any source, either of the two killed in the midst. Broken variants are
//! caught.
//!
//! A cancel meanwhile is `loom_publication`'s.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use tocsin_sync::atomic::{AtomicBool, AtomicU32, Ordering, real};
use tocsin_sync::cell::UnsafeCell;
use tocsin_sync::model::{self, sync::Arc, thread};
use tocsin_transport::publication::{Notice, Publication};
use tocsin_transport::transfer::Claim;

const CONTEXT: u32 = 1;
const TAG: i32 = 5;
const BYTES: u64 = 64;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// A lane whose messages are told by their numbers, and where the receiver publishes.
struct Pair {
    publication: Publication,
    /// Messages put into the lane.
    put: AtomicU32,
    /// Messages taken from it.
    taken: AtomicU32,
}

impl Pair {
    fn new() -> Arc<Pair> {
        Arc::new(Pair { publication: Publication::new(), put: AtomicU32::new(0), taken: AtomicU32::new(0) })
    }

    /// The ticket of the receive that is published for the message of this number.
    fn find(&self, number: u32, is_for: fn(&Notice, u32) -> bool) -> Option<u32> {
        self.publication.look().filter(|(_, notice)| is_for(notice, number)).map(|(ticket, _)| ticket)
    }

    fn claim(&self, ticket: u32) -> bool {
        self.publication.record().claim(ticket, 1) == Claim::Chunk(0)
    }

    /// A large message whose number would be this: whether the sender copies it into the published receive.
    fn push(&self, number: u32, is_for: fn(&Notice, u32) -> bool) -> bool {
        self.find(number, is_for).is_some_and(|ticket| self.claim(ticket))
    }

    fn put(&self, number: u32) {
        self.put.store(number + 1, Ordering::Release);
    }

    /// Posts a receive of this source, which the message of this number will meet: its ticket.
    fn publish(&self, number: u32) -> u32 {
        let notice = Notice { number, context: CONTEXT, tag: None, name: 1, address: 64, room: BYTES };
        self.publication.publish(number + 1, &notice);
        number + 1
    }

    /// Waits for the message of this number.
    fn take(&self, number: u32) {
        while self.put.load(Ordering::Acquire) <= number {
            thread::yield_now();
        }
        self.taken.store(number + 1, Ordering::Release);
    }
}

/// As it ships.
fn real(notice: &Notice, number: u32) -> bool {
    notice.is_for(number, CONTEXT, TAG, BYTES)
}

fn whatever_its_number(notice: &Notice, _: u32) -> bool {
    notice.is_for(notice.number, CONTEXT, TAG, BYTES)
}

/// A short message, then a large one, and two receives that either could meet.
fn in_the_lane(is_for: fn(&Notice, u32) -> bool) {
    check(move || {
        let pair = Pair::new();
        let other = pair.clone();
        let sender = thread::spawn(move || {
            other.put(0);
            let pushed = other.push(1, is_for);
            other.put(1);
            pushed
        });
        let first = pair.publish(0);
        pair.take(0);
        assert!(pair.publication.withdraw(first), "the second message is where the first one belongs");
        let second = pair.publish(1);
        pair.take(1);
        let withdrawn = pair.publication.withdraw(second);
        assert_eq!(sender.join().unwrap(), !withdrawn);
    });
}

#[test]
fn an_earlier_message_in_the_lane_comes_first() {
    in_the_lane(real);
}

#[test]
#[should_panic]
fn a_push_that_looks_at_no_number_is_caught() {
    in_the_lane(whatever_its_number);
}

/// A short message that is for no posted receive, then a large one that is for the published receive. The sender announces this one by the ticket that it has
/// found, and then claims, as it does where it looks for a receive that may be published soon. `renumbers`: the receiver says that the first one is taken.
fn behind_another_message(renumbers: bool) {
    // Whether the sender has missed the receive in some run, and found it in some.
    let happened = std::sync::Arc::new([false, false].map(real::AtomicBool::new));
    let happens = happened.clone();
    check(move || {
        let pair = Pair::new();
        // The ticket in the announcement; and that the receiver has renumbered, which the sender may learn by a message of the receiver's.
        let (announced, told) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (other, announces, hears) = (pair.clone(), announced.clone(), told.clone());
        let sender = thread::spawn(move || {
            other.put(0);
            let heard = hears.load(Ordering::Acquire);
            let found = other.find(1, real);
            assert!(found.is_some() || !heard, "nobody finds the renumbered receive");
            announces.store(found.unwrap_or(0), Ordering::Relaxed);
            other.put(1);
            found.is_some_and(|ticket| other.claim(ticket))
        });
        let receive = pair.publish(0);
        pair.take(0);
        if renumbers {
            pair.publication.renumber(1);
        }
        told.store(true, Ordering::Release);
        pair.take(1);
        let ticket = announced.load(Ordering::Relaxed);
        // What was not found is taken back, and the answer to the announcement is another one.
        assert!(ticket == receive || ticket == 0 && pair.publication.withdraw(receive));
        let pushed = sender.join().unwrap();
        assert_eq!(pushed, ticket == receive);
        happens[usize::from(pushed)].store(true, real::Ordering::Relaxed);
    });
    assert!(happened.iter().all(|so| so.load(real::Ordering::Relaxed)), "found always, or never");
}

#[test]
fn a_receive_that_another_message_has_passed_is_found() {
    behind_another_message(true);
}

#[test]
#[should_panic = "nobody finds the renumbered receive"]
fn a_receive_that_keeps_its_first_number_is_caught() {
    behind_another_message(false);
}

/// A short message that is for no posted receive, then a short and a large one that either of two receives could meet. `ahead`: the receiver says that
/// the second one is taken before it has met it with the published receive.
fn behind_another_message_and_its_own(is_for: fn(&Notice, u32) -> bool, ahead: bool) {
    check(move || {
        let pair = Pair::new();
        let announced = Arc::new(AtomicU32::new(0));
        let (other, announces) = (pair.clone(), announced.clone());
        let sender = thread::spawn(move || {
            other.put(0);
            other.put(1);
            let found = other.find(2, is_for);
            announces.store(found.unwrap_or(0), Ordering::Relaxed);
            other.put(2);
            found.is_some_and(|ticket| other.claim(ticket))
        });
        let first = pair.publish(0);
        pair.take(0);
        pair.publication.renumber(1);
        pair.take(1);
        if ahead {
            pair.publication.renumber(2);
        }
        assert!(pair.publication.withdraw(first), "the third message is where the second one belongs");
        let second = pair.publish(2);
        pair.take(2);
        let ticket = announced.load(Ordering::Relaxed);
        assert_ne!(ticket, first, "the third message was to go where the second one belongs");
        assert!(ticket == second || pair.publication.withdraw(second));
        assert_eq!(sender.join().unwrap(), ticket == second);
    });
}

#[test]
fn a_renumbered_receive_is_left_to_its_own_message() {
    behind_another_message_and_its_own(real, false);
}

#[test]
#[should_panic = "where the second one belongs"]
fn a_receive_that_is_renumbered_ahead_is_caught() {
    behind_another_message_and_its_own(real, true);
}

#[test]
#[should_panic = "where the second one belongs"]
fn a_push_that_looks_at_no_new_number_is_caught() {
    behind_another_message_and_its_own(whatever_its_number, false);
}

/// The lane has room for one message, and is full; a short one waits for room, and a large one behind it. `overtakes`: the large one is begun
/// as soon as it is posted.
fn before_a_full_lane(overtakes: bool) {
    check(move || {
        let pair = Pair::new();
        pair.put(0);
        let other = pair.clone();
        let sender = thread::spawn(move || {
            if overtakes {
                // As many are in the lane: the next one's number is 1.
                other.push(1, real);
            }
            while other.taken.load(Ordering::Acquire) < 1 {
                thread::yield_now();
            }
            other.put(1);
            while other.taken.load(Ordering::Acquire) < 2 {
                thread::yield_now();
            }
            let pushed = other.push(2, real);
            other.put(2);
            pushed
        });
        pair.take(0);
        let short = pair.publish(1);
        pair.take(1);
        assert!(pair.publication.withdraw(short), "the large message is where the short one belongs");
        let large = pair.publish(2);
        pair.take(2);
        let withdrawn = pair.publication.withdraw(large);
        assert_eq!(sender.join().unwrap(), !withdrawn);
    });
}

#[test]
fn an_earlier_message_that_waits_for_room_comes_first() {
    before_a_full_lane(false);
}

#[test]
#[should_panic]
fn a_push_past_what_waits_for_room_is_caught() {
    before_a_full_lane(true);
}

/// A receive of any source, then one of this source; another source may be quicker. `certain`: the second one is published only when the first one
/// is over.
fn behind_any_source(certain: bool) {
    check(move || {
        let pair = Pair::new();
        let elsewhere = Arc::new(AtomicBool::new(false));
        let (other, quicker) = (pair.clone(), elsewhere.clone());
        let sender = thread::spawn(move || {
            let pushed = other.push(0, real);
            other.put(0);
            pushed
        });
        let third = thread::spawn(move || quicker.store(true, Ordering::Release));
        // A pass: has the other source's message come?
        let met_elsewhere = elsewhere.load(Ordering::Acquire);
        let published = (met_elsewhere || !certain).then(|| pair.publish(0));
        pair.take(0);
        let pushed = published.is_some_and(|ticket| !pair.publication.withdraw(ticket));
        assert!(!pushed || met_elsewhere, "the receive of any source was there before");
        assert_eq!(sender.join().unwrap(), pushed);
        third.join().unwrap();
    });
}

#[test]
fn an_earlier_receive_of_any_source_comes_first() {
    behind_any_source(true);
}

#[test]
#[should_panic]
fn a_receive_that_is_published_behind_any_source_is_caught() {
    behind_any_source(false);
}

/// One of the two is killed: a buffer that both may touch, and whether that is known.
struct Scene {
    pair: Arc<Pair>,
    buffer: UnsafeCell<u32>,
    dead: AtomicBool,
}
// SAFETY: the protocol says who may touch the buffer; loom checks that it does.
unsafe impl Sync for Scene {}
// SAFETY: as above.
unsafe impl Send for Scene {}

/// The sender is killed between its claim and the end of its copy. What it has written was written before its end is known; its claim stays
/// open for ever. `waits`: the receiver gives the buffer back only when no claim is open or the sender is known to be dead.
fn killed(waits: bool) {
    check(move || {
        let scene =
            Arc::new(Scene { pair: Pair::new(), buffer: UnsafeCell::new(0), dead: AtomicBool::new(false) });
        let ticket = scene.pair.publish(0);
        let other = scene.clone();
        let sender = thread::spawn(move || {
            if other.pair.push(0, real) {
                // SAFETY: loom checks that nobody else uses it.
                other.buffer.with_mut(|buffer| unsafe { *buffer += 1 });
            }
            other.dead.store(true, Ordering::Release);
        });
        let record = scene.pair.publication.record();
        // Cancelled, or failed: whichever, nothing is claimed from here on.
        if !scene.pair.publication.withdraw(ticket) {
            record.close(ticket, true).unwrap();
            while waits && !record.is_quiet(ticket) && !scene.dead.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
        // The buffer is the user's again. SAFETY: loom checks that the sender is out.
        scene.buffer.with_mut(|buffer| unsafe { *buffer = 99 });
        sender.join().unwrap();
    });
}

#[test]
fn who_was_killed_in_the_midst_holds_nobody_up_and_writes_no_more() {
    killed(true);
}

#[test]
#[should_panic = "Causality violation"]
fn a_buffer_that_is_given_back_under_a_copy_is_caught() {
    killed(false);
}

/// The receiver is killed between its claim of one of the two chunks and the end of that copy, in which it reads the sender's buffer. What the sender has not claimed is nobody's
/// to copy then, and it hears of the death. `waits`: it gives its buffer back only when both chunks are done, or the receiver is known to be dead.
fn receiver_killed(waits: bool) {
    const CHUNKS: u32 = 2;
    // By the chunk that the receiver had claimed; the last: none.
    let happened = std::sync::Arc::new([false; 3].map(real::AtomicBool::new));
    let happens = happened.clone();
    check(move || {
        let scene =
            Arc::new(Scene { pair: Pair::new(), buffer: UnsafeCell::new(7), dead: AtomicBool::new(false) });
        let ticket = scene.pair.publish(0);
        // The receiver hears of it by the announcement, which comes after.
        assert_eq!(scene.pair.find(0, real), Some(ticket));
        let other = scene.clone();
        let receiver = thread::spawn(move || {
            let record = other.pair.publication.record();
            let claimed = match record.claim(ticket, CHUNKS) {
                Claim::Chunk(number) => Some(number),
                _ => None,
            };
            if claimed.is_some() {
                // SAFETY: loom checks that nobody writes it meanwhile.
                other.buffer.with(|buffer| assert_eq!(unsafe { *buffer }, 7));
            }
            other.dead.store(true, Ordering::Release);
            claimed
        });
        let record = scene.pair.publication.record();
        let mut complete = false;
        while let Claim::Chunk(_) = record.claim(ticket, CHUNKS) {
            // SAFETY: as above.
            scene.buffer.with(|buffer| assert_eq!(unsafe { *buffer }, 7));
            complete = record.finish(CHUNKS);
        }
        if !complete {
            record.close(ticket, true).unwrap();
            while waits && !record.is_quiet(ticket) && !scene.dead.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
        // The buffer is the user's again. SAFETY: loom checks that the receiver is out.
        scene.buffer.with_mut(|buffer| unsafe { *buffer = 99 });
        let claimed = receiver.join().unwrap();
        assert_eq!(claimed.is_some(), !complete);
        happens[claimed.map_or(2, |number| number as usize)].store(true, real::Ordering::Relaxed);
    });
    assert!(
        happened.iter().all(|so| so.load(real::Ordering::Relaxed)),
        "the first, the second, or none: one never happened"
    );
}

#[test]
fn a_receiver_that_was_killed_in_the_midst_holds_nobody_up_and_reads_no_more() {
    receiver_killed(true);
}

#[test]
#[should_panic = "Causality violation"]
fn a_buffer_that_is_given_back_while_the_receiver_reads_it_is_caught() {
    receiver_killed(false);
}
