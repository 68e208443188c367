//! Moving the calling thread to another core.

/// Processors of a mask: as many as doorbells have numbers for. On larger machines nothing is moved.
const CPUS: usize = 4096;
const WORDS: usize = CPUS / 64;

/// A thread's; and the bytes that the kernel knows of it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mask {
    words: [u64; WORDS],
    bytes: usize,
}

impl Mask {
    fn of_thread() -> Option<Mask> {
        let mut words = [0u64; WORDS];
        // SAFETY: the words are as long as the call is told, and live across it. The raw call is used because libc's set ends at 1024 processors.
        let bytes =
            unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&words), words.as_mut_ptr()) };
        Some(Mask { words, bytes: usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)? })
    }

    /// As long as another.
    fn filled(self, word: u64) -> Mask {
        Mask { words: [word; WORDS], ..self }
    }

    fn only(self, core: u32) -> Mask {
        let mut one = self.filled(0);
        if let Some(word) = one.words.get_mut(core as usize / 64) {
            *word = 1 << (core % 64);
        }
        one
    }

    fn has(&self, core: u32) -> bool {
        self.words.get(core as usize / 64).is_some_and(|word| word >> (core % 64) & 1 == 1)
    }

    /// Of all processors that are online, in the same length, if the system says which. The C library's number of them is that of the thread's mask on some systems.
    fn of_system(self) -> Option<Mask> {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
        let mut all = self.filled(0);
        for range in text.trim().split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            for cpu in first.parse().ok()?..=last.parse::<usize>().ok()? {
                *all.words.get_mut(cpu / 64)? |= 1 << (cpu % 64);
            }
        }
        Some(all)
    }

    /// Makes it the thread's.
    fn set(&self) -> bool {
        // SAFETY: the words are at least as long as the call is told, and live across it.
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, self.bytes, self.words.as_ptr()) == 0 }
    }
}

/// Moves the calling thread to another core, if it may run on all, and lets it run on all from then on, also on those that are not online yet. Whether it did. One that is bound, or kept off
/// some cores, by itself or by its cpuset, is left alone: what it was given cannot be read, and so not given back, exactly.
///
/// The system goes on moving it as it likes. It returns when the thread runs there, bound to it until then: at once where others give the core away, and after their time slice where they do not. A mask
/// that somebody else gives the thread meanwhile is lost.
///
/// Not for handlers. One system call, some that read what is online, and two more if it moves. It allocates.
pub fn move_to(core: u32) -> bool {
    let Some(before) = Mask::of_thread().filter(|mask| mask.has(core) && mask.of_system() == Some(*mask))
    else {
        return false;
    };
    let moved = before.only(core).set();
    // Where the first is refused nothing has changed, and this changes nothing either.
    moved && (before.filled(u64::MAX).set() || before.set())
}

#[cfg(all(test, not(loom), not(miri)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::thread::core;

    #[test]
    fn a_thread_moves_to_where_it_may_run_and_is_as_free_as_before() {
        let before = Mask::of_thread().unwrap();
        let is_whole = before.of_system() == Some(before);
        let cores: Vec<u32> = (0..CPUS as u32).filter(|core| before.has(*core)).collect();
        assert!(!cores.is_empty());
        for &core in cores.iter().cycle().take(3 * cores.len()) {
            assert_eq!(move_to(core), is_whole);
            assert!(Mask::of_thread().unwrap() == before);
        }
        // Nobody else's doing, nearly always: the system may move it at once.
        let stays = |at: u32| move_to(at) && core() == at;
        assert!(!is_whole || cores.iter().all(|at| (0..100).any(|_| stays(*at))));
        let outside = (0..=CPUS as u32).find(|core| !before.has(*core)).unwrap();
        assert!(!move_to(outside) && !move_to(u32::MAX));
        // One that was given fewer keeps them.
        for &one in cores.iter().filter(|_| cores.len() > 1) {
            let mut others = before;
            others.words[one as usize / 64] &= !(1 << (one % 64));
            for mask in [before.only(one), others] {
                assert!(mask.set());
                assert!(cores.iter().all(|core| !move_to(*core)));
                assert!(Mask::of_thread().unwrap() == mask);
            }
        }
        assert!(before.set());
    }
}
