//! Where messages' buffers lie.

use std::ops::{Deref, DerefMut};

use tocsin_sync::atomic::Ordering;
use tocsin_sync::atomic::real::AtomicBool;
use tocsin_world::{Comm, HeapBlock};

use crate::run::Arguments;

/// Some buffers of this process's ranks lie in the shared heap: nothing but the way of the messages depends on it.
static MIXED: AtomicBool = AtomicBool::new(false);

/// Has about half of the [shared](Buffer::share) buffers lie in the shared heap from now on, where `buffers=mixed` is asked for.
pub fn ask_for(arguments: &Arguments) {
    if arguments.optional("buffers") == Some("mixed") {
        MIXED.store(true, Ordering::Relaxed);
    }
}

/// A buffer, from malloc or of the shared heap.
#[derive(Debug)]
pub enum Buffer {
    /// From malloc.
    Own(Vec<u8>),
    /// Of the heap.
    Heap(HeapBlock),
}

impl Buffer {
    /// The same bytes, in the shared heap if the `lot` is odd and somebody has [asked for](ask_for) that.
    #[must_use]
    pub fn share(self, comm: &Comm, lot: u64) -> Buffer {
        if !MIXED.load(Ordering::Relaxed) || lot & 1 == 0 {
            return self;
        }
        let mut shared = Buffer::Heap(comm.alloc(self.len()).unwrap_or_else(|e| panic!("{e}")));
        shared.copy_from_slice(&self);
        shared
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer::Own(bytes)
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Buffer::Own(bytes) => bytes,
            // SAFETY: the block is this buffer's alone, and messages into it are over when its bytes are looked at.
            Buffer::Heap(block) => unsafe { std::slice::from_raw_parts(block.as_ptr(), block.len()) },
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Buffer::Own(bytes) => bytes,
            // SAFETY: as above; `self` is borrowed exclusively.
            Buffer::Heap(block) => unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), block.len()) },
        }
    }
}
