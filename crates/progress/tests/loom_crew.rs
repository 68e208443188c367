//! A model of a crew: its threads, the doorbell that ships and a modelled kernel. What is sent to a member is handled, whoever serves;
//! a server that does not look once more after it has said that it no longer serves must be caught as a deadlock.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use std::sync::Arc as StdArc;
use tocsin_doorbell::{Descriptor, Mark, Own, Urgency, ring};
use tocsin_progress::Pass;
use tocsin_progress::schedule::crew::{Crew, Member};
use tocsin_progress::testing::{Real, Variant};
use tocsin_sync::atomic::{AtomicU32, Ordering, fence};

/// A lane with room for one item, and who takes it.
struct Rank {
    descriptor: Descriptor,
    own: Own,
    mark: Mark,
    posted: AtomicU32,
    handled: AtomicU32,
}

impl Rank {
    fn new() -> Box<Rank> {
        // SAFETY: replaced below, before it is used.
        let own = unsafe { Own::new(std::ptr::null()) };
        let mut rank = Box::new(Rank {
            descriptor: Descriptor::new(),
            own,
            mark: Mark::new(),
            posted: AtomicU32::new(0),
            handled: AtomicU32::new(0),
        });
        // SAFETY: the box keeps the descriptor where it is.
        rank.own = unsafe { Own::new(&raw const rank.descriptor) };
        rank
    }

    fn post(&self) {
        self.posted.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let _outcome = ring(&self.descriptor, &self.mark, 0, Urgency::Urgent);
    }

    fn is_done(&self) -> bool {
        self.handled.load(Ordering::Relaxed) > 0
    }
}

/// A member, through which the crew reaches the rank.
struct Through(Arc<Box<Rank>>);

impl Member for Through {
    fn own(&self) -> &Own {
        &self.0.own
    }

    fn visit(&self, _more: bool) -> Option<Pass> {
        self.look()
    }

    fn look(&self) -> Option<Pass> {
        let rank = &self.0;
        if rank.posted.load(Ordering::Relaxed) > 0 && rank.handled.swap(1, Ordering::Relaxed) == 0 {
            // Its thread's work ends with it.
            rank.own.wake_own();
            return Some(Pass::Worked);
        }
        Some(Pass::Idle)
    }

    fn has_callbacks(&self) -> bool {
        false
    }
    fn run_callbacks(&self) {}
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Two members; the first one's thread runs until its item is handled, the second's too. The items come from a third thread.
fn two_items<V: Variant>() {
    let mut ranks = [Rank::new(), Rank::new()];
    // A crew has its members in the order in which their descriptors lie, which must not depend on the allocator.
    ranks.sort_by_key(|rank| core::ptr::from_ref(&rank.descriptor).addr());
    let ranks = ranks.map(Arc::new);
    let members = [0, 1].map(|at| StdArc::new(Through(ranks[at].clone())));
    let crew = Arc::new(Crew::new());
    members.iter().for_each(|member| crew.join(member.clone()));
    let second = {
        let (crew, rank, member) = (crew.clone(), ranks[1].clone(), members[1].clone());
        loom::thread::spawn(move || {
            crew.work_as::<V>(&*member, || rank.is_done(), || ());
        })
    };
    let peer = {
        let ranks = ranks.clone();
        loom::thread::spawn(move || {
            ranks[0].post();
            ranks[1].post();
        })
    };
    let first = ranks[0].clone();
    crew.work_as::<V>(&*members[0], || first.is_done(), || ());
    second.join().unwrap();
    peer.join().unwrap();
}

#[test]
fn what_comes_is_served() {
    check(two_items::<Real>);
}

/// Broken: the last look comes before it is said that nobody serves.
#[test]
#[should_panic(expected = "deadlock")]
fn looking_while_serving_is_caught() {
    struct LooksTooEarly;
    impl Variant for LooksTooEarly {
        const LOOK_WHEN_NOT_SERVING: bool = false;
    }
    check(two_items::<LooksTooEarly>);
}
