//! A thread's affinity mask.

use crate::Error;

/// Masks are grown up to this many processors; the kernel's own limit is 8192 (x86-64, NR_CPUS).
const MOST_CPUS: usize = 1 << 16;

/// Kernel numbers of the processors the calling thread may run on, ascending. A cgroup's cpuset is in it.
///
/// # Errors
/// When the kernel refuses.
pub fn allowed_cpus() -> Result<Vec<usize>, Error> {
    let mut words = 16;
    loop {
        let mut mask = vec![0u64; words];
        let bytes = words * size_of::<u64>();
        // SAFETY: the mask is `bytes` long and lives across the call; the raw call is used because libc's
        // cpu_set_t holds 1024 processors only.
        let got = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, mask.as_mut_ptr()) };
        if got > 0 {
            return Ok((0..words * 64).filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1).collect());
        }
        let source = std::io::Error::last_os_error();
        // EINVAL: the kernel's mask is longer than ours.
        if source.raw_os_error() != Some(libc::EINVAL) || words * 64 >= MOST_CPUS {
            return Err(Error::Affinity { action: "read this thread's affinity mask".into(), source });
        }
        words *= 2;
    }
}

/// Binds the calling thread to one processor (kernel number).
///
/// # Errors
/// When the processor does not exist or is outside the cpuset.
pub fn bind_thread(cpu: usize) -> Result<(), Error> {
    bind_thread_to_all(&[cpu])
}

/// Lets the calling thread run on any of the processors given (kernel numbers): the way back from
/// [`bind_thread`].
///
/// # Errors
/// When none of the processors exists or all are outside the cpuset.
pub fn bind_thread_to_all(cpus: &[usize]) -> Result<(), Error> {
    let failed = |source| {
        let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        Error::Affinity { action: format!("bind to cpu {}", list.join(",")), source }
    };
    let Some(&last) = cpus.iter().max() else {
        return Err(failed(std::io::Error::from_raw_os_error(libc::EINVAL)));
    };
    if last >= MOST_CPUS {
        return Err(failed(std::io::Error::from_raw_os_error(libc::EINVAL)));
    }
    let mut mask = vec![0u64; last / 64 + 1];
    for cpu in cpus {
        mask[cpu / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: the mask is as long as the call is told and lives across it.
    let done = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, 0, mask.len() * size_of::<u64>(), mask.as_ptr())
    };
    if done == 0 { Ok(()) } else { Err(failed(std::io::Error::last_os_error())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binds_and_returns() {
        let before = allowed_cpus().unwrap();
        assert!(!before.is_empty());
        let last = *before.last().unwrap();
        bind_thread(last).unwrap();
        assert_eq!(allowed_cpus().unwrap(), [last]);
        bind_thread_to_all(&before).unwrap();
        assert_eq!(allowed_cpus().unwrap(), before);
    }

    #[test]
    fn refuses_what_does_not_exist() {
        for cpus in [&[60_000][..], &[1 << 30], &[]] {
            let error = bind_thread_to_all(cpus).unwrap_err();
            assert!(error.to_string().contains("bind to cpu"), "{error}");
        }
    }
}
