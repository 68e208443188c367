//! What the machine counts while a thread of ours runs: cache misses and the like (`perf_event_open`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::values::Event;

/// `struct perf_event_attr` as it was first published, which every kernel takes. From linux/perf_event.h.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64);

/// PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
/// PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING.
const TIMES: u64 = 1 | 2;
/// Flags: begin disabled; leave the hypervisor out.
const DISABLED: u64 = 1;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// PERF_EVENT_IOC_ENABLE, _DISABLE, _RESET.
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const RESET: libc::c_ulong = 0x2403;
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Counts one kind of event of the thread that made it, in its own code and in the kernel on its behalf: the kernel makes some of the copies.
#[derive(Debug)]
pub(crate) struct Counter {
    event: Event,
    file: OwnedFd,
}

impl Counter {
    /// Counts nothing yet.
    ///
    /// # Errors
    /// The number of the error with which the system refuses it: [`why`] tells what that means.
    pub(crate) fn new(event: Event) -> Result<Counter, i32> {
        let (kind, config) = match event {
            // PERF_COUNT_HW_*.
            Event::CacheReferences => (HARDWARE, 2),
            Event::CacheMisses => (HARDWARE, 3),
            // PERF_COUNT_SW_*.
            Event::PageFaults => (SOFTWARE, 2),
            Event::ContextSwitches => (SOFTWARE, 3),
        };
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config,
            read_format: TIMES,
            flags: DISABLED | EXCLUDE_HYPERVISOR,
            ..Attributes::default()
        };
        let (this_thread, any_cpu, no_group) = (0, -1, -1);
        let flags = 1u64 << 3; // PERF_FLAG_FD_CLOEXEC
        // SAFETY: the kernel reads `size` bytes of the attributes, which live through the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread,
                any_cpu,
                no_group,
                flags,
            )
        };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(last_error)?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(Counter { event, file: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// What it counts.
    pub(crate) fn event(&self) -> Event {
        self.event
    }

    /// Counts from 0, from now on.
    pub(crate) fn start(&self) -> Result<(), i32> {
        self.control(RESET)?;
        self.control(ENABLE)
    }

    /// Counts no more; how many events there were since the start. Where the machine counted only a part of the time, as much more as that
    /// suggests.
    pub(crate) fn stop(&self) -> Result<u64, i32> {
        self.control(DISABLE)?;
        let mut found = [0u64; 3];
        // SAFETY: `found` is writable for its size.
        let n = unsafe { libc::read(self.file.as_raw_fd(), found.as_mut_ptr().cast(), size_of_val(&found)) };
        if n != size_of_val(&found) as isize {
            return Err(last_error());
        }
        match found {
            // It never had its turn on the machine's counters.
            [_, enabled, 0] if enabled > 0 => Err(libc::EBUSY),
            [count, enabled, running] if running < enabled => {
                Ok((u128::from(count) * u128::from(enabled) / u128::from(running)) as u64)
            }
            [count, ..] => Ok(count),
        }
    }

    fn control(&self, what: libc::c_ulong) -> Result<(), i32> {
        // SAFETY: no pointers.
        if unsafe { libc::ioctl(self.file.as_raw_fd(), what as _, 0) } == 0 {
            Ok(())
        } else {
            Err(last_error())
        }
    }
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Why nothing was counted, and what would change that.
pub(crate) fn why(event: Event, error: i32) -> String {
    let paranoid = std::fs::read_to_string(PARANOID).ok();
    let paranoid = paranoid.as_deref().map_or("not there", str::trim);
    let reason = io::Error::from_raw_os_error(error);
    match error {
        libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP => {
            format!("this machine does not count {event} ({reason}), as most virtual machines do not")
        }
        libc::EACCES | libc::EPERM => format!(
            "the system lets nobody count {event} here ({reason}): {PARANOID} is {paranoid}, set it to 1 or less, be root, or let the container do it"
        ),
        libc::ENOSYS => {
            format!("this kernel, or a filter of system calls, has no perf_event_open ({reason})")
        }
        libc::EBUSY => format!("{event}: others use all of the machine's counters"),
        _ => format!("perf_event_open for {event}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Word;

    /// Page faults are counted by the kernel, on every machine that lets this process count at all.
    #[test]
    fn what_happens_between_start_and_stop_is_counted() {
        const PAGES: usize = 64;
        let counter = match Counter::new(Event::PageFaults) {
            Ok(counter) => counter,
            Err(error) => {
                assert!([libc::EACCES, libc::EPERM, libc::ENOSYS].contains(&error), "{error}");
                return;
            }
        };
        let touch = || {
            let (length, fresh) = (PAGES * 4096, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new mapping at an address that the kernel chooses, written inside and taken away again.
            unsafe {
                let at = libc::mmap(std::ptr::null_mut(), length, libc::PROT_WRITE, fresh, -1, 0);
                assert_ne!(at, libc::MAP_FAILED);
                // Else a fault may bring more than its own page.
                libc::madvise(at, length, libc::MADV_NOHUGEPAGE);
                for page in 0..PAGES {
                    at.cast::<u8>().add(page * 4096).write_volatile(1);
                }
                libc::munmap(at, length);
            }
        };
        touch();
        for _ in 0..2 {
            counter.start().unwrap();
            touch();
            let counted = counter.stop().unwrap();
            touch();
            assert!((PAGES as u64..2 * PAGES as u64).contains(&counted), "{counted}");
        }
        assert_eq!(counter.event(), Event::PageFaults);
    }

    #[test]
    fn every_event_is_counted_or_refused_with_a_reason() {
        for (name, event) in Event::ALL {
            if let Err(error) = Counter::new(*event) {
                let why = why(*event, error);
                assert!(why.contains(name) || why.contains("perf_event_open"), "{why}");
            }
        }
        assert!(why(Event::CacheMisses, libc::ENOENT).contains("does not count cache-misses"));
        assert!(why(Event::CacheMisses, libc::EACCES).contains("perf_event_paranoid is"));
    }
}
