//! What needs the device. The emulated machine has it; tests here name it as the one who runs them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::mman::{MapFlags, ProtFlags};
use tocsin_sync::atomic::{AtomicBool, Ordering};
use tocsin_sync::signals::block_for_good;

use super::windows::{WINDOW, Windows};
use super::{Device, copy, xpmem_refusal};

const PAGE: usize = 4096;

/// Memory of its own that nobody has touched.
struct Pages {
    at: *mut u8,
    len: usize,
}

impl Pages {
    fn new(len: usize) -> Pages {
        Pages::at(core::ptr::null_mut(), len)
    }

    /// At an address, whatever was there, if it is not 0.
    fn at(address: *mut u8, len: usize) -> Pages {
        let fixed = if address.is_null() { MapFlags::empty() } else { MapFlags::MAP_FIXED };
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE | fixed;
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let address = (address as usize).try_into().ok();
        // SAFETY: a mapping of its own, where nothing was or what was is this test's.
        let at = unsafe { nix::sys::mman::mmap_anonymous(address, len.try_into().unwrap(), rights, flags) };
        Pages { at: at.unwrap().as_ptr().cast(), len }
    }

    fn byte(&self, at: usize) -> *mut u8 {
        assert!(at < self.len);
        self.at.wrapping_add(at)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `at`.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

/// This process's own memory, by the device.
fn own() -> (Windows, i64) {
    let device = Device::open().unwrap();
    (Windows::new(device).unwrap(), device.permit(device.segment()).unwrap())
}

fn read(windows: &mut Windows, permit: i64, from: *const u8, len: usize) -> Option<Vec<u8>> {
    let mut to = vec![0; len];
    // SAFETY: `to` is as long as that.
    unsafe { windows.read(3, permit, from as u64, to.as_mut_ptr(), len) }.then_some(to)
}

/// Where it must work, the environment says so; where there is no device, there is a reason.
#[test]
fn says_why_it_is_not_used() {
    let refusal = xpmem_refusal();
    if std::env::var_os("TOCSIN_TEST_XPMEM").is_some() {
        return assert_eq!(refusal, None);
    }
    if !std::path::Path::new("/dev/xpmem").exists() {
        let why = refusal.unwrap();
        assert!(why.contains("xpmem") || !copy::IS_MENDED, "{why}");
    }
}

#[test]
#[ignore = "needs the device: cargo xtask guest runs it"]
fn copies_both_ways_across_windows() {
    let (mut windows, permit) = own();
    let pages = Pages::new(3 * WINDOW as usize);
    let edge = pages.at as u64 % WINDOW;
    // Around the first two edges of windows.
    let begins = (WINDOW - edge) as usize - 100;
    let data: Vec<u8> = (0..WINDOW as usize + 300).map(|i| (i * 31 + i / 256) as u8).collect();
    // SAFETY: both ends have that many bytes.
    assert!(unsafe { windows.write(3, permit, data.as_ptr(), pages.byte(begins) as u64, data.len()) });
    // SAFETY: written above, by this process.
    assert_eq!(unsafe { core::slice::from_raw_parts(pages.byte(begins), data.len()) }, data);
    assert_eq!(read(&mut windows, permit, pages.byte(begins), data.len()).unwrap(), data);
    assert_eq!(windows.mapped(), 3);
    windows.forget(4, -1);
    assert_eq!(windows.mapped(), 3, "another peer's are left");
    windows.forget(3, permit);
    assert_eq!(windows.mapped(), 0);
    let permit = windows.device().permit(windows.device().segment()).unwrap();
    assert_eq!(read(&mut windows, permit, pages.byte(begins), data.len()).unwrap(), data);
}

#[test]
#[ignore = "needs the device: cargo xtask guest runs it"]
fn what_has_gone_fails_and_what_comes_back_is_found() {
    let (mut windows, permit) = own();
    let pages = Pages::new(8 * PAGE);
    let at = pages.byte(2 * PAGE);
    // SAFETY: this test's memory, here and below.
    unsafe { at.write(1) };
    assert_eq!(read(&mut windows, permit, at, 1), Some(vec![1]));
    // SAFETY: as above.
    unsafe { libc::munmap(at.cast(), 2 * PAGE) };
    assert_eq!(read(&mut windows, permit, at, 1), None);
    // Half of it is there, and half of it is not.
    assert_eq!(read(&mut windows, permit, at.wrapping_sub(50), 100), None);
    let again = Pages::at(at, 2 * PAGE);
    // SAFETY: as above.
    unsafe { again.at.write(2) };
    assert_eq!(read(&mut windows, permit, at, 1), Some(vec![2]));
    // Given back and untouched: zeros, not what was there.
    // SAFETY: as above.
    unsafe { libc::madvise(at.cast(), PAGE, libc::MADV_DONTNEED) };
    assert_eq!(read(&mut windows, permit, at, 1), Some(vec![0]));
    core::mem::forget(again);
}

#[test]
#[ignore = "needs the device: cargo xtask guest runs it"]
fn no_memory_is_no_copy() {
    let (mut windows, permit) = own();
    let (mut byte, top) = (0u8, (1u64 << 47) - 4096);
    for (address, len) in [(0, 1), (16, 1), (top - 1, 2), (top, 1), (1 << 47, 1), (1 << 63, 1), (u64::MAX, 1)]
    {
        // SAFETY: nothing is written, for nothing is there; not more than a byte if it were.
        assert!(!unsafe { windows.read(3, permit, address, &raw mut byte, len) }, "{address:#x}");
    }
    // SAFETY: nothing is copied.
    assert!(unsafe { windows.read(3, permit, 16, &raw mut byte, 0) });
    assert!(Device::open().unwrap().permit(-1).is_err());
    assert!(Device::open().unwrap().permit(i64::MAX).is_err());
}

/// More windows than places: the ones that were used least recently go, and what is read is right.
#[test]
#[ignore = "needs the device: cargo xtask guest runs it"]
fn windows_make_way() {
    let (windows, permit) = own();
    let mut windows = Windows::of(windows.device(), 3).unwrap();
    let places = windows.places();
    let pages = Pages::new((places + 20) * WINDOW as usize);
    for round in 0..2 {
        for n in 0..places + 19 {
            let at = pages.byte(n * WINDOW as usize + 5);
            // SAFETY: this test's memory.
            unsafe { at.write((n + round) as u8) };
            assert_eq!(read(&mut windows, permit, at, 1), Some(vec![(n + round) as u8]));
            assert!(windows.mapped() <= places);
        }
    }
    assert_eq!(windows.mapped(), places);
}

/// A process whose memory others map: says where it has what, and waits until it is killed, or its input ends.
#[test]
#[ignore = "a process of its own: an_owner_that_ends_in_mid_copy runs it"]
fn owner() {
    let device = Device::open().unwrap();
    let memory = vec![0xA5u8; MEMORY];
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nowner {} {}", device.segment(), memory.as_ptr() as u64).unwrap();
    out.flush().unwrap();
    _ = std::io::stdin().lock().read_line(&mut String::new());
    assert!(memory.iter().all(|byte| *byte == 0xA5 || *byte == 0x5A));
}

const MEMORY: usize = 5 << 20;

struct Owner {
    child: Child,
    _input: ChildStdin,
    output: BufReader<ChildStdout>,
    segment: i64,
    address: u64,
}

impl Owner {
    fn start() -> Owner {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "xpmem::tests::owner", "--include-ignored", "--nocapture"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let numbers = loop {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the owner has ended");
            if let Some(numbers) = line.strip_prefix("owner ") {
                break numbers.split_whitespace().map(|n| n.parse::<i64>().unwrap()).collect::<Vec<_>>();
            }
        };
        let _input = child.stdin.take().unwrap();
        Owner { child, _input, output, segment: numbers[0], address: numbers[1] as u64 }
    }
}

#[test]
#[ignore = "needs the device: cargo xtask guest runs it"]
fn an_owner_that_ends_in_mid_copy() {
    let device = Device::open().unwrap();
    for round in 0..6 {
        let mut owner = Owner::start();
        let (mut windows, permit) = (Windows::new(device).unwrap(), device.permit(owner.segment).unwrap());
        let mut here = vec![0u8; MEMORY];
        let mut copy = |windows: &mut Windows, round: u32| {
            if round.is_multiple_of(2) {
                // SAFETY: `here` is as long as that.
                unsafe { windows.read(3, permit, owner.address, here.as_mut_ptr(), MEMORY) }
            } else {
                here.fill(0x5A);
                // SAFETY: as above.
                unsafe { windows.write(3, permit, here.as_ptr(), owner.address, MEMORY) }
            }
        };
        assert!(copy(&mut windows, round));
        // As the kernel has it: while copies go on, one of which fails.
        let process = owner.child.id() as libc::pid_t;
        let killer = std::thread::spawn(move || {
            // SAFETY: a child that nobody has waited for.
            unsafe { libc::kill(process, libc::SIGKILL) };
        });
        while copy(&mut windows, round) {}
        killer.join().unwrap();
        assert!(!copy(&mut windows, round), "it comes back from the dead");
        owner.child.wait().unwrap();
        assert!(device.permit(owner.segment).is_err(), "its memory may still be mapped");
        drop(owner.output);
    }
}

/// On a thread of the engine's own, and in a handler that interrupts what blocks everything.
#[test]
#[ignore = "needs the device: cargo xtask guest runs it"]
fn an_owner_that_ends_for_who_takes_no_signals() {
    for in_handler in [false, true] {
        let mut owner = Owner::start();
        let copies = std::thread::spawn(move || {
            let device = Device::open().unwrap();
            let (mut windows, permit) =
                (Windows::new(device).unwrap(), device.permit(owner.segment).unwrap());
            let registered = tocsin_sync::thread::register(core::ptr::null()).unwrap();
            let scope = in_handler.then(|| {
                let mut all = core::mem::MaybeUninit::uninit();
                // SAFETY: sigfillset makes the set.
                unsafe {
                    libc::sigfillset(all.as_mut_ptr());
                    libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), core::ptr::null_mut());
                }
                tocsin_sync::thread::HandlerScope::enter()
            });
            if scope.is_none() {
                block_for_good();
            }
            let mut here = vec![0u8; MEMORY];
            // SAFETY: `here` is as long as that.
            let mut copy = || unsafe { windows.read(3, permit, owner.address, here.as_mut_ptr(), MEMORY) };
            assert!(copy());
            owner.child.kill().unwrap();
            while copy() {}
            drop(scope);
            drop(registered);
            owner.child.wait().unwrap();
        });
        copies.join().unwrap();
    }
}

/// What others in this process have of the device takes this library's along when they close theirs.
#[test]
#[ignore = "in a process of its own: a_stranger_that_closes_the_device runs it"]
fn stranger() {
    let pages = Pages::new(4 * PAGE);
    // SAFETY: this test's memory, here and below.
    unsafe { pages.at.write(1) };
    for is_mapped in [false, true] {
        let (mut windows, permit) = own();
        assert_eq!(read(&mut windows, permit, pages.at, 1), Some(vec![1]));
        let of_device = || std::fs::read_to_string("/proc/self/maps").unwrap().matches("/dev/xpmem").count();
        assert_eq!(of_device(), 2, "a window, and the page that is looked at");
        // SAFETY: a descriptor of its own.
        unsafe { libc::close(libc::open(super::DEVICE.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC)) };
        assert_eq!(of_device(), 0);
        // Where the windows were, mostly.
        let theirs = is_mapped.then(|| Pages::new(2 * WINDOW as usize));
        let byte = [7u8];
        // SAFETY: the byte is there.
        assert!(!unsafe { windows.write(3, permit, byte.as_ptr(), pages.at as u64, 1) });
        assert_eq!(read(&mut windows, permit, pages.at, 1), None);
        // SAFETY: this test's memory.
        assert_eq!(unsafe { pages.at.read() }, 1);
        if let Some(theirs) = &theirs {
            // SAFETY: as above.
            let bytes = unsafe { core::slice::from_raw_parts(theirs.at, theirs.len) };
            assert!(bytes.iter().all(|byte| *byte == 0), "strangers' memory");
        }
        windows.forget(3, permit);
    }
}

/// Another endpoint of this process that comes next, where the first one's windows were and by the same numbers, is not taken for it.
#[test]
#[ignore = "in a process of its own: a_stranger_that_closes_the_device runs it"]
fn successor() {
    let pages = Pages::new(4 * PAGE);
    // SAFETY: this test's memory, here and below.
    unsafe { pages.at.write(1) };
    let (mut first, permit) = own();
    assert_eq!(read(&mut first, permit, pages.at, 1), Some(vec![1]));
    // SAFETY: a descriptor of its own.
    unsafe { libc::close(libc::open(super::DEVICE.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC)) };
    let (mut second, again) = own();
    assert_eq!(again, permit, "numbers come again, or this tests nothing");
    assert_eq!(read(&mut second, again, pages.at, 1), Some(vec![1]));
    assert_eq!(read(&mut first, permit, pages.at, 1), None);
    first.forget(3, permit);
    drop(first);
    // SAFETY: as above.
    unsafe { pages.at.write(2) };
    assert_eq!(read(&mut second, again, pages.at, 1), Some(vec![2]));
}

#[test]
#[ignore = "needs the device: cargo xtask guest runs it"]
fn a_stranger_that_closes_the_device() {
    for test in ["stranger", "successor"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("xpmem::tests::{test}"), "--include-ignored", "--nocapture"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// The kernel gives up what it does when a signal is pending; who opens the device meanwhile has it all the same.
#[test]
#[ignore = "in a process of its own: signals_while_it_is_opened runs it"]
fn opens() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: a handler that does nothing; the threads that are signalled outlive the one that signals.
    unsafe {
        libc::signal(libc::SIGUSR1, nothing as *const () as libc::sighandler_t);
        let (over, me) = (std::sync::Arc::new(AtomicBool::new(false)), libc::pthread_self());
        let ends = over.clone();
        let storm = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                libc::pthread_kill(me, libc::SIGUSR1);
            }
        });
        for _ in 0..50 {
            let device = Device::open().unwrap();
            // Has the next one begin anew.
            libc::close(libc::open(super::DEVICE.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC));
            assert!(!device.is_there());
        }
        over.store(true, Ordering::Relaxed);
        storm.join().unwrap();
    }
}

#[test]
#[ignore = "needs the device: cargo xtask guest runs it"]
fn signals_while_it_is_opened() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "xpmem::tests::opens", "--include-ignored", "--nocapture"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
