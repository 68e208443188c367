//! Moving the calling thread to another core.

use crate::atomic::real::{AtomicBool, Ordering};

/// Processors of a mask: the most that Linux is built for on x86-64 and aarch64 (NR_CPUS).
const CPUS: usize = 8192;
const WORDS: usize = CPUS / 64;

/// The system does not let this process choose. It is not asked again.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// The calling thread's, or what it is to be; bytes that the kernel knows of it.
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

    fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Makes it the thread's.
    fn set(&self) -> bool {
        // SAFETY: the words are at least as long as the call is told, and live across it.
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, self.bytes, self.words.as_ptr()) == 0 }
    }
}

/// Moves the calling thread to another core if it may run there, and leaves it as free as it was. Whether it did. One that is bound to a core stays there.
///
/// The system goes on moving it as it likes. A mask that somebody else gives the thread in these few microseconds is lost.
///
/// Not for handlers. One system call, and at most four more.
pub fn move_to(core: u32) -> bool {
    // SYNC POINT: Relaxed: a hint, which saves calls that are refused; so is the other.
    if REFUSED.load(Ordering::Relaxed) {
        return false;
    }
    let Some(before) = Mask::of_thread().filter(|mask| mask.has(core) && mask.count() > 1) else {
        return false;
    };
    if !before.only(core).set() {
        REFUSED.store(true, Ordering::Relaxed);
        return false;
    }
    // One that nobody has restricted may run wherever its cpuset comes to allow, also later: so it is if that gives back what it had.
    if !before.filled(u64::MAX).set() || Mask::of_thread() != Some(before) {
        before.set();
    }
    true
}

#[cfg(all(test, not(loom), not(miri)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::thread::core;

    #[test]
    fn a_thread_moves_to_where_it_may_run_and_is_as_free_as_before() {
        let before = Mask::of_thread().unwrap();
        let cores: Vec<u32> = (0..CPUS as u32).filter(|core| before.has(*core)).collect();
        assert!(!cores.is_empty());
        for &core in cores.iter().cycle().take(3 * cores.len()) {
            assert_eq!(move_to(core), cores.len() > 1);
            assert!(Mask::of_thread().unwrap() == before);
        }
        // Nobody else's doing, nearly always: the system may move it at once.
        let stays = |at: u32| move_to(at) && core() == at;
        assert!(cores.len() < 2 || cores.iter().all(|at| (0..100).any(|_| stays(*at))));
        let outside = (0..=CPUS as u32).find(|core| !before.has(*core)).unwrap();
        assert!(!move_to(outside) && !move_to(u32::MAX));
        // Who was given fewer has them again.
        for &one in &cores {
            assert!(before.only(one).set());
            assert!(!move_to(cores[0]) && !move_to(cores[cores.len() - 1]), "it is bound");
            assert!(Mask::of_thread().unwrap() == before.only(one));
        }
        if cores.len() > 2 {
            let mut two = before.only(cores[0]);
            let other = before.only(cores[1]);
            two.words.iter_mut().zip(other.words).for_each(|(word, more)| *word |= more);
            assert!(two.set() && move_to(cores[1]) && move_to(cores[0]) && !move_to(cores[2]));
            assert!(Mask::of_thread().unwrap() == two);
        }
        assert!(before.set());
    }
}
