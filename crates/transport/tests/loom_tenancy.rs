//! Models of an area that goes from one communicator to the next: nobody who is still to read what was posted for the
//! last one misses it, however late he begins. And of a member that gives up. Broken variants are caught.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use core::ptr::NonNull;
use tocsin_sync::atomic::{AtomicBool, Ordering};
use tocsin_sync::model::{self, sync::Arc, thread};
use tocsin_transport::board::{Area, Board, Part, Real, Variant};

struct Memory {
    areas: [Area; 3],
    /// Member 0 has posted for another communicator.
    written: AtomicBool,
}

impl Memory {
    /// The board of member 0 and another one.
    fn board(&self, other: usize, me: u32, context: u32) -> Board {
        let areas = [&self.areas[0], &self.areas[other]].map(NonNull::from).into();
        // SAFETY: each thread keeps the memory.
        unsafe { Board::new(areas, me, context) }.unwrap()
    }
}

/// Posts a word.
fn post(board: &mut Board, value: u64) {
    // SAFETY: a word of this frame's.
    unsafe { board.post(value, (&raw const value).cast(), 8) };
}

/// Member 0 broadcasts to member 1 and is done; then it does the same with member 2, in the same memory.
fn handed_over<V: Variant>() {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let memory = Arc::new(Memory {
            areas: [Area::new(), Area::new(), Area::new()],
            written: AtomicBool::new(false),
        });
        // There was another communicator before.
        let before = [0, 1].map(|me| memory.board(1, me, 1));
        before.iter().for_each(Board::leave);
        let kept = memory.clone();
        let reader = thread::spawn(move || {
            let board = kept.board(1, 1, 2);
            loop {
                // SYNC POINT: the test's own: Acquire pairs with the Release below.
                let written = kept.written.load(Ordering::Acquire);
                match board.part(0, 1) {
                    Part::Here { about: 20 } => break,
                    Part::Missing => assert!(!written, "it is gone before it was read"),
                    other => panic!("not what was posted: {other:?}"),
                }
                thread::yield_now();
            }
            let mut got = 0u64;
            // SAFETY: a word of this frame's.
            unsafe { board.read(0, 1, 0, (&raw mut got).cast(), 8) };
            assert_eq!(got, 20, "it is gone before it was read");
            board.leave();
        });
        let mut board = memory.board(1, 0, 2);
        post(&mut board, 20);
        board.leave();
        while !board.all_have_left_as::<V>(|_| false) {
            thread::yield_now();
        }
        let mut next = memory.board(2, 0, 3);
        post(&mut next, 30);
        memory.written.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}

/// Member 0 posts and gives up; member 1 is to have what was posted, and to see that no more comes.
fn given_up<V: Variant>() {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let memory = Arc::new(Memory {
            areas: [Area::new(), Area::new(), Area::new()],
            written: AtomicBool::new(false),
        });
        let kept = memory.clone();
        let reader = thread::spawn(move || {
            let board = kept.board(1, 1, 2);
            while board.part(0, 1) == Part::Missing {
                thread::yield_now();
            }
            assert_eq!(board.part(0, 1), Part::Here { about: 20 }, "it gave up too soon");
            while board.part(0, 2) == Part::Missing {
                thread::yield_now();
            }
            assert_eq!(board.part(0, 2), Part::Never);
        });
        let mut board = memory.board(1, 0, 2);
        let value = 20u64;
        // SAFETY: a word of this frame's.
        unsafe { board.post_as::<V>(value, (&raw const value).cast(), 8) };
        board.give_up_as::<V>();
        reader.join().unwrap();
    });
}

#[test]
fn what_was_posted_before_giving_up_is_seen() {
    given_up::<Real>();
}

struct GivesUpRelaxed;
impl Variant for GivesUpRelaxed {
    const FENCE_AFTER_POST: bool = false;
    const GIVE_UP: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic(expected = "it gave up too soon")]
fn who_gives_up_before_its_post_is_seen_is_caught() {
    given_up::<GivesUpRelaxed>();
}

#[test]
fn what_was_posted_stays_until_all_have_left() {
    handed_over::<Real>();
}

struct Hasty;
impl Variant for Hasty {
    const SEE_LEFT: bool = false;
}

#[test]
#[should_panic(expected = "gone before it was read")]
fn an_area_that_is_written_too_soon_is_caught() {
    handed_over::<Hasty>();
}

struct Forgetful;
impl Variant for Forgetful {
    const SEE_BEFORE: bool = false;
}

#[test]
#[should_panic(expected = "gone before it was read")]
fn who_takes_the_late_for_those_who_have_left_is_caught() {
    handed_over::<Forgetful>();
}
