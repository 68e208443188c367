//! Faults of copies, and of others.
#![cfg(all(target_arch = "x86_64", not(miri)))]

use super::*;
use crate::xpmem::guard;

/// Pages of a file that is too short for them: a touch is a SIGBUS.
struct Cut {
    at: *mut u8,
    pages: usize,
}

const PAGE: usize = 4096;

impl Cut {
    fn new(pages: usize, there: usize) -> Cut {
        let file = nix::sys::memfd::memfd_create(c"cut", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap();
        nix::unistd::ftruncate(&file, (there * PAGE) as i64).unwrap();
        // SAFETY: a mapping of its own, where nothing was.
        let at = unsafe {
            nix::sys::mman::mmap(
                None,
                (pages * PAGE).try_into().unwrap(),
                nix::sys::mman::ProtFlags::PROT_READ | nix::sys::mman::ProtFlags::PROT_WRITE,
                nix::sys::mman::MapFlags::MAP_SHARED,
                &file,
                0,
            )
        };
        Cut { at: at.unwrap().as_ptr().cast(), pages }
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`.
        unsafe { libc::munmap(self.at.cast(), self.pages * PAGE) };
    }
}

#[test]
fn copies_any_number_of_bytes() {
    guard::install().unwrap();
    let from: Vec<u8> = (0..1000u32).map(|i| (i * 7 + i / 250) as u8).collect();
    for len in (0..300).chain([999, 1000]) {
        for skew in [0, 1, 13] {
            let (from, mut to) = (&from[skew.min(1000 - len)..][..len], vec![0xEE; len + 32]);
            // SAFETY: both have that many bytes.
            assert!(unsafe { copy(from.as_ptr(), to.as_mut_ptr().add(16), len) });
            assert_eq!(&to[16..16 + len], from);
            assert!(to[..16].iter().chain(&to[16 + len..]).all(|byte| *byte == 0xEE), "{len} {skew}");
        }
    }
}

#[test]
fn what_is_not_there_fails_it_wherever_it_begins() {
    guard::install().unwrap();
    let mut here = vec![0x11u8; 2 * PAGE];
    for len in [1, 15, 63, 64, 65, 200, PAGE] {
        // In the loop and in what is left of it, at either end, at the first byte and at others.
        for there in [0, 1, 16, 63, 64, 100] {
            let cut = Cut::new(2, 1);
            let edge = cut.at.wrapping_add(PAGE - there.min(len));
            let right = there >= len;
            // SAFETY: mapped, or to be mended.
            unsafe {
                assert_eq!(copy(edge, here.as_mut_ptr(), len), right, "from {there} of {len}");
                assert_eq!(copy(here.as_ptr(), edge, len), right, "to {there} of {len}");
            }
        }
    }
}

/// The mend is of the copy alone: everybody else's fault is as it was.
#[test]
fn a_fault_of_others_is_theirs() {
    if let Ok(how) = std::env::var("TOCSIN_TEST_FAULT") {
        // SAFETY: instead of the standard library's, which forgets what was sent.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
        guard::install().unwrap();
        let cut = Cut::new(2, 1);
        // SAFETY: not there, which is the point.
        unsafe {
            match how.as_str() {
                "touch" => core::ptr::read_volatile(cut.at.add(PAGE)),
                _ => {
                    libc::raise(libc::SIGBUS);
                    0
                }
            }
        };
        return;
    }
    for how in ["touch", "sent"] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "xpmem::copy::tests::a_fault_of_others_is_theirs", "--nocapture"]);
        let status = child.env("TOCSIN_TEST_FAULT", how).output().unwrap().status;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(signal, Some(libc::SIGBUS), "{how}: {status}");
    }
}

/// A handler of the program's that was there before gets what is not a copy's.
#[test]
fn who_had_the_signal_before_gets_the_rest() {
    use tocsin_sync::atomic::{AtomicUsize, Ordering};
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn theirs(_: libc::c_int) {
        CALLED.fetch_add(1, Ordering::Relaxed);
    }
    if std::env::var_os("TOCSIN_TEST_CHAIN").is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "xpmem::copy::tests::who_had_the_signal_before_gets_the_rest", "--nocapture"]);
        assert!(child.env("TOCSIN_TEST_CHAIN", "1").output().unwrap().status.success());
        return;
    }
    let (cut, mut byte) = (Cut::new(1, 0), 0u8);
    // SAFETY: a handler of the one-argument form; what is copied is to be mended.
    unsafe {
        libc::signal(libc::SIGBUS, theirs as *const () as libc::sighandler_t);
        guard::install().unwrap();
        assert!(!copy(cut.at, &raw mut byte, 1));
        assert_eq!(CALLED.load(Ordering::Relaxed), 0);
        libc::raise(libc::SIGBUS);
    }
    assert_eq!(CALLED.load(Ordering::Relaxed), 1);
}
