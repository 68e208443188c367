//! Checks of what C passes.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use tocsin_world::{ConstBuf, Layout, MutBuf};

use crate::border::Failure;

/// The object, or the error that names the argument.
pub(crate) fn given<'a, T>(object: Option<&'a T>, name: &str) -> Result<&'a T, Failure> {
    object.ok_or_else(|| Failure::null(name))
}

/// The place of an output, or the error that names the argument.
pub(crate) fn place<'a, T>(out: Option<&'a mut T>, name: &str) -> Result<&'a mut T, Failure> {
    out.ok_or_else(|| Failure::null(name))
}

/// Writes an output that may be NULL, and that C may have left uninitialised.
pub(crate) fn write<T>(out: Option<&mut MaybeUninit<T>>, value: T) {
    if let Some(out) = out {
        out.write(value);
    }
}

/// Makes a handle.
pub(crate) fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes a handle back and clears the caller's copy; `None` for a NULL handle.
///
/// # Safety
/// The handle is NULL, or came from [`give`] or was a box's, and was not taken since.
pub(crate) unsafe fn take<T>(handle: &mut *mut T) -> Option<Box<T>> {
    let pointer = NonNull::new(std::mem::replace(handle, std::ptr::null_mut()))?;
    // SAFETY: - a box's, taken once: promised by the caller; the copy of the handle is gone.
    Some(unsafe { Box::from_raw(pointer.as_ptr()) })
}

/// A readable buffer. Without bytes it may be NULL.
pub(crate) fn readable(base: *const u8, bytes: usize, name: &str) -> Result<ConstBuf, Failure> {
    Ok(ConstBuf { base: base_of(base.cast_mut(), bytes, name)?, layout: Layout::Contiguous { bytes } })
}

/// A writable buffer. Without bytes it may be NULL.
pub(crate) fn writable(base: *mut u8, bytes: usize, name: &str) -> Result<MutBuf, Failure> {
    Ok(MutBuf { base: base_of(base, bytes, name)?, layout: Layout::Contiguous { bytes } })
}

/// The buffer's address, never NULL; its length is one that an object can have.
pub(crate) fn base_of(base: *mut u8, bytes: usize, name: &str) -> Result<*mut u8, Failure> {
    if isize::try_from(bytes).is_err() {
        return Err(Failure::argument(format!("{name}: {bytes} bytes are more than any object has")));
    }
    match NonNull::new(base) {
        Some(base) => Ok(base.as_ptr()),
        None if bytes == 0 => Ok(NonNull::dangling().as_ptr()),
        None => Err(Failure::null(name)),
    }
}

/// `count * size`, checked.
pub(crate) fn product(count: usize, size: usize, name: &str) -> Result<usize, Failure> {
    count
        .checked_mul(size)
        .ok_or_else(|| Failure::argument(format!("{name}: {count} times {size} bytes overflow")))
}

/// A rank, which C passes as an int.
pub(crate) fn rank(value: c_int, name: &str) -> Result<u32, Failure> {
    u32::try_from(value).map_err(|_| Failure::rank(name, value))
}

/// The name of an algorithm; NULL lets the library choose.
///
/// # Safety
/// NULL or a string that ends with a zero byte, unchanged during the call.
pub(crate) unsafe fn algorithm_name<'a>(name: *const c_char) -> Result<Option<&'a str>, Failure> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: - a C string, not changed meanwhile: promised by the caller.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map(Some).map_err(|_| Failure::argument("algorithm is not UTF-8"))
}
