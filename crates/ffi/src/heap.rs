//! Buffers in the world's shared heap.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use tocsin_world::HeapBlock;

use crate::border::{Failure, guarded};
use crate::comm::Comm;
use crate::pointer::{given, place};

/// What C holds, by address.
static BLOCKS: Mutex<BTreeMap<usize, HeapBlock>> = Mutex::new(BTreeMap::new());

/// Allocates `bytes` bytes of zeros, on a page's boundary, in memory that all ranks of the node map. Messages from and to it are
/// copied once, by either rank and without the kernel, or twice, up to 256 KiB where both ranks wait; twice, too, from another buffer into it where processes cannot reach each
/// other's buffers otherwise (`tocsin info`: neither `cma` nor `xpmem`). All else about it is as with any buffer. To be freed by tocsin_free, also
/// after tocsin_finalize. The environment variable TOCSIN_HEAP bounds what a rank may allocate.
/// Errors: SYSTEM also when the world has no such memory, or this rank's part of it no such piece.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_alloc(comm: Option<&Comm>, bytes: usize, buffer: Option<&mut *mut c_void>) -> c_int {
    guarded("tocsin_alloc", || {
        let buffer = place(buffer, "buffer")?;
        *buffer = std::ptr::null_mut();
        let block = given(comm, "comm")?.raw.alloc(bytes)?;
        let address = block.as_ptr();
        BLOCKS.lock().unwrap_or_else(PoisonError::into_inner).insert(address as usize, block);
        *buffer = address.cast();
        Ok(())
    })
}

/// Frees a buffer of tocsin_alloc and sets the pointer to NULL; does nothing if it is. No request may be using it.
/// Errors: ARGUMENT also for what is no buffer of tocsin_alloc, or was freed.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_free(buffer: Option<&mut *mut c_void>) -> c_int {
    guarded("tocsin_free", || {
        let buffer = place(buffer, "buffer")?;
        if buffer.is_null() {
            return Ok(());
        }
        let block = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner).remove(&(*buffer as usize));
        let _freed = block.ok_or_else(|| {
            Failure::argument(
                "buffer is none of tocsin_alloc, or was freed before: pass the address that it gave",
            )
        })?;
        *buffer = std::ptr::null_mut();
        Ok(())
    })
}
