//! Models of a board of two members whose slots come round: parts are whole, no part is overwritten that somebody still
//! reads, and who waits is rung or sees. Broken variants are caught.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use core::ptr::NonNull;
use tocsin_sync::atomic::{AtomicBool, Ordering, fence};
use tocsin_sync::model::{self, sync::Arc, thread};
use tocsin_transport::board::{Area, Board, Part, Real, Variant};

struct Memory {
    areas: [Area; 2],
    /// Who was rung.
    rung: [AtomicBool; 2],
}

impl Memory {
    fn new() -> Arc<Memory> {
        let rung = || AtomicBool::new(false);
        Arc::new(Memory { areas: [Area::new(), Area::new()], rung: [rung(), rung()] })
    }

    fn board(&self, me: u32) -> Board {
        let areas = self.areas.iter().map(NonNull::from).collect();
        // SAFETY: each thread keeps the memory.
        unsafe { Board::new(areas, me, 1) }.unwrap()
    }
}

fn post<V: Variant>(board: &mut Board) {
    let value = u64::from(board.posted() + 1) * 10 + board.me() as u64;
    // SAFETY: a word of this frame's.
    unsafe { board.post_as::<V>(value, (&raw const value).cast(), 8) };
}

fn read(board: &Board, member: usize, number: u32) {
    let mut got = 0u64;
    // SAFETY: a word of this frame's.
    unsafe { board.read(member, number, 0, (&raw mut got).cast(), 8) };
    assert_eq!(got, u64::from(number) * 10 + member as u64, "not what was posted");
}

/// Member 1 takes what member 0 broadcasts; member 0 is done with each number at once.
fn rounds<V: Variant>(numbers: u32) {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let memory = Memory::new();
        let kept = memory.clone();
        let reader = thread::spawn(move || {
            let mut board = kept.board(1);
            for n in 1..=numbers {
                while !board.has_room_as::<V>(n - 1) {
                    thread::yield_now();
                }
                post::<V>(&mut board);
                while board.part(0, n) == Part::Missing {
                    thread::yield_now();
                }
                assert_eq!(board.part(0, n), Part::Here { about: u64::from(n) * 10 }, "not what was posted");
                read(&board, 0, n);
            }
        });
        let mut board = memory.board(0);
        for n in 1..=numbers {
            while !board.has_room_as::<V>(n - 1) {
                thread::yield_now();
            }
            post::<V>(&mut board);
        }
        reader.join().unwrap();
    });
}

/// Both members post the same number; who does not find the other's part waits. Nobody waits for what nobody rings.
fn waiting<V: Variant>() {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let memory = Memory::new();
        let member = |me: u32, memory: &Memory| {
            let (other, mut board) = (1 - me as usize, memory.board(me));
            post::<V>(&mut board);
            if board.part(other, 1) == Part::Missing {
                board.wait_for_as::<V>(1);
                if board.part(other, 1) == Part::Missing {
                    return false;
                }
            } else if board.waits(other, 1) {
                // SYNC POINT: the test's own: a ring.
                memory.rung[other].store(true, Ordering::Relaxed);
            }
            read(&board, other, 1);
            true
        };
        let kept = memory.clone();
        let thread = thread::spawn(move || member(1, &kept));
        let done = [member(0, &memory), thread.join().unwrap()];
        for (done, rung) in done.iter().zip(&memory.rung) {
            assert!(*done || rung.load(Ordering::Relaxed), "waits for ever");
        }
        assert!(done[0] || done[1], "both wait");
    });
}

/// Member 0 has no room for its second number; member 1 posts the part that it lacks.
fn stuck<V: Variant>() {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let memory = Memory::new();
        let kept = memory.clone();
        let thread = thread::spawn(move || {
            let mut board = kept.board(1);
            post::<V>(&mut board);
            if board.is_stuck(0, 1) {
                // SYNC POINT: the test's own: a ring.
                kept.rung[0].store(true, Ordering::Relaxed);
            }
        });
        let mut board = memory.board(0);
        post::<V>(&mut board);
        let mut room = board.has_room_as::<V>(1);
        if !room {
            board.be_stuck_as::<V>();
            room = board.has_room_as::<V>(1);
        }
        thread.join().unwrap();
        fence(Ordering::SeqCst);
        assert!(room || memory.rung[0].load(Ordering::Relaxed), "stuck for ever");
    });
}

#[test]
fn parts_are_whole_and_stay() {
    rounds::<Real>(3);
}

#[test]
fn who_waits_is_rung_or_sees() {
    waiting::<Real>();
}

#[test]
fn who_is_stuck_is_rung_or_sees() {
    stuck::<Real>();
}

struct PostRelaxed;
impl Variant for PostRelaxed {
    const POST: Ordering = Ordering::Relaxed;
    const FENCE_AFTER_POST: bool = false;
}

#[test]
#[should_panic(expected = "not what was posted")]
fn a_stamp_that_publishes_nothing_is_caught() {
    rounds::<PostRelaxed>(2);
}

struct Hasty;
impl Variant for Hasty {
    const SEE_ALL: bool = false;
}

#[test]
#[should_panic(expected = "not what was posted")]
fn a_slot_that_is_written_too_soon_is_caught() {
    rounds::<Hasty>(3);
}

struct NoFenceAfterPost;
impl Variant for NoFenceAfterPost {
    const FENCE_AFTER_POST: bool = false;
}

#[test]
#[should_panic(expected = "for ever")]
fn a_poster_without_a_fence_is_caught() {
    waiting::<NoFenceAfterPost>();
}

#[test]
#[should_panic(expected = "stuck for ever")]
fn a_poster_without_a_fence_leaves_somebody_stuck() {
    stuck::<NoFenceAfterPost>();
}

struct NoFenceBeforeLook;
impl Variant for NoFenceBeforeLook {
    const FENCE_BEFORE_LOOK: bool = false;
}

#[test]
#[should_panic(expected = "for ever")]
fn a_waiter_without_a_fence_is_caught() {
    waiting::<NoFenceBeforeLook>();
}

#[test]
#[should_panic(expected = "stuck for ever")]
fn a_stuck_member_without_a_fence_is_caught() {
    stuck::<NoFenceBeforeLook>();
}
