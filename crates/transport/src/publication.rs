//! A receive that its sender can find: posted before the send, its buffer is published, and the sender copies there at once.
//!
//! One per ordered pair of ranks. The receiver publishes a receive only while no other of its receives could take the
//! sender's next message, and says by a number which message that is: it counts what it has taken from the sender's lane,
//! the sender what it has put there. When the numbers agree, nothing of the sender's is under way that the receiver has
//! not taken, so that this message, and no other, meets that receive.
//!
//! # Protocol
//! The publication holds a [`Record`], whose ticket names it. The first claim takes the publication; to withdraw it is
//! to close the record before that, in one compare-and-swap: one of the two succeeds. What is published is written while
//! the record is not open, and read between two looks at it, so that what the sender acts upon belongs to the ticket
//! that it claims by.
//!
//! All of it lies in one cache line, which goes from the receiver, who publishes, to the sender, who looks and claims, and back.

#[cfg(not(loom))]
use core::mem::offset_of;

use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
use crate::transfer::RECORD_STEP;
use crate::transfer::{Real, Record, Variant};

/// What is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// The message that it is for: so many came before it in its lane.
    pub number: u32,
    /// Context of the communicator.
    pub context: u32,
    /// Tag; `None`: any.
    pub tag: Option<i32>,
    /// The receiver's request, as it names itself.
    pub name: u64,
    /// Address of the buffer.
    pub address: u64,
    /// Its length in bytes.
    pub room: u64,
}

impl Notice {
    /// Whether it is for the message of this number and envelope, and has room for it.
    #[inline]
    pub fn is_for(&self, number: u32, context: u32, tag: i32, bytes: u64) -> bool {
        self.number == number
            && self.context == context
            && self.tag.is_none_or(|wanted| wanted == tag)
            && self.room >= bytes
    }
}

/// In memory shared by sender and receiver. All bytes zero: nothing is published. Every method is handler-safe and
/// wait-free.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Publication {
    record: Record,
    number: AtomicU32,
    context: AtomicU32,
    tag: AtomicU32,
    any_tag: AtomicU32,
    name: AtomicU64,
    address: AtomicU64,
    room: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(
    size_of::<Publication>() == RECORD_STEP as usize
        && offset_of!(Publication, room) + size_of::<u64>() <= 64
);

impl Default for Publication {
    fn default() -> Self {
        Self::new()
    }
}

impl Publication {
    /// Nothing is published.
    pub fn new() -> Publication {
        Publication {
            record: Record::new(),
            number: AtomicU32::new(0),
            context: AtomicU32::new(0),
            tag: AtomicU32::new(0),
            any_tag: AtomicU32::new(0),
            name: AtomicU64::new(0),
            address: AtomicU64::new(0),
            room: AtomicU64::new(0),
        }
    }

    /// The record of the transfer into the published buffer.
    #[inline]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Publishes. The receiver only, when [`Record::is_at_rest`]; the ticket is not 0 and differs from the last. Nine
    /// stores and a fence.
    #[inline]
    pub fn publish(&self, ticket: u32, notice: &Notice) {
        // SYNC POINT: pairs with the fence of `look`: who has read any of the stores below finds the record no longer as
        // it was before.
        fence(Ordering::Release);
        self.number.store(notice.number, Ordering::Relaxed);
        self.context.store(notice.context, Ordering::Relaxed);
        self.tag.store(notice.tag.unwrap_or(0) as u32, Ordering::Relaxed);
        self.any_tag.store(u32::from(notice.tag.is_none()), Ordering::Relaxed);
        self.name.store(notice.name, Ordering::Relaxed);
        self.address.store(notice.address, Ordering::Relaxed);
        self.room.store(notice.room, Ordering::Relaxed);
        // Release: who sees the ticket sees the notice.
        self.record.open(ticket);
    }

    /// The receiver has taken a message that was not for the published receive. One store.
    #[inline]
    pub fn renumber(&self, number: u32) {
        // SYNC POINT: Relaxed: an old number is smaller than that of any message to come, and the sender acts only upon
        // the number of its next one.
        self.number.store(number, Ordering::Relaxed);
    }

    /// Takes the publication back. False: the sender has it. The receiver only. One compare-and-swap.
    #[inline]
    pub fn withdraw(&self, ticket: u32) -> bool {
        self.record.close_untouched(ticket)
    }

    /// Whether something is published that the sender does not have yet. One load.
    ///
    /// A sender that announces a message otherwise asks this after it: the receiver waits for one that is long, and has not said so anywhere else.
    /// It publishes, fences, and looks into its lane; the sender fills that, fences, and asks: one of the two sees the other.
    #[inline]
    pub fn is_open(&self) -> bool {
        // SYNC POINT: ordered after the announcement by the caller's fence(SeqCst), which pairs with the receiver's after `publish`.
        self.record.untouched().is_some()
    }

    /// What is published, if the sender does not have it yet. At most nine loads and a fence.
    #[inline]
    pub fn look(&self) -> Option<(u32, Notice)> {
        self.look_as::<Real>()
    }

    /// [`look`](Self::look) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn look_as<V: Variant>(&self) -> Option<(u32, Notice)> {
        let ticket = self.record.untouched()?;
        let tag = self.tag.load(Ordering::Relaxed) as i32;
        let notice = Notice {
            number: self.number.load(Ordering::Relaxed),
            context: self.context.load(Ordering::Relaxed),
            tag: if self.any_tag.load(Ordering::Relaxed) == 0 { Some(tag) } else { None },
            name: self.name.load(Ordering::Relaxed),
            address: self.address.load(Ordering::Relaxed),
            room: self.room.load(Ordering::Relaxed),
        };
        if V::LOOK_TWICE {
            // SYNC POINT: pairs with the fence of `publish`.
            fence(Ordering::Acquire);
            if self.record.untouched() != Some(ticket) {
                return None;
            }
        }
        Some((ticket, notice))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::transfer::Claim;

    fn notice(n: u32) -> Notice {
        Notice { number: n, context: 1, tag: Some(-3), name: 4, address: 5, room: 6 }
    }

    #[test]
    fn taken_or_withdrawn() {
        let publication = Publication::new();
        assert_eq!(publication.look(), None);
        assert!(publication.record().is_at_rest());
        publication.publish(1, &notice(0));
        assert_eq!(publication.look(), Some((1, notice(0))));
        publication.renumber(7);
        assert_eq!(publication.look(), Some((1, notice(7))));
        assert!(publication.withdraw(1) && !publication.withdraw(1));
        assert_eq!(
            (publication.look(), publication.record().claim(1, 2)),
            (None, Claim::Closed { failed: false })
        );
        publication.publish(2, &Notice { tag: None, ..notice(8) });
        assert_eq!(publication.look().map(|(_, n)| n.tag), Some(None));
        assert_eq!(publication.record().claim(2, 1), Claim::Chunk(0));
        assert!(!publication.withdraw(2) && publication.look().is_none());
        assert!(!publication.record().is_at_rest());
        publication.record().finish(1);
        assert!(publication.record().is_at_rest());
    }
}
