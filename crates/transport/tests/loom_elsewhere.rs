//! Models of a collective that one member does on the board and another one without it: one of the two sees the other. Broken variants
//! are caught.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use core::ptr::NonNull;
use tocsin_sync::model::{self, sync::Arc, thread};
use tocsin_transport::board::{Area, Board, Part, Real, Variant};

/// Sequence number of the collective.
const WHICH: u32 = 7;

fn board(areas: &[Area; 2], me: u32) -> Board {
    let areas = areas.iter().map(NonNull::from).collect();
    // SAFETY: each thread keeps the areas.
    unsafe { Board::new(areas, me, 1) }.unwrap()
}

/// Member 0 posts, and asks member 1 to look if that has gone elsewhere; who goes there looks at once, and when it is asked.
fn meeting<V: Variant>() {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let areas = Arc::new([Area::new(), Area::new()]);
        let kept = areas.clone();
        let other = thread::spawn(move || {
            let board = board(&kept, 1);
            board.go_elsewhere_as::<V>(WHICH);
            let mut seen = board.next_part(0) != Part::Missing;
            if board.is_asked() {
                board.take_asked();
                assert!(board.next_part(0) != Part::Missing, "asked to look at nothing");
                assert!(!board.is_asked());
                seen = true;
            }
            seen
        });
        let mut poster = board(&areas, 0);
        // SAFETY: no bytes.
        unsafe { poster.post_as::<V>(u64::from(WHICH), core::ptr::null(), 0) };
        let asks = poster.has_gone_elsewhere(1, WHICH);
        assert!(!poster.has_gone_elsewhere(1, WHICH + 1));
        if asks {
            poster.ask(1);
        }
        let seen = other.join().unwrap();
        assert!(seen || asks, "neither sees the other");
    });
}

#[test]
fn who_posts_and_who_goes_elsewhere_meet() {
    meeting::<Real>();
}

struct PostsUnfenced;
impl Variant for PostsUnfenced {
    const FENCE_AFTER_POST: bool = false;
}

#[test]
#[should_panic(expected = "neither sees the other")]
fn who_posts_without_a_fence_is_caught() {
    meeting::<PostsUnfenced>();
}

struct GoesUnfenced;
impl Variant for GoesUnfenced {
    const FENCE_ELSEWHERE: bool = false;
}

#[test]
#[should_panic(expected = "neither sees the other")]
fn who_goes_without_a_fence_is_caught() {
    meeting::<GoesUnfenced>();
}
