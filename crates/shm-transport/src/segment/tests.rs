use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use super::*;

fn memfd(bytes: u64, seals: libc::c_int) -> std::fs::File {
    // SAFETY: the name is a C string; the result is checked by `File`'s first use.
    let file = unsafe {
        let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        assert!(fd >= 0);
        std::fs::File::from_raw_fd(fd)
    };
    file.set_len(bytes).unwrap();
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
    file
}

const ALL: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// A copy of an honest segment's first page in another memfd, with one 8-byte word changed.
fn forged(size: u64, seals: libc::c_int, offset: u64, value: u64) -> OwnedFd {
    let honest = Segment::create(3).unwrap();
    let mut page = vec![0u8; 4096];
    std::fs::File::from(honest.fd().try_clone_to_owned().unwrap()).read_exact_at(&mut page, 0).unwrap();
    let file = memfd(size, 0);
    let page = &page[..4096.min(size as usize)];
    file.write_all_at(page, 0).unwrap();
    if size >= offset + 8 && value != 0 {
        file.write_all_at(&value.to_ne_bytes(), offset).unwrap();
    }
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
    file.into()
}

#[test]
fn an_honest_segment_is_attached_and_shared() {
    let a = Segment::create(3).unwrap();
    let b = Segment::attach(a.fd().try_clone_to_owned().unwrap(), 3).unwrap();
    a.set_life(2, Life::Alive);
    assert_eq!(b.life(2), Life::Alive);
    assert_ne!(a.base, b.base);
    assert_eq!((b.life(3), b.descriptor(3)), (Life::Absent, std::ptr::null()));
    a.set_life(3, Life::Dead);
    assert!(!b.mark_dead(3));
    let epoch = a.epoch();
    assert!(b.mark_dead(1) && !b.mark_dead(1));
    assert_eq!(a.epoch(), epoch + 1);
}

#[test]
fn every_forgery_is_refused_with_its_own_error() {
    let size = Geometry::for_ranks(3).bytes();
    let refused = |fd: OwnedFd| Segment::attach(fd, 3).map(|_| ()).unwrap_err();
    type Case = (OwnedFd, fn(&Error) -> bool, &'static str);
    let table: [Case; 12] = [
        (forged(size, ALL, 0, 0x1234), |e| matches!(e, Error::Magic { found: 0x1234 }), "0x0000000000001234"),
        (memfd(size, ALL).into(), |e| matches!(e, Error::Magic { found: 0 }), "not a tocsin segment"),
        (forged(size, ALL, 8, 99 | 3 << 32), |e| matches!(e, Error::Version { found: 99, .. }), "version 99"),
        (
            forged(size, ALL, 8, u64::from(VERSION) | 4 << 32),
            |e| matches!(e, Error::RankCount { found: 4, .. }),
            "4 ranks",
        ),
        (forged(size, ALL, 24, 5), |e| matches!(e, Error::Layout { found: 5, .. }), "same version"),
        (forged(size, ALL, 16, 77), |e| matches!(e, Error::Size { found: 77, .. }), "77 bytes"),
        (forged(size - 4096, ALL, 0, 0), |e| matches!(e, Error::Size { .. }), "layout needs"),
        (forged(size + 4096, ALL, 0, 0), |e| matches!(e, Error::Size { .. }), "layout needs"),
        (forged(31, ALL, 0, 0), |e| matches!(e, Error::Size { found: 31, .. }), "31 bytes"),
        (forged(size, 0, 0, 0), |e| matches!(e, Error::NotSealed { .. }), "shrinking, growing, further"),
        (
            forged(size, libc::F_SEAL_GROW | libc::F_SEAL_SEAL, 0, 0),
            |e| matches!(e, Error::NotSealed { missing } if missing == "shrinking"),
            "sealed against shrinking",
        ),
        (
            std::os::unix::net::UnixStream::pair().unwrap().0.into(),
            |e| matches!(e, Error::NotMemfd { .. }),
            "no sealable memfd",
        ),
    ];
    for (i, (fd, is, says)) in table.into_iter().enumerate() {
        let error = refused(fd);
        assert!(is(&error), "case {i}: {error:?}");
        assert!(error.to_string().contains(says), "case {i}: {error}");
    }
    // A file in a file system is none either, whatever it holds.
    let path = std::env::temp_dir().join(format!("tocsin-forged-{}", std::process::id()));
    let mut file = std::fs::File::create_new(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(&[0; 4096]).unwrap();
    let error = refused(file.into());
    assert!(matches!(error, Error::NotMemfd { .. } | Error::NotSealed { .. }), "{error:?}");
}

#[test]
fn impossible_numbers_of_ranks_are_refused() {
    for ranks in [0, MAX_RANKS + 1, u32::MAX] {
        let error = Segment::create(ranks).unwrap_err();
        assert!(error.to_string().contains("1 to 1024 ranks"), "{error}");
        let fd = memfd(0, ALL).into();
        assert!(matches!(Segment::attach(fd, ranks), Err(Error::Ranks { .. })));
    }
}

/// The first rank's word is what the others have to say, wherever they have the segment mapped.
#[test]
fn ranks_are_alike_or_hear_of_it() {
    let first = Segment::create(2).unwrap();
    let second = Segment::attach(first.fd().try_clone_to_owned().unwrap(), 2).unwrap();
    assert!(second.agree(7) && first.agree(7));
    assert!(!first.agree(8) && !second.agree(0) && second.agree(7));
    let none = Segment::create(1).unwrap();
    assert!(none.agree(0) && none.agree(1) && !none.agree(2));
}

/// Ranks that are bound, or kept from some cores, count differently.
#[test]
fn the_first_rank_counts_the_cores() {
    let first = Segment::create(2).unwrap();
    let second = Segment::attach(first.fd().try_clone_to_owned().unwrap(), 2).unwrap();
    let cores = |count, far_cache| Cores { count, far_cache, copied_once: !far_cache };
    let four = cores(4, true);
    assert_eq!(
        [second.cores(four), first.cores(cores(2, false)), second.cores(cores(0, true))],
        [four, four, four]
    );
    let none = Segment::create(1).unwrap();
    assert_eq!([none.cores(cores(0, false)), none.cores(cores(3, true))], [cores(1, false); 2]);
    let many = Segment::create(1).unwrap();
    assert_eq!(many.cores(cores(u32::MAX, false)), cores(u32::MAX >> 2, false));
}

#[test]
fn nobody_can_resize_a_segment() {
    let segment = Segment::create(2).unwrap();
    let file = std::fs::File::from(segment.fd().try_clone_to_owned().unwrap());
    assert!(file.set_len(4096).is_err());
    assert!(file.set_len(segment.geometry().bytes() + 4096).is_err());
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
    assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
}

/// Daemons close all descriptors that there are, and open files.
#[test]
fn nothing_is_done_to_a_file_that_has_the_descriptor_now() {
    let segment = std::sync::Arc::new(Segment::create_with_heap(2, 1 << 20).unwrap());
    let block = segment.alloc(0, 8192).unwrap();
    let other = memfd(0, 0);
    other.write_all_at(b"somebody else's", 0).unwrap();
    let number = segment.fd().as_raw_fd();
    // SAFETY: no pointers; the descriptor is the segment's, which is what this is about.
    assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
    let (_, why) = segment.allocate_pair(0, 1).unwrap_err();
    assert!(why.to_string().contains("may close only what it has opened"), "{why}");
    let why = segment.alloc(1, 1).unwrap_err();
    assert!(why.to_string().contains(&format!("has closed descriptor {number}")), "{why}");
    drop(block);
    drop(segment);
    // SAFETY: no pointers.
    assert!(unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0, "it is not the segment's to close");
    let mut content = [0; 64];
    assert_eq!(other.read_at(&mut content, 0).unwrap(), 15);
    assert_eq!(&content[..15], b"somebody else's");
    // SAFETY: the descriptor was made above, and nobody has it any more.
    drop(unsafe { OwnedFd::from_raw_fd(number) });

    let unmapped = Segment::create_with_heap(2, 1 << 20).unwrap();
    let number = unmapped.fd().as_raw_fd();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
    assert!(matches!(unmapped.map_heap(), Err(Error::HeapRefused { .. })));
    assert!(unmapped.try_map_heap().is_none());
    drop(unmapped);
    // SAFETY: as above.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
}
