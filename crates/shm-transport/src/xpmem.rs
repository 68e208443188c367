//! XPMEM: a device that maps memory of another process, as it stands, into this one.
//!
//! A process opens it once and says that its whole memory may be mapped by its user's processes; others map windows of that, as they need them, and copy
//! from and to them without the kernel. The kernel finds a page when it is first touched. What is not there any more, because its owner has given it back or
//! has ended, is a `SIGBUS` for who touches it: [`copy`] mends that.
//!
//! Nothing tells which of the versions of the module is there but their numbers; the calls are those of all since 2.0.

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

/// Where the module has its device.
const DEVICE: &CStr = c"/dev/xpmem";
/// The oldest version whose numbers have 64 bits.
const OLDEST: c_int = 0x20000;
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

/// The device as a process has it open.
///
/// Its descriptor is never closed: with any of a process's descriptors of the device goes all that the process has of it, what others in it have made included.
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
    /// This process's: opens it the first time. User threads only.
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
        let descriptor = match known {
            Some(Opened { device: Some(device), .. }) => return Ok(*device),
            Some(opened) => opened.descriptor,
            None => Device::descriptor()?,
        };
        let made = Device::make(descriptor);
        let device = made.as_ref().ok().copied();
        *opened = Some(Opened { process, descriptor, device });
        made
    }

    fn descriptor() -> Result<c_int, Refusal> {
        // SAFETY: the path ends with a zero byte.
        let descriptor = unsafe { libc::open(DEVICE.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        match io::Error::last_os_error() {
            _ if descriptor >= 0 => Ok(descriptor),
            error if error.kind() == io::ErrorKind::NotFound => Err(Refusal::Absent),
            error => Err(Refusal::Call("open of /dev/xpmem", error)),
        }
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
        match version {
            OLDEST.. => Ok(()),
            0.. => Err(Refusal::Version(version)),
            _ => Err(Refusal::Call("XPMEM_CMD_VERSION", io::Error::last_os_error())),
        }
    }

    /// Lets this user's processes map this process's memory.
    fn share(self) -> Result<i64, Refusal> {
        let mut make = Make { address: 0, len: ALL, permission: BY_MODE, mode: MODE, segment: 0 };
        // SAFETY: `make` is what the call reads and writes.
        let made = unsafe { libc::ioctl(self.descriptor, MAKE, &raw mut make) };
        match made {
            0 if make.segment > 0 => Ok(make.segment),
            _ => Err(Refusal::Call("XPMEM_CMD_MAKE", io::Error::last_os_error())),
        }
    }

    /// What others call this process's memory; positive.
    pub(crate) fn segment(self) -> i64 {
        self.segment
    }

    /// The right to map the memory that is called so; handler-safe, one system call. The error is an `errno`.
    pub(crate) fn permit(self, segment: i64) -> Result<Permit, i32> {
        let mut get = Get { segment, flags: READ_WRITE, permission: BY_MODE, value: 0, permit: 0 };
        // SAFETY: `get` is what the call reads and writes.
        let got = unsafe { libc::ioctl(self.descriptor, GET, &raw mut get) };
        if got == 0 { Ok(Permit { device: self, permit: get.permit }) } else { Err(errno::get()) }
    }

    /// Unmaps what [`Permit::map`] has mapped; handler-safe, one system call.
    ///
    /// # Safety
    /// Nobody uses what is mapped there, and it was not unmapped before.
    unsafe fn unmap(self, at: *mut u8) {
        let address = at as u64;
        // SAFETY: `address` is what the call reads; by the caller's promise nothing else is there.
        unsafe { libc::ioctl(self.descriptor, DETACH, &raw const address) };
    }
}

/// The right to map memory of a process. Given back when it is dropped, and with it what was mapped by it: handlers do not drop it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Permit {
    device: Device,
    permit: i64,
}

impl Permit {
    /// Maps `len` bytes from `address` on, both multiples of a page's. Handler-safe, one system call, which waits for other threads of this process
    /// that map and unmap. The error is an `errno`.
    fn map(&self, address: u64, len: u64) -> Result<*mut u8, i32> {
        let mut attach = Attach {
            permit: self.permit,
            offset: address as i64,
            len,
            address: 0,
            descriptor: self.device.descriptor,
            flags: 0,
        };
        // SAFETY: `attach` is what the call reads and writes; what it maps is where nothing was.
        let mapped = unsafe { libc::ioctl(self.device.descriptor, ATTACH, &raw mut attach) };
        if mapped == 0 { Ok(attach.address as usize as *mut u8) } else { Err(errno::get()) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // SAFETY: the number is what the call reads.
        unsafe { libc::ioctl(self.device.descriptor, RELEASE, &raw const self.permit) };
    }
}

/// Why XPMEM is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("copies that survive their peer are written for x86-64 only")]
    Machine,
    #[error("no /dev/xpmem: the kernel module xpmem is not loaded")]
    Absent,
    #[error("/dev/xpmem is of version {}.{}, and needs to be of 2.0 at least", .0 >> 16, .0 & 0xffff)]
    Version(c_int),
    #[error("{0} is refused ({1})")]
    Call(&'static str, #[source] io::Error),
    #[error("memory that is mapped by /dev/xpmem is not what is there")]
    Another,
}

/// Why large messages are not copied by XPMEM here; `None` if they are, as far as one process can try. User threads only.
pub fn xpmem_refusal() -> Option<String> {
    fn tried() -> Result<(), Refusal> {
        let device = Device::open()?;
        let permit = device.permit(device.segment());
        let refused = |errno| Refusal::Call("XPMEM_CMD_GET", io::Error::from_raw_os_error(errno));
        let permit = permit.map_err(refused)?;
        let mut windows = windows::Windows::new(device);
        let (word, mut found) = (u64::from(std::process::id()) | 1 << 40, 0u64);
        let (from, to) = ((&raw const word) as u64, (&raw mut found).cast());
        // SAFETY: the local end is `found`.
        let read = unsafe { windows.read(0, &permit, from, to, size_of::<u64>()) };
        // By the mapping, of which the compiler knows nothing.
        if read && core::hint::black_box(found) == word { Ok(()) } else { Err(Refusal::Another) }
    }
    tried().err().map(|refusal| refusal.to_string())
}
