use std::io::{Read, Write};

use super::*;

fn pair() -> (RendezvousSocket, RendezvousSocket) {
    let (a, b) = UnixStream::pair().unwrap();
    let timeout = Duration::from_secs(10);
    (RendezvousSocket::new(a, timeout).unwrap(), RendezvousSocket::new(b, timeout).unwrap())
}

#[test]
fn a_segment_is_passed() {
    let (a, b) = pair();
    let segment = Segment::create(5).unwrap();
    segment.set_life(4, crate::Life::Alive);
    a.send(b"hello", None).unwrap();
    send_segment(&a, &segment).unwrap();
    let hello = b.receive().unwrap();
    assert_eq!((hello.body.as_slice(), hello.fd.is_none()), (b"hello".as_slice(), true));
    let other = recv_segment(&b, 5).unwrap();
    assert_eq!(other.life(4), crate::Life::Alive);
    send_segment(&a, &segment).unwrap();
    assert!(matches!(recv_segment(&b, 4), Err(Error::RankCount { found: 5, expected: 4 })));
}

#[test]
fn bodies_of_all_sizes_arrive_and_frames_stay_apart() {
    let (a, b) = pair();
    let sizes = [0, 1, 15, 16, 4096, MAX_BODY];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (i, size) in sizes.into_iter().enumerate() {
                let fd = (i % 2 == 0).then(|| a.as_fd());
                a.send(&vec![i as u8; size], fd).unwrap();
            }
        });
        for (i, size) in sizes.into_iter().enumerate() {
            let frame = b.receive().unwrap();
            assert_eq!(frame.body, vec![i as u8; size]);
            assert_eq!(frame.fd.is_some(), i % 2 == 0);
        }
    });
    assert!(matches!(a.send(&vec![0; MAX_BODY + 1], None), Err(Error::Protocol { .. })));
}

#[test]
fn hostile_frames_are_refused() {
    let frame = |magic: u32, len: u32, fds: u32, zero: u32| {
        [magic, len, fds, zero].iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>()
    };
    let table: [(Vec<u8>, &str); 6] = [
        (b"GET / HTTP/1.1\r\n".to_vec(), "nonsense"),
        (frame(MAGIC, u32::MAX, 0, 0), "4294967295 bytes"),
        (frame(MAGIC, MAX_BODY as u32 + 1, 0, 0), "65537 bytes"),
        (frame(MAGIC, 0, 1, 0), "0 descriptors where 1"),
        (frame(MAGIC, 0, u32::MAX, 0), "descriptors where 4294967295"),
        (frame(MAGIC, 0, 0, 7), "nonsense"),
    ];
    for (bytes, says) in table {
        let (mut raw, end) = UnixStream::pair().unwrap();
        let end = RendezvousSocket::new(end, Duration::from_secs(5)).unwrap();
        raw.write_all(&bytes).unwrap();
        let error = end.receive().unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }) && error.to_string().contains(says), "{error}");
    }
}

#[test]
fn short_writes_a_silent_and_a_vanishing_end() {
    let (mut raw, end) = UnixStream::pair().unwrap();
    let mut end = RendezvousSocket::new(end, Duration::from_secs(10)).unwrap();
    let whole: Vec<u8> = [MAGIC, 3, 0, 0].iter().flat_map(|w| w.to_le_bytes()).chain(*b"abc").collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for byte in &whole {
                raw.write_all(&[*byte]).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(end.receive().unwrap().body, b"abc");
    });
    end.set_timeout(Duration::from_millis(20));
    assert!(matches!(end.receive(), Err(Error::TimedOut { .. })));
    raw.write_all(&whole[..10]).unwrap();
    drop(raw);
    assert!(matches!(end.receive(), Err(Error::Closed { .. })));
    assert!(matches!(end.send(b"x", None), Err(Error::Closed { .. })));
}

#[test]
fn nobody_listens_for_ever() {
    let (raw, end) = UnixStream::pair().unwrap();
    let end = RendezvousSocket::new(end, Duration::from_millis(50)).unwrap();
    let error = (0..1000).find_map(|_| end.send(&[0; MAX_BODY], None).err());
    assert!(matches!(error, Some(Error::TimedOut { .. })), "{error:?}");
    drop(raw);
}

#[test]
fn another_user_is_refused() {
    let (_a, b) = UnixStream::pair().unwrap();
    // SAFETY: no arguments.
    let me = unsafe { libc::geteuid() };
    let error = RendezvousSocket::for_user(b, Duration::from_secs(1), me + 1).unwrap_err();
    assert!(matches!(error, Error::ForeignUser { found, .. } if found == me), "{error}");
}

#[test]
fn unasked_descriptors_are_closed() {
    let (raw, end) = UnixStream::pair().unwrap();
    let end = RendezvousSocket::new(end, Duration::from_secs(5)).unwrap();
    let (passed, mut watch) = UnixStream::pair().unwrap();
    let head: Vec<u8> = [MAGIC, 0, 0, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
    let fds = [passed.as_raw_fd(); 3];
    let rights = [ControlMessage::ScmRights(&fds)];
    sendmsg::<()>(raw.as_raw_fd(), &[IoSlice::new(&head)], &rights, MsgFlags::empty(), None).unwrap();
    assert!(matches!(end.receive(), Err(Error::Protocol { .. })));
    drop(passed);
    // All copies are closed: the other end of the passed socket sees its end.
    watch.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(watch.read(&mut [0]).unwrap(), 0);
}
