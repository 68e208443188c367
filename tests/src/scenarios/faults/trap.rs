//! Memory whose reader kills another process.

use std::ptr;

use tocsin_sync::atomic::Ordering;
use tocsin_sync::atomic::real::{AtomicBool, AtomicI32, AtomicPtr};

const PAGE: usize = 4096;

/// A descriptor of the process.
static DOOMED: AtomicI32 = AtomicI32::new(-1);
static PLACE: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());
static SPRUNG: AtomicBool = AtomicBool::new(false);

/// Memory with a page that cannot be read before a process is dead. One in a process; it stays mapped.
pub struct Trap {
    start: *mut u8,
}

impl Trap {
    /// So many bytes, all of them 7; who first touches the page that holds byte `at` kills the process, waits until it is dead, and goes on.
    pub fn new(bytes: usize, at: usize, doomed: u32) -> Trap {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let usable = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a mapping where nothing is, which is this function's alone; all results are checked.
        unsafe {
            let start = libc::mmap(ptr::null_mut(), bytes, usable, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            start.cast::<u8>().write_bytes(7, bytes);
            let page = start.cast::<u8>().add(at / PAGE * PAGE).cast();
            assert_eq!(libc::mprotect(page, PAGE, libc::PROT_NONE), 0);
            let doomed = libc::syscall(libc::SYS_pidfd_open, doomed, 0) as i32;
            assert!(doomed >= 0, "pidfd_open: {}", std::io::Error::last_os_error());
            // SYNC POINT: Relaxed: who runs the handler is given the memory afterwards.
            DOOMED.store(doomed, Ordering::Relaxed);
            // SYNC POINT: Relaxed: likewise.
            PLACE.store(page, Ordering::Relaxed);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = spring as extern "C" fn(i32) as usize;
            // Nothing interrupts it, and a fault elsewhere, which comes again, is one as any other.
            libc::sigfillset(&raw mut action.sa_mask);
            action.sa_flags = libc::SA_RESETHAND;
            assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()), 0);
            Trap { start: start.cast() }
        }
    }

    /// Where it begins.
    pub fn start(&self) -> *const u8 {
        self.start
    }

    /// Whether somebody has touched the page.
    pub fn has_sprung(&self) -> bool {
        // SYNC POINT: Relaxed: by the thread that asks, or by one whose copy this one has seen the end of.
        SPRUNG.load(Ordering::Relaxed)
    }
}

/// Nothing but system calls.
extern "C" fn spring(_: i32) {
    // SYNC POINT: Relaxed: set before the memory was given to whoever faults.
    let mut doomed = libc::pollfd { fd: DOOMED.load(Ordering::Relaxed), events: libc::POLLIN, revents: 0 };
    let nothing: *const libc::siginfo_t = ptr::null();
    // SAFETY: no pointers but to the descriptor's record, and none; the page is of the trap's mapping.
    unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, doomed.fd, libc::SIGKILL, nothing, 0);
        while doomed.revents == 0 {
            libc::poll(&raw mut doomed, 1, -1);
        }
        // SYNC POINT: Relaxed: as above.
        libc::mprotect(PLACE.load(Ordering::Relaxed), PAGE, libc::PROT_READ | libc::PROT_WRITE);
    }
    // SYNC POINT: Relaxed: read by this thread, or by one that has seen the end of this one's copy.
    SPRUNG.store(true, Ordering::Relaxed);
}
