//! What the kernel says of pages of the world's memory.

use std::collections::BTreeSet;

const PAGE: u64 = 4096;
/// One page in so many is looked at: each takes two system calls, and an emulated machine its time for them.
const SAMPLE: usize = 16;
/// Nodes have lower numbers: the kernel's own limit (MAX_NUMNODES) on x86-64, where it is highest.
const MOST_NODES: usize = 1024;
const MPOL_F_ADDR: libc::c_ulong = 2;

/// Where this process has mapped the memory of the world that it is in. Its heap is the same file, from further on.
pub fn segment() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut fields = maps.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found =
        fields.find(|line| line.get(5) == Some(&"/memfd:tocsin") && line[2].bytes().all(|c| c == b'0'));
    let range = found.unwrap()[0].to_owned();
    u64::from_str_radix(range.split_once('-').unwrap().0, 16).unwrap()
}

/// Pages of a range: the first, the last, and some between. (All of them: the unit tests of what places them.)
pub fn pages(start: u64, bytes: u64) -> Vec<u64> {
    let last = start + bytes - PAGE;
    (start..last).step_by(SAMPLE * PAGE as usize).chain([last]).collect()
}

/// The node that each of these pages is wished to lie on, each answer once; `None`: no wish. An error: nobody may ask.
pub fn policies(pages: &[u64]) -> Result<BTreeSet<Option<u32>>, std::io::Error> {
    pages.iter().map(|page| policy(*page)).collect()
}

fn policy(at: u64) -> Result<Option<u32>, std::io::Error> {
    let (mut mode, mut nodes) = (-1, [0u64; MOST_NODES / 64]);
    let bits = MOST_NODES as libc::c_ulong + 1;
    // SAFETY: mode and mask are live, and the mask has one bit less than `bits`; the address is only looked up.
    let answer = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, nodes.as_mut_ptr(), bits, at, MPOL_F_ADDR)
    };
    if answer != 0 {
        return Err(std::io::Error::last_os_error());
    }
    if mode != libc::MPOL_PREFERRED {
        assert_eq!(mode, libc::MPOL_DEFAULT);
        return Ok(None);
    }
    Ok((0..MOST_NODES as u32).find(|node| nodes[*node as usize / 64] >> (node % 64) & 1 == 1))
}

/// The node that each of these pages lies on, each answer once; below 0: an error number of that page. An error: nobody may ask.
///
/// # Safety
/// They are readable memory.
pub unsafe fn nodes(pages: &[u64]) -> Result<BTreeSet<i32>, std::io::Error> {
    let pages: Vec<*const u8> =
        pages.iter().map(|at| std::ptr::with_exposed_provenance(*at as usize)).collect();
    for page in &pages {
        // So that this process has the page, too.
        // SAFETY: the caller's promise; what another thread stores there meanwhile is of no interest.
        unsafe { page.read_volatile() };
    }
    let mut nodes = vec![i32::MIN; pages.len()];
    // SAFETY: both arrays have as many entries; without nodes to move to the call only tells.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0 as libc::c_long,
            pages.len() as libc::c_ulong,
            pages.as_ptr(),
            std::ptr::null::<i32>(),
            nodes.as_mut_ptr(),
            0 as libc::c_long,
        )
    };
    if answer == 0 { Ok(nodes.into_iter().collect()) } else { Err(std::io::Error::last_os_error()) }
}
