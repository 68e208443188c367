//! What the kernel says of each page, on a machine of any number of nodes: all have one of them at least.

use std::sync::{Arc, OnceLock};

use tocsin_transport::{Transport, board::MEMBERS};

use super::*;
use crate::{BOARDS, ShmTransport};

const PAGE: u64 = 4096;
const MPOL_F_ADDR: libc::c_ulong = 2;

/// The nodes that memory can be asked for, the last one first; none, and why, where there is no such thing.
fn all_nodes() -> &'static [u32] {
    static FOUND: OnceLock<Vec<u32>> = OnceLock::new();
    let found = FOUND.get_or_init(|| (0..MOST).rev().filter(|node| bind_refusal(*node).is_none()).collect());
    if found.is_empty() {
        println!("skipped: {}", bind_refusal(0).unwrap_or_default());
    }
    found
}

/// One of them: on a machine of several it is not the one where memory mostly comes from by itself.
fn a_node() -> Option<u32> {
    all_nodes().first().copied()
}

/// The policy of the page at an offset: the node that is preferred, `None` without a policy.
fn policy(segment: &Segment, offset: u64) -> Option<u32> {
    let (mut mode, mut nodes) = (-1, [0u64; WORDS]);
    let bits = libc::c_ulong::from(MOST) + 1;
    // SAFETY: mode and mask are live, and the mask has one bit less than `bits`; the address is only looked up.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            nodes.as_mut_ptr(),
            bits,
            segment.at(offset),
            MPOL_F_ADDR,
        )
    };
    assert_eq!(answer, 0, "{}", io::Error::last_os_error());
    if mode == libc::MPOL_DEFAULT {
        return None;
    }
    assert_eq!(mode, libc::MPOL_PREFERRED);
    let node = (0..MOST).find(|node| nodes == mask(*node));
    Some(node.expect("one node"))
}

/// The nodes on which the pages at these offsets lie. They are allocated.
fn places(segment: &Segment, offsets: &[u64]) -> Vec<i32> {
    let pages: Vec<*mut u8> = offsets.iter().map(|offset| segment.at(*offset)).collect();
    for page in &pages {
        // So that this process has the page, too.
        // SAFETY: mapped and allocated; what another thread stores there meanwhile is of no interest.
        unsafe { page.read_volatile() };
    }
    let mut status = vec![i32::MIN; pages.len()];
    // SAFETY: both arrays have as many entries; without nodes to move to the call only tells.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0 as libc::c_long,
            pages.len() as libc::c_ulong,
            pages.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0 as libc::c_long,
        )
    };
    assert_eq!(answer, 0, "{}", io::Error::last_os_error());
    status
}

/// Each page of a part has the policy of that node, and lies there.
fn lies(segment: &Segment, what: &str, (offset, bytes): (u64, u64), node: Option<u32>) {
    assert!(offset.is_multiple_of(PAGE) && bytes > 0 && bytes.is_multiple_of(PAGE), "{what}");
    let pages: Vec<u64> = (offset..offset + bytes).step_by(PAGE as usize).collect();
    for at in &pages {
        assert_eq!(policy(segment, *at), node, "{what}, {} of {bytes} bytes", at - offset);
    }
    if let Some(node) = node {
        // Its memory may be full, but not on a machine where tests run.
        assert_eq!(places(segment, &pages), vec![node as i32; pages.len()], "{what}, page by page");
    }
}

/// A world in which everybody has connected to everybody and everything is allocated.
fn full(nodes: &[Option<u32>]) -> Arc<Segment> {
    let ranks = nodes.len() as u32;
    let segment = Arc::new(Segment::create_on(ranks, 0, nodes).unwrap());
    for rank in 0..ranks {
        let mut end = ShmTransport::new(segment.clone(), rank).unwrap();
        (0..ranks).for_each(|peer| end.connect_bulk(peer).unwrap());
        (0..ranks).for_each(|peer| end.prepare_long(peer, usize::MAX));
    }
    assert!((0..BOARDS).all(|index| segment.allocate_board(index) || !segment.has_boards()));
    segment
}

#[test]
fn every_page_lies_with_whom_it_is_for() {
    let all = all_nodes();
    let Some(node) = all.first().copied() else { return };
    // Who has none shows on machines of one node which of two ranks a page went by; on others, each pair of nodes is there both ways.
    let another = all.get(1).copied().unwrap_or(node);
    let nodes = [Some(node), None, Some(node), Some(another), None, Some(another)];
    let segment = full(&nodes);
    let other = Segment::attach(segment.fd().try_clone_to_owned().unwrap(), nodes.len() as u32).unwrap();
    // Through a mapping that nobody has said anything about, too.
    for segment in [&*segment, &other] {
        let g = segment.geometry();
        assert_eq!(policy(segment, 0), None, "the header is everybody's");
        for (to, node) in (0..).zip(nodes) {
            assert_eq!(segment.node(to), node);
            lies(segment, "block", g.rank_pages(to, to + 1), node);
            let (pool, bytes) = g.pool(to);
            lies(segment, "pool", (pool, bytes.into()), node);
            for index in 0..BOARDS {
                lies(segment, "board", g.board_part(index, to, to + 1).unwrap(), node);
            }
            for from in 0..nodes.len() as u32 {
                lies(segment, "small part", g.small_part(from, to), node);
                lies(segment, "Bulk", g.bulk_part(from, to), node);
                if from > to {
                    lies(segment, "cells", g.cells(from, to).unwrap(), node);
                }
            }
        }
    }
}

#[test]
fn without_nodes_nothing_has_a_policy() {
    let segment = full(&[None; 3]);
    let everything = segment.geometry().bytes();
    if a_node().is_some() {
        assert!((0..everything).step_by(PAGE as usize).all(|at| policy(&segment, at).is_none()));
    }
    assert!((0..4).all(|rank| segment.node(rank).is_none()));
}

#[test]
fn a_segment_stays_one_mapping() {
    let Some(node) = a_node() else { return };
    let segment = full(&[Some(node), None, Some(node)]);
    let start = segment.at(0) as u64;
    let end = start + segment.geometry().bytes();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let range = |line: &str| {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        [from, to].map(|hex| u64::from_str_radix(hex, 16).unwrap())
    };
    let inside: Vec<_> = maps.lines().map(range).filter(|[from, to]| *from < end && *to > start).collect();
    assert_eq!(inside, [[start, end]]);
}

#[test]
fn a_node_that_is_not_there_changes_nothing() {
    let Some(node) = a_node() else { return };
    let missing = (0..MOST).rev().find(|node| bind_refusal(*node).is_some()).unwrap();
    assert!(bind_refusal(missing).unwrap().contains(&format!("node {missing}")));
    assert!(bind_refusal(MOST).unwrap().contains("no memory"));
    let segment = full(&[Some(missing), Some(MOST), Some(u32::MAX), Some(node)]);
    let g = segment.geometry();
    for (rank, node) in (0..).zip([Some(missing), None, None, Some(node)]) {
        assert_eq!(segment.node(rank), node);
        let part = g.small_part(0, rank);
        lies(&segment, "small part", part, node.filter(|node| *node != missing));
    }
    // Nor does a word that is nonsense.
    segment.block(1).unwrap().state.node.store(u32::MAX, Ordering::Relaxed);
    assert_eq!((segment.node(1), segment.node(4)), (None, None));
}

#[test]
fn a_rank_corrects_its_node() {
    let Some(node) = a_node() else { return };
    let segment = Arc::new(Segment::create_on(2, 0, &[Some(node), None]).unwrap());
    segment.set_node(0, None);
    segment.set_node(1, Some(node));
    ShmTransport::new(segment.clone(), 0).unwrap().connect(1).unwrap();
    lies(&segment, "to the first", segment.geometry().small_part(1, 0), None);
    lies(&segment, "to the second", segment.geometry().small_part(0, 1), Some(node));
}

#[test]
fn what_has_a_place_stays_there() {
    let all = all_nodes();
    let [node, another, ..] = all else { return };
    let segment = Arc::new(Segment::create_on(2, 0, &[Some(*node), Some(*another)]).unwrap());
    let g = segment.geometry();
    segment.set_node(0, Some(*another));
    let (block, _) = g.rank_pages(0, 1);
    assert_eq!((policy(&segment, block), places(&segment, &[block])), (Some(*node), vec![*node as i32]));
    // What comes afterwards goes by where the rank is now.
    ShmTransport::new(segment.clone(), 0).unwrap().prepare_long(1, usize::MAX);
    let (pool, bytes) = g.pool(0);
    lies(&segment, "pool", (pool, bytes.into()), Some(*another));
}

#[test]
fn runs_are_of_one_node() {
    let nodes = [Some(1), Some(1), None, None, Some(1), Some(0), Some(0), None];
    let found: Vec<_> = runs(nodes.len() as u32, |rank| nodes[rank as usize]).collect();
    assert_eq!(found, [(0, 2, 1), (4, 5, 1), (5, 7, 0)]);
    assert_eq!(runs(0, |_| Some(0)).count() + runs(MEMBERS as u32, |_| None).count(), 0);
}
