//! Large messages in one copy: the record of a transfer, whose chunks are claimed by whoever waits.
//!
//! A transfer is cut into chunks. Both ranks may copy: the receiver pulls, from the front, and the sender pushes, from the back.
//! Whoever is about to copy a chunk claims it first, and counts it when it is there. Who counts the last one tells the other.
//!
//! # Protocol
//! Two words in memory that both ranks map. *claims*: a ticket that names the transfer, a closed and a failed bit, whether who closed it says why, and
//! how many chunks are claimed. *done*: how many of those are copied.
//!
//! - A claim is a right to one chunk more, and each end knows how many it had: which it is follows from that
//!   ([`next_chunk`]). The two ends' chunks are distinct because no more are claimed than there are.
//! - Claiming is one compare-and-swap of the whole word, so that a rank that comes late to a record that serves another
//!   transfer by now takes nothing from it, and nothing is claimed once the closed bit is set. An attempt fails only when
//!   the other rank has claimed meanwhile, which it does once in the time of a copy.
//! - Closing freezes the number of claims. The buffers are given back when as many chunks are done as were claimed: no
//!   copy is under way then. Who closes has none under way itself, so it waits for the other's, at most one, of one chunk or several.
//! - The record is used anew, with a new ticket, by the sender, after it was complete or closed and quiet.
//!
//! Every method is handler-safe and wait-free; the bound stands beside it.

use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Records per ordered pair of ranks: with a [`Publication`](crate::publication::Publication) they fit into a page.
pub const RECORDS: u32 = 30;
/// Distance of records from each other, in bytes: no two transfers share lines that a core fetches together.
pub const RECORD_STEP: u64 = 128;

const FAILED: u64 = 1 << 31;
const CLOSED: u64 = 1 << 30;
const SAYS_WHY: u64 = 1 << 29;
const COUNT: u64 = SAYS_WHY - 1;
/// Attempts at a claim before it is put off to the next pass.
const ATTEMPTS: u32 = 4;
/// Attempts at closing: each fails only if the other rank has claimed one chunk more.
const CLOSING: u32 = 64;

/// Large messages of less are cut finer, so that two ranks that wait finish together.
const SMALL: u64 = 256 * 1024;

/// The length of the chunks of a message of `total` bytes; the last may be shorter. The same at both ends. No more than a
/// handler may copy at once.
#[inline]
pub const fn chunk_bytes(total: u64) -> u64 {
    if total <= SMALL / 2 {
        16 * 1024
    } else if total < SMALL {
        32 * 1024
    } else {
        64 * 1024
    }
}

/// How many chunks a message of `total` bytes has. `None`: too many to count.
#[inline]
pub const fn chunks(total: u64) -> Option<u32> {
    let count = total.div_ceil(chunk_bytes(total));
    if count <= COUNT { Some(count as u32) } else { None }
}

/// Where the chunk lies that an end takes next which has copied `done` bytes: offset and length in bytes. `None`: that was all
/// there is.
///
/// The receiver begins in front and the sender at the back, and the record counts what both have claimed, so that they never
/// meet. What the sender has written last, which mostly is the end, it so takes out of its own caches, and the receiver what has left them: out of those the other core gets
/// lines more slowly. (`tocsin bench pingpong --buffers shared` on an EPYC of Zen 5: 1 MiB 20.7 us from the other ends, 19.6 from these, 4 MiB 85 and 72; by the kernel 4 MiB 218 and 211.)
/// In a program that sends from the same buffers again and again each end comes back to the pages it had: those lines stay in its own caches.
#[inline]
pub const fn next_chunk(total: u64, done: u64, from_back: bool) -> Option<(u64, usize)> {
    let chunk = chunk_bytes(total);
    let left = total.saturating_sub(done);
    if left == 0 {
        None
    } else if from_back {
        let offset = (left - 1) / chunk * chunk;
        Some((offset, (left - offset) as usize))
    } else {
        Some((done, if left < chunk { left } else { chunk } as usize))
    }
}

/// How one rank reaches another's buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Not at all: what is large goes through the Bulk lane.
    None,
    /// They lie in the same address space.
    Direct,
    /// They lie in memory that both have mapped, and the peer's address says where.
    Shared,
    /// This rank maps the peer's memory as it is needed, and copies from and to it.
    Attached,
    /// The kernel copies (`process_vm_readv`, `process_vm_writev`).
    Kernel,
    /// The kernel copies from what the peer has [exposed](crate::Transport::expose), and nobody to it (KNEM).
    Region,
}

impl Reach {
    /// Whether each copy is a call of the kernel's.
    #[inline]
    pub const fn is_by_kernel(self) -> bool {
        matches!(self, Reach::Kernel | Reach::Region)
    }
}

/// What became of an attempt to claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// One chunk more is the caller's to copy: [`next_chunk`] tells which. How many were claimed before, by both.
    Chunk(u32),
    /// All are claimed.
    NoneLeft,
    /// The other rank was quicker each time: try again later.
    Busy,
    /// Somebody has closed the transfer; `failed`: because a copy failed.
    Closed {
        /// A copy failed: the message has to travel otherwise.
        failed: bool,
    },
    /// The record serves another transfer by now.
    Over,
}

/// The protocol's variation points. [`Real`] is what ships; the others exist in tests, to be caught.
#[doc(hidden)]
pub trait Variant {
    /// Publishes a copied chunk and takes in the others'.
    const FINISH: Ordering = Ordering::AcqRel;
    /// Takes in what was copied by who is waited for.
    const QUIET: Ordering = Ordering::Acquire;
    /// Claims check the closed bit and the ticket in the same step in which they count.
    const ONE_STEP: bool = true;
    /// A published notice is believed only when the record is the same after reading it.
    const LOOK_TWICE: bool = true;
    /// What is given up is said to be before the buffer is somebody else's.
    const SAID_FIRST: bool = true;
}

/// The protocol as it ships.
#[doc(hidden)]
#[derive(Debug)]
pub struct Real;
impl Variant for Real {}

/// One transfer, in memory shared by sender and receiver. All bytes zero is its beginning. Its words lie beside each other, at least
/// [`RECORD_STEP`] from another's.
#[repr(C)]
#[derive(Debug)]
pub struct Record {
    /// ticket << 32 | failed | closed | says why | chunks claimed
    claims: AtomicU64,
    done: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Record>() == 16);

impl Default for Record {
    fn default() -> Self {
        Self::new()
    }
}

impl Record {
    /// A record that serves no transfer: the same as zeroed memory.
    pub fn new() -> Record {
        Record { claims: AtomicU64::new(0), done: AtomicU32::new(0) }
    }

    /// Begins a transfer. The sender only, when the record is free; the ticket differs from the last. Two stores.
    #[inline]
    pub fn open(&self, ticket: u32) {
        self.done.store(0, Ordering::Relaxed);
        // SYNC POINT: the receiver learns of the record by a packet that is published after this; Release for a receiver
        // of the last transfer that looks late.
        self.claims.store(u64::from(ticket) << 32, Ordering::Release);
    }

    /// Claims the next of `chunks`. At most one load and four compare-and-swaps.
    #[inline(never)] // so that ci/wait-free.txt can name it
    pub fn claim(&self, ticket: u32, chunks: u32) -> Claim {
        self.claim_as::<Real>(ticket, chunks)
    }

    /// [`claim`](Self::claim) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn claim_as<V: Variant>(&self, ticket: u32, chunks: u32) -> Claim {
        // SYNC POINT: Acquire pairs with the Release of `close`: who sees the failure sees all before it.
        let mut word = self.claims.load(Ordering::Acquire);
        for _ in 0..ATTEMPTS {
            if let Some(other) = verdict(word, ticket, chunks) {
                return other;
            }
            if !V::ONE_STEP {
                return Claim::Chunk((self.claims.fetch_add(1, Ordering::AcqRel) & COUNT) as u32);
            }
            // SYNC POINT: Acquire, as the load; the claim itself publishes nothing.
            match self.claims.compare_exchange(
                word,
                word.wrapping_add(1),
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => return Claim::Chunk((word & COUNT) as u32),
                Err(now) => word = now,
            }
        }
        Claim::Busy
    }

    /// What a claim would find; [`Claim::Chunk`]: something is left. One load.
    #[inline]
    pub fn look(&self, ticket: u32, chunks: u32) -> Claim {
        // SYNC POINT: as `claim`.
        let word = self.claims.load(Ordering::Acquire);
        verdict(word, ticket, chunks).unwrap_or(Claim::Chunk((word & COUNT) as u32))
    }

    /// Counts a claimed chunk that was copied, or whose copy failed ([`close`](Self::close) comes before this then).
    /// True: it was the last of `chunks`, and all others' bytes are visible. One `xadd`.
    #[inline]
    pub fn finish(&self, chunks: u32) -> bool {
        self.finish_as::<Real>(chunks)
    }

    /// [`finish`](Self::finish) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn finish_as<V: Variant>(&self, chunks: u32) -> bool {
        // SYNC POINT: Release publishes the chunk's bytes, and a failure; Acquire takes in those of all counted before:
        // read-modify-writes continue the release sequence.
        self.done.fetch_add(1, V::FINISH).wrapping_add(1) == chunks
    }

    /// Ends the transfer: nothing is claimed any more. `failed`: because a copy failed. The number of chunks claimed, or
    /// `None` when the record serves another transfer, or the other rank claims faster than any copies. At most one load
    /// and 64 compare-and-swaps.
    #[inline]
    pub fn close(&self, ticket: u32, failed: bool) -> Option<u32> {
        self.close_with(ticket, CLOSED | if failed { FAILED } else { 0 })
    }

    #[inline(never)] // as `claim`
    fn close_with(&self, ticket: u32, bits: u64) -> Option<u32> {
        let mut word = self.claims.load(Ordering::Acquire);
        for _ in 0..CLOSING {
            if (word >> 32) as u32 != ticket {
                return None;
            }
            if word & bits == bits {
                return Some((word & COUNT) as u32);
            }
            // SYNC POINT: Release pairs with the Acquire of `claim` and `look`.
            match self.claims.compare_exchange(word, word | bits, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((word & COUNT) as u32),
                Err(now) => word = now,
            }
        }
        None
    }

    /// [`close`](Self::close), before the buffer is given back though the other end may be reading it: what it reads from then on is not the
    /// message, and [`was_given_up`](Self::was_given_up) tells it so. `says_why`: what it is given up for is said otherwise, by who closes it: that its rank
    /// leaves, or that the communicator is revoked. A fence more.
    #[inline]
    pub fn give_up(&self, ticket: u32, says_why: bool) {
        self.give_up_as::<Real>(ticket, says_why);
    }

    /// [`give_up`](Self::give_up) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn give_up_as<V: Variant>(&self, ticket: u32, says_why: bool) {
        self.close_with(ticket, CLOSED | if says_why { SAYS_WHY } else { 0 });
        if V::SAID_FIRST {
            // SYNC POINT: closed, fence, then the buffer is written; the other end reads there, fences, and looks at the record.
            fence(Ordering::SeqCst);
        }
    }

    /// Whether what was read before this call, from the buffer of a transfer none of whose chunks was claimed, may be something else than the
    /// message. A fence and a load.
    #[inline]
    pub fn was_given_up(&self, ticket: u32, chunks: u32) -> bool {
        // SYNC POINT: see `give_up`.
        fence(Ordering::SeqCst);
        !matches!(self.look(ticket, chunks), Claim::Chunk(_))
    }

    /// Whether what a closed transfer was given up for is said otherwise. One load.
    #[inline]
    pub fn says_why(&self, ticket: u32) -> bool {
        // SYNC POINT: Acquire, as `claim`.
        let word = self.claims.load(Ordering::Acquire);
        (word >> 32) as u32 == ticket && word & SAYS_WHY != 0
    }

    /// Closes a transfer of which nothing is claimed. False: something is, or the record is not open by this ticket. One
    /// compare-and-swap.
    #[inline]
    pub fn close_untouched(&self, ticket: u32) -> bool {
        let word = u64::from(ticket) << 32;
        // SYNC POINT: against a claim of the first chunk: one of the two succeeds.
        self.claims.compare_exchange(word, word | CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The ticket of a transfer that is open and of which nothing is claimed. One load.
    #[inline]
    pub fn untouched(&self) -> Option<u32> {
        // SYNC POINT: Acquire pairs with the Release of `open`.
        let word = self.claims.load(Ordering::Acquire);
        if word != 0 && word & u64::from(u32::MAX) == 0 { Some((word >> 32) as u32) } else { None }
    }

    /// Whether all that was ever claimed is done, and the transfer over: closed, complete, or none at all. Two loads.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        let word = self.claims.load(Ordering::Acquire);
        u64::from(self.done.load(Ordering::Acquire)) == word & COUNT && self.untouched().is_none()
    }

    /// Whether no copy is under way and none will begin: the transfer is closed, and what was claimed is done; or the
    /// record serves another transfer. Two loads.
    #[inline]
    pub fn is_quiet(&self, ticket: u32) -> bool {
        self.is_quiet_as::<Real>(ticket)
    }

    /// [`is_quiet`](Self::is_quiet) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn is_quiet_as<V: Variant>(&self, ticket: u32) -> bool {
        let word = self.claims.load(Ordering::Acquire);
        if (word >> 32) as u32 != ticket {
            return true;
        }
        // SYNC POINT: Acquire pairs with the Release of `finish`: the other's last copy comes before the buffer's next use.
        word & CLOSED != 0 && u64::from(self.done.load(V::QUIET)) == word & COUNT
    }

    /// Whether the transfer that it serves now is closed, and no copy of it under way. Two loads.
    #[inline]
    pub fn is_closed_and_quiet(&self) -> bool {
        let word = self.claims.load(Ordering::Acquire);
        word & CLOSED != 0 && u64::from(self.done.load(Ordering::Acquire)) == word & COUNT
    }

    /// Whether all `chunks` are copied. One load.
    #[inline]
    pub fn is_complete(&self, chunks: u32) -> bool {
        // SYNC POINT: Acquire, as `is_quiet`.
        self.done.load(Ordering::Acquire) == chunks
    }
}

/// What the word says to somebody who wants to claim; `None`: go on.
#[inline]
fn verdict(word: u64, ticket: u32, chunks: u32) -> Option<Claim> {
    if (word >> 32) as u32 != ticket {
        Some(Claim::Over)
    } else if word & CLOSED != 0 {
        Some(Claim::Closed { failed: word & FAILED != 0 })
    } else if word & COUNT >= u64::from(chunks) {
        Some(Claim::NoneLeft)
    } else {
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_is_claimed_once_and_the_last_is_noticed() {
        let record = Record::new();
        record.open(7);
        assert_eq!(record.claim(7, 3), Claim::Chunk(0));
        assert_eq!(record.claim(6, 3), Claim::Over);
        assert_eq!(record.look(7, 3), Claim::Chunk(1));
        assert_eq!((record.claim(7, 3), record.claim(7, 3)), (Claim::Chunk(1), Claim::Chunk(2)));
        assert_eq!((record.claim(7, 3), record.look(7, 3)), (Claim::NoneLeft, Claim::NoneLeft));
        assert!(!record.finish(3) && !record.finish(3) && !record.is_complete(3));
        assert!(record.finish(3) && record.is_complete(3));
        record.open(8);
        assert_eq!((record.claim(7, 3), record.close(7, false)), (Claim::Over, None));
        assert!(record.is_quiet(7) && !record.is_quiet(8));
    }

    #[test]
    fn closed_means_no_more_claims() {
        let record = Record::new();
        record.open(1);
        assert_eq!(record.claim(1, 9), Claim::Chunk(0));
        assert_eq!(record.close(1, false), Some(1));
        assert_eq!(record.claim(1, 9), Claim::Closed { failed: false });
        assert!(!record.is_quiet(1));
        assert_eq!(record.close(1, true), Some(1));
        assert_eq!(record.look(1, 9), Claim::Closed { failed: true });
        record.finish(9);
        assert!(record.is_quiet(1));
        record.open(2);
        assert!(!record.was_given_up(2, 9) && record.was_given_up(1, 9));
        record.give_up(2, false);
        assert!(record.was_given_up(2, 9) && record.is_quiet(2) && !record.says_why(2));
        record.open(3);
        record.give_up(3, true);
        assert!(record.was_given_up(3, 9) && record.is_quiet(3));
        assert!(record.says_why(3) && !record.says_why(2));
    }

    #[test]
    fn chunks_cover_the_message() {
        for total in [1, 8193, 16 << 10, 65_537, 128 << 10, (128 << 10) + 1, 512 << 10, 1 << 20, 1 << 40] {
            let n = u64::from(chunks(total).unwrap());
            assert!((n - 1) * chunk_bytes(total) < total && total <= n * chunk_bytes(total), "{total}");
        }
        assert_eq!(chunks(u64::MAX), None);
    }

    #[test]
    fn the_ends_meet_wherever_they_are() {
        for total in [1, 8193, 16 << 10, 65_537, 128 << 10, (128 << 10) + 1, 512 << 10, (1 << 20) + 3] {
            let n = chunks(total).unwrap();
            for front in 0..=n {
                let (mut ends, mut claimed) = ([0, total], 0);
                let mut done = [0, 0];
                for turn in (0..front).map(|_| 0).chain((front..n).map(|_| 1)) {
                    let (offset, len) = next_chunk(total, done[turn], turn == 1).unwrap();
                    assert!(len as u64 <= chunk_bytes(total));
                    done[turn] += len as u64;
                    if turn == 0 {
                        assert_eq!(offset, ends[0]);
                        ends[0] += len as u64;
                    } else {
                        assert_eq!(offset + len as u64, ends[1]);
                        ends[1] = offset;
                    }
                    claimed += 1;
                }
                assert_eq!((ends[0], claimed), (ends[1], n), "{total} bytes, {front} from the front");
                assert_eq!(next_chunk(total, total, front % 2 == 1), None);
            }
        }
    }
}
