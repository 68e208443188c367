//! Boards of threads that take turns.
#![allow(clippy::unwrap_used)]

use super::*;

pub(super) struct Memory(Vec<Box<Area>>);

impl Memory {
    pub(super) fn new(members: usize) -> Memory {
        Memory((0..members).map(|_| Box::new(Area::new())).collect())
    }

    pub(super) fn board(&self, me: u32, context: u32) -> Board {
        let areas = self.0.iter().map(|area| NonNull::from(&**area)).collect();
        // SAFETY: the tests keep the memory.
        unsafe { Board::new(areas, me, context) }.unwrap()
    }

    fn slot(&self, member: usize, number: u32) -> &Slot {
        &self.0[member].slots[number as usize % SLOTS]
    }
}

pub(super) fn post(board: &mut Board, about: u64, bytes: &[u8]) -> u32 {
    // SAFETY: a slice.
    unsafe { board.post(about, bytes.as_ptr(), bytes.len()) }
}

#[test]
fn a_part_is_read_as_it_was_posted() {
    let memory = Memory::new(2);
    let (mut one, mut two) = (memory.board(0, 7), memory.board(1, 7));
    let bytes: Vec<u8> = (0..ROOM).map(|i| (i * 7 + i / 256) as u8).collect();
    for len in (0..70).chain([ROOM - 9, ROOM - 1, ROOM]) {
        let number = one.posted() + 1;
        assert_eq!(two.part(0, number), Part::Missing);
        assert_eq!(post(&mut one, len as u64, &bytes[..len]), number);
        assert_eq!(two.part(0, number), Part::Here { about: len as u64 });
        for first in (0..len.min(20)).chain([0, len / 2]) {
            let mut got = vec![0xee; len - first + 1];
            // SAFETY: a slice.
            unsafe { two.read(0, number, first, got.as_mut_ptr(), len - first) };
            assert_eq!((&got[..len - first], got[len - first]), (&bytes[first..len], 0xee));
        }
        post(&mut two, 0, &[]);
        for board in [&mut one, &mut two] {
            assert!(board.has_room(number));
        }
    }
    // Longer ones are cut, not written beyond the slot.
    let long = vec![1u8; 3 * ROOM];
    post(&mut one, 0, &long);
    assert_eq!(
        memory.slot(0, one.posted() + 1).stamp.load(Ordering::Relaxed) as u32,
        one.posted() + 1 - SLOTS as u32
    );
}

#[test]
fn who_is_ahead_waits_for_room() {
    let memory = Memory::new(3);
    let mut boards = [0, 1, 2].map(|me| memory.board(me, 9));
    // Member 0 is done with everything at once, as the root of broadcasts is.
    for n in 1..=OUTSTANDING {
        assert!(boards[0].has_room(n - 1));
        assert_eq!(post(&mut boards[0], 0, &[]), n);
    }
    assert!(!boards[0].has_room(OUTSTANDING) && !boards[0].would_have_room(OUTSTANDING));
    boards[0].be_stuck();
    post(&mut boards[1], 0, &[]);
    assert!(!boards[0].has_room(OUTSTANDING) && boards[1].is_stuck(0, 1) && !boards[1].is_stuck(0, 2));
    post(&mut boards[2], 0, &[]);
    // Seen by all, but a number with which the member is not done is not retired.
    assert!(!boards[0].has_room(0) && !boards[0].would_have_room(0));
    assert!(boards[0].would_have_room(OUTSTANDING) && boards[0].has_room(OUTSTANDING));
    post(&mut boards[0], 0, &[]);
    assert!(!boards[0].has_room(OUTSTANDING + 1));
}

#[test]
fn numbers_wrap() {
    let memory = Memory::new(2);
    let mut boards = [0, 1].map(|me| memory.board(me, 9));
    for board in &mut boards {
        (board.posted, board.retired) = (u32::MAX - 2, u32::MAX - 2);
    }
    for n in (0..40).map(|n| (u32::MAX - 1).wrapping_add(n)) {
        for board in &mut boards {
            assert!(board.has_room(n.wrapping_sub(1)), "{n}");
            assert_eq!(post(board, 5, &[]), n);
        }
        assert!(boards.iter().all(|b| (0..2).all(|m| b.part(m, n) == Part::Here { about: 5 })));
    }
}

#[test]
fn what_a_liar_writes_is_missing_or_corrupt() {
    let memory = Memory::new(2);
    let mut board = memory.board(0, 3);
    let number = post(&mut board, 0, &[]);
    let stamp = &memory.slot(1, number).stamp;
    let shown = |word: u64| {
        stamp.store(word, Ordering::Relaxed);
        board.part(1, number)
    };
    let right = 3 << 32 | u64::from(number);
    assert_eq!(shown(right), Part::Here { about: 0 });
    for word in [0, u64::MAX, right ^ 1 << 40, right - 1, right | 1 << 63, u64::from(number)] {
        assert_eq!(shown(word), Part::Missing, "{word:x}");
    }
    for word in [right + 1, right + SLOTS as u64, right + 1000] {
        assert_eq!(shown(word), Part::Corrupt, "{word:x}");
    }
    // Nor does what another board has left mean anything.
    assert!(!board.waits(1, number) && !board.is_stuck(1, number));
    assert_eq!(board.part(2, number), Part::Corrupt);
}

#[test]
fn a_board_has_members() {
    let memory = Memory::new(MEMBERS + 1);
    let of = |members: usize, me, context| {
        let areas = memory.0.iter().take(members).map(|area| NonNull::from(&**area)).collect();
        // SAFETY: the memory is kept.
        unsafe { Board::new(areas, me, context) }.is_some()
    };
    assert!(of(2, 1, 1) && of(MEMBERS, 63, 1));
    assert!(!of(1, 0, 1) && !of(2, 2, 1) && !of(MEMBERS + 1, 0, 1) && !of(2, 0, 0) && !of(2, 0, 1 << 31));
}

#[test]
fn what_was_begun_elsewhere_long_ago_is_not_ahead() {
    let memory = Memory::new(2);
    let (one, two) = (memory.board(0, 7), memory.board(1, 7));
    one.go_elsewhere(5);
    for sequence in (1..=8).map(|turn: u32| turn.wrapping_mul(1 << 29)) {
        one.begin_here(sequence);
        assert!(!two.has_gone_elsewhere(0, sequence.wrapping_add(6)), "{sequence}");
    }
    // What was said lately stands.
    one.go_elsewhere((1 << 29) - 1);
    one.begin_here(1 << 29);
    assert!(two.has_gone_elsewhere(0, (1 << 29) - 1) && !two.has_gone_elsewhere(0, 1 << 29));
}
