//! Buffers that a request owns while it is in flight.

use std::mem::ManuallyDrop;

use tocsin_world::HeapBlock;

use crate::element::Element;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A buffer taken apart: nothing of Rust's aliasing rules follows these when they move.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub(crate) base: *mut u8,
    pub(crate) len: usize,
    pub(crate) capacity: usize,
    pub(crate) bytes: usize,
    /// Of a [`Shared`](crate::Shared) buffer, what keeps it; else null.
    pub(crate) keeper: *const HeapBlock,
}

// SAFETY: - the parts stand for a `Vec<T>`, `Box<[T]>` or `Shared<T>` of Send elements, and only one holder has them.
unsafe impl Send for Parts {}

/// A buffer that a request can own: `Vec<T>`, `Box<[T]>`, [`Shared<T>`](crate::Shared), and `()` for operations without one.
///
/// # Safety
/// Sealed. `into_parts` gives storage whose address stays until `from_parts` of the same parts.
pub unsafe trait OwnedBuffer: sealed::Sealed + Send + Sized + 'static {
    #[doc(hidden)]
    fn into_parts(self) -> Parts;
    /// # Safety
    /// `parts` came from `into_parts` of this type, and this is the first call with them.
    #[doc(hidden)]
    unsafe fn from_parts(parts: Parts) -> Self;
}

/// A buffer of elements: `Vec<T>`, `Box<[T]>` or [`Shared<T>`](crate::Shared).
///
/// # Safety
/// Sealed. The parts hold initialised elements of the type `Item`.
pub unsafe trait ElementBuffer: OwnedBuffer {
    /// What it holds.
    type Item: Element;
    /// Another of the same kind and length, of zeros. The error says why not.
    #[doc(hidden)]
    fn another(&self) -> Result<Self, String>;
}

fn zeros<T: Element>(len: usize) -> Result<Vec<T>, String> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|e| e.to_string())?;
    all.resize(len, T::zeroed());
    Ok(all)
}

impl<T: Element> sealed::Sealed for Vec<T> {}
// SAFETY: - a Vec's heap storage does not move with it.
unsafe impl<T: Element> OwnedBuffer for Vec<T> {
    fn into_parts(self) -> Parts {
        let mut whole = ManuallyDrop::new(self);
        Parts {
            base: whole.as_mut_ptr().cast(),
            len: whole.len(),
            capacity: whole.capacity(),
            bytes: size_of_val(whole.as_slice()),
            keeper: std::ptr::null(),
        }
    }
    unsafe fn from_parts(parts: Parts) -> Self {
        // SAFETY: - exactly what `into_parts` took apart: promised by the caller; elements are Pod, so whatever was
        //           received is valid.
        unsafe { Vec::from_raw_parts(parts.base.cast(), parts.len, parts.capacity) }
    }
}
// SAFETY: - all `len` elements of a Vec are initialised.
unsafe impl<T: Element> ElementBuffer for Vec<T> {
    type Item = T;
    fn another(&self) -> Result<Self, String> {
        zeros(self.len())
    }
}

impl<T: Element> sealed::Sealed for Box<[T]> {}
// SAFETY: - a boxed slice's heap storage does not move with it.
unsafe impl<T: Element> OwnedBuffer for Box<[T]> {
    fn into_parts(self) -> Parts {
        let len = self.len();
        let bytes = size_of_val::<[T]>(&self);
        Parts { base: Box::into_raw(self).cast(), len, capacity: len, bytes, keeper: std::ptr::null() }
    }
    unsafe fn from_parts(parts: Parts) -> Self {
        // SAFETY: - exactly what `into_parts` took apart: promised by the caller; elements are Pod.
        unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(parts.base.cast(), parts.len)) }
    }
}
// SAFETY: - all elements of a boxed slice are initialised.
unsafe impl<T: Element> ElementBuffer for Box<[T]> {
    type Item = T;
    fn another(&self) -> Result<Self, String> {
        zeros(self.len()).map(Vec::into_boxed_slice)
    }
}

impl sealed::Sealed for () {}
// SAFETY: - there is no storage.
unsafe impl OwnedBuffer for () {
    fn into_parts(self) -> Parts {
        let base = std::ptr::NonNull::dangling().as_ptr();
        Parts { base, len: 0, capacity: 0, bytes: 0, keeper: std::ptr::null() }
    }
    unsafe fn from_parts(_: Parts) -> Self {}
}

/// Parts that are freed as their buffer if nobody takes them back.
#[derive(Debug)]
pub(crate) struct Held<B: OwnedBuffer> {
    parts: Option<Parts>,
    buffer: std::marker::PhantomData<B>,
}

impl<B: OwnedBuffer> Held<B> {
    pub(crate) fn new(buffer: B) -> Held<B> {
        Held { parts: Some(buffer.into_parts()), buffer: std::marker::PhantomData }
    }

    pub(crate) fn new_empty() -> Held<B> {
        Held { parts: None, buffer: std::marker::PhantomData }
    }

    /// Base and bytes; null and 0 once taken.
    pub(crate) fn memory(&self) -> (*mut u8, usize) {
        self.parts.map_or((std::ptr::null_mut(), 0), |p| (p.base, p.bytes))
    }

    pub(crate) fn elements(&self) -> usize {
        self.parts.map_or(0, |p| p.len)
    }

    /// The elements; none once taken.
    pub(crate) fn elements_of(&self) -> &[B::Item]
    where
        B: ElementBuffer,
    {
        let Some(parts) = self.parts else { return &[] };
        // SAFETY: - so many initialised elements: `ElementBuffer`; their storage is ours and lives as long as `self`
        //         - nobody changes them meanwhile: who lends the memory to an operation does not call this before its end.
        unsafe { std::slice::from_raw_parts(parts.base.cast(), parts.len) }
    }

    /// The elements, to be changed; none once taken.
    pub(crate) fn elements_of_mut(&mut self) -> &mut [B::Item]
    where
        B: ElementBuffer,
    {
        let Some(parts) = self.parts else { return &mut [] };
        // SAFETY: - as in `elements_of`; `self` is borrowed exclusively, and nobody else uses them meanwhile.
        unsafe { std::slice::from_raw_parts_mut(parts.base.cast(), parts.len) }
    }

    pub(crate) fn take(&mut self) -> Option<B> {
        // SAFETY: - the parts came from `into_parts` in `new`, and `take` leaves None, so this is the only call.
        self.parts.take().map(|parts| unsafe { B::from_parts(parts) })
    }
}

impl<B: OwnedBuffer> Drop for Held<B> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
