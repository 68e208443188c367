//! KNEM: a device that copies from memory of another process of which that has told it. (It copies to such memory, too, which is not used here: a key may come to stand for another
//! buffer.)
//!
//! A process tells the device of a buffer, whose pages stay where they are from then on, and gets a key (KNEM calls it a cookie). Whoever of the same user has that
//! key copies from the buffer, by one call, whatever may trace whom: keys are all the permission there is. What a file descriptor has told of is
//! forgotten when it is closed, and so when its process has ended; a copy that is under way goes on from pages that stay until then. The next buffer may get the key of
//! one that was forgotten.
//!
//! The calls are those of interface 0xd.

#[cfg(test)]
mod tests;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Where the module has its device.
const DEVICE: &CStr = c"/dev/knem";
/// The interface whose calls these are.
const INTERFACE: u32 = 0xd;
/// Flags that the module may always set, if whoever loaded it has said so: pages of both ends stay where they are. With others, copies are not over when their
/// call is, buffers are forgotten after one, or a DMA engine copies, for which the call waits without a bound and whose errors it does not tell of.
const HARMLESS: u32 = 1 << 4;

/// What `<asm-generic/ioctl.h>` makes of a direction, the letter 'K', a number and an argument's size.
const fn request(direction: libc::Ioctl, n: u8, bytes: usize) -> libc::Ioctl {
    direction << 30 | (bytes as libc::Ioctl) << 16 | (b'K' as libc::Ioctl) << 8 | n as libc::Ioctl
}

const WRITE: libc::Ioctl = 1;
const READ: libc::Ioctl = 2;
const INFO: libc::Ioctl = request(WRITE, 0x10, size_of::<Info>());
const CREATE: libc::Ioctl = request(READ | WRITE, 0x21, size_of::<Create>());
const DESTROY: libc::Ioctl = request(READ, 0x22, size_of::<u64>());
const COPY: libc::Ioctl = request(READ, 0x33, size_of::<Copy>());

const _: () = assert!(size_of::<Info>() == 16 && size_of::<Create>() == 32 && size_of::<Copy>() == 48);

#[repr(C)]
#[derive(Default)]
struct Info {
    interface: u32,
    features: u32,
    ignored: u32,
    forced: u32,
}

/// A run of bytes.
#[repr(C)]
struct Run {
    base: u64,
    len: u64,
}

#[repr(C)]
struct Create {
    runs: u64,
    count: u32,
    flags: u32,
    protection: u32,
    pad: u32,
    key: u64,
}

#[repr(C)]
struct Copy {
    runs: u64,
    count: u32,
    write: u32,
    key: u64,
    offset: u64,
    flags: u32,
    status: u32,
    index: u32,
    pad: u32,
}

/// "All is copied."
const SUCCESS: u32 = 1;

/// The device, as it was opened; with it goes all that it was told of.
#[derive(Debug)]
pub(crate) struct Device {
    file: OwnedFd,
}

impl Device {
    /// Opens it. User threads only.
    ///
    /// # Errors
    /// The first step that failed, and why.
    pub(crate) fn open() -> Result<Device, Refusal> {
        // SAFETY: the path ends with a zero byte.
        let opened = unsafe { libc::open(DEVICE.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if opened < 0 {
            let error = io::Error::last_os_error();
            return Err(match error.kind() {
                io::ErrorKind::NotFound => Refusal::Absent,
                _ => Refusal::Call("open of /dev/knem", error),
            });
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let device = Device { file: unsafe { OwnedFd::from_raw_fd(opened) } };
        let mut info = Info::default();
        // SAFETY: `info` is what the call writes.
        if unsafe { libc::ioctl(device.file.as_raw_fd(), INFO, &raw mut info) } != 0 {
            return Err(Refusal::Call("KNEM_CMD_GET_INFO", io::Error::last_os_error()));
        }
        match info {
            Info { interface, .. } if interface != INTERFACE => Err(Refusal::Interface(interface)),
            Info { forced, .. } if forced & !HARMLESS != 0 => Err(Refusal::Forced(forced)),
            _ => Ok(device),
        }
    }

    /// Tells it of a buffer that others may copy from. Its key, never 0; an error is an `errno`. Handler-safe; one system call, which looks at each page of the buffer, and may
    /// wait for other threads of this process that map and unmap.
    ///
    /// # Safety
    /// Who has the key may read the buffer, for `len` bytes, until it is [forgotten](Self::forget).
    pub(crate) unsafe fn tell(&self, buffer: *const u8, len: usize) -> Result<u64, i32> {
        let run = Run { base: buffer as u64, len: len as u64 };
        let mut create = Create {
            runs: &raw const run as u64,
            count: 1,
            flags: 0,
            protection: libc::PROT_READ as u32,
            pad: 0,
            key: 0,
        };
        // SAFETY: `create` is what the call reads and writes, and `run` what that names; the buffer is the caller's to vouch for.
        let made = unsafe { libc::ioctl(self.file.as_raw_fd(), CREATE, &raw mut create) };
        match create.key {
            _ if made != 0 => Err(tocsin_sync::errno::get()),
            0 => {
                // That stands for none here.
                self.forget(0);
                Err(libc::EPROTO)
            }
            key => Ok(key),
        }
    }

    /// Has it forget a buffer of this process's; nothing if it knows none of that key. Handler-safe, one system call.
    pub(crate) fn forget(&self, key: u64) {
        // SAFETY: the number is what the call reads.
        unsafe { libc::ioctl(self.file.as_raw_fd(), DESTROY, &raw const key) };
    }

    /// Copies from somebody's buffer, from an offset on. False: not all of it, or the buffer is shorter, and what is at `to` is unspecified. Handler-safe; one system call, bounded
    /// by `len`, and seldom another one for a byte.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes, and nobody else uses them.
    pub(crate) unsafe fn read(&self, key: u64, offset: u64, to: *mut u8, len: usize) -> bool {
        // SAFETY: as promised to this one, and by `read_all`.
        unsafe { read_all(offset, to, len, |offset, to, len| self.copy(key, offset, to, len).is_ok()) }
    }

    /// Copies as much of that as is there. An error is an `errno`.
    ///
    /// # Safety
    /// As [`read`](Self::read).
    unsafe fn copy(&self, key: u64, offset: u64, to: *mut u8, len: usize) -> Result<(), i32> {
        let run = Run { base: to as u64, len: len as u64 };
        let mut copy = Copy {
            runs: &raw const run as u64,
            count: 1,
            write: 0,
            key,
            offset,
            flags: 0,
            status: 0,
            index: 0,
            pad: 0,
        };
        // SAFETY: `copy` is what the call reads and writes, and `run` what that names; of local memory it writes what the caller vouches for. The other end is the kernel's to find.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), COPY, &raw mut copy) };
        match copy.status {
            _ if done != 0 => Err(tocsin_sync::errno::get()),
            SUCCESS => Ok(()),
            _ => Err(libc::EIO),
        }
    }
}

/// Copies all of a run by a call that may copy less, up to the end of what is there, and not say so: whether all has come.
///
/// # Safety
/// `to` is writable for `len` bytes, which nobody else uses; so it is promised to `copy`, which is called with parts of it, or a byte of this one's.
unsafe fn read_all(offset: u64, to: *mut u8, len: usize, copy: impl Fn(u64, *mut u8, usize) -> bool) -> bool {
    let Some(before) = len.checked_sub(1) else { return true };
    let last = to.wrapping_add(before);
    // SAFETY: the last of `len` bytes. Volatile: the kernel writes there.
    unsafe { last.write_volatile(ABSENT) };
    if !copy(offset, to, len) {
        return false;
    }
    // SAFETY: as above.
    if unsafe { last.read_volatile() } != ABSENT {
        return true;
    }
    // That is what is there, or nothing is.
    let mut again = !ABSENT;
    let is_copied = copy(offset.wrapping_add(before as u64), &raw mut again, 1);
    // SAFETY: as above, this function's.
    is_copied && unsafe { (&raw const again).read_volatile() } == ABSENT
}

/// What stands in the place of a byte that has yet to be copied: no digit, letter, 0 or 255.
const ABSENT: u8 = 0xa7;

/// Why KNEM is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("no /dev/knem: the kernel module knem is not loaded")]
    Absent,
    #[error("/dev/knem has interface {0:#x}, whose calls may be others than those of {INTERFACE:#x}")]
    Interface(u32),
    #[error(
        "/dev/knem always sets flags ({0:#x}) of which some have copies end later than their call, or be possible once, or by any user: load the module knem without them"
    )]
    Forced(u32),
    #[error("{0} is refused ({1})")]
    Call(&'static str, #[source] io::Error),
    #[error("what /dev/knem copies is not what is there")]
    Another,
}

/// Why large messages are not copied by KNEM here; `None` if they are, as far as one process can try. User threads only.
pub fn knem_refusal() -> Option<String> {
    tried().err().map(|refusal| refusal.to_string())
}

fn tried() -> Result<(), Refusal> {
    let device = Device::open()?;
    let (word, mut copied) = (0x746f_6373_696e_u64, 0u64);
    let refused = |call| move |errno| Refusal::Call(call, io::Error::from_raw_os_error(errno));
    let (from, len) = ((&raw const word).cast(), size_of::<u64>());
    // SAFETY: `word` outlives the device, with which it is forgotten, and is only read.
    let key = unsafe { device.tell(from, len) }.map_err(refused("KNEM_CMD_CREATE_REGION"))?;
    // SAFETY: `copied` is as long as that.
    unsafe { device.copy(key, 0, (&raw mut copied).cast(), len) }.map_err(refused("KNEM_CMD_INLINE_COPY"))?;
    if copied == word { Ok(()) } else { Err(Refusal::Another) }
}
