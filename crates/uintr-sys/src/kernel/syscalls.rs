//! The nine system calls of Intel's kernel tree (471 to 479).
//!
//! Mainline gives these numbers to other calls. So they are used only where the kernel says in `/proc/cpuinfo` that it
//! knows user interrupts, which mainline's does not, and where they are switched on.

use super::{Info, Kernel, Switches};
use crate::Probe;
use crate::error::{Call, Error, last};
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use tocsin_sync::errno;

const REGISTER_HANDLER: libc::c_long = 471;
const UNREGISTER_HANDLER: libc::c_long = 472;
const VECTOR_FD: libc::c_long = 473;
const REGISTER_SENDER: libc::c_long = 474;
const UNREGISTER_SENDER: libc::c_long = 475;
const REGISTER_SELF: libc::c_long = 477;
const ALT_STACK: libc::c_long = 478;

/// The original tree changes its table of senders without a lock.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Whether the kernel says that it has them.
pub(crate) fn announced(probe: Probe) -> bool {
    let mut text = Vec::new();
    let read = std::fs::File::open("/proc/cpuinfo").and_then(|f| f.take(64 * 1024).read_to_end(&mut text));
    probe.kernel_enabled && read.is_ok() && says_uintr(&text)
}

/// Whether the first `flags` line has the word.
fn says_uintr(cpuinfo: &[u8]) -> bool {
    let mut lines = cpuinfo.split(|&byte| byte == b'\n');
    let Some(flags) = lines.find(|line| line.starts_with(b"flags")) else { return false };
    flags.split(|&byte| byte == b' ').any(|word| word == b"uintr")
}

fn call(number: libc::c_long, a: usize, b: usize, c: usize) -> libc::c_long {
    // SAFETY: `announced` vouches for the numbers; the callers vouch for the arguments.
    unsafe { libc::syscall(number, a, b, c) }
}

/// The interface.
pub(crate) struct Syscalls;

impl Kernel for Syscalls {
    fn name(&self) -> &'static str {
        "system calls"
    }

    fn info(&self) -> Result<Info, Error> {
        Err(Error::NotSupported(Call::Statistics))
    }

    unsafe fn register_handler(&self, entry: usize, stack: Option<(usize, usize)>) -> Result<(), Error> {
        if call(REGISTER_HANDLER, entry, 0, 0) < 0 {
            return Err(match errno::get() {
                libc::EBUSY => Error::AlreadyRegistered,
                libc::EINVAL | libc::EFAULT => Error::BadStack,
                _ => last(Call::RegisterHandler),
            });
        }
        if stack.is_some() {
            // SAFETY: the caller's promise.
            if let Err(error) = unsafe { self.alt_stack(stack) } {
                let _best_effort = self.unregister_handler();
                return Err(error);
            }
        }
        Ok(())
    }

    fn unregister_handler(&self) -> Result<(), Error> {
        if call(UNREGISTER_HANDLER, 0, 0, 0) < 0 {
            return Err(match errno::get() {
                libc::EINVAL | libc::EOPNOTSUPP => Error::NotRegistered,
                _ => last(Call::UnregisterHandler),
            });
        }
        Ok(())
    }

    unsafe fn alt_stack(&self, stack: Option<(usize, usize)>) -> Result<(), Error> {
        // An address of 0 takes the stack away, whatever the size.
        if stack.is_some_and(|(low, _)| low == 0) {
            return Err(Error::BadStack);
        }
        let (low, size) = stack.unwrap_or((0, 0));
        if call(ALT_STACK, low, size, 0) < 0 {
            return Err(match errno::get() {
                libc::EOPNOTSUPP => Error::NotRegistered,
                libc::EINVAL => Error::BadStack,
                _ => last(Call::AltStack),
            });
        }
        Ok(())
    }

    fn vector_fd(&self, vector: u32) -> Result<OwnedFd, Error> {
        let fd = call(VECTOR_FD, vector as usize, 0, 0);
        if fd < 0 {
            return Err(match errno::get() {
                // No handler: the one is the original tree's answer, the other the manual page's.
                libc::EINVAL | libc::EOPNOTSUPP => Error::NotRegistered,
                libc::ENOSPC => Error::NoSuchVector(vector),
                _ => last(Call::VectorFd),
            });
        }
        // SAFETY: the kernel made it for us just now.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    fn register_sender(&self, vector: BorrowedFd<'_>) -> Result<u32, Error> {
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let index = call(REGISTER_SENDER, vector.as_raw_fd() as usize, 0, 0);
        u32::try_from(index).map_err(|_| super::sender_error(Call::RegisterSender))
    }

    fn unregister_sender(&self, index: u32) -> Result<(), Error> {
        // The original tree does not check the index before it uses it.
        if index >= super::SENDERS {
            return Err(Error::NoSuchIndex(index));
        }
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if call(UNREGISTER_SENDER, index as usize, 0, 0) < 0 {
            return Err(match errno::get() {
                libc::EINVAL => Error::NoSuchIndex(index),
                _ => last(Call::UnregisterSender),
            });
        }
        Ok(())
    }

    fn register_self(&self, vector: u32) -> Result<u32, Error> {
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let index = call(REGISTER_SELF, vector as usize, 0, 0);
        u32::try_from(index).map_err(|_| match errno::get() {
            libc::EINVAL => Error::NotRegistered,
            _ => super::self_error(vector),
        })
    }

    fn switches(&self) -> Result<Switches, Error> {
        Err(Error::NotSupported(Call::Statistics))
    }
}

#[cfg(test)]
mod tests {
    use super::says_uintr;

    #[test]
    fn the_word_itself_is_wanted() {
        assert!(says_uintr(b"processor\t: 0\nflags\t\t: fpu vme uintr avx\nflags\t\t: fpu\n"));
        assert!(!says_uintr(b"flags\t\t: fpu uintrx no_uintr\nbugs\t\t: uintr\n"));
        assert!(!says_uintr(b"model name\t: a CPU with uintr\n"));
        assert!(!says_uintr(b""));
    }
}
