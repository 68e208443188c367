//! Memory that costs nothing until it is written: for what a rank may need of every other one, and mostly never does.
//!
//! The kernel gives a page when it is first written, and none for what is only read: nothing has to be allocated at that
//! moment, so that a handler may be the first to use a place that a user's thread has reserved. It is the same for the
//! page of a user's buffer into which a handler is the first to receive.
//!
//! What is counted here is pages of the kernel's, 4 KiB of them, not huge ones: those are asked to stay away.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use std::io;

/// The smallest page of all machines that this runs on: what is aligned to it is aligned in any mapping.
const ALIGNMENT: usize = 4096;

/// A mapping of this process's own, all zeros at the beginning.
#[derive(Debug)]
pub struct Pages {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process; the value only owns it.
unsafe impl Send for Pages {}
// SAFETY: shared methods only tell where it is.
unsafe impl Sync for Pages {}

impl Pages {
    /// Reserves so many bytes. Not from handlers.
    ///
    /// # Errors
    /// The system's, when a limit is reached.
    pub fn reserve(bytes: usize) -> io::Result<Pages> {
        let bytes = bytes.max(1);
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A kernel without huge pages refuses, which is as well.
        // SAFETY: the mapping just made; the advice changes no content.
        #[cfg(all(target_os = "linux", not(miri)))]
        let _: libc::c_int = unsafe { libc::madvise(base, bytes, libc::MADV_NOHUGEPAGE) };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Pages { base, bytes })
    }

    /// Where it begins: at a page's beginning. Handler-safe.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `reserve` with this length; who followed `base` has promised to be done with it.
        let _cannot_fail = unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// An array of numbers that are 0 at the beginning.
#[derive(Debug)]
pub struct Words {
    pages: Pages,
    len: usize,
}

impl Words {
    /// So many zeros. Not from handlers.
    ///
    /// # Errors
    /// The system's, when a limit is reached.
    pub fn new(len: usize) -> io::Result<Words> {
        let bytes = len.checked_mul(size_of::<u32>());
        let bytes = bytes.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Words { pages: Pages::reserve(bytes)?, len })
    }
}

impl Deref for Words {
    type Target = [u32];
    #[inline]
    fn deref(&self) -> &[u32] {
        // SAFETY: the mapping is aligned, as long as that, and was zeros at the beginning; only `&mut self` changes it.
        unsafe { core::slice::from_raw_parts(self.pages.base.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Words {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above, and `&mut self` makes it exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.pages.base.as_ptr().cast(), self.len) }
    }
}

/// A place of a [`Sparse`]. All zeros is an empty one.
#[repr(C)]
struct Place<T> {
    made: u8,
    value: MaybeUninit<T>,
}

/// An array of a fixed length whose elements are made one by one; those that are not take no memory, but for what shares
/// their page.
///
/// Handlers may call all but the constructor and the drop. Progress class: wait-free, no atomic operation.
pub struct Sparse<T> {
    pages: Pages,
    len: usize,
    _owns: PhantomData<T>,
}

// SAFETY: it owns its elements as a Box of a slice does.
unsafe impl<T: Send> Send for Sparse<T> {}
// SAFETY: shared methods lend `&T` only.
unsafe impl<T: Sync> Sync for Sparse<T> {}

impl<T> core::fmt::Debug for Sparse<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sparse").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T> Sparse<T> {
    const IS_ALIGNED: () = assert!(align_of::<Place<T>>() <= ALIGNMENT);

    /// An array of `len` elements of which none is made. Not from handlers.
    ///
    /// # Errors
    /// The system's, when a limit is reached.
    pub fn new(len: usize) -> io::Result<Sparse<T>> {
        let () = Self::IS_ALIGNED;
        let bytes = len.checked_mul(size_of::<Place<T>>());
        let bytes = bytes.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Sparse { pages: Pages::reserve(bytes)?, len, _owns: PhantomData })
    }

    /// Elements, made or not.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element, made or not.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn place(&self, index: usize) -> Option<*mut Place<T>> {
        // In the mapping, which has room for `len` places.
        (index < self.len).then(|| self.pages.base().as_ptr().cast::<Place<T>>().wrapping_add(index))
    }

    /// The place of an element that is made.
    #[inline]
    fn made(&self, index: usize) -> Option<*mut Place<T>> {
        // SAFETY: the place is mapped, and aligned, because the base is a page's beginning. Zeros are a u8, too.
        self.place(index).filter(|place| unsafe { (**place).made } != 0)
    }

    /// An element, if it is made. Reading takes no memory.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        // SAFETY: it is made, hence initialised; only `&mut self` changes it.
        self.made(index).map(|place| unsafe { (*place).value.assume_init_ref() })
    }

    /// An element, if it is made, to change.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        // SAFETY: as `get`; `&mut self` makes it exclusive.
        self.made(index).map(|place| unsafe { (*place).value.assume_init_mut() })
    }

    /// An element, made by `make` if it is not yet. `None` beyond the end, and if `make` gives none.
    #[inline]
    pub fn get_or_make(&mut self, index: usize, make: impl FnOnce() -> Option<T>) -> Option<&mut T> {
        let place = self.place(index)?;
        // SAFETY: mapped and aligned, and `&mut self` makes it exclusive; the value is initialised before anybody is told.
        unsafe {
            if (*place).made == 0 {
                (*place).value.write(make()?);
                (*place).made = 1;
            }
            Some((*place).value.assume_init_mut())
        }
    }

    /// All that are made, with their numbers. Walks over all places.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        (0..self.len).filter_map(|index| self.get(index).map(|value| (index, value)))
    }
}

impl<T> Drop for Sparse<T> {
    fn drop(&mut self) {
        if !core::mem::needs_drop::<T>() {
            return;
        }
        for index in 0..self.len {
            if let Some(value) = self.get_mut(index) {
                // SAFETY: initialised, and nobody uses it after the array.
                unsafe { ptr::drop_in_place(value) };
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn what_is_not_made_is_not_there() {
        let mut sparse: Sparse<String> = Sparse::new(1000).unwrap();
        assert_eq!((sparse.len(), sparse.is_empty()), (1000, false));
        assert!(sparse.get(7).is_none() && sparse.get_mut(7).is_none());
        assert!(sparse.get_or_make(7, || None).is_none());
        assert!(sparse.get(7).is_none());
        sparse.get_or_make(7, || Some("made".into())).unwrap().push('!');
        sparse.get_or_make(7, || Some("made again".into())).unwrap().push('!');
        assert_eq!(sparse.get(7).unwrap(), "made!!");
        assert!(sparse.get_or_make(1000, || Some("beyond".into())).is_none());
        assert!(sparse.get(1000).is_none() && sparse.get(usize::MAX).is_none());
        assert_eq!(sparse.iter().map(|(at, _)| at).collect::<Vec<_>>(), [7]);
        assert!(Sparse::<u64>::new(0).unwrap().get(0).is_none());
        assert!(Sparse::<u64>::new(usize::MAX).is_err());
    }

    #[test]
    fn only_what_was_made_is_dropped() {
        let counted = Rc::new(());
        let mut sparse: Sparse<Rc<()>> = Sparse::new(50).unwrap();
        for at in [0, 3, 49] {
            sparse.get_or_make(at, || Some(counted.clone())).unwrap();
        }
        assert_eq!(Rc::strong_count(&counted), 4);
        drop(sparse);
        assert_eq!(Rc::strong_count(&counted), 1);
    }

    #[test]
    fn words_are_a_slice() {
        let mut words = Words::new(5000).unwrap();
        assert!(words.len() == 5000 && words.iter().all(|word| *word == 0));
        words[4999] = 7;
        assert_eq!(words.iter().sum::<u32>(), 7);
    }

    /// Pages of the mapping that are in memory.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn resident<T>(sparse: &Sparse<T>) -> usize {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let mut pages = vec![0u8; sparse.pages.bytes.div_ceil(page)];
        // SAFETY: the mapping has that length, and the vector a byte for each of its pages.
        let answer = unsafe {
            libc::mincore(sparse.pages.base.as_ptr().cast(), sparse.pages.bytes, pages.as_mut_ptr())
        };
        assert_eq!(answer, 0);
        pages.iter().filter(|page| **page & 1 != 0).count()
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_page_comes_with_its_first_element() {
        // 16 MiB, of which huge pages would be a part.
        let mut sparse: Sparse<[u8; 1023]> = Sparse::new(16 << 10).unwrap();
        assert_eq!(resident(&sparse), 0);
        sparse.get_or_make(8000, || Some([1; 1023])).unwrap();
        assert_eq!(resident(&sparse), 1);
    }
}
