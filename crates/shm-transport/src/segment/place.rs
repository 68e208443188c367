//! In which parts of the machine each rank is, for layers above: a word that means nothing here.

use tocsin_sync::atomic::Ordering;

use super::Segment;

impl Segment {
    /// Says in which parts of the machine a rank is, in a word of the caller's own making. Only before anybody else has the segment: all ranks are to
    /// read the same. Handler-safe.
    pub fn note_place(&self, rank: u32, word: u64) {
        if let Some(block) = self.block(rank) {
            // SYNC POINT: Relaxed: what gives the segment to others orders it before all that they read.
            block.state.place.store(word, Ordering::Relaxed);
        }
    }

    /// What was [said](Self::note_place) of a rank; 0: nothing, or there is no such rank. Any word may stand there. Handler-safe.
    pub fn place(&self, rank: u32) -> u64 {
        // SYNC POINT: Relaxed: nothing is read by virtue of it.
        self.block(rank).map_or(0, |block| block.state.place.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_read_what_was_said() {
        let first = Segment::create(2).unwrap();
        first.note_place(1, 7);
        first.note_place(2, 9);
        let second = Segment::attach(first.fd().try_clone_to_owned().unwrap(), 2).unwrap();
        for segment in [&first, &second] {
            assert_eq!([0, 1, 2].map(|rank| segment.place(rank)), [0, 7, 0]);
        }
    }
}
