//! Faults of copies, and of others.
#![cfg(all(target_arch = "x86_64", not(miri)))]

use tocsin_sync::atomic::{AtomicUsize, Ordering};

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
        unsafe {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        }
        guard::install().unwrap();
        let cut = Cut::new(2, 1);
        // SAFETY: not there, which is the point.
        unsafe {
            match how.as_str() {
                "touch" => core::ptr::read_volatile(cut.at.add(PAGE)),
                "nothing" => core::ptr::read_volatile(core::hint::black_box(8 as *const u8)),
                _ => {
                    libc::raise(libc::SIGBUS);
                    0
                }
            }
        };
        return;
    }
    for (how, right) in [("touch", libc::SIGBUS), ("sent", libc::SIGBUS), ("nothing", libc::SIGSEGV)] {
        let status = again("a_fault_of_others_is_theirs", "TOCSIN_TEST_FAULT", how);
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(signal, Some(right), "{how}: {status}");
    }
}

/// A handler of the program's that was there before gets what is not a copy's.
#[test]
fn who_had_the_signal_before_gets_the_rest() {
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn theirs(_: libc::c_int) {
        CALLED.fetch_add(1, Ordering::Relaxed);
    }
    if std::env::var_os("TOCSIN_TEST_CHAIN").is_none() {
        return assert!(again("who_had_the_signal_before_gets_the_rest", "TOCSIN_TEST_CHAIN", "1").success());
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

/// What is sent while a copy runs is no fault of it, and gets to whom it is for.
#[test]
fn what_is_sent_in_mid_copy_is_no_fault() {
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn theirs(_: libc::c_int) {
        CALLED.fetch_add(1, Ordering::Relaxed);
    }
    if std::env::var_os("TOCSIN_TEST_SENT").is_none() {
        return assert!(again("what_is_sent_in_mid_copy_is_no_fault", "TOCSIN_TEST_SENT", "1").success());
    }
    // SAFETY: a handler of the one-argument form; the copies' ends are vectors, and this thread outlives the one that signals it.
    unsafe {
        libc::signal(libc::SIGBUS, theirs as *const () as libc::sighandler_t);
        guard::install().unwrap();
        let me = libc::pthread_self();
        let sender = std::thread::spawn(move || {
            while CALLED.load(Ordering::Relaxed) < 100 {
                libc::pthread_kill(me, libc::SIGBUS);
            }
        });
        let (from, mut to) = (vec![1u8; 1 << 20], vec![0u8; 1 << 20]);
        loop {
            assert!(copy(from.as_ptr(), to.as_mut_ptr(), from.len()));
            if CALLED.load(Ordering::Relaxed) >= 100 {
                break;
            }
        }
        sender.join().unwrap();
        assert_eq!(from, to);
    }
}

/// Whose handler was for one signal gets one, and the second is as it was to be.
#[test]
fn who_wanted_one_signal_gets_one() {
    extern "C" fn theirs(_: libc::c_int) {}
    if std::env::var_os("TOCSIN_TEST_ONCE").is_none() {
        let status = again("who_wanted_one_signal_gets_one", "TOCSIN_TEST_ONCE", "1");
        return assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGBUS));
    }
    // SAFETY: zeroed is a valid sigaction; a handler of the one-argument form.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = theirs as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND;
        libc::sigaction(libc::SIGBUS, &raw const action, core::ptr::null_mut());
        guard::install().unwrap();
        libc::raise(libc::SIGBUS);
        libc::raise(libc::SIGBUS);
    }
}

/// Who comes later and passes on stays in front.
#[test]
fn who_came_later_is_not_passed_over() {
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    static OLD: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn theirs(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        CALLED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the kernel passes a valid siginfo; the guard's handler has that form.
        unsafe {
            if (*info).si_code > 0 {
                let old: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    core::mem::transmute(OLD.load(Ordering::Relaxed));
                old(signal, info, context);
            }
        }
    }
    if std::env::var_os("TOCSIN_TEST_LATER").is_none() {
        return assert!(again("who_came_later_is_not_passed_over", "TOCSIN_TEST_LATER", "1").success());
    }
    // SAFETY: a handler of the form that its flags say; what is copied is to be mended.
    unsafe {
        guard::install().unwrap();
        let (mut action, mut old): (libc::sigaction, libc::sigaction) = core::mem::zeroed();
        action.sa_sigaction = theirs as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, core::ptr::null(), &raw mut old);
        OLD.store(old.sa_sigaction, Ordering::Relaxed);
        libc::sigaction(libc::SIGBUS, &raw const action, core::ptr::null_mut());
        let (cut, mut byte) = (Cut::new(1, 0), 0u8);
        for installed in 0..2 {
            assert!(!copy(cut.at, &raw mut byte, 1));
            assert_eq!(CALLED.load(Ordering::Relaxed), installed * 2 + 1);
            guard::install().unwrap();
            libc::raise(libc::SIGBUS);
            assert_eq!(CALLED.load(Ordering::Relaxed), installed * 2 + 2);
        }
    }
}

/// Nothing is mapped there at all, as after the device has forgotten this process.
#[test]
fn no_memory_at_all_fails_it_too() {
    guard::install().unwrap();
    let mut byte = 0u8;
    for address in [0usize, 8, 1 << 20, (1 << 47) + 5, 1 << 63] {
        // SAFETY: to be mended.
        assert!(!unsafe { copy(address as *const u8, &raw mut byte, 1) }, "{address:#x}");
    }
}

#[test]
fn a_thread_of_the_engines_own_has_its_faults_mended() {
    guard::install().unwrap();
    let copied = std::thread::spawn(|| {
        tocsin_sync::signals::block_for_good();
        let (cut, mut byte) = (Cut::new(1, 0), 0u8);
        // SAFETY: to be mended.
        unsafe { copy(cut.at, &raw mut byte, 1) }
    });
    assert!(!copied.join().unwrap());
}

/// Runs a test in a process of its own, which the variable tells.
fn again(test: &str, variable: &str, value: &str) -> std::process::ExitStatus {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("xpmem::copy::tests::{test}"), "--nocapture"]);
    child.env(variable, value).output().unwrap().status
}
