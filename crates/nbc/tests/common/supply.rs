//! What buffers hold, cut out of a supply of each type: to make elements anew for each call would take much longer than the call. The cross-crate
//! tests have this file, too.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use tocsin_nbc::DataType;

use super::values::contents;
use super::words;

/// Elements of a supply of what is short and of what is not: primes, so that where a block, piece or slice stands elsewhere by its length, other elements do. Two of the blocks
/// of a call that begin at the same place, which would not be told apart, are one pair in so many; what is longer than the longer one repeats itself.
const ELEMENTS: [usize; 2] = [65_537, 262_147];

/// By type and number of elements.
type Supplies = HashMap<(DataType, usize), &'static [u8]>;

/// So many elements of a type, the same in each process.
fn of(data_type: DataType, elements: usize) -> &'static [u8] {
    static ALL: LazyLock<Mutex<Supplies>> = LazyLock::new(Mutex::default);
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.entry((data_type, elements)).or_insert_with(|| {
        let number = DataType::BUILT_IN.iter().position(|one| *one == data_type);
        contents(words(number.unwrap_or(usize::MAX) as u64), data_type, elements).leak()
    })
}

/// A part of the `bytes` bytes that begin at a place of the supply that a lot says, and go round; all of whole elements.
pub fn cut(data_type: DataType, lot: u64, bytes: usize, part: Range<usize>) -> Vec<u8> {
    let size = data_type.size();
    assert!([bytes, part.start, part.end].iter().all(|at| at.is_multiple_of(size)) && part.end <= bytes);
    let elements = ELEMENTS[usize::from(bytes / size > ELEMENTS[0])];
    let supply = of(data_type, elements);
    let mut at = ((lot % elements as u64) as usize * size + part.start) % supply.len();
    let mut out = Vec::with_capacity(part.len());
    while out.len() < part.len() {
        let now = (part.len() - out.len()).min(supply.len() - at);
        out.extend_from_slice(&supply[at..at + now]);
        at = 0;
    }
    out
}
