#![allow(clippy::disallowed_types)] // the switch itself names what it wraps

use core::sync::atomic as std_atomic;
pub use core::sync::atomic::Ordering;

/// [`core::sync::atomic::fence`]. A sequentially consistent one is a locked instruction on x86-64, which orders the
/// same there and takes half as long as `mfence`.
///
/// Progress class: wait-free. Handlers may call it.
#[inline(always)]
pub fn fence(order: Ordering) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if matches!(order, Ordering::SeqCst) {
        // SAFETY: the word on top of the stack belongs to this thread and keeps its value. Intel SDM volume 3, 9.2.2:
        // loads and stores are not reordered with locked instructions, which have one order; the compiler moves no
        // access across, because the block may touch memory.
        unsafe { core::arch::asm!("lock or dword ptr [rsp], 0", options(nostack)) };
        return;
    }
    core::sync::atomic::fence(order);
}

/// `fence(SeqCst)` directly behind a read-modify-write of this thread's: nothing where that is a fence by itself.
///
/// Progress class: wait-free. Handlers may call it.
#[inline(always)]
pub fn fence_after_rmw() {
    if cfg!(all(target_arch = "x86_64", not(miri))) {
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// What every atomic has. Each method is its namesake in `core::sync::atomic`.
macro_rules! wrapper {
    ($(#[$attribute:meta])* $name:ident $(<$parameter:ident>)?, $inner:ty, $value:ty) => {
        $(#[$attribute])*
        #[repr(transparent)]
        pub struct $name $(<$parameter>)? ($inner);

        impl $(<$parameter>)? $name $(<$parameter>)? {
            /// A new atomic.
            #[inline(always)]
            pub const fn new(value: $value) -> Self {
                Self(<$inner>::new(value))
            }
            /// Reads. One instruction.
            #[inline(always)]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }
            /// Writes. One instruction.
            #[inline(always)]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order);
            }
            /// Writes and returns what was there. x86-64: `xchg`.
            #[inline(always)]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, order)
            }
            /// Writes `new` if `current` was there.
            ///
            /// # Errors
            /// With what was there instead.
            #[inline(always)]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(current, new, success, failure)
            }
            /// As [`compare_exchange`](Self::compare_exchange), but may fail for no reason.
            ///
            /// # Errors
            /// With what was there.
            #[inline(always)]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange_weak(current, new, success, failure)
            }
            /// A compare-and-swap loop: lock-free, so never in a handler.
            ///
            /// # Errors
            /// With the value for which `f` returned `None`.
            #[inline(always)]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.0.fetch_update(set, fetch, f)
            }
            /// The place of the value: for the kernel.
            #[inline(always)]
            pub const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }
            /// Exclusive access.
            #[inline(always)]
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }
            /// Unwraps.
            #[inline(always)]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl $(<$parameter>)? core::fmt::Debug for $name $(<$parameter>)? {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $(<$parameter>)? Default for $name $(<$parameter>)? {
            fn default() -> Self {
                Self(Default::default())
            }
        }
    };
}

/// What integers and booleans have. x86-64: one locked instruction if the result is not used.
macro_rules! bits {
    ($name:ident, $value:ty) => {
        impl $name {
            /// Bitwise and; returns what was there (a compare-and-swap loop if that is used whole).
            #[inline(always)]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_and(value, order)
            }
            /// Bitwise or; returns what was there (a compare-and-swap loop if that is used whole).
            #[inline(always)]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_or(value, order)
            }
            /// Bitwise exclusive or; returns what was there (a compare-and-swap loop if that is used whole).
            #[inline(always)]
            pub fn fetch_xor(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_xor(value, order)
            }
        }
    };
}

macro_rules! integer {
    ($name:ident, $value:ty) => {
        wrapper! {
            #[doc = concat!("`core::sync::atomic::", stringify!($name), "`.")]
            $name, std_atomic::$name, $value
        }
        bits!($name, $value);
        impl $name {
            /// Adds, wrapping; returns what was there. x86-64: `xadd`.
            #[inline(always)]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value, order)
            }
            /// Subtracts, wrapping; returns what was there. x86-64: `xadd`.
            #[inline(always)]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_sub(value, order)
            }
            /// Maximum. A compare-and-swap loop: lock-free, so never in a handler.
            #[inline(always)]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_max(value, order)
            }
            /// Minimum. A compare-and-swap loop: lock-free, so never in a handler.
            #[inline(always)]
            pub fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_min(value, order)
            }
        }
    };
}

integer!(AtomicU8, u8);
integer!(AtomicU16, u16);
integer!(AtomicU32, u32);
integer!(AtomicU64, u64);
integer!(AtomicUsize, usize);
integer!(AtomicI32, i32);
integer!(AtomicI64, i64);
wrapper! {
    /// `core::sync::atomic::AtomicBool`.
    AtomicBool, std_atomic::AtomicBool, bool
}
bits!(AtomicBool, bool);
wrapper! {
    /// `core::sync::atomic::AtomicPtr`.
    AtomicPtr<T>, std_atomic::AtomicPtr<T>, *mut T
}
