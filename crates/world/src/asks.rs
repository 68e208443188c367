//! What programs [ask](tocsin_progress::Engine::asks) for: numbers by which one question is told from another.

use tocsin_progress::Id;

/// Whatever comes: a call for progress.
pub(crate) const FOR_ANYTHING: u64 = 4;
/// One or all of several requests.
pub(crate) const FOR_SEVERAL: u64 = 8;

/// One request.
#[inline]
pub(crate) fn for_request(id: Id, is_collective: bool) -> u64 {
    id.to_bits() << 2 | u64::from(is_collective) << 1 | 1
}

/// A message of a source, with a tag; none is any.
#[inline]
pub(crate) fn for_a_message(source: Option<u32>, tag: Option<i32>) -> u64 {
    let [source, tag] =
        [source, tag.map(|tag| tag as u32)].map(|number| u64::from(number.unwrap_or(u32::MAX)));
    source << 34 ^ tag << 2 | 2
}
