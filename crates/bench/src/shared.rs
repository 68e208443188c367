//! Memory and waiting outside the library: how a bench talks to its ranks without using what it measures.

use crate::error::{Error, doing};
use nix::sys::resource::{Resource, getrlimit};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;
use std::time::Duration;
use tocsin_sync::atomic::{AtomicU64, Ordering};

/// Words of shared memory, all atomic, zero at first. Nameless: gone with the last process that maps it.
pub struct Region {
    base: NonNull<AtomicU64>,
    words: usize,
    file: File,
}

// SAFETY: the region is made of atomics, and stays mapped as long as the value lives.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Makes a region.
    ///
    /// # Errors
    /// When memory or a descriptor is refused, or a limit is against a file of that length.
    pub fn create(words: usize) -> Result<Region, Error> {
        // SAFETY: the name is a C string; the result is checked.
        let fd = unsafe { libc::memfd_create(c"tocsin-bench".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os("memfd_create for the bench's shared memory"));
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let file = unsafe { File::from_raw_fd(fd) };
        let bytes = (words * size_of::<AtomicU64>()) as u64;
        // Trying would end the process by a signal.
        if getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(most, _)| most < bytes) {
            return Err(Error::Failed(format!(
                "the bench's shared memory is a file of {bytes} bytes, which a limit of the job is against: raise it (ulimit -f)"
            )));
        }
        file.set_len(bytes).map_err(doing("sizing the bench's shared memory"))?;
        Region::map(file)
    }

    /// Opens a region of another process of the same user by its [`path`](Region::path).
    ///
    /// # Errors
    /// When there is none.
    pub fn open(path: &str) -> Result<Region, Error> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Region::map(file.map_err(doing(format!("opening the bench's shared memory {path}")))?)
    }

    fn map(file: File) -> Result<Region, Error> {
        let bytes = file.metadata().map_err(doing("sizing the bench's shared memory"))?.len() as usize;
        // SAFETY: a new mapping of a file we hold, at an address the kernel chooses; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes.max(1),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<AtomicU64>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Region { base, words: bytes / size_of::<AtomicU64>(), file })
            }
            _ => Err(Error::last_os("mapping the bench's shared memory")),
        }
    }

    /// Where another process of the same user opens it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY:
        // - the mapping is page-aligned and `words` long, and lives as long as `self`;
        // - every bit pattern is a valid AtomicU64, and everybody accesses it by atomics only;
        // - nobody shrinks the file: only processes of this bench know it.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; borrows of `words` cannot outlive `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}

/// The 32-bit half of a word that futexes look at.
fn low_half(word: &AtomicU64) -> *const u32 {
    let half = std::ptr::from_ref(word).cast::<u32>();
    // SAFETY: either half lies inside the word.
    if cfg!(target_endian = "little") { half } else { unsafe { half.add(1) } }
}

/// Sleeps while the word equals `seen` (its low 32 bits count), at most `timeout`. May return early.
pub fn sleep_while(word: &AtomicU64, seen: u64, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: the word and the time-out live across the call; the kernel only reads them.
    unsafe {
        libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAIT, seen as u32, &raw const timeout);
    }
}

/// Wakes everybody who sleeps on the word.
pub fn wake_sleepers(word: &AtomicU64) {
    // SAFETY: the kernel uses the address as a key only.
    unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAKE, i32::MAX) };
}

/// Sleeps until the monotonic clock shows `ns`.
pub fn sleep_until_ns(ns: u64) {
    let at = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    // EINTR (nanosleep calls return it whatever SA_RESTART says) is no reason to stop waiting.
    // SAFETY: `at` lives across the call; no remainder is asked for.
    while unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
    } == libc::EINTR
    {}
}

/// How many times a member of a barrier looks before it yields, and yields before it sleeps.
const LOOKS: u32 = 200;
const YIELDS: u32 = 50;

/// A barrier in shared memory: word 0 counts arrivals, word 8 is the generation.
pub struct Barrier<'a> {
    words: &'a [AtomicU64],
    members: u64,
    looks: u32,
}

impl<'a> Barrier<'a> {
    /// A barrier in 16 words, whose members look so many times before they yield.
    pub fn new(words: &'a [AtomicU64], members: u64, looks: u32) -> Barrier<'a> {
        Barrier { words, members, looks }
    }

    /// How many times members look, if that is all they do: one at most where they are more than the machine's cores. Who has left would keep
    /// the core from who has not, whose time is being taken.
    pub fn looks(members: u64) -> u32 {
        // SAFETY: no pointers.
        let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        if members > u64::try_from(cores).unwrap_or(1) { 1 } else { LOOKS }
    }

    /// Waits for all: first so that who is late costs the others no processor time, then, when all are awake, by
    /// polling, so that all leave at nearly the same time.
    pub fn wait(&self) {
        self.meet(true);
        self.meet(false);
    }

    fn meet(&self, sleep: bool) {
        let (arrived, generation) = (&self.words[0], &self.words[8]);
        // SYNC POINT: Acquire/Release on both words: what a member wrote before the barrier is visible after it.
        let now = generation.load(Ordering::Acquire);
        if arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            arrived.store(0, Ordering::Relaxed);
            generation.store(now + 1, Ordering::Release);
            if sleep {
                wake_sleepers(generation);
            }
            return;
        }
        let mut spins = 0u32;
        while generation.load(Ordering::Acquire) == now {
            spins += 1;
            if spins < self.looks {
                std::hint::spin_loop();
            } else if sleep && spins > self.looks + YIELDS {
                sleep_while(generation, now, Duration::from_secs(1));
            } else {
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_by_path() {
        let region = Region::create(64).unwrap();
        let other = Region::open(&region.path()).unwrap();
        region.words()[3].store(7, Ordering::Relaxed);
        assert_eq!((other.words().len(), other.words()[3].load(Ordering::Relaxed)), (64, 7));
        assert!(Region::open("/proc/self/fd/9999").is_err());
    }

    #[test]
    fn barrier_keeps_step() {
        let region = Region::create(32).unwrap();
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let barrier = Barrier::new(&region.words()[..16], 3, Barrier::looks(3));
                    for round in 0..200 {
                        region.words()[16].fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        assert_eq!(region.words()[16].load(Ordering::Relaxed), 3 * (round + 1));
                        barrier.wait();
                    }
                });
            }
        });
    }

    #[test]
    fn sleeping() {
        let word = AtomicU64::new(1 << 32);
        sleep_while(&word, 5, Duration::from_secs(10));
        sleep_while(&word, 1 << 32, Duration::from_millis(1));
        let at = tocsin_sync::clock::now_ns() + 1_000_000;
        sleep_until_ns(at);
        assert!(tocsin_sync::clock::now_ns() >= at);
    }
}
