//! Buffers in memory that all ranks of a world map.

use tocsin_shm_transport::HeapBlock;

use crate::comm::Comm;
use crate::error::Error;

/// The machine's memory in bytes.
pub(crate) fn memory() -> u64 {
    // SAFETY: - no pointers.
    let [pages, page] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(page).unwrap_or(0))
}

impl Comm {
    /// Allocates `bytes` bytes of zeros from this rank's part of the world's shared heap. Messages from and to such memory are copied once, by
    /// either rank and without the kernel; all else about it is as with any buffer. It may outlive the communicator and the
    /// world.
    ///
    /// # Errors
    /// The world has no heap, or this rank's part of it no such piece; memory that the system refuses; a call after finalize or in a
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
