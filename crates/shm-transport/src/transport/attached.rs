//! Copies from and to the memory of another process that is mapped by XPMEM, where there is that device.
//!
//! As with copies by the kernel, whether it works between two processes is found out by trying: who wants to copy reads the word whose place and value the other
//! has published.

use tocsin_sync::atomic::Ordering;

use crate::segment::layout::State;
use crate::xpmem::windows::Windows;
use crate::xpmem::{Device, Permit};

/// Published instead of a number: the process's memory is not to be mapped.
const NOT_SHARED: i64 = -1;

/// Says what this process's memory is called, if it may be mapped. User threads only.
pub(super) fn publish(state: &State, device: Option<Device>) {
    // SYNC POINT: Relaxed: it is a number, and the device knows what it stands for, whoever has it from where.
    state.xpmem.store(device.map_or(NOT_SHARED, Device::segment), Ordering::Relaxed);
}

/// What is known of the way to one peer.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Attached {
    /// Not tried yet.
    Unknown,
    /// Refused.
    Closed,
    /// By this. The peer's number was read once from shared memory, and the memory found to have the word that it should. A peer that lies here
    /// can make this rank write to another process of the same user, which it could do itself.
    Open(Permit),
}

impl Attached {
    /// Whether the peer's memory may be mapped; tries it when that is not known and the peer has said what it is called.
    /// Handler-safe; at most five system calls.
    pub(super) fn is_open(&mut self, peer: u32, state: &State, windows: &mut Windows) -> bool {
        if *self == Attached::Unknown {
            // SYNC POINT: Acquire pairs with `copy::publish`; the number is as in `publish`.
            let (address, segment) =
                (state.probe_address.load(Ordering::Acquire), state.xpmem.load(Ordering::Relaxed));
            if address == 0 || segment == 0 {
                return false;
            }
            let expected = state.probe_value.load(Ordering::Relaxed);
            *self = match windows.device().permit(segment) {
                Ok(permit) if Attached::has_word(peer, &permit, address, expected, windows) => {
                    Attached::Open(permit)
                }
                // With the permit goes what was mapped by it.
                Ok(_) | Err(_) => {
                    windows.forget(peer);
                    Attached::Closed
                }
            };
        }
        matches!(self, Attached::Open(_))
    }

    /// Whether the word that a peer has published is where it says.
    fn has_word(peer: u32, permit: &Permit, address: u64, expected: u64, windows: &mut Windows) -> bool {
        let mut word = 0u64;
        // SAFETY: the local end is `word`.
        let read = unsafe { windows.read(peer, permit, address, (&raw mut word).cast(), size_of::<u64>()) };
        read && word == expected
    }

    /// Copies from the peer. False: not all of it.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    pub(super) unsafe fn read(
        &self,
        peer: u32,
        windows: &mut Windows,
        from: u64,
        to: *mut u8,
        len: usize,
    ) -> bool {
        let Attached::Open(permit) = self else { return false };
        // SAFETY: the caller's promise.
        unsafe { windows.read(peer, permit, from, to, len) }
    }

    /// Copies to the peer. False: not all of it.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    pub(super) unsafe fn write(
        &self,
        peer: u32,
        windows: &mut Windows,
        from: *const u8,
        to: u64,
        len: usize,
    ) -> bool {
        let Attached::Open(permit) = self else { return false };
        // SAFETY: the caller's promise.
        unsafe { windows.write(peer, permit, from, to, len) }
    }
}
