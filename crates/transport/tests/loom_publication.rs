//! Models of a published receive: its cancel, and the next publication, while the sender takes it. Broken variants are
//! caught.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

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
