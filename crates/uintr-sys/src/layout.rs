//! What CPU, kernel and user agree on in memory. Fields that the CPU writes are atomics.

use core::mem::offset_of;
use tocsin_sync::atomic::real::{AtomicU32, AtomicU64};

/// User posted-interrupt descriptor (UPID): one per receiver.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Upid {
    /// Bit 0 [`ON`](Upid::ON), bit 1 [`SN`](Upid::SN), bits 16..24 the notification vector; others 0.
    pub status: AtomicU32,
    /// Where notifications go: the APIC id (x2APIC), or the APIC id in bits 8..16 (xAPIC).
    pub destination: AtomicU32,
    /// Posted vectors, one bit each (PIR).
    pub posted: AtomicU64,
}

impl Upid {
    /// A notification is outstanding.
    pub const ON: u32 = 1 << 0;
    /// Notifications are suppressed.
    pub const SN: u32 = 1 << 1;
    /// Place of the notification vector.
    pub const NV_SHIFT: u32 = 16;
    /// Bits of the status word that must be 0.
    pub const RESERVED: u32 = 0xFF00_FFFC;
}

const _: () = assert!(size_of::<Upid>() == 64 && align_of::<Upid>() == 64);
const _: () = assert!(offset_of!(Upid, status) == 0 && offset_of!(Upid, destination) == 4);
const _: () = assert!(offset_of!(Upid, posted) == 8);

/// Entry of the user-interrupt target table (UITT): whom SENDUIPI's operand means.
#[repr(C, align(16))]
#[derive(Debug, Default)]
pub struct UittEntry {
    /// Bit 0 [`VALID`](UittEntry::VALID), bits 8..16 the user vector (0 to 63); others 0.
    pub control: AtomicU64,
    /// Linear address of the receiver's [`Upid`], 64-byte aligned.
    pub upid: AtomicU64,
}

impl UittEntry {
    /// The entry may be used.
    pub const VALID: u64 = 1 << 0;
    /// Place of the user vector.
    pub const VECTOR_SHIFT: u32 = 8;
    /// User vectors there are.
    pub const VECTORS: u32 = 64;

    /// The control word for a vector; `None` when there is no such vector.
    pub const fn control_word(vector: u8) -> Option<u64> {
        if vector < Self::VECTORS as u8 {
            Some(Self::VALID | (vector as u64) << Self::VECTOR_SHIFT)
        } else {
            None
        }
    }
}

const _: () = assert!(size_of::<UittEntry>() == 16 && align_of::<UittEntry>() == 16);
const _: () = assert!(offset_of!(UittEntry, control) == 0 && offset_of!(UittEntry, upid) == 8);

/// What delivery leaves at RSP (which is 16-byte aligned), lowest address first.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The user vector: dropped before UIRET.
    pub vector: u64,
    /// The interrupted RIP.
    pub rip: u64,
    /// The interrupted RFLAGS.
    pub rflags: u64,
    /// The interrupted RSP.
    pub rsp: u64,
}

const _: () = assert!(size_of::<Frame>() == 32 && offset_of!(Frame, rip) == 8);
const _: () = assert!(offset_of!(Frame, rflags) == 16 && offset_of!(Frame, rsp) == 24);

/// Bytes below RSP that code of this ABI may use without moving RSP: delivery on the interrupted stack must
/// skip them.
pub const RED_ZONE: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_words() {
        assert_eq!(UittEntry::control_word(0), Some(1));
        assert_eq!(UittEntry::control_word(63), Some(0x3F01));
        assert_eq!(UittEntry::control_word(64), None);
    }

    #[test]
    fn the_fields_of_a_status_word_do_not_overlap() {
        let fields = [Upid::ON, Upid::SN, 0xFF << Upid::NV_SHIFT, Upid::RESERVED];
        assert_eq!(fields.iter().fold(0, |all, f| all | f), u32::MAX);
        assert_eq!(fields.iter().map(|f| f.count_ones()).sum::<u32>(), 32);
    }
}
