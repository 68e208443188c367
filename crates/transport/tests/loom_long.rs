//! Models of long parts and shared pieces on a board of two members whose slots come round: parts are whole, and what a member says that it shares is
//! there and is of the number that it says it of. Broken variants are caught.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use core::ptr::NonNull;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::model::{self, sync::Arc, thread};
use tocsin_transport::board::{Area, Board, LONG_MEMORY, Part, Real, Variant};

/// Where a piece stands: behind a part of one word.
const SHARED: usize = 8;

struct Memory {
    areas: [Area; 2],
    long: [[AtomicU64; LONG_MEMORY / 8]; 2],
}

impl Memory {
    fn new() -> Arc<Memory> {
        let long = || core::array::from_fn(|_| AtomicU64::new(0));
        Arc::new(Memory { areas: [Area::new(), Area::new()], long: [long(), long()] })
    }

    fn board(&self, me: u32) -> Board {
        let areas = self.areas.iter().map(NonNull::from).collect();
        // SAFETY: each thread keeps the memory.
        let board = unsafe { Board::new(areas, me, 1) }.unwrap();
        let long = self.long.iter().map(|words| NonNull::from(words).cast()).collect();
        // SAFETY: as above.
        unsafe { board.with_long(long) }
    }
}

fn part_of(member: u32, number: u32) -> u64 {
    u64::from(number) * 10 + u64::from(member)
}

fn read(board: &Board, member: usize, number: u32, first: usize) -> u64 {
    let mut got = 0u64;
    // SAFETY: a word of this frame's.
    unsafe { board.read_long(member, number, first, (&raw mut got).cast(), 8) };
    got
}

/// Posts a part of each number, and takes the sum of both: the other's, if that shares it, or makes it.
fn sums<V: Variant>(board: &mut Board, numbers: u32) {
    let me = board.me() as u32;
    let other = 1 - me as usize;
    for n in 1..=numbers {
        while !board.has_room_as::<V>(n - 1) {
            thread::yield_now();
        }
        let value = part_of(me, n);
        // One place, as long as it is free.
        board.next_place_as::<V>(usize::MAX);
        // SAFETY: a word of this frame's.
        unsafe { board.fill((0, 8), (&raw const value).cast(), 8) };
        board.post_long_as::<V>(u64::from(n));
        while board.part(other, n) == Part::Missing {
            thread::yield_now();
        }
        assert_eq!(board.part(other, n), Part::Here { about: u64::from(n) });
        let right = part_of(0, n) + part_of(1, n);
        if board.shared(other, n) & 1 == 1 {
            assert_eq!(read(board, other, n, SHARED), right, "not what was shared");
        } else {
            let sum = value + read(board, other, n, 0);
            assert_eq!(sum, right, "not what was posted");
            // SAFETY: a word of this frame's.
            unsafe { board.share_as::<V>(n, 0, SHARED, (&raw const sum).cast(), 8) };
        }
        board.note_long_done(n);
    }
}

fn check<V: Variant>(numbers: u32) {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let memory = Memory::new();
        let kept = memory.clone();
        let thread = thread::spawn(move || sums::<V>(&mut kept.board(1), numbers));
        sums::<V>(&mut memory.board(0), numbers);
        thread.join().unwrap();
    });
}

#[test]
fn what_is_shared_is_there_and_of_its_number() {
    check::<Real>(3);
}

struct ShareRelaxed;
impl Variant for ShareRelaxed {
    const SHARE: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic(expected = "not what was shared")]
fn a_piece_that_is_not_published_is_caught() {
    check::<ShareRelaxed>(1);
}

struct NotCleared;
impl Variant for NotCleared {
    const CLEAR_SHARED: bool = false;
}

#[test]
#[should_panic(expected = "not what was shared")]
fn a_piece_of_an_older_number_is_caught() {
    check::<NotCleared>(3);
}

struct TooSoon;
impl Variant for TooSoon {
    const SEE_DONE: bool = false;
}

#[test]
#[should_panic(expected = "not what was")]
fn a_place_that_is_written_too_soon_is_caught() {
    check::<TooSoon>(2);
}

/// The first member's parts have two words, each of which is said to be there.
fn fills<V: Variant>(board: &mut Board, numbers: u32) {
    for n in 1..=numbers {
        while !board.has_room_as::<V>(n - 1) {
            thread::yield_now();
        }
        board.next_place_as::<V>(usize::MAX);
        board.begin_filling_as::<V>(u64::from(n));
        for first in [0, 8] {
            let value = part_of(first as u32, n);
            // SAFETY: a word of this frame's.
            unsafe { board.fill((first, 16), (&raw const value).cast(), 8) };
            board.note_filled_as::<V>(first + 8);
        }
        board.post_long_as::<V>(u64::from(n));
        board.note_long_done(n);
    }
}

/// The other reads what is there, and the rest when all is.
fn reads_ahead<V: Variant>(board: &mut Board, numbers: u32) {
    for n in 1..=numbers {
        while !board.has_room_as::<V>(n - 1) {
            thread::yield_now();
        }
        board.post_long_as::<V>(u64::from(n));
        let mut done = 0;
        loop {
            let all = board.part(0, n) != Part::Missing;
            let there = if all { 16 } else { board.filled(0, n, u64::from(n)) };
            while done < there {
                assert_eq!(read(board, 0, n, done), part_of(done as u32, n), "not what was filled in");
                done += 8;
            }
            if all {
                break;
            }
            thread::yield_now();
        }
        board.note_long_done(n);
    }
}

fn check_filling<V: Variant>(numbers: u32) {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let memory = Memory::new();
        let kept = memory.clone();
        let thread = thread::spawn(move || reads_ahead::<V>(&mut kept.board(1), numbers));
        fills::<V>(&mut memory.board(0), numbers);
        thread.join().unwrap();
    });
}

#[test]
fn what_is_said_to_be_there_is_and_of_its_number() {
    check_filling::<Real>(3);
}

struct FillRelaxed;
impl Variant for FillRelaxed {
    const FILL: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic(expected = "not what was filled in")]
fn bytes_that_are_not_published_are_caught() {
    check_filling::<FillRelaxed>(1);
}

struct NotEmptied;
impl Variant for NotEmptied {
    const CLEAR_FILLED: bool = false;
}

#[test]
#[should_panic(expected = "not what was filled in")]
fn bytes_of_an_older_number_are_caught() {
    check_filling::<NotEmptied>(3);
}

/// Posts a part of each number in a place that passes, and reads the other's.
fn exchanges<V: Variant>(board: &mut Board, numbers: u32) {
    let me = board.me() as u32;
    for n in 1..=numbers {
        while !board.has_room_as::<V>(n - 1) {
            thread::yield_now();
        }
        let value = part_of(me, n);
        board.next_passing(8);
        // SAFETY: a word of this frame's.
        unsafe { board.fill_room(1 - me as usize, 0, (&raw const value).cast(), 8) };
        board.post_long_as::<V>(u64::from(n));
        while board.part(1 - me as usize, n) == Part::Missing {
            thread::yield_now();
        }
        assert_eq!(read(board, 1 - me as usize, n, 0), part_of(1 - me, n), "not what was exchanged");
        board.exchange_as::<V>(n);
        board.note_long_done(n);
    }
}

fn check_exchanges<V: Variant>(numbers: u32) {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let memory = Memory::new();
        let kept = memory.clone();
        let thread = thread::spawn(move || exchanges::<V>(&mut kept.board(1), numbers));
        exchanges::<V>(&mut memory.board(0), numbers);
        thread.join().unwrap();
    });
}

#[test]
fn what_passes_is_read_before_it_is_written() {
    check_exchanges::<Real>(3);
}

struct Stays;
impl Variant for Stays {
    const PASSES: bool = false;
}

#[test]
#[should_panic(expected = "not what was exchanged")]
fn a_place_that_does_not_pass_is_caught() {
    check_exchanges::<Stays>(3);
}

struct PostRelaxed;
impl Variant for PostRelaxed {
    const POST: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic(expected = "not what was exchanged")]
fn a_part_that_is_not_published_is_caught() {
    check_exchanges::<PostRelaxed>(1);
}
