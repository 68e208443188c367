//! XPMEM: a device that maps memory of another process, as it stands, into this one.
//!
//! A process opens it once and says that its whole memory may be mapped by its user's processes; others map windows of that, as they need them, and copy
//! from and to them without the kernel. The kernel finds a page when it is first touched. What is not there any more, because its owner has given it back or
//! has ended, is a `SIGBUS` for who touches it: [`copy`] mends that.
//!
//! All that a process has of the device goes when any of its descriptors of it is closed, by whomever: what was mapped is not there any more, or somebody else's memory is.
//! [`windows`] looks for that before and after each copy. The calls are those of versions 2.

pub(crate) mod copy;
mod guard;
#[cfg(test)]
mod tests;
pub(crate) mod windows;

use core::ffi::c_int;
use std::ffi::CStr;
use std::io;
use std::sync::{Mutex, PoisonError};

use tocsin_sync::errno;
use tocsin_sync::signals::Blocked;

/// Where the module has its device.
const DEVICE: &CStr = c"/dev/xpmem";
/// The version whose calls these are, in the upper half. (In others they have other numbers, and longer arguments.)
const MAJOR: c_int = 2;
/// How often a call is made again that was interrupted.
const TRIES: u32 = 16;
/// "To the end of the address space."
const ALL: u64 = u64::MAX;
/// Only the owner's user, like a file's mode.
const MODE: u64 = 0o600;
/// The only kind of permission that there is.
const BY_MODE: c_int = 1;
/// For reading and writing.
const READ_WRITE: c_int = 2;

/// `_IO('x', n)`: the numbers do not say how long the arguments are.
const fn request(n: u8) -> libc::Ioctl {
    ((b'x' as libc::Ioctl) << 8) | n as libc::Ioctl
}

const VERSION: libc::Ioctl = request(0);
const MAKE: libc::Ioctl = request(1);
const GET: libc::Ioctl = request(3);
const RELEASE: libc::Ioctl = request(4);
const ATTACH: libc::Ioctl = request(5);
const DETACH: libc::Ioctl = request(6);

#[repr(C)]
struct Make {
    address: u64,
    len: u64,
    permission: c_int,
    mode: u64,
    segment: i64,
}

#[repr(C)]
struct Get {
    segment: i64,
    flags: c_int,
    permission: c_int,
    value: u64,
    permit: i64,
}

#[repr(C)]
struct Attach {
    permit: i64,
    offset: i64,
    len: u64,
    address: u64,
    descriptor: c_int,
    flags: c_int,
}

/// The device as a process has it open. Its descriptor is never closed: with it would go what others in the process have of the device, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Device {
    descriptor: c_int,
    /// The process's memory, as others call it.
    segment: i64,
}

/// What a process has of it; its mutex is for user threads alone.
struct Opened {
    /// A child of `fork` has to open it anew.
    process: libc::pid_t,
    descriptor: c_int,
    /// Once all has gone well.
    device: Option<Device>,
}

static OPENED: Mutex<Option<Opened>> = Mutex::new(None);

impl Device {
    /// This process's: opens it the first time, and when all that the process had of it has gone. User threads only.
    ///
    /// # Errors
    /// The first step that failed, and why.
    pub(crate) fn open() -> Result<Device, Refusal> {
        if !copy::IS_MENDED {
            return Err(Refusal::Machine);
        }
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: always.
        let process = unsafe { libc::getpid() };
        let known = opened.as_ref().filter(|opened| opened.process == process);
        let mut again = None;
        match known {
            Some(Opened { device: Some(device), .. }) if device.is_there() => return Ok(*device),
            Some(Opened { device: None, descriptor, .. }) => again = Some(*descriptor),
            _ => {}
        }
        let (descriptor, made) = match again.map(|descriptor| (descriptor, Device::make(descriptor))) {
            // With a descriptor from before somebody closed one, the process is unknown.
            Some((_, Err(Refusal::Call(_, error)))) if is_unknown(&error) => Device::anew()?,
            Some(tried) => tried,
            None => Device::anew()?,
        };
        let device = made.as_ref().ok().copied();
        *opened = Some(Opened { process, descriptor, device });
        made
    }

    /// With another descriptor.
    fn anew() -> Result<(c_int, Result<Device, Refusal>), Refusal> {
        let descriptor = Device::descriptor()?;
        Ok((descriptor, Device::make(descriptor)))
    }

    /// Whether others may still map this process's memory.
    fn is_there(self) -> bool {
        self.permit(self.segment).is_ok_and(|permit| {
            self.release(permit);
            true
        })
    }

    fn descriptor() -> Result<c_int, Refusal> {
        // SAFETY: the path ends with a zero byte.
        let open = || unsafe { libc::open(DEVICE.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        uninterrupted(open).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Refusal::Absent,
            _ => Refusal::Call("open of /dev/xpmem", error),
        })
    }

    fn make(descriptor: c_int) -> Result<Device, Refusal> {
        let device = Device { descriptor, segment: 0 };
        device.version()?;
        guard::install().map_err(|error| Refusal::Call("sigaction", error))?;
        device.share().map(|segment| Device { descriptor, segment })
    }

    fn version(self) -> Result<(), Refusal> {
        // SAFETY: takes no argument.
        let version = unsafe { libc::ioctl(self.descriptor, VERSION) };
        match version.checked_shr(16) {
            _ if version < 0 => Err(Refusal::Call("XPMEM_CMD_VERSION", io::Error::last_os_error())),
            Some(MAJOR) => Ok(()),
            _ => Err(Refusal::Version(version)),
        }
    }

    /// Lets this user's processes map this process's memory.
    fn share(self) -> Result<i64, Refusal> {
        let mut make = Make { address: 0, len: ALL, permission: BY_MODE, mode: MODE, segment: 0 };
        // SAFETY: `make` is what the call reads and writes.
        let call = || unsafe { libc::ioctl(self.descriptor, MAKE, &raw mut make) };
        uninterrupted(call).map_err(|error| Refusal::Call("XPMEM_CMD_MAKE", error))?;
        if make.segment > 0 { Ok(make.segment) } else { Err(Refusal::Another) }
    }

    /// What others call this process's memory; positive.
    pub(crate) fn segment(self) -> i64 {
        self.segment
    }

    /// The right to map the memory that is called so, to be [given back](Self::release); handler-safe, one system call. The error is an `errno`.
    pub(crate) fn permit(self, segment: i64) -> Result<i64, i32> {
        let mut get = Get { segment, flags: READ_WRITE, permission: BY_MODE, value: 0, permit: 0 };
        // SAFETY: `get` is what the call reads and writes.
        let got = unsafe { libc::ioctl(self.descriptor, GET, &raw mut get) };
        if got == 0 { Ok(get.permit) } else { Err(errno::get()) }
    }

    /// Gives a permit back; with it goes what was mapped by it. Handler-safe, one system call.
    pub(crate) fn release(self, permit: i64) {
        // SAFETY: the number is what the call reads.
        unsafe { libc::ioctl(self.descriptor, RELEASE, &raw const permit) };
    }

    /// Maps `len` bytes from `address` on, both multiples of a page's, of the memory that a permit is for. Handler-safe, one system call, which waits for other threads of this process
    /// that map and unmap. The error is an `errno`.
    fn map(self, permit: i64, address: u64, len: u64) -> Result<*mut u8, i32> {
        let (offset, descriptor) = (address as i64, self.descriptor);
        let mut attach = Attach { permit, offset, len, address: 0, descriptor, flags: 0 };
        // SAFETY: `attach` is what the call reads and writes; what it maps is where nothing was.
        let mapped = unsafe { libc::ioctl(self.descriptor, ATTACH, &raw mut attach) };
        if mapped == 0 { Ok(attach.address as usize as *mut u8) } else { Err(errno::get()) }
    }

    /// Unmaps what [`map`](Self::map) has mapped; handler-safe, one system call.
    ///
    /// # Safety
    /// Nobody uses what is mapped there, and it was not unmapped before.
    unsafe fn unmap(self, at: *mut u8) {
        let address = at as u64;
        // SAFETY: `address` is what the call reads; by the caller's promise nothing else is there.
        unsafe { libc::ioctl(self.descriptor, DETACH, &raw const address) };
    }
}

/// What the device says to a process that it does not know, or has forgotten.
fn is_unknown(error: &io::Error) -> bool {
    /// "Unknown, because of a fork".
    const NO_PROCESS: i32 = 2004;
    matches!(error.raw_os_error(), Some(libc::ENOENT | NO_PROCESS))
}

/// The answer of a call that the kernel gives up when a signal is pending, as it does while it locks all that a process maps; negative is an error.
fn uninterrupted(mut call: impl FnMut() -> c_int) -> io::Result<c_int> {
    let _blocked = Blocked::here();
    let mut left = TRIES;
    loop {
        let answer = call();
        if answer >= 0 {
            return Ok(answer);
        }
        let error = io::Error::last_os_error();
        left -= 1;
        if error.kind() != io::ErrorKind::Interrupted || left == 0 {
            return Err(error);
        }
    }
}

/// Why XPMEM is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("copies that survive their peer are written for x86-64 only")]
    Machine,
    #[error("no /dev/xpmem: the kernel module xpmem is not loaded")]
    Absent,
    #[error("/dev/xpmem is of version {:#x}, whose calls are others than those of versions 0x2....", .0)]
    Version(c_int),
    #[error("{0} is refused ({1})")]
    Call(&'static str, #[source] io::Error),
    #[error("what /dev/xpmem maps is not what is there")]
    Another,
}

/// Why large messages are not copied by XPMEM here; `None` if they are, as far as one process can try. User threads only.
pub fn xpmem_refusal() -> Option<String> {
    Device::open()
        .and_then(|device| windows::Windows::new(device).map(drop))
        .err()
        .map(|refusal| refusal.to_string())
}
