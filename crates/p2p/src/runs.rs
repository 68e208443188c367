//! Sets of context ids that take few words: ids are handed out in order, so that those which are over lie side by side.

/// Each rank of the world hands out every so-many-th id in order: ids of one owner that follow each other are one run.
#[derive(Debug)]
pub(crate) struct Runs {
    /// Ranks of the world: ids that are as far apart have one owner.
    stride: u32,
    /// First and last place of each, sorted; between two there is a place that is in neither.
    runs: Vec<(u64, u64)>,
}

impl Runs {
    /// Takes no memory.
    pub(crate) const fn new(ranks: u32) -> Runs {
        Runs { stride: ranks, runs: Vec::new() }
    }

    /// Where an id stands: by owner, then in the order in which that hands them out.
    #[inline]
    fn place(&self, context: u32) -> u64 {
        let owner = context.checked_rem(self.stride).unwrap_or(0);
        let row = context.checked_div(self.stride).unwrap_or(context);
        u64::from(owner) << 32 | u64::from(row)
    }

    /// Number of runs that begin at or before a place. A binary search.
    fn until(&self, place: u64) -> usize {
        self.runs.partition_point(|run| run.0 <= place)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of runs.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Handler-safe; a binary search.
    pub(crate) fn contains(&self, context: u32) -> bool {
        let place = self.place(context);
        let before = self.until(place).checked_sub(1);
        before.and_then(|at| self.runs.get(at)).is_some_and(|run| place <= run.1)
    }

    /// Whether as many ids can be inserted without memory, wherever they are.
    #[inline]
    pub(crate) fn has_room(&self, ids: usize) -> bool {
        self.runs.capacity().saturating_sub(self.runs.len()) >= ids
    }

    /// User threads only: it allocates. False: memory was refused.
    pub(crate) fn make_room(&mut self, ids: usize) -> bool {
        self.runs.try_reserve(ids).is_ok()
    }

    /// Some(true): it was not there before. None: no room. Handler-safe: moves words inside the capacity.
    pub(crate) fn insert(&mut self, context: u32) -> Option<bool> {
        if self.contains(context) {
            return Some(false);
        }
        let place = self.place(context);
        let at = self.until(place);
        let room = self.has_room(1);
        let next = self.runs.get(at).filter(|next| next.0 == place.wrapping_add(1)).map(|next| next.1);
        let before = at.checked_sub(1).and_then(|before| self.runs.get_mut(before));
        if let Some(before) = before.filter(|run| run.1.wrapping_add(1) == place) {
            before.1 = next.unwrap_or(place);
            if next.is_some() {
                self.drop_run(at);
            }
        } else if let Some(last) = next {
            if let Some(run) = self.runs.get_mut(at) {
                *run = (place, last);
            }
        } else if room {
            self.runs.insert(at, (place, place));
        } else {
            return None;
        }
        Some(true)
    }

    /// `Vec::remove` without its panic. Handler-safe: bounded by the number of runs.
    fn drop_run(&mut self, at: usize) {
        let mut here = at;
        while let Some(next) = self.runs.get(here.wrapping_add(1)).copied() {
            if let Some(run) = self.runs.get_mut(here) {
                *run = next;
            }
            here = here.wrapping_add(1);
        }
        self.runs.pop();
    }

    /// Leaves out runs whose ids were handed out early, about half of all. User threads only.
    pub(crate) fn drop_old(&mut self) {
        let row = |run: &(u64, u64)| run.1 & u64::from(u32::MAX);
        let sum: u64 = self.runs.iter().map(row).sum();
        let mean = sum.checked_div(self.runs.len() as u64).unwrap_or(0);
        self.runs.retain(|run| row(run) > mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_owner_are_one_run_in_any_order() {
        let mut set = Runs::new(3);
        assert!(set.make_room(8));
        for context in [3, 9, 6, 15, 12, 4] {
            assert!(!set.contains(context));
            assert_eq!(set.insert(context), Some(true));
            assert_eq!(set.insert(context), Some(false));
        }
        assert_eq!(set.len(), 2);
        for context in 0..20 {
            assert_eq!(set.contains(context), [3, 4, 6, 9, 12, 15].contains(&context), "{context}");
        }
    }

    #[test]
    fn all_that_are_dealt_out_take_a_run_for_each_owner() {
        let mut set = Runs::new(4);
        assert!(set.make_room(4));
        for context in 8..100_000 {
            assert_eq!(set.insert(context), Some(true));
        }
        assert_eq!(set.len(), 4);
        assert!(set.contains(8) && set.contains(99_999) && !set.contains(7) && !set.contains(100_000));
    }

    #[test]
    fn without_room_nothing_is_inserted() {
        let mut set = Runs::new(1);
        assert!(set.make_room(1));
        let room = (1u32..).map(|n| n * 2).take_while(|context| set.insert(*context).is_some()).count();
        assert_eq!(set.len(), room);
        assert!(!set.has_room(1));
        assert_eq!(set.insert(3), Some(true), "it joins two runs");
        assert_eq!(set.len(), room - 1);
    }

    #[test]
    fn the_oldest_go_first() {
        let mut set = Runs::new(2);
        assert!(set.make_room(64));
        for context in (0..128).step_by(4) {
            assert_eq!(set.insert(context), Some(true));
        }
        set.drop_old();
        assert_eq!(set.len(), 16);
        assert!(set.contains(124) && !set.contains(0));
        while !set.is_empty() {
            set.drop_old();
        }
    }
}
