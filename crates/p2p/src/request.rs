//! One pending operation.

use tocsin_progress::{Completion, Slots};
use tocsin_transport::{Class, Reach};

use crate::list::{Link, Linked};
use crate::{ConstBuf, Layout, MutBuf};

/// The requests of one rank. Users' threads look at the completions without the token.
pub(crate) type Requests = Slots<Request, Completion>;

/// Where a request stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Owned, not started.
    Reserved,
    /// A send whose first packet is not in the lane yet; in its peer's queue.
    SendQueued,
    /// An announced send that waits for CTS; in no list.
    SendAnnounced,
    /// A synchronous eager send that waits for ACK; in no list.
    SendUnmatched,
    /// A send that has its CTS; in its peer's bulk list.
    SendData,
    /// A send whose last piece is on its way, and of whose pages the receiver has not said that they are read; in no list.
    SendPiped,
    /// A receive in the table of posted ones.
    RecvPosted,
    /// A matched receive whose ACK or CTS is not in the lane yet; in its peer's control list.
    RecvOwes,
    /// A receive whose data arrive; in no list.
    RecvData,
    /// A send whose offer of a single copy was taken; in the list of transfers.
    SendShared,
    /// A receive that has taken an offer; in the list of transfers.
    RecvShared,
    /// A send that has failed, whose buffer the peer may still be reading; in the list of transfers.
    SendClosing,
    /// A receive that has failed, whose buffer the peer may still be writing; in the list of transfers.
    RecvClosing,
    /// Complete; with a cookie, in the list of completed ones.
    Done,
}

/// The list a request is in. It is in one at a time, so one link does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Member {
    None,
    Posted,
    Queue,
    Control,
    Bulk,
    Transfer,
    Completed,
}

/// Synchronous send.
pub(crate) const SYNCHRONOUS: u16 = 1;
/// A receive of any tag.
pub(crate) const ANY_TAG: u16 = 2;
/// The owner is gone: free the slot at completion.
pub(crate) const DETACHED: u16 = 4;
/// Its completion interests somebody who is not looking: plain messages should ring.
pub(crate) const WANTS: u16 = 8;
/// A matched receive that owes an ACK rather than a CTS.
pub(crate) const OWES_ACK: u16 = 16;
/// A receive that takes its sender's offer of a single copy.
pub(crate) const SHARED: u16 = 32;
/// A send that has a record for a single copy.
pub(crate) const HOLDS_RECORD: u16 = 64;
/// A transfer whose last chunk was counted here; the other end does not know.
pub(crate) const OWES_FIN: u16 = 128;
/// A receive that has asked for pages, or a send that was asked for them.
pub(crate) const PIPED: u16 = 256;
/// A send some of whose pages were put into the pipe.
pub(crate) const PIPE_USED: u16 = 512;
/// A transfer whose other end was rung to copy, too.
pub(crate) const CALLED: u16 = 1024;
/// An announced send that has brought its message.
pub(crate) const BRINGS: u16 = 2048;
/// A receive whose thread was expected to wait for it right after its post; while it is posted, its sender knows. No receive brings.
pub(crate) const SOON: u16 = BRINGS;
/// A message of a collective whose other end only that rank itself waits for.
pub(crate) const UNHURRIED: u16 = 4096;
/// Of a receive: it has taken an offer for good, though both wait.
pub(crate) const ONCE: u16 = 8192;
/// Of a send: it was asked for pages, and so goes from the front, also what of it is copied. Only receives take offers.
pub(crate) const FROM_FRONT: u16 = ONCE;
/// A user's send whose message is never received, of which nobody has heard: not its owner, nor who asks for what was lost.
pub(crate) const LOST: u16 = 16384;
/// A posted receive for which the attention word asks for announcements.
pub(crate) const ASKS: u16 = 32768;
/// A transfer that is closed, and whose other end was told to look. No send has an ANY_TAG, no matched receive needs it.
pub(crate) const TOLD: u16 = ANY_TAG;

/// A send of a collective whose end only this rank waits for. No send asks for announcements.
pub(crate) const UNAWAITED: u16 = ASKS;

/// A receive whose sender cannot copy into its buffer. Only sends are synchronous.
pub(crate) const ALONE: u16 = SYNCHRONOUS;

/// The source of a receive of any source.
pub(crate) const ANY_SOURCE: u32 = u32::MAX;

/// 136 bytes; with its completion and slot 192.
#[derive(Debug)]
pub(crate) struct Request {
    /// Of a send: never written through.
    pub(crate) base: *mut u8,
    pub(crate) layout: Layout,
    pub(crate) cookie: u64,
    /// When it was posted, among all receives.
    pub(crate) sequence: u64,
    /// Bytes of the message, once known.
    pub(crate) total: u64,
    /// Bytes moved so far.
    pub(crate) done: u64,
    /// The request at the other end, as it names itself.
    pub(crate) remote: u64,
    /// The buffer at the other end, of a transfer by a single copy.
    pub(crate) address: u64,
    pub(crate) context: u32,
    /// Destination; or source, [`ANY_SOURCE`] until matched.
    pub(crate) peer: u32,
    pub(crate) tag: i32,
    /// Which start of this slot; what packets name it by, so that late ones are noticed.
    pub(crate) serial: u32,
    /// The transfer's record, and its ticket there.
    pub(crate) ticket: u32,
    link: Link,
    pub(crate) slot: u8,
    pub(crate) reach: Reach,
    pub(crate) state: State,
    pub(crate) member: Member,
    pub(crate) flags: u16,
    pub(crate) class: Class,
}

const _: () = assert!(size_of::<Request>() <= 136);

// SAFETY: the buffer's address is only followed under the engine's token; whoever posts vouches (`isend`, `irecv`) that
// the buffer may be used from whichever thread holds the token.
unsafe impl Send for Request {}

impl Request {
    pub(crate) fn new() -> Request {
        Request {
            base: core::ptr::null_mut(),
            layout: Layout::Contiguous { bytes: 0 },
            cookie: 0,
            sequence: 0,
            total: 0,
            done: 0,
            remote: 0,
            address: 0,
            ticket: 0,
            slot: 0,
            reach: Reach::None,
            context: 0,
            peer: 0,
            tag: 0,
            serial: 0,
            link: Link::UNLINKED,
            state: State::Reserved,
            member: Member::None,
            flags: 0,
            class: Class::Eager,
        }
    }

    #[inline]
    pub(crate) fn is_send(&self) -> bool {
        matches!(
            self.state,
            State::SendQueued
                | State::SendAnnounced
                | State::SendUnmatched
                | State::SendData
                | State::SendPiped
                | State::SendShared
                | State::SendClosing
        )
    }

    /// Started and not complete.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        !matches!(self.state, State::Reserved | State::Done)
    }

    /// Whether the other end knows this request by its wire name.
    #[inline]
    pub(crate) fn is_known_abroad(&self) -> bool {
        match self.state {
            State::SendAnnounced
            | State::SendUnmatched
            | State::SendData
            | State::SendPiped
            | State::RecvData
            | State::SendShared
            | State::RecvShared => true,
            State::RecvOwes => self.flags & OWES_ACK == 0,
            _ => false,
        }
    }

    #[inline]
    pub(crate) fn source_buf(&self) -> ConstBuf {
        ConstBuf { base: self.base, layout: self.layout }
    }

    #[inline]
    pub(crate) fn target_buf(&self) -> MutBuf {
        MutBuf { base: self.base, layout: self.layout }
    }

    /// Where in the message its next piece of `bytes` bytes begins, after `done` that went before it: pieces go from the back, unless from the front.
    /// `None`: there are not so many left.
    #[inline]
    pub(crate) fn piece_at(&self, done: u64, bytes: usize, from_front: bool) -> Option<u64> {
        let at = self.total.checked_sub(done)?.checked_sub(bytes as u64)?;
        Some(if from_front { done } else { at })
    }

    #[inline]
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

impl Linked for Request {
    #[inline]
    fn link(&self, _: usize) -> Link {
        self.link
    }

    #[inline]
    fn set_link(&mut self, _: usize, link: Link) {
        self.link = link;
    }
}
