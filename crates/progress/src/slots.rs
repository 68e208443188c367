//! Request slots: a slab with stable addresses, and ids that notice a stale use.
//!
//! A user's thread reserves; after that, allocating and freeing are O(1), touch no allocator, and may run in
//! a handler. Memory is given back only when the whole slab is dropped, so a pointer into a slot is valid for
//! the life of the engine.
//!
//! # Shared parts
//! The holder of the engine's token gets `&mut T`. What *other* threads look at meanwhile, without the token
//! (a [`Completion`](crate::Completion)), must not lie inside `T`: an exclusive reference asserts that
//! nobody else accesses what it covers, atomics included. It goes into the slot's shared part `S`
//! ([`Slots::with_shared`], [`Slots::shared_pointer`]), which is only ever lent as `&S`.

use core::alloc::Layout;
use core::ptr::NonNull;

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
    /// Odd while in use.
    generation: u32,
    next: u32,
    value: T,
    shared: S,
}

/// The slab. Its methods need the engine's token, which is what `&mut self` stands for.
///
/// Handlers may call all but [`reserve`](Slots::reserve) and the constructors. Progress class: wait-free, no
/// atomic operation. Memory: the largest number of slots ever reserved, in chunks of 128.
pub struct Slots<T, S = ()> {
    chunks: Vec<NonNull<Entry<T, S>>>,
    make: fn() -> T,
    make_shared: fn() -> S,
    free: u32,
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
    /// An empty slab whose slots start as `make()`. A slot keeps its value from use to use.
    pub fn new(make: fn() -> T) -> Slots<T> {
        Slots::with_shared(make, || ())
    }
}

impl<T, S> Slots<T, S> {
    /// An empty slab whose slots have a part that other threads may look at.
    pub fn with_shared(make: fn() -> T, make_shared: fn() -> S) -> Slots<T, S> {
        Slots { chunks: Vec::new(), make, make_shared, free: NONE, used: 0 }
    }

    /// Makes sure that the next `n` [`alloc`](Self::alloc)s succeed. User threads only: it allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`]; what was reserved until then stays.
    pub fn reserve(&mut self, n: usize) -> Result<(), OutOfMemory> {
        while (self.capacity() - self.len()) < n {
            self.grow()?;
        }
        Ok(())
    }

    fn grow(&mut self) -> Result<(), OutOfMemory> {
        let layout = Layout::array::<Entry<T, S>>(CHUNK as usize).map_err(|_| OutOfMemory)?;
        let first = u32::try_from(self.capacity()).map_err(|_| OutOfMemory)?;
        // NONE must never become an index.
        if first.checked_add(CHUNK).is_none() {
            return Err(OutOfMemory);
        }
        self.chunks.try_reserve(1).map_err(|_| OutOfMemory)?;
        // SAFETY: an Entry has two u32, so the layout is not empty.
        let memory = unsafe { std::alloc::alloc(layout) }.cast::<Entry<T, S>>();
        let memory = NonNull::new(memory).ok_or(OutOfMemory)?;
        for i in (0..CHUNK).rev() {
            let entry =
                Entry { generation: 0, next: self.free, value: (self.make)(), shared: (self.make_shared)() };
            // SAFETY: inside the chunk just allocated, aligned, not initialised yet.
            unsafe { memory.add(i as usize).write(entry) };
            self.free = first + i;
        }
        self.chunks.push(memory);
        Ok(())
    }

    #[inline]
    fn entry(&self, index: u32) -> Option<NonNull<Entry<T, S>>> {
        let chunk = self.chunks.get((index / CHUNK) as usize)?;
        // SAFETY: the remainder lies inside the chunk, whose entries are all initialised.
        Some(unsafe { chunk.add((index % CHUNK) as usize) })
    }

    /// The entry that `id` names, if that use still lasts.
    #[inline]
    fn live(&self, id: Id) -> Option<NonNull<Entry<T, S>>> {
        let entry = self.entry(id.index)?;
        // SAFETY: initialised; only holders of &mut self write the generation.
        let generation = unsafe { (*entry.as_ptr()).generation };
        (generation == id.generation && generation % 2 == 1).then_some(entry)
    }

    /// Takes a free slot; None when none is reserved. Never grows. The slot keeps the value of its last use.
    #[inline]
    pub fn alloc(&mut self) -> Option<Id> {
        let index = self.free;
        let entry = self.entry(index)?;
        // SAFETY: initialised; `&mut self` keeps others from these two fields.
        unsafe {
            let entry = entry.as_ptr();
            self.free = (*entry).next;
            (*entry).generation = (*entry).generation.wrapping_add(1);
            self.used = self.used.wrapping_add(1);
            Some(Id { index, generation: (*entry).generation })
        }
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
        // SAFETY: initialised, see `live`.
        let generation = unsafe { (*entry.as_ptr()).generation };
        (generation % 2 == 1).then_some(Id { index, generation })
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
        let Ok(layout) = Layout::array::<Entry<T, S>>(CHUNK as usize) else { return };
        for chunk in self.chunks.drain(..) {
            for i in 0..CHUNK as usize {
                // SAFETY: every entry of a chunk is initialised, and nobody uses them after the slab.
                unsafe { chunk.add(i).drop_in_place() };
            }
            // SAFETY: allocated by `grow` with this layout.
            unsafe { std::alloc::dealloc(chunk.as_ptr().cast(), layout) };
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
            }
        }
    }
}
