//! Results of long parts: who combines which piece, and of what. Handler-safe.

use super::long::{PIECE, piece};
use super::{Call, MOST};
use crate::executor::room;
use crate::kernels::{Operator, Panicked};
use tocsin_progress::budget::Budget;
use tocsin_transport::board::{Board, PIECES};

/// What members say of the pieces of a result.
struct Pieces {
    /// Those that a member shares.
    shared: u128,
    /// Those that a member makes.
    begun: u128,
}

impl Call {
    /// Combines elements of the first members' parts, so many of them, from some bytes on, in rank order, in the result.
    ///
    /// # Safety
    /// As [`make_long`](Self::make_long), and the elements are there.
    #[inline(never)] // named for what disassembly checks
    unsafe fn combine(
        &self,
        board: &Board,
        number: u32,
        operator: Operator,
        (first, elements): (usize, usize),
        (at, end): (usize, usize),
    ) -> Result<(), Panicked> {
        let size = operator.size();
        let (offset, bytes) = (first.wrapping_mul(size), elements.wrapping_mul(size));
        let part = |member| board.long_part(member, number, at.wrapping_add(offset), bytes);
        let to = self.to.wrapping_add(offset);
        if end == 1 {
            let own = self.from.wrapping_add(at).wrapping_add(offset);
            // SAFETY: - so many bytes of the result are writable, and of what is sent readable: the caller's promise
            //         - its own is apart from where it goes, or that very place.
            unsafe {
                if board.me() > 0 {
                    board.read_long(0, number, at.wrapping_add(offset), to, bytes);
                } else if !std::ptr::eq(own, to) {
                    tocsin_transport::copy::copy(own, to, bytes);
                }
            }
            return Ok(());
        }
        // There are two members at least, and long parts have what the arguments say.
        let (Some(left), Some(right)) = (part(0), part(1)) else { return Ok(()) };
        // SAFETY: - parts are readable for these elements, the result is writable for them and lies elsewhere
        //         - what others may write meanwhile, if they lie, are numbers: any bits are.
        unsafe {
            operator.combine(left, right, to, elements)?;
            for member in 2..end {
                if let Some(right) = part(member) {
                    operator.combine(to, right, to, elements)?;
                }
            }
        }
        Ok(())
    }

    /// Of one rank alone: combines the first members' parts, so many of them, from some bytes on, some elements at a time.
    ///
    /// # Safety
    /// As [`make_long`](Self::make_long).
    pub(super) unsafe fn combine_all(
        &self,
        board: &Board,
        number: u32,
        (count, operator): (usize, Operator),
        (at, end): (usize, usize),
        done: &mut usize,
        budget: &mut Budget,
    ) -> Result<bool, Panicked> {
        let size = operator.size().wrapping_mul(end).max(1);
        // Of nobody's there is nothing.
        while *done < count && end > 0 {
            let most = room(budget).min(PIECE.wrapping_mul(end));
            let now = count.wrapping_sub(*done).min((most / size).max(1));
            let work = now.wrapping_mul(size);
            if is_too_much(work, budget) {
                return Ok(false);
            }
            // SAFETY: done + now <= count; the rest is promised by the caller.
            unsafe { self.combine(board, number, operator, (*done, now), (at, end))? };
            budget.take_bytes(work);
            *done = done.wrapping_add(now);
            if *done < count && budget.exhausted() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Of two members whose parts [pass](Call::passes): each combines its own vector, or block, with the other's. Its own is where the user has it, from so many bytes on.
    ///
    /// # Safety
    /// As [`make_long`](Self::make_long).
    #[inline(never)] // named for what disassembly checks
    pub(super) unsafe fn combine_with_other(
        &self,
        board: &Board,
        number: u32,
        (count, operator): (usize, Operator),
        (at, done): (usize, &mut usize),
        budget: &mut Budget,
    ) -> Result<bool, Panicked> {
        let (me, size) = (board.me(), operator.size());
        let both = size.wrapping_mul(2).max(1);
        while *done < count {
            let most = room(budget).min(PIECE.wrapping_mul(2));
            let now = count.wrapping_sub(*done).min((most / both).max(1));
            let work = now.wrapping_mul(both);
            if is_too_much(work, budget) {
                return Ok(false);
            }
            let (offset, bytes) = (done.wrapping_mul(size), now.wrapping_mul(size));
            let (own, to) = (self.from.wrapping_add(at.wrapping_add(offset)), self.to.wrapping_add(offset));
            let Some(theirs) = board.long_part(1usize.wrapping_sub(me), number, offset, bytes) else { break };
            let (left, right) = if me == 0 { (own, theirs) } else { (theirs, own) };
            // SAFETY: - done + now <= count: all are readable for these elements, and the result is writable for them: the caller's promise
            //         - it is apart from this rank's own, or that very place; no element is combined twice
            //         - what the other may write meanwhile, if it lies, are numbers: any bits are.
            unsafe { operator.combine(left, right, to, now)? };
            budget.take_bytes(work);
            *done = done.wrapping_add(now);
            if *done < count && budget.exhausted() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Everybody's: takes the pieces that others have made, and makes the others. At most as many turns as there are pieces.
    ///
    /// # Safety
    /// As [`make_long`](Self::make_long).
    pub(super) unsafe fn combine_shared(
        &self,
        board: &Board,
        number: u32,
        (count, operator): (usize, Operator),
        have: &mut u128,
        budget: &mut Budget,
    ) -> Result<bool, Panicked> {
        let (members, size) = (board.members(), operator.size());
        let length = piece(count, size, members);
        let pieces = count.div_ceil(length.max(1)) as u32;
        let all = if pieces >= PIECES { u128::MAX } else { (1u128 << pieces).wrapping_sub(1) };
        // This rank's own, if all shared the work evenly.
        let from = (pieces as usize).wrapping_mul(board.me()) / members.max(1);
        while *have != all {
            let others = others(board, number);
            let Some(piece) = next(all & !*have, &others, from as u32) else { break };
            let first = length.wrapping_mul(piece as usize);
            let elements = count.wrapping_sub(first).min(length);
            let (offset, bytes) = (first.wrapping_mul(size), elements.wrapping_mul(size));
            // Pieces stand behind parts.
            let (to, shared_at) = (self.to.wrapping_add(offset), self.bytes.wrapping_add(offset));
            let maker = who_shares(board, number, piece);
            let work = if maker.is_some() { bytes } else { bytes.wrapping_mul(members) };
            if is_too_much(work, budget) {
                return Ok(false);
            }
            // SAFETY: - the piece is within `count`, and the result writable: the caller's promise.
            unsafe {
                match maker {
                    Some(maker) => board.read_long(maker, number, shared_at, to, bytes),
                    None => {
                        board.begin_piece(number, piece);
                        self.combine(board, number, operator, (first, elements), (0, members))?;
                        board.share(number, piece, shared_at, to, bytes);
                    }
                }
            }
            budget.take_bytes(work);
            *have |= 1u128.wrapping_shl(piece);
            if *have != all && budget.exhausted() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether so much, which is done in one piece, is left to a fresh budget.
fn is_too_much(bytes: usize, budget: &Budget) -> bool {
    bytes > budget.bytes_left() && budget.bytes_left() < MOST
}

/// What the others say.
fn others(board: &Board, number: u32) -> Pieces {
    let mut pieces = Pieces { shared: 0, begun: 0 };
    for member in (0..board.members()).filter(|member| *member != board.me()) {
        pieces.shared |= board.shared(member, number);
        pieces.begun |= board.begun_by(member, number).map_or(0, |piece| 1u128.wrapping_shl(piece));
    }
    pieces
}

/// Who shares a piece, the next member first.
fn who_shares(board: &Board, number: u32, piece: u32) -> Option<usize> {
    let (me, members) = (board.me(), board.members());
    (1..members)
        .map(|ahead| me.wrapping_add(ahead) % members.max(1))
        .find(|member| board.shared(*member, number).wrapping_shr(piece) & 1 == 1)
}

/// The next of the pieces that are left, from one on and round: first one that nobody makes, then one that is made, and last what somebody makes, but
/// may never end.
fn next(left: u128, others: &Pieces, from: u32) -> Option<u32> {
    let Pieces { shared, begun } = *others;
    let first_in = |pieces: u128| {
        let turned = pieces.rotate_right(from);
        (turned != 0).then(|| turned.trailing_zeros().wrapping_add(from) % PIECES)
    };
    first_in(left & !shared & !begun).or_else(|| first_in(left & shared)).or_else(|| first_in(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_makes_comes_first_and_what_somebody_makes_last() {
        let pieces = |shared, begun| Pieces { shared, begun };
        assert_eq!(next(0b1111, &pieces(0, 0), 2), Some(2));
        assert_eq!(next(0b0011, &pieces(0, 0), 2), Some(0), "round");
        assert_eq!(next(0b1111, &pieces(0b0100, 0b1000), 2), Some(0));
        assert_eq!(next(0b1100, &pieces(0b0100, 0b1000), 3), Some(2));
        assert_eq!(next(0b1000, &pieces(0b0100, 0b1000), 2), Some(3), "nobody waits for it");
        assert_eq!(next(0, &pieces(0b0100, 0b1000), 2), None);
        assert_eq!(next(1 << 127 | 1, &pieces(0, 0), 127), Some(127));
        assert_eq!(next(1, &pieces(0, 0), 127), Some(0));
    }
}
