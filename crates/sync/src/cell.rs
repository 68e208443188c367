//! An [`UnsafeCell`] with loom's access-by-closure interface, over std's or loom's cell.

#[cfg(all(loom, not(shuttle)))]
pub use loom::cell::UnsafeCell;

/// `core::cell::UnsafeCell` behind loom's interface, so that one text compiles against both.
#[cfg(any(not(loom), shuttle))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T: ?Sized>(core::cell::UnsafeCell<T>);

#[cfg(any(not(loom), shuttle))]
impl<T> UnsafeCell<T> {
    /// Wraps a value.
    #[inline]
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Unwraps the value.
    #[inline]
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[cfg(any(not(loom), shuttle))]
impl<T: ?Sized> UnsafeCell<T> {
    /// Lends a pointer for reading. Handlers may call it.
    ///
    /// Whoever reads through the pointer must know that nobody writes meanwhile; loom checks it.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Lends a pointer for writing. Handlers may call it.
    ///
    /// Whoever writes through the pointer must know that nobody reads or writes meanwhile; loom checks it.
    #[inline]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
