//! What programs [ask](tocsin_progress::Engine::asks) for: numbers by which one question is told from another.

use tocsin_progress::Id;

/// Whatever comes: a call for progress.
pub(crate) const FOR_ANYTHING: u64 = 2;
/// A probe, whatever it looks for.
pub(crate) const FOR_A_MESSAGE: u64 = 4;
/// One or all of several requests.
pub(crate) const FOR_SEVERAL: u64 = 6;

/// One request.
#[inline]
pub(crate) fn for_request(id: Id) -> u64 {
    id.to_bits() << 1 | 1
}
