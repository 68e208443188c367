//! The system calls behind a segment.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use crate::Error;
use crate::geometry::PAGE;

/// Nobody may shrink the file under the others (they would get SIGBUS), grow it, or take back or add seals.
const SEALS: [(libc::c_int, &str); 3] = [
    (libc::F_SEAL_SHRINK, "shrinking"),
    (libc::F_SEAL_GROW, "growing"),
    (libc::F_SEAL_SEAL, "further seals"),
];

fn all_seals() -> libc::c_int {
    SEALS.iter().fold(0, |all, (seal, _)| all | seal)
}

/// A descriptor, and which file it is of: programs that make daemons of themselves close all descriptors there are, and the next file that they open has this one's
/// number.
#[derive(Debug)]
pub(super) struct OwnFile {
    fd: ManuallyDrop<OwnedFd>,
    file: (libc::dev_t, libc::ino_t),
}

impl OwnFile {
    /// # Errors
    /// What `fstat` answers.
    pub(super) fn new(fd: OwnedFd) -> Result<OwnFile, Error> {
        let file = which(fd.as_fd()).map_err(|source| Error::Os { call: "fstat", source })?;
        Ok(OwnFile { fd: ManuallyDrop::new(fd), file })
    }

    /// The descriptor, as it was given.
    pub(super) fn unchecked(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The descriptor, if it is still that file's. Not for handlers.
    ///
    /// # Errors
    /// That it is not.
    pub(super) fn get(&self) -> io::Result<BorrowedFd<'_>> {
        let fd = self.fd.as_fd();
        if which(fd).is_ok_and(|file| file == self.file) {
            return Ok(fd);
        }
        let what = format!(
            "this process has closed descriptor {}, which was that of the world's memory: it may close only what it has opened",
            fd.as_raw_fd()
        );
        Err(io::Error::other(what))
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if self.get().is_ok() {
            // SAFETY: - dropped here only, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}

/// What tells files apart.
fn which(fd: BorrowedFd<'_>) -> io::Result<(libc::dev_t, libc::ino_t)> {
    status(fd).map(|stat| (stat.st_dev, stat.st_ino))
}

fn status(fd: BorrowedFd<'_>) -> io::Result<libc::stat> {
    // SAFETY: zero is a valid `stat`, and `fstat` fills it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is a live stat structure.
    match unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) } {
        0 => Ok(stat),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(super) fn create_sealed(bytes: u64) -> Result<OwnedFd, Error> {
    let refused = |call| Error::Refused { call, bytes, source: io::Error::last_os_error() };
    let create = |flags| {
        // SAFETY: the name is a C string; the call returns a new descriptor or -1.
        unsafe { libc::memfd_create(c"tocsin".as_ptr(), flags) }
    };
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let mut fd = create(flags | libc::MFD_NOEXEC_SEAL);
    // Kernels before 6.3 don't know MFD_NOEXEC_SEAL.
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        fd = create(flags);
    }
    if fd < 0 {
        return Err(refused("memfd_create"));
    }
    // SAFETY: `fd` is a new descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let length = libc::off_t::try_from(bytes).map_err(|_| Error::Refused {
        call: "ftruncate",
        bytes,
        source: io::Error::from_raw_os_error(libc::EFBIG),
    })?;
    if forbids(bytes) {
        let source = io::Error::from_raw_os_error(libc::EFBIG);
        return Err(Error::Refused { call: "ftruncate", bytes, source });
    }
    // SAFETY: no pointers.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), length) } != 0 {
        return Err(refused("ftruncate"));
    }
    // SAFETY: no pointers.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, all_seals()) } != 0 {
        return Err(Error::os("fcntl(F_ADD_SEALS)"));
    }
    Ok(fd)
}

/// Whether a limit of this process forbids a file of so many bytes: trying would end it by a signal.
pub(super) fn forbids(bytes: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a live structure.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    read && limit.rlim_cur != libc::RLIM_INFINITY && limit.rlim_cur < bytes
}

pub(super) fn check_seals(fd: BorrowedFd<'_>) -> Result<(), Error> {
    // SAFETY: no pointers.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 {
        return Err(Error::NotMemfd { source: io::Error::last_os_error() });
    }
    let missing: Vec<&str> = SEALS.iter().filter(|(seal, _)| seals & seal == 0).map(|(_, n)| *n).collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::NotSealed { missing: missing.join(", ") }) }
}

pub(super) fn size(fd: BorrowedFd<'_>) -> Result<u64, Error> {
    let stat = status(fd).map_err(|source| Error::Os { call: "fstat", source })?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// The fields of the header that never change, read without mapping.
#[derive(Debug)]
pub(super) struct Preamble {
    pub magic: u64,
    pub version: u32,
    pub ranks: u32,
    pub bytes: u64,
    pub digest: u64,
    pub arena: u64,
}

impl Preamble {
    /// Reads them from a file of `size` bytes.
    pub(super) fn read(fd: BorrowedFd<'_>, size: u64) -> Result<Preamble, Error> {
        let mut words = [0u64; 5];
        if size < size_of_val(&words) as u64 {
            return Err(Error::Size { found: size, expected: size_of_val(&words) as u64 });
        }
        let file = File::from(fd.try_clone_to_owned().map_err(|source| Error::Os { call: "dup", source })?);
        for (i, word) in words.iter_mut().enumerate() {
            let mut bytes = [0u8; 8];
            file.read_exact_at(&mut bytes, i as u64 * 8)
                .map_err(|source| Error::Os { call: "pread", source })?;
            *word = u64::from_ne_bytes(bytes);
        }
        let [magic, second, bytes, digest, arena] = words;
        // Two 32-bit fields share the second word; their order in it is the machine's.
        let (version, ranks) = if cfg!(target_endian = "little") {
            (second as u32, (second >> 32) as u32)
        } else {
            ((second >> 32) as u32, second as u32)
        };
        Ok(Preamble { magic, version, ranks, bytes, digest, arena })
    }
}

/// Maps `bytes` bytes of the file from `offset` on. In a process that has what it maps locked in memory (`mlockall`) holes stay holes:
/// none of it is accessible before it is unlocked.
pub(crate) fn map(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<NonNull<u8>, Error> {
    let refused = |source| Error::Refused { call: "mmap", bytes, source };
    let length = usize::try_from(bytes).map_err(|_| refused(io::Error::from_raw_os_error(libc::ENOMEM)))?;
    let at =
        libc::off_t::try_from(offset).map_err(|_| refused(io::Error::from_raw_os_error(libc::EOVERFLOW)))?;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_NONE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            fd.as_raw_fd(),
            at,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(refused(io::Error::last_os_error()));
    }
    // SAFETY: the new mapping, to which nobody points yet.
    let accessible = unsafe {
        let _or_is_not_locked = libc::munlock(base, length);
        libc::mprotect(base, length, libc::PROT_READ | libc::PROT_WRITE)
    };
    if accessible != 0 {
        let source = io::Error::last_os_error();
        // SAFETY: as above.
        let _cannot_fail = unsafe { libc::munmap(base, length) };
        return Err(Error::Refused { call: "mprotect", bytes, source });
    }
    NonNull::new(base.cast()).ok_or_else(|| refused(io::Error::from_raw_os_error(libc::ENOMEM)))
}

/// # Safety
/// `base` is a mapping of `bytes` bytes made by `map`, to which nobody points any more.
pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: u64) {
    // SAFETY: the caller's promise.
    let _cannot_fail = unsafe { libc::munmap(base.as_ptr().cast(), bytes as usize) };
}

/// What the system maps and gives back at a time, bytes.
pub(crate) fn page() -> u64 {
    // SAFETY: no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(page).map_or(PAGE, |page| page.max(PAGE))
}

/// Allocates a range of the file, so that touching it never fails. Not for handlers.
///
/// Several ranks may allocate the same range at once, and one of them may fail, or be interrupted, on its way: the kernel makes one such
/// call at a time on a file, and takes back only pages that this very call has allocated and nobody has touched or met since. What an earlier call
/// had allocated, a later one initialises when it meets it, so that it stays (`shmem_fallocate` and `shmem_undo_range` in
/// `mm/shmem.c`, since Linux 3.5).
pub(crate) fn allocate(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    in_steps(offset, bytes, |at, step| {
        // SAFETY: no pointers.
        match unsafe { libc::fallocate(fd.as_raw_fd(), 0, at as libc::off_t, step as libc::off_t) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    })
}

/// Gives the memory of a range of the file back: a hole again, which reads as zeros. Not for handlers.
pub(crate) fn give_back(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no pointers.
    match unsafe { libc::fallocate(fd.as_raw_fd(), mode, offset as libc::off_t, bytes as libc::off_t) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Leaves a mapped range out of images of the process (core dumps). Not for handlers.
pub(crate) fn leave_out(at: *mut u8, bytes: u64) {
    // SAFETY: a range of a mapping of this process, whose content this leaves as it is.
    let _or_it_is_there = unsafe { libc::madvise(at.cast(), bytes as usize, libc::MADV_DONTDUMP) };
}

/// Takes it in again. Not for handlers.
pub(crate) fn take_in(at: *mut u8, bytes: u64) {
    // SAFETY: as in `leave_out`.
    let _or_it_is_not = unsafe { libc::madvise(at.cast(), bytes as usize, libc::MADV_DODUMP) };
}

/// Has a mapped range that is allocated found by the processor from now on, without a fault for each page. Kernels before 5.14 do not
/// know how; the faults come then. Not for handlers.
pub(crate) fn populate(at: *mut u8, bytes: u64) {
    // SAFETY: a range of a mapping of this process, whose content this leaves as it is.
    let _or_faults = unsafe { libc::madvise(at.cast(), bytes as usize, libc::MADV_POPULATE_WRITE) };
}

/// Interrupted by a signal, the kernel gives back what the call had allocated, and it looks for signals before each page.
/// So every interruption halves the step: a peer that is not answered, for the engine is busy here, sends a signal a
/// millisecond, and on a slow machine no step of more pages would ever end. One page is interrupted only by a signal
/// that is there before the call begins.
fn in_steps(offset: u64, bytes: u64, mut allocate: impl FnMut(u64, u64) -> io::Result<()>) -> io::Result<()> {
    const LARGEST: u64 = 64 << 10;
    const SMALLEST: u64 = 4 << 10;
    /// Of one page, so that a storm without end is an error.
    const ATTEMPTS: u32 = 100_000;
    let end = offset.saturating_add(bytes);
    let (mut at, mut largest, mut attempts) = (offset, LARGEST, 0);
    while at < end {
        let step = largest.min(end - at);
        match allocate(at, step) {
            Ok(()) => {
                at += step;
                attempts = 0;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted && attempts < ATTEMPTS => {
                largest = (largest / 2).max(SMALLEST);
                attempts += 1;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of what was allocated, by a kernel whose calls of more than `most` bytes are always interrupted.
    fn allocated(offset: u64, bytes: u64, most: u64) -> io::Result<u64> {
        let mut end = offset;
        in_steps(offset, bytes, |at, step| {
            if step > most {
                return Err(io::Error::from_raw_os_error(libc::EINTR));
            }
            assert_eq!(at, end, "no gap");
            end += step;
            Ok(())
        })?;
        Ok(end)
    }

    #[test]
    fn a_slow_machine_allocates_under_signals() {
        for most in [4 << 10, 20 << 10, 1 << 20] {
            assert_eq!(allocated(8192, 1_000_000, most).unwrap(), 1_008_192, "{most}");
        }
    }

    #[test]
    fn signals_without_end_are_an_error() {
        assert_eq!(allocated(0, 1 << 20, 0).unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(allocated(0, 0, 0).unwrap(), 0);
    }
}
