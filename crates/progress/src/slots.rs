//! Request slots: a slab with stable addresses, and ids that notice a stale use.
//!
//! A user's thread reserves; after that, allocating and freeing are O(1), touch no allocator, and may run in
//! a handler. Memory is given back only when the whole slab is dropped, so a pointer into a slot is valid for
//! the life of the engine.
//!
//! What is reserved takes no memory until it is used: the kernel gives a page when a slot in it is used for the first
//! time. Slots that have been used come first.
//!
//! # Shared parts
//! The holder of the engine's token gets `&mut T`. What *other* threads look at meanwhile, without the token
//! (a [`Completion`](crate::Completion)), must not lie inside `T`: an exclusive reference asserts that
//! nobody else accesses what it covers, atomics included. It goes into the slot's shared part `S`
//! ([`Slots::with_shared`], [`Slots::shared_pointer`]), which is only ever lent as `&S`.

use core::ptr::NonNull;
use tocsin_sync::sparse::Pages;

/// Slots per chunk; a power of two, so that an index splits by shift and mask.
const CHUNK: u32 = 128;
const NONE: u32 = u32::MAX;

/// Names a slot and one use of it. A slot's later uses have other generations (2^31 of them).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Id {
    /// Which slot.
    pub index: u32,
    /// Which use of it; odd.
    pub generation: u32,
}

impl Id {
    /// The id as one word: generation in the upper half.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The inverse of [`to_bits`](Self::to_bits). Any word makes an id; a wrong one names no slot.
    #[inline]
    pub fn from_bits(bits: u64) -> Id {
        Id { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Memory for more slots was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("memory for more request slots was refused; complete some requests first")]
pub struct OutOfMemory;

struct Entry<T, S> {
    /// Odd while in use. 0: never used, and the rest not initialised.
    generation: u32,
    next: u32,
    value: T,
    shared: S,
}

/// The slab. Its methods need the engine's token, which is what `&mut self` stands for.
///
/// Handlers may call all but [`reserve`](Slots::reserve) and the constructors. Progress class: wait-free, no
/// atomic operation. Memory: the largest number of slots ever used at the same time, in pages.
pub struct Slots<T, S = ()> {
    chunks: Vec<NonNull<Entry<T, S>>>,
    /// What the chunks lie in.
    memory: Vec<Pages>,
    make: fn() -> T,
    make_shared: fn() -> S,
    /// The last that was given back.
    free: u32,
    /// The first that was never used: it and all that follow are zeros.
    fresh: u32,
    used: u32,
}

// SAFETY: the slab owns its entries; the shared parts are reached from other threads through `&S`.
unsafe impl<T: Send, S: Send + Sync> Send for Slots<T, S> {}
// SAFETY: shared methods lend `&T` and `&S` only.
unsafe impl<T: Sync, S: Send + Sync> Sync for Slots<T, S> {}

impl<T, S> core::fmt::Debug for Slots<T, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Slots").field("used", &self.used).field("capacity", &self.capacity()).finish()
    }
}

impl<T> Slots<T> {
    /// An empty slab whose slots start as `make()`, which must be handler-safe. A slot keeps its value from use to use.
    pub fn new(make: fn() -> T) -> Slots<T> {
        Slots::with_shared(make, || ())
    }
}

impl<T, S> Slots<T, S> {
    /// Chunks lie one behind the other in their pages.
    const FITS: () = assert!(align_of::<Entry<T, S>>() <= 4096);
    const CHUNK_BYTES: usize = size_of::<Entry<T, S>>() * CHUNK as usize;

    /// An empty slab whose slots have a part that other threads may look at. What makes the parts must be handler-safe.
    pub fn with_shared(make: fn() -> T, make_shared: fn() -> S) -> Slots<T, S> {
        Slots { chunks: Vec::new(), memory: Vec::new(), make, make_shared, free: NONE, fresh: 0, used: 0 }
    }

    /// Makes sure that the next `n` [`alloc`](Self::alloc)s succeed. User threads only: it allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`]; what was reserved until then stays.
    #[inline]
    pub fn reserve(&mut self, n: usize) -> Result<(), OutOfMemory> {
        let missing = n.saturating_sub(self.capacity() - self.len());
        if missing > 0 { self.grow(missing.div_ceil(CHUNK as usize)) } else { Ok(()) }
    }

    #[cold]
    fn grow(&mut self, chunks: usize) -> Result<(), OutOfMemory> {
        let () = Self::FITS;
        let slots = chunks.checked_mul(CHUNK as usize).and_then(|more| self.capacity().checked_add(more));
        // NONE must never become an index.
        if slots.is_none_or(|slots| slots >= NONE as usize) {
            return Err(OutOfMemory);
        }
        let bytes = chunks.checked_mul(Self::CHUNK_BYTES).ok_or(OutOfMemory)?;
        self.chunks.try_reserve(chunks).map_err(|_| OutOfMemory)?;
        self.memory.try_reserve(1).map_err(|_| OutOfMemory)?;
        let pages = Pages::reserve(bytes).map_err(|_| OutOfMemory)?;
        let first = pages.base().cast::<Entry<T, S>>();
        for number in 0..chunks {
            // SAFETY: the mapping has room for so many chunks of entries, which its base is aligned for.
            self.chunks.push(unsafe { first.add(number * CHUNK as usize) });
        }
        self.memory.push(pages);
        Ok(())
    }

    #[inline]
    fn entry(&self, index: u32) -> Option<NonNull<Entry<T, S>>> {
        let chunk = self.chunks.get((index / CHUNK) as usize)?;
        // SAFETY: the remainder lies inside the chunk.
        Some(unsafe { chunk.add((index % CHUNK) as usize) })
    }

    /// The entry that `id` names, if that use still lasts.
    #[inline]
    fn live(&self, id: Id) -> Option<NonNull<Entry<T, S>>> {
        let entry = self.entry(id.index)?;
        // SAFETY: inside a chunk, which was zeros at the beginning: at least the generation is initialised. Only holders of
        // &mut self write it.
        let generation = unsafe { (*entry.as_ptr()).generation };
        (generation == id.generation && generation % 2 == 1).then_some(entry)
    }

    /// Takes a free slot; None when none is reserved. Never grows. The slot keeps the value of its last use.
    #[inline]
    pub fn alloc(&mut self) -> Option<Id> {
        let index = self.free;
        let Some(entry) = self.entry(index) else { return self.alloc_fresh() };
        // SAFETY: it was given back, hence initialised; `&mut self` keeps others from these two fields.
        unsafe {
            let entry = entry.as_ptr();
            self.free = (*entry).next;
            (*entry).generation = (*entry).generation.wrapping_add(1);
            self.used = self.used.wrapping_add(1);
            Some(Id { index, generation: (*entry).generation })
        }
    }

    /// [`alloc`](Self::alloc) of a slot that was used before: with its value and its shared part, valid as
    /// [`shared_pointer`](Self::shared_pointer) says.
    #[inline(always)]
    pub fn alloc_used(&mut self) -> Option<(Id, &mut T, NonNull<S>)> {
        let index = self.free;
        let entry = self.entry(index)?.as_ptr();
        // SAFETY: as in `alloc`, `get_mut` and `shared_pointer`.
        unsafe {
            self.free = (*entry).next;
            (*entry).generation = (*entry).generation.wrapping_add(1);
            self.used = self.used.wrapping_add(1);
            let id = Id { index, generation: (*entry).generation };
            Some((id, &mut (*entry).value, NonNull::new_unchecked(&raw mut (*entry).shared)))
        }
    }

    /// A slot that was never used.
    #[cold]
    fn alloc_fresh(&mut self) -> Option<Id> {
        let index = self.fresh;
        let entry = self.entry(index)?;
        let new = Entry { generation: 1, next: NONE, value: (self.make)(), shared: (self.make_shared)() };
        // SAFETY: inside a chunk, aligned, and not initialised yet but for its generation.
        unsafe { entry.write(new) };
        self.fresh = index.wrapping_add(1);
        self.used = self.used.wrapping_add(1);
        Some(Id { index, generation: 1 })
    }

    /// Gives a slot back; a stale id is ignored. Answers whether it was live.
    #[inline]
    pub fn free(&mut self, id: Id) -> bool {
        let Some(entry) = self.live(id) else { return false };
        // SAFETY: as in `alloc`.
        unsafe {
            let entry = entry.as_ptr();
            (*entry).generation = (*entry).generation.wrapping_add(1);
            (*entry).next = self.free;
        }
        self.free = id.index;
        self.used = self.used.wrapping_sub(1);
        true
    }

    /// The slot's value; None for a stale id.
    #[inline]
    pub fn get(&self, id: Id) -> Option<&T> {
        // SAFETY: initialised; the reference covers `value` only and lives as long as &self.
        self.live(id).map(|entry| unsafe { &(*entry.as_ptr()).value })
    }

    /// The slot's value, to change; None for a stale id.
    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        // SAFETY: as `get`; `&mut self` makes it exclusive. The shared part lies outside `value`.
        self.live(id).map(|entry| unsafe { &mut (*entry.as_ptr()).value })
    }

    /// The slot's shared part; None for a stale id.
    #[inline]
    pub fn shared(&self, id: Id) -> Option<&S> {
        // SAFETY: the shared part is only ever lent as `&S`.
        self.live(id).map(|entry| unsafe { &(*entry.as_ptr()).shared })
    }

    /// Value and shared part at once.
    #[inline]
    pub fn both_mut(&mut self, id: Id) -> Option<(&mut T, &S)> {
        // SAFETY: as `get_mut` and `shared`; they do not overlap.
        self.live(id).map(|entry| unsafe { (&mut (*entry.as_ptr()).value, &(*entry.as_ptr()).shared) })
    }

    /// The id of the use that lasts in slot `index`, if one does.
    #[inline]
    pub fn by_index(&self, index: u32) -> Option<Id> {
        let entry = self.entry(index)?;
        // SAFETY: as in `live`.
        let generation = unsafe { (*entry.as_ptr()).generation };
        (generation % 2 == 1).then_some(Id { index, generation })
    }

    /// The use that lasts in slot `index`, if one does: its id and its value.
    #[inline]
    pub fn at(&self, index: u32) -> Option<(Id, &T)> {
        let entry = self.entry(index)?;
        // SAFETY: as in `live`.
        let generation = unsafe { (*entry.as_ptr()).generation };
        // SAFETY: as in `get`: a use that lasts is initialised.
        (generation % 2 == 1).then(|| (Id { index, generation }, unsafe { &(*entry.as_ptr()).value }))
    }

    /// The value of the use that lasts in slot `index`, if one does, to change.
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        let entry = self.entry(index)?;
        // SAFETY: as in `live`.
        let generation = unsafe { (*entry.as_ptr()).generation };
        // SAFETY: as in `get_mut`: a use that lasts is initialised.
        (generation % 2 == 1).then(|| unsafe { &mut (*entry.as_ptr()).value })
    }

    /// The use that lasts in slot `index`, if one does: its id, and value and shared part at once.
    #[inline(always)]
    pub fn at_both_mut(&mut self, index: u32) -> Option<(Id, &mut T, &S)> {
        let entry = self.entry(index)?.as_ptr();
        // SAFETY: as in `at` and `both_mut`: a use that lasts is initialised.
        unsafe {
            let generation = (*entry).generation;
            let is_used = generation % 2 == 1;
            is_used.then(|| (Id { index, generation }, &mut (*entry).value, &(*entry).shared))
        }
    }

    /// The value's address, valid as long as the slab. Who reads through it while the token's holder may
    /// write breaks the aliasing rules: see the module's text on shared parts.
    #[inline]
    pub fn pointer(&self, id: Id) -> Option<NonNull<T>> {
        // SAFETY: initialised; no reference is formed.
        self.live(id).map(|entry| unsafe { NonNull::new_unchecked(&raw mut (*entry.as_ptr()).value) })
    }

    /// The shared part's address, valid as long as the slab; any thread may read `&S` through it.
    #[inline]
    pub fn shared_pointer(&self, id: Id) -> Option<NonNull<S>> {
        // SAFETY: initialised; no reference is formed.
        self.live(id).map(|entry| unsafe { NonNull::new_unchecked(&raw mut (*entry.as_ptr()).shared) })
    }

    /// Slots in use.
    #[inline]
    pub fn len(&self) -> usize {
        self.used as usize
    }

    /// Whether no slot is in use.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Slots that exist. Indices are below this.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.chunks.len().wrapping_mul(CHUNK as usize)
    }

    /// The ids in use, in order of their slots. Walks the whole slab; handlers may call it, who bounds it.
    pub fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        (0..self.capacity() as u32).filter_map(|index| self.by_index(index))
    }
}

impl<T, S> Drop for Slots<T, S> {
    fn drop(&mut self) {
        if !core::mem::needs_drop::<Entry<T, S>>() {
            return;
        }
        for index in 0..self.fresh {
            if let Some(entry) = self.entry(index) {
                // SAFETY: it was used, hence initialised, and nobody uses it after the slab, which owns its memory.
                unsafe { entry.drop_in_place() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn alloc_never_grows() {
        let mut slots = Slots::new(|| 0u32);
        assert_eq!(slots.alloc(), None);
        slots.reserve(1).unwrap();
        assert_eq!(slots.capacity(), CHUNK as usize);
        let ids: Vec<_> = core::iter::from_fn(|| slots.alloc()).collect();
        assert_eq!(ids.len(), CHUNK as usize);
        assert_eq!(slots.ids().count(), ids.len());
        slots.reserve(1).unwrap();
        assert!(slots.alloc().is_some());
    }

    #[test]
    fn addresses_are_stable_and_shared_parts_stay() {
        let mut slots = Slots::with_shared(|| 0u32, crate::Completion::new);
        slots.reserve(1).unwrap();
        let id = slots.alloc().unwrap();
        let (value, shared) = (slots.pointer(id).unwrap(), slots.shared_pointer(id).unwrap());
        slots.reserve(10_000).unwrap();
        assert_eq!((slots.pointer(id), slots.shared_pointer(id)), (Some(value), Some(shared)));
        let (value, shared) = slots.both_mut(id).unwrap();
        *value = 7;
        shared.finish(crate::Outcome::default());
        assert!(slots.shared(id).unwrap().is_done());
        assert_eq!(Id::from_bits(id.to_bits()), id);
    }

    #[test]
    fn used_slots_come_with_their_parts() {
        let mut slots = Slots::with_shared(|| 0u32, crate::Completion::new);
        slots.reserve(2).unwrap();
        assert!(slots.alloc_used().is_none(), "none was used");
        let id = slots.alloc().unwrap();
        *slots.get_mut(id).unwrap() = 7;
        assert!(slots.free(id) && slots.at_both_mut(id.index).is_none());
        let (again, value, shared) = slots.alloc_used().unwrap();
        assert_eq!((again.index, *value), (id.index, 7));
        assert!(again != id && slots.len() == 1 && slots.shared_pointer(again) == Some(shared));
        let (at, value, _) = slots.at_both_mut(id.index).unwrap();
        assert_eq!((at, *value), (again, 7));
        assert!(
            slots.alloc_used().is_none()
                && slots.at_both_mut(1).is_none()
                && slots.at_both_mut(NONE).is_none()
        );
    }

    #[test]
    fn what_was_used_comes_first() {
        use tocsin_sync::atomic::real::{AtomicU32, Ordering};
        static MADE: AtomicU32 = AtomicU32::new(0);
        let made = || MADE.load(Ordering::Relaxed);
        let mut slots = Slots::new(|| MADE.fetch_add(1, Ordering::Relaxed));
        slots.reserve(1000).unwrap();
        assert_eq!((slots.capacity(), made()), (1024, 0));
        let ids = [(); 3].map(|()| slots.alloc().unwrap());
        assert_eq!(ids.map(|id| id.index), [0, 1, 2]);
        assert!(slots.free(ids[1]));
        assert_eq!(slots.by_index(1), None);
        assert_eq!(slots.alloc().unwrap().index, 1);
        assert_eq!((slots.alloc().unwrap().index, made()), (3, 4));
        // Of those that were never used there is no name, be it read from a packet.
        for index in [4, 1000, 1023, 1024, NONE] {
            assert_eq!(slots.by_index(index), None);
            assert!(slots.at(index).is_none() && slots.at_mut(index).is_none());
            for generation in [0, 1] {
                assert!(slots.get(Id { index, generation }).is_none());
                assert!(!slots.free(Id { index, generation }));
            }
        }
    }

    proptest! {
        /// Any sequence of allocs and frees equals a map; stale ids name nothing.
        #[test]
        fn equals_a_map(operations in prop::collection::vec((0u8..3, any::<prop::sample::Index>()), 0..400)) {
            let mut slots = Slots::new(|| 0u64);
            let mut model: HashMap<Id, u64> = HashMap::new();
            let mut stale: Vec<Id> = Vec::new();
            for (n, (kind, which)) in operations.into_iter().enumerate() {
                if kind < 2 {
                    slots.reserve(1).unwrap();
                    let id = slots.alloc().unwrap();
                    prop_assert!(model.insert(id, n as u64).is_none());
                    *slots.get_mut(id).unwrap() = n as u64;
                } else if !model.is_empty() {
                    let mut ids: Vec<_> = model.keys().copied().collect();
                    ids.sort();
                    let id = *which.get(&ids);
                    prop_assert_eq!(slots.get(id).copied(), model.remove(&id));
                    prop_assert!(slots.free(id));
                    prop_assert!(!slots.free(id));
                    stale.push(id);
                }
                prop_assert_eq!(slots.len(), model.len());
            }
            for id in stale {
                prop_assert!(slots.get(id).is_none());
            }
            for (id, value) in model {
                prop_assert_eq!(slots.get(id), Some(&value));
                prop_assert_eq!(slots.by_index(id.index), Some(id));
                prop_assert_eq!(slots.at(id.index), Some((id, &value)));
                prop_assert_eq!(slots.at_mut(id.index), Some(&mut value.clone()));
            }
        }
    }
}
