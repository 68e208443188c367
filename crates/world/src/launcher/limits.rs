//! Descriptors: better one clear error before the first rank than a failure in the middle.

use crate::error::Error;

/// While a rank is started: its socket pair, one end of it twice, and the pipe by which `exec` reports.
const WHILE_STARTING: u64 = 5;
/// The segment, `/proc`, the pipe that ends the threads for the ranks' output, and the like.
const OWN: u64 = 8;

pub(super) fn check(ranks: u32, tag_output: bool) -> Result<(), Error> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(16, |d| d.count() as u64);
    // A pidfd and a socket per rank, twice until it joins, or its own pidfd then, and two ends of pipes for tagged output.
    let per_rank = if tag_output { 5 } else { 3 };
    let needed = open + u64::from(ranks) * per_rank + WHILE_STARTING + OWN;
    let limit = limit();
    if needed > limit {
        return Err(Error::DescriptorLimit { ranks, needed, limit });
    }
    Ok(())
}

/// The soft limit of open descriptors.
fn limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: - `limit` is live and of the right type.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}
