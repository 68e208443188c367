//! Buffers in memory that all ranks of a world map.

use std::sync::Arc;

use tocsin_shm_transport::{HeapBlock, Segment};

use crate::comm::Comm;
use crate::config::Config;
use crate::error::Error;

/// The machine's memory in bytes.
pub(crate) fn memory() -> u64 {
    // SAFETY: - no pointers.
    let [pages, page] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(page).unwrap_or(0))
}

/// Why a world of two ranks of this configuration has no shared heap here; `None` if it has.
pub fn heap_refusal(config: &Config) -> Option<String> {
    if config.heap == Some(0) {
        return Some("TOCSIN_HEAP is 0".into());
    }
    let made = Segment::create_with_heap(2, config.arena(2)).map(Arc::new);
    made.and_then(|segment| segment.alloc(0, 1)).err().map(|error| error.to_string())
}

impl Comm {
    /// Allocates `bytes` bytes of zeros from this rank's part of the world's shared heap. Messages from and to such memory are copied once, by
    /// either rank and without the kernel, or twice, up to 256 KiB where both ranks wait; twice, too, from another buffer into it where processes cannot reach
    /// each other's buffers otherwise (`tocsin info`: neither `cma` nor `xpmem`). All else about it is as with any buffer. It may outlive the communicator and the
    /// world.
    ///
    /// # Errors
    /// The world has no heap, or this rank's part of it no such piece; memory that the machine or the job has not left, or the system refuses; a call after finalize or in a
    /// handler.
    pub fn alloc(&self, bytes: usize) -> Result<HeapBlock, Error> {
        const OPERATION: &str = "alloc";
        let rank = self.shared();
        rank.open(OPERATION)?;
        let refused = |e: tocsin_shm_transport::Error| Error::System {
            operation: OPERATION.into(),
            reason: e.to_string(),
        };
        let block = rank.segment.alloc(rank.rank, bytes).map_err(refused)?;
        rank.enter_open(OPERATION)?.p2p.prepare_shared();
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        let mut config = Config::default();
        assert_eq!(heap_refusal(&config), None);
        for (heap, says) in [("0", "TOCSIN_HEAP is 0"), ("16384G", "at most")] {
            config.set("TOCSIN_HEAP", heap).unwrap();
            let why = heap_refusal(&config).unwrap();
            assert!(why.contains(says), "{why}");
        }
    }
}
