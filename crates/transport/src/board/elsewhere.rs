//! Collectives that some members do on the board and others without it: an erroneous program, of which all are to hear.
//!
//! # Who sees whom
//! Collectives of a communicator have sequence numbers, the same on all members, whether they are done on the board or not; parts
//! say which is theirs. Who begins one without the board [says so](Board::go_elsewhere), fences, and looks whether another member's
//! [next part](Board::next_part) is about one that he has begun. Who posts fences and looks whether one whose part is missing
//! [has begun](Board::has_gone_elsewhere) that one, or a later one, without the board. Of the two fences one is the later, so that one of
//! the two sees the other.
//!
//! Who sees by his missing part that another may have gone elsewhere cannot tell whether that one only lacks room for it. So he
//! [asks him](Board::ask) to look, and rings him; that one knows what he has begun, and finds out.
//!
//! # Numbers that come round
//! Sequence numbers wrap, and what was said of one would be taken for ahead once half of them have passed. So who begins one
//! on the board [forgets](Board::begin_here) what it has said that long ago; it looks each [`ROUND`] numbers.
//!
//! # Who has given up
//! A member that [gives up](Board::give_up) begins nothing any more on this board, nor without it: or else those who go without it could not tell
//! what it has begun, and would wait for the rest. It says from which sequence number on it [refuses](Board::refuse), asks all to look, and
//! rings them. Who begins something without the board later fences and looks himself: by then it stands in the slots that no more comes. What comes before that number it has begun; of what comes
//! from it on, too, where something that went without the board has failed: that is none that it ends any more.
//!
//! # Why another member may write there
//! A word that asks bears the context, and is compared with it. It is written by who has not left the board, and an area is another
//! board's when all have left this one: so it never overwrites what asks for another communicator. The one who looks clears it
//! first, and whoever asks again rings again.

use super::{Board, Part, Real, Variant};
use tocsin_sync::atomic::{Ordering, fence_after_rmw};

/// After so many collectives, what a member said about one is of no use to anybody: no other is that far behind.
const ROUND: u32 = 1 << 29;

/// Why a member gives up where all do the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// One was refused memory.
    Memory,
    /// The user operator of one panicked.
    Panic,
}

impl Why {
    const PANIC: u64 = 1 << 31;

    fn bits(self) -> u64 {
        if self == Why::Panic { Why::PANIC } else { 0 }
    }

    /// The reason, and the member.
    fn of_bits(word: u64) -> (Why, usize) {
        let why = if word & Why::PANIC != 0 { Why::Panic } else { Why::Memory };
        (why, (word as u32 & !(Why::PANIC as u32)) as usize)
    }
}

impl Board {
    /// Says that this member has begun the collective of a sequence number without the board, and fences. The caller looks at the
    /// others' [next parts](Self::next_part). Handler-safe.
    #[inline]
    pub fn go_elsewhere(&self, sequence: u32) {
        self.go_elsewhere_as::<Real>(sequence);
    }

    /// [`go_elsewhere`](Self::go_elsewhere) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn go_elsewhere_as<V: Variant>(&self, sequence: u32) {
        let Some(area) = self.area(self.me) else { return };
        let word = self.stamp(sequence);
        // SYNC POINT: gone elsewhere, fence, look at the parts; who posts fences, and looks who has gone.
        if V::FENCE_ELSEWHERE {
            area.head.elsewhere.swap(word, Ordering::Relaxed);
            fence_after_rmw();
        } else {
            area.head.elsewhere.store(word, Ordering::Relaxed);
        }
    }

    /// This member begins the collective of a sequence number on the board: each does so, or [without it](Self::go_elsewhere), one
    /// after the other. Handler-safe.
    #[inline]
    pub fn begin_here(&self, sequence: u32) {
        if sequence.is_multiple_of(ROUND) {
            self.forget_elsewhere(sequence);
        }
    }

    #[cold]
    fn forget_elsewhere(&self, sequence: u32) {
        let Some(area) = self.area(self.me) else { return };
        // SYNC POINT: Relaxed, both: only this member writes the word; who reads the old one asks once too often.
        let word = area.head.elsewhere.load(Ordering::Relaxed);
        if sequence.wrapping_sub(word as u32) >= ROUND {
            area.head.elsewhere.store(0, Ordering::Relaxed);
        }
    }

    /// Whether a member has begun the collective of a sequence number, or a later one, without the board. Of use after a post.
    /// Handler-safe.
    #[inline]
    pub fn has_gone_elsewhere(&self, member: usize, sequence: u32) -> bool {
        // SYNC POINT: Relaxed: after the fence of `post`.
        let word = self.area(member).map_or(0, |area| area.head.elsewhere.load(Ordering::Relaxed));
        word >> 32 == self.context >> 32 && (word as u32).wrapping_sub(sequence) as i32 >= 0
    }

    /// What there is of a member's part of the number that this member has to post next. Handler-safe.
    #[inline]
    pub fn next_part(&self, member: usize) -> Part {
        self.part(member, self.posted.wrapping_add(1))
    }

    /// Says that this member begins, or ends, no collective from a sequence number on, on the board or without it; later perhaps from an older
    /// one on. The caller gives up, asks all others, and rings them. Handler-safe.
    #[cold]
    pub fn refuse(&self, from: u32) {
        if let Some(area) = self.area(self.me) {
            // SYNC POINT: Relaxed: before the Release of `ask`, and those of `give_up`: see `refuses`.
            area.head.refuses.store(self.stamp(from), Ordering::Relaxed);
        }
    }

    /// Whether a member refuses the collective of a sequence number: the word says all of it, whatever is seen of its slots yet. Who finds
    /// there that a part [never](Part::Never) comes sees this word, too, and so does who was asked. Handler-safe.
    #[inline]
    pub fn refuses(&self, member: usize, sequence: u32) -> bool {
        // SYNC POINT: Relaxed: nothing but the word itself is used. It bears the context, which no other board of these areas has had, and
        // is written anew for older collectives only, when all are asked again: who reads it early reads what stands. Who must not miss it comes after
        // the Acquire of a look at slots whose owner has given up, or of `take_asked`.
        let word = self.area(member).map_or(0, |area| area.head.refuses.load(Ordering::Relaxed));
        word >> 32 == self.context >> 32 && sequence.wrapping_sub(word as u32) as i32 >= 0
    }

    /// Says what befell which member, where this one gives up for that reason and nobody did anything else than the others. Before it
    /// [gives up](Self::give_up) and [refuses](Self::refuse). Handler-safe.
    #[cold]
    pub fn say_why(&self, why: Why, member: usize) {
        if let Some(area) = self.area(self.me) {
            // SYNC POINT: Relaxed: before the Release of `ask`, and those of `give_up`, as in `refuse`.
            area.head.why.store(self.context | why.bits() | member as u64, Ordering::Relaxed);
        }
    }

    /// What befell whom, if that is why a member has given up. Who sees that it has sees this. Handler-safe.
    #[cold]
    pub fn why(&self, member: usize) -> Option<(Why, usize)> {
        // SYNC POINT: Relaxed: as in `refuses`.
        let word = self.area(member).map_or(0, |area| area.head.why.load(Ordering::Relaxed));
        let (why, who) = Why::of_bits(word);
        (word >> 32 == self.context >> 32 && who < self.members()).then_some((why, who))
    }

    /// Wants a member to look at the others' next parts, and what they refuse. The caller rings it. Handler-safe.
    #[cold]
    pub fn ask(&self, member: usize) {
        if let Some(area) = self.area(member) {
            // SYNC POINT: Release after the part; pairs with the Acquire of `take_asked`. Where another one asks at the same time, the
            // ring that follows orders the part before the look that it is rung for.
            area.head.asked.store(self.context, Ordering::Release);
        }
    }

    /// Whether a member wants this one to look. Handler-safe.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.area(self.me).is_some_and(|area| area.head.asked.load(Ordering::Relaxed) == self.context)
    }

    /// Takes that back; the caller looks. Handler-safe.
    #[cold]
    pub fn take_asked(&self) {
        if let Some(area) = self.area(self.me) {
            // SYNC POINT: Acquire pairs with the Release of `ask`: the look that follows sees the part. A swap, so that what is asked
            // from here on is not lost.
            area.head.asked.swap(0, Ordering::Acquire);
        }
    }
}
