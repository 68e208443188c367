//! Which index rings which descriptor, for this process.
//!
//! # Implementation details
//! [`crate::ring`] is called with a descriptor's address, in handlers too, so the answer lies in a static table: a
//! fixed number of places, a bounded number of looks.
//!
//! A SENDUIPI with an index that is no longer registered faults. So who rings counts itself in the entry while it
//! does, and who disconnects closes the entry, then waits until nobody is counted, then unregisters. Handlers only
//! count; the waiting is done by [`Connection`]'s drop, which no handler runs.

use super::HERE;
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::kind::BackendKind;
use core::marker::PhantomData;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tocsin_sync::atomic::real::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use tocsin_uintr_sys::{Sender, VectorFd};

/// Twice the senders that a process may have.
const PLACES: usize = 512;
/// Looks for one descriptor.
const PROBES: usize = 8;
/// How long a disconnection waits for ringers of this process that are on their way.
const PATIENCE: Duration = Duration::from_secs(1);

/// The key of an entry that is never used again. No descriptor lies there.
const NOBODY: usize = 1;

struct Entry {
    /// The descriptor's address in this process; 0: free; [`NOBODY`].
    key: AtomicUsize,
    /// The installation that the index rings; 0: closed.
    serial: AtomicU64,
    index: AtomicU32,
    /// Ringers between their look at `serial` and the end of their SENDUIPI.
    ringing: AtomicU32,
}

static TABLE: [Entry; PLACES] = [const {
    Entry {
        key: AtomicUsize::new(0),
        serial: AtomicU64::new(0),
        index: AtomicU32::new(0),
        ringing: AtomicU32::new(0),
    }
}; PLACES];

/// What stands behind the entries. Held by who connects or disconnects.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

struct Held {
    place: usize,
    key: usize,
    serial: u64,
    sender: Sender,
    connections: u32,
    /// See [`crate::fork::generation`]: a child inherits a copy that means nothing.
    generation: u64,
}

fn lock() -> MutexGuard<'static, Vec<Held>> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|h| h.generation == crate::fork::generation());
    held
}

#[inline]
fn place(key: usize, probe: usize) -> &'static Entry {
    &TABLE[number(key, probe)]
}

#[inline]
fn number(key: usize, probe: usize) -> usize {
    // Descriptors are 128 bytes apart at least. Masked: no bounds check, no panic in handlers.
    let home = ((key as u64 >> 7).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as usize;
    home.wrapping_add(probe) & (PLACES - 1)
}

/// Rings by user interrupt if this process is connected to the installation that the descriptor names now.
/// `CHECKED` false leaves that condition out: the models catch it.
///
/// Wait-free: at most 8 looks, 2 read-modify-writes, SENDUIPI. Handlers may call it.
#[inline]
pub(crate) fn ring<const CHECKED: bool>(target: &Descriptor) -> bool {
    let key = core::ptr::from_ref(target).addr();
    for probe in 0..PROBES {
        let entry = place(key, probe);
        if entry.key.load(Ordering::Relaxed) == key {
            return ring_entry::<CHECKED>(entry, target);
        }
    }
    false
}

#[inline]
fn ring_entry<const CHECKED: bool>(entry: &Entry, target: &Descriptor) -> bool {
    // SYNC POINT: SeqCst with the fence in `close`: either who closes sees this count, or this sees the entry closed.
    entry.ringing.fetch_add(1, Ordering::SeqCst);
    let serial = entry.serial.load(Ordering::Acquire);
    let connected = serial != 0 && (!CHECKED || serial == target.serial());
    if connected {
        let index = entry.index.load(Ordering::Relaxed);
        // SYNC POINT: SENDUIPI's posting is a locked read-modify-write: what was published before is seen by the
        // handler.
        // SAFETY: an entry that is open has a registered index, which is not unregistered before `ringing` is 0. A
        // child of fork(), which has no senders, has no entries either: `in_child`.
        unsafe { tocsin_uintr_sys::instructions::senduipi(index.into()) };
    }
    entry.ringing.fetch_sub(1, Ordering::Release);
    connected
}

/// A child of fork() has no senders.
pub(crate) fn in_child() {
    for entry in &TABLE {
        entry.serial.store(0, Ordering::Relaxed);
        entry.key.store(0, Ordering::Relaxed);
        entry.ringing.store(0, Ordering::Relaxed);
    }
}

/// Closes an entry: false if a ringer is still on its way after all patience: if this runs in a signal's handler that
/// interrupted it, or the ringer had no processor all that time.
fn close(entry: &Entry) -> bool {
    entry.serial.store(0, Ordering::Relaxed);
    entry.key.store(0, Ordering::Relaxed);
    // SYNC POINT: see `ring_entry`.
    fence(Ordering::SeqCst);
    let start = Instant::now();
    while entry.ringing.load(Ordering::Acquire) != 0 {
        if start.elapsed() > PATIENCE {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// This process's connection to a descriptor's receiver: [`crate::ring`] uses `senduipi` for as long as it lives.
/// Dropping it disconnects; rings go by signal then. Connections of one process to one descriptor are counted.
#[derive(Debug)]
#[must_use = "dropping it disconnects"]
pub struct Connection {
    /// The descriptor's address, and the installation that it was for; `None`: nothing to connect.
    entry: Option<(usize, u64)>,
    _private: PhantomData<()>,
}

impl Connection {
    /// Whether rings go by user interrupt: false for backends that need no connection.
    pub fn by_user_interrupt(&self) -> bool {
        self.entry.is_some()
    }
}

/// Connects this process to the target's receiver, so that [`crate::ring`] reaches it by user interrupt. Without it,
/// rings to a `uintr` receiver go by signal. For receivers of other backends it does nothing. The target must be
/// installed; when it is installed anew, connect anew.
///
/// The vector's descriptor is taken from the receiver's process by `pidfd_getfd`, which needs the permission to
/// `ptrace` it: the same user, and where the Yama security module is strict, [`crate::Config::ancestor`].
///
/// Not from handlers: it locks, allocates and calls the system.
///
/// # Errors
/// [`Error::Unavailable`] (this process cannot send), [`Error::NotInstalled`], [`Error::Interrupts`] (the table of
/// senders is full), [`Error::System`]. None of them is fatal: rings go by signal.
pub fn connect(target: &Descriptor) -> Result<Connection, Error> {
    if target.backend() != Some(BackendKind::Uintr) {
        return Ok(Connection { entry: None, _private: PhantomData });
    }
    if let Some(why) = tocsin_uintr_sys::why_not() {
        return Err(Error::Unavailable { backend: BackendKind::Uintr, why });
    }
    crate::fork::watch();
    let key = core::ptr::from_ref(target).addr();
    // SYNC POINT: Acquire: with the thread id come serial, pid and descriptor.
    let (tid, serial) = (target.attention().tid(), target.serial());
    if tid == 0 || serial == 0 {
        return Err(Error::NotInstalled);
    }
    let mut held = lock();
    if let Some(connected) = find(&mut held, key, serial) {
        return Ok(connected);
    }
    let sender = vector_of(target, serial)?.sender()?;
    // The process may have ended, or replaced its receiver, and the descriptor's number may be another file's.
    if target.serial() != serial {
        return Err(Error::NotInstalled);
    }
    let free =
        (0..PROBES).map(|probe| number(key, probe)).find(|&n| TABLE[n].key.load(Ordering::Relaxed) == 0);
    let place = free.ok_or(Error::NoPlace)?;
    let entry = &TABLE[place];
    entry.index.store(sender.index(), Ordering::Relaxed);
    entry.serial.store(serial, Ordering::Release);
    // SYNC POINT: Release: who finds the key finds the rest; an acquiring look at the serial follows.
    entry.key.store(key, Ordering::Release);
    held.push(Held { place, key, serial, sender, connections: 1, generation: crate::fork::generation() });
    Ok(Connection { entry: Some((key, serial)), _private: PhantomData })
}

/// The connection there is already; one to an earlier installation is closed.
fn find(held: &mut Vec<Held>, key: usize, serial: u64) -> Option<Connection> {
    let at = held.iter().position(|h| h.key == key)?;
    if held[at].serial == serial {
        held[at].connections = held[at].connections.saturating_add(1);
        return Some(Connection { entry: Some((key, serial)), _private: PhantomData });
    }
    give_back(held.swap_remove(at));
    None
}

/// Unregisters a sender whose entry nobody uses any more; one that somebody may still use stays for ever.
fn give_back(held: Held) {
    if close(&TABLE[held.place]) {
        drop(held.sender);
    } else {
        // Nor may another connection take the place: the late one would ring its receiver.
        TABLE[held.place].key.store(NOBODY, Ordering::Relaxed);
        core::mem::forget(held.sender);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some((key, serial)) = self.entry else { return };
        if crate::fork::disowned() {
            return; // nothing of this is a child's own, and a thread that it does not have may hold the lock
        }
        let mut held = lock();
        // A connection to an earlier installation was closed by the one that replaced it.
        let Some(at) = held.iter().position(|h| h.key == key && h.serial == serial) else { return };
        held[at].connections = held[at].connections.saturating_sub(1);
        if held[at].connections == 0 {
            give_back(held.swap_remove(at));
        }
    }
}

/// The vector's descriptor: this process's own, or taken from the other's.
fn vector_of(target: &Descriptor, serial: u64) -> Result<VectorFd, Error> {
    let (pid, fd) = target.connection_point();
    // SAFETY: no precondition.
    if pid == unsafe { libc::getpid() } as u32 {
        let here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, fd) = here.iter().find(|(s, _)| *s == serial).ok_or(Error::NotInstalled)?;
        return fd.try_clone().map_err(|source| Error::System { call: "dup", source, hint: "" });
    }
    let (Ok(pid @ 1..), Some(fd)) = (i32::try_from(pid), fd) else { return Err(Error::NotInstalled) };
    // SAFETY: no memory is involved; the descriptors are new.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if process < 0 {
            return Err(Error::last("pidfd_open of the receiver"));
        }
        let process = OwnedFd::from_raw_fd(process as i32);
        let taken = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0);
        if taken < 0 {
            return Err(Error::last_with(
                "pidfd_getfd of the receiver's vector",
                "; it needs the permission to trace that process (see /proc/sys/kernel/yama/ptrace_scope)",
            ));
        }
        Ok(VectorFd::from(OwnedFd::from_raw_fd(taken as i32)))
    }
}
