//! A handler leaves `errno` as it found it.

/// Holds the value `errno` had; dropping it puts that value back.
///
/// Progress class: wait-free. Handlers may (must) use it.
#[derive(Debug)]
#[must_use = "errno is restored when this is dropped"]
pub struct Saved {
    value: i32,
    /// The thread's `errno`, asked for once. It belongs to one thread: the guard may not move to another.
    location: *mut i32,
}

impl Saved {
    /// Notes the calling thread's `errno`.
    #[inline]
    pub fn save() -> Saved {
        // SAFETY: the C library returns a valid pointer to the calling thread's errno.
        let location = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        Saved { value: unsafe { *location }, location }
    }
}

impl Drop for Saved {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the thread that saved it, which the guard cannot leave, has its errno there as long as it lives.
        unsafe { *self.location = self.value };
    }
}

/// The calling thread's `errno`. Handlers may call it.
#[inline]
pub fn get() -> i32 {
    // SAFETY: the C library returns a valid pointer to the calling thread's errno.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`. Handlers may call it.
#[inline]
pub fn set(value: i32) {
    // SAFETY: as in `get`.
    unsafe { *libc::__errno_location() = value }
}
