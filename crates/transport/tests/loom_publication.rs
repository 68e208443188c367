//! Models of a published receive: its cancel, and the next publication, renumbered or not, while the sender takes it; and the announcement of a sender that does not. Broken variants are
//! caught.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use tocsin_sync::atomic::{AtomicU32, Ordering, fence};
use tocsin_sync::model::{self, sync::Arc, thread};
use tocsin_transport::publication::{Notice, Publication};
use tocsin_transport::transfer::{Claim, Real, Variant};

fn notice(n: u32) -> Notice {
    Notice { number: 0, context: n, tag: Some(n as i32), name: n.into(), address: n.into(), room: n.into() }
}

/// The receiver publishes buffer 1, cancels, and publishes buffer 2; the sender takes what it finds.
fn cancelled<V: Variant>() {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let publication = Arc::new(Publication::new());
        publication.publish(1, &notice(1));
        let other = publication.clone();
        let sender = thread::spawn(move || {
            let (ticket, found) = other.look_as::<V>()?;
            assert_eq!(found, notice(found.context), "parts of two publications");
            let taken = other.record().claim_as::<V>(ticket, 1) == Claim::Chunk(0);
            assert!(!taken || found == notice(ticket), "into the wrong buffer");
            taken.then_some(ticket)
        });
        let withdrawn = publication.withdraw(1);
        if withdrawn {
            publication.publish(2, &notice(2));
        }
        match sender.join().unwrap() {
            Some(1) => assert!(!withdrawn, "taken after it was withdrawn"),
            Some(_) => assert!(withdrawn),
            None => {}
        }
    });
}

#[test]
fn a_cancelled_receive_is_left_alone() {
    cancelled::<Real>();
}

struct LookOnce;
impl Variant for LookOnce {
    const LOOK_TWICE: bool = false;
}

#[test]
#[should_panic]
fn a_single_look_is_caught() {
    cancelled::<LookOnce>();
}

struct TwoSteps;
impl Variant for TwoSteps {
    const ONE_STEP: bool = false;
}

#[test]
#[should_panic]
fn a_taking_in_two_steps_is_caught() {
    cancelled::<TwoSteps>();
}

/// Message 0 is on its way, and for neither buffer. The receiver publishes buffer 1, cancels, publishes buffer 2, takes message 0 and renumbers; the sender
/// takes what it finds for message 1: buffer 1 never was for that.
fn renumbered<V: Variant>() {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let publication = Arc::new(Publication::new());
        publication.publish(1, &notice(1));
        let other = publication.clone();
        let sender = thread::spawn(move || {
            let Some((ticket, found)) = other.look_as::<V>() else { return false };
            if found.number != 1 {
                return false;
            }
            assert_eq!((ticket, found), (2, Notice { number: 1, ..notice(2) }), "parts of two publications");
            other.record().claim(ticket, 1) == Claim::Chunk(0)
        });
        assert!(publication.withdraw(1), "taken for a message that it was not published for");
        publication.publish(2, &notice(2));
        publication.renumber(1);
        let withdrawn = publication.withdraw(2);
        assert_eq!(sender.join().unwrap(), !withdrawn);
    });
}

#[test]
fn a_new_number_is_that_of_its_own_publication() {
    renumbered::<Real>();
}

#[test]
#[should_panic = "parts of two publications"]
fn a_single_look_at_a_new_number_is_caught() {
    renumbered::<LookOnce>();
}

/// How the two sides keep an announcement from being seen by nobody.
trait Meeting {
    /// The receiver fences between its publication and its look into the lane.
    const RECEIVER_FENCE: bool = true;
    /// The sender asks for the publication after it has announced, and a fence.
    const ASKS_AFTER: bool = true;
}

/// The receiver publishes and looks into the lane; the sender, which has found nothing, announces, and asks whom to ring.
fn announced<M: Meeting>() {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let scene = Arc::new((Publication::new(), AtomicU32::new(0)));
        let other = scene.clone();
        let sender = thread::spawn(move || {
            let (publication, lane) = &*other;
            let found = publication.look().is_some();
            let before = publication.is_open();
            lane.store(1, Ordering::Release);
            fence(Ordering::SeqCst);
            found || if M::ASKS_AFTER { publication.is_open() } else { before }
        });
        let (publication, lane) = &*scene;
        publication.publish(1, &notice(1));
        if M::RECEIVER_FENCE {
            fence(Ordering::SeqCst);
        }
        let looked = lane.load(Ordering::Acquire) != 0;
        let rings = sender.join().unwrap();
        assert!(looked || rings, "announced to a receiver that computes");
    });
}

struct AsShipped;
impl Meeting for AsShipped {}

#[test]
fn an_announcement_is_seen_or_rung_for() {
    announced::<AsShipped>();
}

struct NoFence;
impl Meeting for NoFence {
    const RECEIVER_FENCE: bool = false;
}

#[test]
#[should_panic = "announced to a receiver that computes"]
fn a_receiver_without_a_fence_is_caught() {
    announced::<NoFence>();
}

struct AsksBefore;
impl Meeting for AsksBefore {
    const ASKS_AFTER: bool = false;
}

#[test]
#[should_panic = "announced to a receiver that computes"]
fn a_sender_that_asks_too_early_is_caught() {
    announced::<AsksBefore>();
}
