//! Borrowed buffers that operations use.

use std::fmt;
use std::mem::MaybeUninit;

use tocsin_world::{ConstBuf, MutBuf};

use crate::collectives::Part;
use crate::element::Element;

/// A borrow that is put away while an operation uses what is borrowed: as bytes, of which nobody makes a reference, neither by moving them nor by formatting them.
pub(crate) struct Lent<R>(MaybeUninit<R>);

impl<R> fmt::Debug for Lent<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lent")
    }
}

impl<R> Lent<R> {
    /// The borrow. Who lends the memory to an operation does not call this before its end.
    pub(crate) fn give_back(self) -> R {
        // SAFETY: - every constructor has put one in.
        unsafe { self.0.assume_init() }
    }
}

impl Lent<()> {
    /// Of operations without a buffer.
    pub(crate) const NOTHING: Lent<()> = Lent(MaybeUninit::new(()));
}

impl<'a, T: Element> Lent<&'a [T]> {
    /// Of what is read.
    pub(crate) fn read(buf: &'a [T]) -> Self {
        Lent(MaybeUninit::new(buf))
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> ConstBuf {
        // SAFETY: - a reference was put in, which a pointer is as large as, and is read as.
        let elements: *const [T] = unsafe { self.0.as_ptr().cast::<*const [T]>().read() };
        ConstBuf::contiguous(elements.cast(), elements.len() * size_of::<T>())
    }
}

impl<'a, T: Element> Lent<&'a mut [T]> {
    /// Of what is written, or of both.
    pub(crate) fn new(buf: &'a mut [T]) -> Self {
        Lent(MaybeUninit::new(buf))
    }

    fn pointer(&self) -> *mut [T] {
        // SAFETY: - as in `memory` of what is read.
        unsafe { self.0.as_ptr().cast::<*mut [T]>().read() }
    }

    pub(crate) fn part(&self) -> Part<T> {
        Part::at(self.pointer().cast(), self.pointer().len())
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> MutBuf {
        MutBuf::contiguous(self.pointer().cast(), self.pointer().len() * size_of::<T>())
    }

    pub(crate) fn elements(&self) -> &[T] {
        // SAFETY: - exclusively borrowed for 'a, of which `self` is the only holder
        //         - nobody changes them meanwhile: who lends the memory to an operation does not call this before its end.
        unsafe { &*self.pointer() }
    }

    pub(crate) fn elements_mut(&mut self) -> &mut [T] {
        // SAFETY: - as in `elements`; `self` is borrowed exclusively, and nobody else uses them meanwhile.
        unsafe { &mut *self.pointer() }
    }
}
