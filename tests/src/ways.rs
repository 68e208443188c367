//! By which way large messages were copied.

use tocsin_world::{Comm, DataType, Op, Snapshot};
use tocsin_world::{cma_refusal, knem_refusal, vmsplice_refusal, xpmem_refusal};

use crate::run::Kind;

/// Ways of one copy. What went none of these went through `lanes`: large messages in two copies, each of which counts, and all short ones.
const WAYS: [&str; 4] = ["memory", "kernel", "knem", "pages"];

/// The way of large messages from malloc by a strategy that is forced; where its own is refused, this is what it gives way to.
pub fn of(kind: Kind, lmt: &str) -> Option<&'static str> {
    let (way, refusal) = match lmt {
        "direct" if kind == Kind::Threads => return Some("memory"),
        "direct" | "double" => return Some("lanes"),
        "xpmem" => ("memory", xpmem_refusal()),
        "cma" => ("kernel", cma_refusal()),
        "knem" => ("knem", knem_refusal()),
        "vmsplice" => ("pages", vmsplice_refusal()),
        _ => return None,
    };
    Some(if refusal.is_none() { way } else { "lanes" })
}

/// Asserts, at all ranks of a world, that at least so many bytes of what they have copied `since` went one way, and none another one: the sum of what they say.
pub fn assert(comm: &Comm, by: &str, since: &Snapshot, least: u64) {
    let once = [since.bytes_in_place, since.bytes_by_kernel, since.bytes_by_knem, since.bytes_by_pages];
    let copied = since.bytes_copied_user + since.bytes_copied_handler + since.bytes_copied_progress;
    let [mut all, mine] = [[0; WAYS.len() + 2], [once[0], once[1], once[2], once[3], copied, least]];
    let (send, recv) = (mine.as_ptr().cast(), all.as_mut_ptr().cast());
    // SAFETY: both have that many elements, and live during the call.
    let sum = unsafe { comm.iallreduce_raw(Some(send), recv, mine.len(), DataType::U64, Op::Sum, None) };
    sum.and_then(|mut sum| sum.wait()).unwrap_or_else(|error| panic!("{error}"));
    let [once @ .., copied, least] = all;
    for (way, bytes) in WAYS.into_iter().zip(once) {
        assert!(way == by || bytes == 0, "by {by} alone: {bytes} bytes by {way}");
    }
    let place = WAYS.iter().position(|way| *way == by);
    assert!(place.is_some() || by == "lanes", "by={by}: {WAYS:?}, lanes");
    let went = place.map_or(copied, |place| once[place]);
    assert!(went >= least, "by {by}: {went} bytes, not {least}");
}

/// The same of large messages, of which this rank has sent so many bytes: all of them; of pages an eighth, because the first one between two ranks makes the pipe, which the
/// receiver takes when it next posts something large, and of full pipes the system takes fewer.
pub fn assert_all(comm: &Comm, by: &str, since: &Snapshot, large: u64) {
    assert(comm, by, since, if by == "pages" { large / 8 } else { large });
}
