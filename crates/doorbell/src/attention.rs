//! What the owner is doing, and so whether to ring: one shared word.

use crate::kind::Urgency;

/// One reading of a descriptor's attention word.
///
/// | bits | field |
/// |---|---|
/// | 0..12 | threads that poll by themselves: don't ring |
/// | 12..24 | threads that sleep: wake them |
/// | 24 | throttled (the user interrupt descriptor's SN): don't ring |
/// | 25 | plain messages should ring, too |
/// | 26 | offers should ring, too |
/// | 27..32 | of the threads that sleep, those that only rings need wake |
/// | 32..64 | thread id of the interruptible thread, 0 = none yet |
///
/// Neither pollers nor sleepers means that the thread computes: it may be interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Attention(pub u64);

impl Attention {
    pub(crate) const POLLER: u64 = 1;
    pub(crate) const SLEEPER: u64 = 1 << 12;
    const COUNT: u64 = 0xFFF;
    pub(crate) const THROTTLED: u64 = 1 << 24;
    pub(crate) const WANTS_PLAIN: u64 = 1 << 25;
    pub(crate) const WANTS_OFFERS: u64 = 1 << 26;
    pub(crate) const ATTENDANT: u64 = 1 << 27;
    pub(crate) const TID_SHIFT: u32 = 32;
    /// Everything but the thread id.
    pub(crate) const LOW: u64 = 0xFFFF_FFFF;

    /// Threads of the rank that poll. At most 4095.
    #[inline]
    pub fn pollers(self) -> u32 {
        (self.0 & Self::COUNT) as u32
    }

    /// Threads of the rank that sleep. At most 4095.
    #[inline]
    pub fn sleepers(self) -> u32 {
        ((self.0 >> 12) & Self::COUNT) as u32
    }

    /// Of the threads that sleep, those that wait for rings only ([`Own::attend`](crate::Own::attend)). At most 31.
    #[inline]
    pub fn attendants(self) -> u32 {
        ((self.0 >> 27) & 0x1F) as u32
    }

    /// Whether the owner asked not to be rung for a while.
    #[inline]
    pub fn throttled(self) -> bool {
        self.0 & Self::THROTTLED != 0
    }

    /// Whether plain messages should ring, too.
    #[inline]
    pub fn wants_plain(self) -> bool {
        self.0 & Self::WANTS_PLAIN != 0
    }

    /// Whether offers should ring, too.
    #[inline]
    pub fn wants_offers(self) -> bool {
        self.0 & Self::WANTS_OFFERS != 0
    }

    /// Whether the owner wants to be interrupted for a message of this urgency.
    #[inline]
    pub fn wants(self, urgency: Urgency) -> bool {
        match urgency {
            Urgency::Plain => self.wants_plain(),
            Urgency::Offer => self.wants_plain() || self.wants_offers(),
            Urgency::Urgent => true,
        }
    }

    /// Whether there is nobody to tell of a message of this urgency: some thread looks by itself; or none sleeps, and the
    /// one that computes is not to be interrupted.
    #[inline]
    pub(crate) fn leaves_alone(self, urgency: Urgency) -> bool {
        let computes_on = self.throttled() || !self.wants(urgency) || self.tid() == 0;
        self.pollers() > 0 || self.sleepers() == 0 && computes_on
    }

    /// The interruptible thread; 0 when there is none.
    #[inline]
    pub fn tid(self) -> u32 {
        (self.0 >> Self::TID_SHIFT) as u32
    }
}

impl core::fmt::Debug for Attention {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Attention")
            .field("pollers", &self.pollers())
            .field("sleepers", &self.sleepers())
            .field("attendants", &self.attendants())
            .field("throttled", &self.throttled())
            .field("wants_plain", &self.wants_plain())
            .field("wants_offers", &self.wants_offers())
            .field("tid", &self.tid())
            .finish()
    }
}
