//! The boards of a segment: where the ranks of a communicator meet without messages.
//!
//! A segment of a world of few ranks has a row of boards; each has an area for every rank of the world, so that
//! communicators without common members can use one board. The first is the world's, allocated with the segment; the
//! others are allocated when a communicator first gets them, and go from one to the next: `tocsin_transport`'s
//! `board/tenancy.rs`.

use core::ptr::NonNull;

use tocsin_transport::Board;

use crate::Segment;

impl Segment {
    /// Whether there are boards. Handler-safe.
    #[inline]
    pub fn has_boards(&self) -> bool {
        self.geometry().board(0).is_some()
    }

    /// Allocates a board; whether it is there. The second time it takes next to nothing. User threads only.
    pub fn allocate_board(&self, index: u32) -> bool {
        let Some(part) = self.geometry().board(index) else { return false };
        // The first is there from the start.
        if index == 0 {
            return true;
        }
        self.bind_board(index);
        self.allocate(part).is_ok()
    }

    /// A board as one of its members uses it: `members` are ranks of the world, of which the `me`th is the caller's. `None`
    /// when there is none for them. User threads only.
    ///
    /// # Safety
    /// The segment outlives the board, which is [allocated](Self::allocate_board). What [`Board::new`] asks for.
    pub unsafe fn board(&self, index: u32, members: &[u32], me: u32, context: u32) -> Option<Board> {
        let area = |rank: &u32| NonNull::new(self.at(self.geometry().board_area(index, *rank)?).cast());
        let areas = members.iter().map(area).collect::<Option<Box<[_]>>>()?;
        let long = |rank: &u32| NonNull::new(self.at(self.geometry().board_long(index, *rank)?).cast());
        // SAFETY: the areas lie in the mapping, aligned, and are allocated; the rest is promised by the caller.
        let board = unsafe { Board::new(areas, me, context) }?;
        let Some(memory) = members.iter().map(long).collect::<Option<Box<[_]>>>() else { return Some(board) };
        // SAFETY: it lies in the mapping likewise, and a rank has its own allocated (`allocate_long`) before it fills it.
        Some(unsafe { board.with_long(memory) })
    }

    /// Allocates a range of a rank's long memory of some board, on that rank's node. False: it is no such range, or there is no memory. User
    /// threads only.
    pub(crate) fn allocate_long(&self, rank: u32, at: NonNull<u8>, bytes: usize) -> bool {
        // Below the mapping, the difference is no range of it.
        let offset = at.as_ptr().addr().wrapping_sub(self.at(0).addr()) as u64;
        let Some(part) = self.geometry().long_part(rank, offset, bytes as u64) else { return false };
        self.allocate_and_map(rank, part).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BOARDS;
    use tocsin_transport::board::{MEMBERS, Part};

    #[test]
    fn members_meet_on_their_board_alone() {
        let segment = Segment::create(4).unwrap();
        assert!((0..BOARDS).all(|index| segment.allocate_board(index)));
        assert!(!segment.allocate_board(BOARDS));
        // SAFETY: the segment is kept; no area is used twice with one context.
        let board = |index, members: &[u32], me, context| unsafe {
            segment.board(index, members, me, context).unwrap()
        };
        // Two communicators without common members on one board, and one of both on another.
        let mut boards = [
            board(3, &[0, 2], 0, 5),
            board(3, &[0, 2], 1, 5),
            board(3, &[3, 1], 0, 5),
            board(3, &[3, 1], 1, 5),
            board(4, &[0, 3], 0, 6),
            board(4, &[0, 3], 1, 6),
        ];
        for (at, value) in (0u8..).enumerate().take(boards.len()) {
            // SAFETY: a byte of this frame's.
            assert_eq!(unsafe { boards[at].post(u64::from(value), &raw const value, 1) }, 1);
        }
        for (at, board) in boards.iter().enumerate() {
            let other = 1 - at % 2;
            let from = at - at % 2 + other;
            assert_eq!(board.part(other, 1), Part::Here { about: from as u64 });
            let mut got = 0xffu8;
            // SAFETY: a byte of this frame's.
            unsafe { board.read(other, 1, 0, &raw mut got, 1) };
            assert_eq!(usize::from(got), from);
        }
    }

    #[test]
    fn long_memory_is_each_members_own() {
        use tocsin_transport::board::{LONG, LONG_MEMORY, PLACES};
        let segment = Segment::create(3).unwrap();
        let last = segment.geometry().long_boards() - 1;
        assert!(0 < last && last < BOARDS - 1 && segment.allocate_board(last + 1));
        // SAFETY: as below.
        let short = unsafe { segment.board(last + 1, &[2, 1], 0, 9) }.unwrap();
        assert!(!short.has_long());
        for index in [0, last] {
            assert!(segment.allocate_board(index));
            // SAFETY: the segment is kept; no area is used twice with one context.
            let mut boards =
                [0, 1].map(|me| unsafe { segment.board(index, &[2, 1], me, 9 + index) }.unwrap());
            for (board, rank) in boards.iter_mut().zip([2, 1]) {
                let place = board.next_place(LONG);
                let at = board.own_place(place).unwrap();
                assert!(segment.allocate_long(rank, at, 64 << 10));
                assert!(!segment.allocate_long(3 - rank, at, 64 << 10), "another's");
                assert!(!segment.allocate_long(rank, at, LONG_MEMORY + 4096), "and something else");
                assert!(
                    segment.allocate_long(rank, board.own_place(PLACES).unwrap(), 4096),
                    "one that passes"
                );
                let value = u64::from(rank);
                // SAFETY: a word of this frame's.
                unsafe { board.fill((65_528, 65_536), (&raw const value).cast(), 8) };
                board.post_long(1);
            }
            let mut got = 0u64;
            // SAFETY: a word of this frame's.
            unsafe { boards[0].read_long(1, 1, 65_528, (&raw mut got).cast(), 8) };
            assert_eq!(got, 1);
            // SAFETY: as above.
            unsafe { boards[1].read_long(0, 1, 65_528, (&raw mut got).cast(), 8) };
            assert_eq!(got, 2);
        }
    }

    #[test]
    fn worlds_of_one_and_of_many_have_none() {
        for ranks in [1, MEMBERS as u32 + 1] {
            let segment = Segment::create(ranks).unwrap();
            assert!(!segment.has_boards() && !segment.allocate_board(0));
            // SAFETY: there is none.
            assert!(unsafe { segment.board(0, &[0], 0, 1) }.is_none());
        }
        assert!(Segment::create(MEMBERS as u32).unwrap().has_boards());
    }
}
