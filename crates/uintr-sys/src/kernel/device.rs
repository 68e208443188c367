//! `/dev/uintr`. The structures are those of `kernel-patches/module/include/uintr_uapi.h`.

use super::{ABI, Info, Kernel, Switches};
use crate::error::{Call, Error, Unavailable, last};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use tocsin_sync::errno;

#[repr(C)]
#[derive(Default)]
struct RawInfo {
    abi: u32,
    notification_vector: u32,
    x2apic: u32,
    reserved: u32,
    receivers: u64,
    upids: u64,
    tables: u64,
    notifications: u64,
}

#[repr(C)]
#[derive(Default)]
struct RawHandler {
    handler: u64,
    stack: u64,
    stack_size: u64,
    flags: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Default)]
struct RawStack {
    stack: u64,
    stack_size: u64,
    flags: u32,
    reserved: u32,
}

/// A vector, a descriptor or an index, and flags.
#[repr(C)]
#[derive(Default)]
struct RawNumber {
    number: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct RawStats {
    switched_in: u64,
    switched_out: u64,
    merged: u64,
    migrated: u64,
}

const READ: u64 = 2;
const WRITE: u64 = 1;

/// The number that linux/ioctl.h's macros make.
const fn ioc(direction: u64, number: u64, size: usize) -> u64 {
    direction << 30 | (size as u64) << 16 | (b'u' as u64) << 8 | number
}

const INFO: u64 = ioc(READ, 0x10, size_of::<RawInfo>());
const REGISTER_HANDLER: u64 = ioc(WRITE, 0x11, size_of::<RawHandler>());
const UNREGISTER_HANDLER: u64 = ioc(0, 0x12, 0);
const ALT_STACK: u64 = ioc(WRITE, 0x13, size_of::<RawStack>());
const VECTOR_FD: u64 = ioc(WRITE, 0x14, size_of::<RawNumber>());
const REGISTER_SENDER: u64 = ioc(WRITE, 0x15, size_of::<RawNumber>());
const UNREGISTER_SENDER: u64 = ioc(WRITE, 0x16, size_of::<RawNumber>());
const REGISTER_SELF: u64 = ioc(WRITE, 0x17, size_of::<RawNumber>());
const STATS: u64 = ioc(READ, 0x18, size_of::<RawStats>());

const _: () = assert!(INFO == 0x8030_7510 && REGISTER_HANDLER == 0x4020_7511 && UNREGISTER_HANDLER == 0x7512);
const _: () = assert!(ALT_STACK == 0x4018_7513 && VECTOR_FD == 0x4008_7514 && STATS == 0x8020_7518);

/// The opened device. Its descriptor carries no authority.
pub(crate) struct Device {
    fd: OwnedFd,
}

/// Opens the device and checks that it is ours.
pub(crate) fn open() -> Result<Device, Unavailable> {
    // SAFETY: a constant string.
    let fd = unsafe { libc::open(c"/dev/uintr".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(match errno::get() {
            libc::ENOENT | libc::ENXIO | libc::ENODEV => Unavailable::NoInterface,
            other => Unavailable::Device(other),
        });
    }
    // SAFETY: opened just now, nobody else's.
    let device = Device { fd: unsafe { OwnedFd::from_raw_fd(fd) } };
    match device.info() {
        Ok(Info { abi: ABI, .. }) => Ok(device),
        Ok(Info { abi, .. }) => Err(Unavailable::Version(abi)),
        // Another driver has the name.
        Err(_) => Err(Unavailable::NoInterface),
    }
}

impl Device {
    fn call<T>(&self, number: u64, argument: &mut T) -> i32 {
        // SAFETY: the numbers above name structures of this size, which the module reads or writes.
        unsafe { libc::ioctl(self.fd.as_raw_fd(), number as libc::Ioctl, core::ptr::from_mut(argument)) }
    }
}

fn stack_or_none(stack: Option<(usize, usize)>) -> (u64, u64) {
    stack.map_or((0, 0), |(low, size)| (low as u64, size as u64))
}

impl Kernel for Device {
    fn name(&self) -> &'static str {
        "/dev/uintr"
    }

    fn info(&self) -> Result<Info, Error> {
        let mut raw = RawInfo::default();
        if self.call(INFO, &mut raw) < 0 {
            return Err(last(Call::Statistics));
        }
        Ok(Info {
            abi: raw.abi,
            notification_vector: raw.notification_vector,
            x2apic: raw.x2apic != 0,
            receivers: raw.receivers,
            upids: raw.upids,
            tables: raw.tables,
            notifications: raw.notifications,
        })
    }

    unsafe fn register_handler(&self, entry: usize, stack: Option<(usize, usize)>) -> Result<(), Error> {
        let (stack, stack_size) = stack_or_none(stack);
        let mut raw = RawHandler { handler: entry as u64, stack, stack_size, flags: 0, reserved: 0 };
        if self.call(REGISTER_HANDLER, &mut raw) < 0 {
            return Err(match errno::get() {
                libc::EBUSY => Error::AlreadyRegistered,
                libc::EINVAL => Error::BadStack,
                _ => last(Call::RegisterHandler),
            });
        }
        Ok(())
    }

    fn unregister_handler(&self) -> Result<(), Error> {
        if self.call(UNREGISTER_HANDLER, &mut 0u64) < 0 {
            return Err(match errno::get() {
                libc::EINVAL => Error::NotRegistered,
                _ => last(Call::UnregisterHandler),
            });
        }
        Ok(())
    }

    unsafe fn alt_stack(&self, stack: Option<(usize, usize)>) -> Result<(), Error> {
        let (stack, stack_size) = stack_or_none(stack);
        if self.call(ALT_STACK, &mut RawStack { stack, stack_size, flags: 0, reserved: 0 }) < 0 {
            return Err(match errno::get() {
                libc::EOPNOTSUPP => Error::NotRegistered,
                libc::EINVAL => Error::BadStack,
                _ => last(Call::AltStack),
            });
        }
        Ok(())
    }

    fn vector_fd(&self, vector: u32) -> Result<OwnedFd, Error> {
        let fd = self.call(VECTOR_FD, &mut RawNumber { number: vector, flags: 0 });
        if fd < 0 {
            return Err(match errno::get() {
                libc::EOPNOTSUPP => Error::NotRegistered,
                libc::ENOSPC => Error::NoSuchVector(vector),
                _ => last(Call::VectorFd),
            });
        }
        // SAFETY: the module made it for us just now.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn register_sender(&self, vector: BorrowedFd<'_>) -> Result<u32, Error> {
        let index =
            self.call(REGISTER_SENDER, &mut RawNumber { number: vector.as_raw_fd() as u32, flags: 0 });
        u32::try_from(index).map_err(|_| super::sender_error(Call::RegisterSender))
    }

    fn unregister_sender(&self, index: u32) -> Result<(), Error> {
        if self.call(UNREGISTER_SENDER, &mut RawNumber { number: index, flags: 0 }) < 0 {
            return Err(match errno::get() {
                libc::EINVAL => Error::NoSuchIndex(index),
                _ => last(Call::UnregisterSender),
            });
        }
        Ok(())
    }

    fn register_self(&self, vector: u32) -> Result<u32, Error> {
        let index = self.call(REGISTER_SELF, &mut RawNumber { number: vector, flags: 0 });
        u32::try_from(index).map_err(|_| super::self_error(vector))
    }

    fn switches(&self) -> Result<Switches, Error> {
        let mut raw = RawStats::default();
        if self.call(STATS, &mut raw) < 0 {
            return Err(match errno::get() {
                libc::EOPNOTSUPP => Error::NotRegistered,
                _ => last(Call::Statistics),
            });
        }
        Ok(Switches {
            switched_in: raw.switched_in,
            switched_out: raw.switched_out,
            merged: raw.merged,
            migrated: raw.migrated,
        })
    }
}
