//! How much memory a world takes.

use std::fs;

/// Bytes, as the kernel and the C library count them now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    /// Of the worlds' segments that this process has open: what is allocated, not what is reserved.
    pub segment: u64,
    /// Of this process's own memory: what is resident.
    pub resident: u64,
    /// Of that, what the program holds of its heap; where it counts that itself, so much more than a fixed number.
    pub heap: u64,
}

impl Memory {
    /// Of this process.
    pub(crate) fn now() -> Memory {
        Memory { segment: segments(), resident: resident(), heap: heap() }
    }

    /// Gives what the heap has free back to the kernel, so that what earlier worlds left does not hide what the next one
    /// takes.
    pub(crate) fn settle() {
        // SAFETY: takes no pointer; locks by itself.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

/// What a program holds when it begins to count counts as this: it may free some of that.
const HEAP_BEFORE: u64 = 1 << 40;

/// The library's segments are files without a place in the file system, known by their name.
fn segments() -> u64 {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return 0 };
    open.filter_map(Result::ok)
        .filter(|fd| {
            fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy() == "/memfd:tocsin (deleted)")
        })
        .filter_map(|fd| fs::metadata(fd.path()).ok())
        .map(|file| std::os::unix::fs::MetadataExt::blocks(&file) * 512)
        .sum()
}

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// What is counted where that is done; else what the C library says, 0 where it does not.
fn heap() -> u64 {
    if let Some(held) = crate::Counted::held() {
        return HEAP_BEFORE.saturating_add_signed(held);
    }
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes no pointer; locks by itself.
        let all = unsafe { libc::mallinfo2() };
        (all.uordblks + all.hblkhd) as u64
    }
    #[cfg(not(target_env = "gnu"))]
    {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_block_is_seen() {
        let before = Memory::now();
        let block = std::hint::black_box(vec![1u8; 32 << 20]);
        let with = Memory::now();
        drop(block);
        Memory::settle();
        assert!(before.resident > 0);
        assert!(with.resident >= before.resident + (16 << 20), "{before:?} {with:?}");
        if cfg!(target_env = "gnu") {
            assert!(with.heap >= before.heap + (16 << 20), "{before:?} {with:?}");
        }
    }
}
