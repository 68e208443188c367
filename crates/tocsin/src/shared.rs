//! Buffers in the world's shared heap.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tocsin_world::HeapBlock;

use crate::Error;
use crate::buffer::{ElementBuffer, OwnedBuffer, Parts, sealed};
use crate::comm::Comm;
use crate::element::Element;

/// A buffer in memory that all ranks of the node map, from [`Comm::alloc`]. It is used as any other: owned by a request, or
/// lent to one as a slice in a scope. Large messages from and to it are copied once, by whichever rank waits, or by both, without the
/// kernel, which other buffers of processes need for that; up to 256 KiB, where both wait, twice, in a pipeline, which is quicker still. (Twice, too, from another
/// buffer into it where processes cannot reach each other's buffers otherwise: `tocsin info` has neither `cma` nor `xpmem`.)
///
/// It takes whole pages. Dropping it gives its memory back to the system.
///
/// ```
/// use tocsin::{Op, World};
/// let world = World::from_env()?;
/// let comm = world.comm();
/// let mut field = comm.alloc::<f64>(1 << 16)?;
/// field.fill(2.0);
/// comm.allreduce(&mut field, Op::Sum)?; // lent...
/// let field = comm.iallreduce(field, Op::Sum)?.wait()?; // ...or given away and back
/// assert_eq!(field[9], 2.0);
/// # Ok::<(), tocsin::Error>(())
/// ```
pub struct Shared<T: Element> {
    block: Arc<HeapBlock>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Element> Shared<T> {
    pub(crate) fn new(comm: &Comm, len: usize) -> Result<Shared<T>, Error> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| Error::InvalidArgument {
            operation: "alloc",
            what: format!("{len} elements of {} bytes are more than any memory has", size_of::<T>()),
        })?;
        Ok(Shared::of(comm.raw().alloc(bytes)?, len))
    }

    /// The block has room for `len` elements.
    fn of(block: HeapBlock, len: usize) -> Shared<T> {
        const { assert!(align_of::<T>() <= 4096) };
        Shared { block: Arc::new(block), len, elements: PhantomData }
    }
}

impl<T: Element> Deref for Shared<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: - `len` elements have room in the block, which begins with a page; it was zeros, and elements are Pod
        //         - the block is this value's alone, and peers copy to it only while a request has the value, or a
        //           borrow of it.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr().cast(), self.len) }
    }
}

impl<T: Element> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: - as in `deref`; `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.block.as_ptr().cast(), self.len) }
    }
}

impl<T: Element + std::fmt::Debug> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Element> sealed::Sealed for Shared<T> {}
// SAFETY: - a block's memory stays where it is until the block is dropped, which its keeper prevents.
unsafe impl<T: Element> OwnedBuffer for Shared<T> {
    fn into_parts(self) -> Parts {
        let Shared { block, len, .. } = self;
        let base = block.as_ptr();
        Parts { base, len, capacity: len, bytes: len * size_of::<T>(), keeper: Arc::into_raw(block) }
    }
    unsafe fn from_parts(parts: Parts) -> Self {
        // SAFETY: - from `into_parts`, once: promised by the caller.
        let block = unsafe { Arc::from_raw(parts.keeper) };
        Shared { block, len: parts.len, elements: PhantomData }
    }
}
// SAFETY: - all elements of the block are initialised: zeros at first.
unsafe impl<T: Element> ElementBuffer for Shared<T> {
    type Item = T;
    fn another(&self) -> Result<Self, String> {
        let block = self.block.another(size_of_val::<[T]>(self)).map_err(|e| e.to_string())?;
        Ok(Shared::of(block, self.len))
    }
}
