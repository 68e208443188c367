//! Copies from and to the memory of another process, by the kernel (`process_vm_readv`, `process_vm_writev`).
//!
//! Whether the kernel allows it (same user; Yama's ptrace_scope; filters of system calls; containers) is found out by
//! trying: each rank publishes the address and the value of a word of its own, and who wants to copy reads it.

use core::ffi::c_void;
use std::sync::OnceLock;

use tocsin_sync::atomic::{AtomicU64, Ordering};

use crate::segment::layout::State;

/// In which ways an endpoint may have large messages copied once; what none of them reaches goes through the Bulk lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strategies {
    /// Plain copies: between ranks of one process, and from and to the heap.
    pub direct: bool,
    /// Plain copies from and to memory of other processes that XPMEM maps, where there is that device.
    pub xpmem: bool,
    /// Copies by the kernel.
    pub cma: bool,
    /// Copies by the kernel of buffers that KNEM was told of, where there is that device and the kernel does not copy otherwise.
    pub knem: bool,
    /// Pages through a pipe, where neither of those reaches the buffers.
    pub pages: bool,
}

impl Default for Strategies {
    /// Those that need nothing to be made or opened.
    fn default() -> Strategies {
        Strategies { direct: true, xpmem: false, cma: true, knem: false, pages: false }
    }
}

/// The word that peers try to read.
static PROBE: AtomicU64 = AtomicU64::new(0);
/// Calls that one copy may take: the kernel may copy less than asked for, up to the first page that is not there.
const CALLS: u32 = 4;

/// This process's word, the same for all its ranks. User threads only.
fn probe_value() -> u64 {
    static VALUE: OnceLock<u64> = OnceLock::new();
    *VALUE.get_or_init(|| {
        let mut value = [0u8; 8];
        // SAFETY: `value` is writable for 8 bytes. A refusal leaves zeros, to which clock and process id add.
        unsafe { libc::getrandom(value.as_mut_ptr().cast(), value.len(), libc::GRND_NONBLOCK) };
        let salt = tocsin_sync::clock::now_ns() ^ u64::from(std::process::id()) << 40;
        let value = (u64::from_ne_bytes(value) ^ salt) | 1;
        PROBE.store(value, Ordering::Relaxed);
        value
    })
}

/// Where this process's word is, and its length in bytes.
pub(super) fn probe() -> (*const u8, usize) {
    (PROBE.as_ptr().cast_const().cast(), size_of::<u64>())
}

/// Says where this process may be tried. User threads only.
pub(super) fn publish(state: &State) {
    state.probe_value.store(probe_value(), Ordering::Relaxed);
    state.process.store(std::process::id(), Ordering::Relaxed);
    // SYNC POINT: Release: who finds the address finds process and value.
    state.probe_address.store(PROBE.as_ptr() as u64, Ordering::Release);
}

/// What is known of the way to one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kernel {
    /// Not tried yet.
    Unknown,
    /// Refused.
    Closed,
    /// The peer's process. Read once from shared memory, and found to have the word that it should. A peer that lies here
    /// can make this rank write to another process of the same user, which it could do itself.
    Open(libc::pid_t),
}

impl Kernel {
    pub(super) const fn new() -> Kernel {
        Kernel::Unknown
    }

    /// Whether the kernel copies; tries it when that is not known and the peer has joined. Handler-safe; at most one
    /// system call.
    pub(super) fn is_open(&mut self, peer: &State) -> bool {
        if *self == Kernel::Unknown {
            // SYNC POINT: Acquire pairs with `publish`.
            let address = peer.probe_address.load(Ordering::Acquire);
            if address == 0 {
                return false;
            }
            let expected = peer.probe_value.load(Ordering::Relaxed);
            let process = libc::pid_t::try_from(peer.process.load(Ordering::Relaxed)).unwrap_or(0);
            *self = if try_word(process, address) == Ok(expected) {
                Kernel::Open(process)
            } else {
                Kernel::Closed
            };
        }
        matches!(self, Kernel::Open(_))
    }

    /// Copies from the peer. False: not all of it.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    pub(super) unsafe fn read(&self, from: u64, to: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.copy(to, from, len, libc::process_vm_readv) }
    }

    /// Copies to the peer. False: not all of it.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    pub(super) unsafe fn write(&self, from: *const u8, to: u64, len: usize) -> bool {
        // SAFETY: the caller's promise; the kernel only reads the local end.
        unsafe { self.copy(from.cast_mut(), to, len, libc::process_vm_writev) }
    }

    /// # Safety
    /// `local` may be used for `len` bytes as `call` does.
    unsafe fn copy(&self, local: *mut u8, remote: u64, len: usize, call: Call) -> bool {
        let Kernel::Open(process) = *self else { return false };
        let mut done = 0usize;
        for _ in 0..CALLS {
            let left = len.saturating_sub(done);
            let here = libc::iovec { iov_base: local.wrapping_add(done).cast(), iov_len: left };
            let there = libc::iovec {
                iov_base: remote.wrapping_add(done as u64) as usize as *mut c_void,
                iov_len: left,
            };
            // SAFETY: both vectors live on this stack; the local one is inside what the caller vouches for, and the
            // remote one is checked by the kernel.
            match usize::try_from(unsafe { call(process, &raw const here, 1, &raw const there, 1, 0) }) {
                Ok(n) if n >= left => return true,
                Ok(n) if n > 0 => done = done.saturating_add(n),
                _ => return false,
            }
        }
        false
    }
}

type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// Reads a word of another process; the error number if that is refused. Handler-safe, but for `errno`.
fn try_word(process: libc::pid_t, address: u64) -> Result<u64, i32> {
    if process <= 0 {
        return Err(libc::ESRCH);
    }
    let mut word = 0u64;
    let here = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: size_of::<u64>() };
    let there = libc::iovec { iov_base: address as usize as *mut c_void, iov_len: size_of::<u64>() };
    // SAFETY: the local vector is `word`; the kernel checks the remote one.
    let n = unsafe { libc::process_vm_readv(process, &raw const here, 1, &raw const there, 1, 0) };
    if n == size_of::<u64>() as isize { Ok(word) } else { Err(tocsin_sync::errno::get()) }
}

/// Why the kernel copies nothing between processes here; `None` if it does, as far as one process can try. User threads
/// only.
pub fn cma_refusal() -> Option<String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let scope = read("/proc/sys/kernel/yama/ptrace_scope");
    scope_refusal(scope.trim(), &read("/proc/self/status")).or_else(refused_to_itself)
}

/// What Yama's setting says of it to a process of this status.
fn scope_refusal(scope: &str, status: &str) -> Option<String> {
    // 1 admits descendants of the process that a rank names, and ranks name their launcher; 2 only who may trace all; 3 nobody.
    let refused = match scope {
        "2" => !may_trace(status),
        "3" => true,
        _ => false,
    };
    refused.then(|| format!("/proc/sys/kernel/yama/ptrace_scope is {scope}: set it to 0 or 1"))
}

/// Whether a process of this status has the capability `CAP_SYS_PTRACE`, number 19.
fn may_trace(status: &str) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set >> 19 & 1 == 1)
}

/// Whatever is in the way of copies from this process itself, which Yama leaves alone.
fn refused_to_itself() -> Option<String> {
    let expected = probe_value();
    match try_word(std::process::id() as libc::pid_t, PROBE.as_ptr() as u64) {
        Ok(found) if found == expected => None,
        Ok(_) => Some("process_vm_readv reads another word than the one that is there".into()),
        Err(error) => {
            let reason = std::io::Error::from_raw_os_error(error);
            Some(format!("process_vm_readv is refused ({reason}): a filter of system calls or a container"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_before_it_copies() {
        let peer = State::running();
        let mut kernel = Kernel::new();
        assert!(!kernel.is_open(&peer));
        assert_eq!(kernel, Kernel::Unknown, "a peer that has not joined is asked again");
        publish(&peer);
        assert!(kernel.is_open(&peer));
        let (from, mut to) = (vec![7u8; 10_000], vec![0u8; 10_000]);
        // SAFETY: the vectors have that length.
        assert!(unsafe { kernel.read(from.as_ptr() as u64, to.as_mut_ptr(), from.len()) });
        assert_eq!(from, to);
        to.fill(1);
        // SAFETY: as above.
        assert!(unsafe { kernel.write(from.as_ptr(), to.as_mut_ptr() as u64, from.len()) });
        assert_eq!(from, to);
        // SAFETY: as above; nothing is at address 16.
        assert!(!unsafe { kernel.read(16, to.as_mut_ptr(), 100) });
    }

    #[test]
    fn a_lie_is_no_way() {
        for (process, value, address) in [(0, 0, 0), (u32::MAX, 0, 0), (1 << 30, 0, 0), (0, 1, 0), (0, 0, 8)]
        {
            let peer = State::running();
            publish(&peer);
            if process != 0 {
                peer.process.store(process, Ordering::Relaxed);
            }
            peer.probe_value.fetch_add(value, Ordering::Relaxed);
            if address != 0 {
                peer.probe_address.store(address, Ordering::Relaxed);
            }
            let honest = (process, value, address) == (0, 0, 0);
            assert_eq!(Kernel::new().is_open(&peer), honest, "{process} {value} {address}");
        }
    }

    #[test]
    fn ranks_name_their_launcher_to_a_scope_of_descendants_and_no_further() {
        let (ordinary, root) = ("Name:\tx\nCapEff:\t0000000000000000\n", "CapEff:\t000001ffffffffff\n");
        for (scope, status) in [("", ordinary), ("0", ordinary), ("1", ordinary), ("1", root), ("2", root)] {
            assert_eq!(scope_refusal(scope, status), None, "{scope}");
        }
        for (scope, status) in [("2", ordinary), ("2", ""), ("3", ordinary), ("3", root)] {
            let why = scope_refusal(scope, status).unwrap();
            assert!(why.contains("ptrace_scope") && why.contains("set it to 0 or 1"), "{why}");
        }
        assert!(!may_trace("CapEff:\t000001fffff7ffff\n"));
    }

    #[test]
    fn the_own_process_is_open() {
        assert_eq!(cma_refusal(), None);
    }
}
