//! What buffers hold, cut out of a supply of each type: to make elements anew for each call would take a hundred times as long as the call.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use tocsin_world::DataType;

use super::values::contents;
use crate::random::Random;

/// Elements of a supply: a prime, so that what stands somewhere else by the length of any block or slice is something else.
const ELEMENTS: usize = 262_147;

/// The elements of a type, the same in each process.
pub(super) fn of(data_type: DataType) -> &'static [u8] {
    static ALL: LazyLock<Mutex<HashMap<DataType, &[u8]>>> = LazyLock::new(Mutex::default);
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.entry(data_type).or_insert_with(|| {
        let mut random = Random::new(data_type.size() as u64);
        contents(|| random.bits(), data_type, ELEMENTS).leak()
    })
}

/// So many bytes of a supply, from some place on and around.
pub(super) fn cut(supply: &[u8], start: usize, bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes);
    let mut at = start % supply.len();
    while out.len() < bytes {
        let now = (bytes - out.len()).min(supply.len() - at);
        out.extend_from_slice(&supply[at..at + now]);
        at = 0;
    }
    out
}
