//! Ranks as processes: forked children of the test, with no other thread around, so that a child may do
//! anything.
//!
//! One test function runs all parts in turn: `fork` in a process whose other threads hold locks (the
//! allocator's, the harness's output) is no place to run Rust code. For the same reason the harness is off
//! (see Cargo.toml).
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tocsin_shm_transport::deaths::Watcher;
use tocsin_shm_transport::rendezvous_socket::{RendezvousSocket, recv_segment, send_segment};
use tocsin_shm_transport::{Error, Life, Segment, ShmTransport};
use tocsin_transport::{
    Class, Error as TransportError, PeerState, Recv, SendOutcome, Transport, conformance,
};

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let parts: [(&str, fn()); 12] = [
        ("exchange_between_processes", exchange_between_processes),
        ("a_million_packets", a_million_packets),
        ("a_killed_process_is_dead", a_killed_process_is_dead),
        ("an_ended_process_that_finalized_is_no_death", an_ended_process_that_finalized_is_no_death),
        ("nothing_is_reaped_before_the_end", nothing_is_reaped_before_the_end),
        ("refused_memory_is_an_error", refused_memory_is_an_error),
        ("limits_are_errors", limits_are_errors),
        ("refused_placement_changes_nothing", refused_placement_changes_nothing),
        ("a_child_gives_nothing_back", a_child_gives_nothing_back),
        ("locked_memory_leaves_holes", locked_memory_leaves_holes),
        ("a_hostile_process_is_only_corrupt", a_hostile_process_is_only_corrupt),
        ("nothing_is_left", nothing_is_left),
    ];
    let mut failed = 0;
    let before = shm_files();
    for (name, part) in
        parts.iter().filter(|(name, _)| filter.as_ref().is_none_or(|f| name.contains(f.as_str())))
    {
        let start = Instant::now();
        let ok = std::panic::catch_unwind(part).is_ok();
        println!(
            "test {name} ... {} ({:.2} s)",
            if ok { "ok" } else { "FAILED" },
            start.elapsed().as_secs_f64()
        );
        failed += i32::from(!ok);
    }
    assert_eq!(shm_files(), before, "something was left in /dev/shm");
    std::process::exit(failed.min(1));
}

fn shm_files() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir("/dev/shm")
        .map(|dir| dir.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.retain(|name| name.contains("tocsin"));
    names.sort();
    names
}

/// Runs `body` in a child; the child ends with 0, or 1 after a panic.
fn child(body: impl FnOnce()) -> u32 {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let code = i32::from(std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err());
            // SAFETY: ends the child without the parent's cleanup.
            unsafe { libc::_exit(code) }
        }
        pid => pid as u32,
    }
}

fn reap(pid: u32) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is live.
    assert_eq!(unsafe { libc::waitpid(pid as i32, &raw mut status, 0) }, pid as i32);
    status
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: a child of ours that has not been reaped.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

/// Starts a rank's process, which gets the segment through a socket, as a launched program would.
fn rank(segment: &Segment, rank: u32, body: impl FnOnce(ShmTransport)) -> u32 {
    let (here, there) = UnixStream::pair().unwrap();
    let timeout = Duration::from_secs(10);
    let ranks = segment.ranks();
    let pid = child(move || {
        let socket = RendezvousSocket::new(there, timeout).unwrap();
        let segment = Arc::new(recv_segment(&socket, ranks).unwrap());
        segment.set_life(rank, Life::Alive);
        body(ShmTransport::new(segment, rank).unwrap());
    });
    send_segment(&RendezvousSocket::new(here, timeout).unwrap(), segment).unwrap();
    pid
}

/// Passes over an endpoint until `done`; panics after 120 s, which no loaded machine needs.
fn until(end: &mut ShmTransport, mut done: impl FnMut(&mut ShmTransport) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        end.begin_pass();
        let done = done(end);
        end.flush();
        if done {
            return;
        }
        assert!(Instant::now() < deadline, "rank {} waits for ever", end.rank());
        std::thread::yield_now();
    }
}

fn exchange_between_processes() {
    let segment = Segment::create(2).unwrap();
    let pids = [0, 1].map(|r| rank(&segment, r, |end| conformance::exchange(end, 5_000, 7)));
    assert_eq!(pids.map(reap), [0, 0]);
}

fn a_million_packets() {
    const PACKETS: u64 = 1_000_000;
    let len = |random: &mut conformance::Random| {
        let bound = if random.below(64) == 0 { 8193 } else { 129 };
        random.below(bound)
    };
    let segment = Segment::create(2).unwrap();
    let sender = rank(&segment, 0, |mut end| {
        let mut random = conformance::Random::new(99);
        end.connect(1).unwrap();
        let mut n = 0;
        let mut next = len(&mut random);
        let mut full = 0u64;
        let mut last = Instant::now();
        while n < PACKETS {
            end.begin_pass();
            let before = n;
            while n < PACKETS && conformance::send(&mut end, 1, Class::Eager, n, next) == SendOutcome::Sent {
                next = len(&mut random);
                n += 1;
            }
            end.flush();
            if n == before {
                assert!(last.elapsed() < Duration::from_secs(30), "stuck at packet {n}");
                full += 1;
                std::thread::yield_now();
            } else {
                last = Instant::now();
            }
        }
        println!("  {PACKETS} packets sent, {full} passes found the lane full");
    });
    let receiver = rank(&segment, 1, |mut end| {
        let mut random = conformance::Random::new(99);
        let mut n = 0;
        while n < PACKETS {
            until(&mut end, |end| {
                let before = n;
                while n < PACKETS
                    && let Recv::Packet(packet) = end.peek(0, Class::Eager)
                {
                    assert_eq!(packet.len, len(&mut random), "packet {n}");
                    conformance::check(&packet, 0, 1, n);
                    end.consume(0, Class::Eager);
                    n += 1;
                }
                n > before
            });
        }
        assert!(matches!(end.peek(0, Class::Eager), Recv::Empty));
    });
    assert_eq!([reap(sender), reap(receiver)], [0, 0]);
}

fn a_killed_process_is_dead() {
    let segment = Arc::new(Segment::create(3).unwrap());
    let mut watcher = Watcher::new(segment.clone());
    // Rank 2 sends for ever, so that it dies at an arbitrary step; rank 1 drains what was sent and then sees
    // the death.
    let victim = rank(&segment, 2, |mut end| {
        end.connect(1).unwrap();
        let mut n = 0;
        loop {
            end.begin_pass();
            n += u64::from(conformance::send(&mut end, 1, Class::Eager, n, 300) == SendOutcome::Sent);
            end.flush();
        }
    });
    let (mut told, teller) = std::io::pipe().unwrap();
    let survivor = rank(&segment, 1, move |mut end| {
        let mut n = 0;
        let start = end.epoch();
        let mut teller = Some(teller);
        until(&mut end, |end| {
            // The order matters: state first, then the last look. The epoch follows the state.
            let dead = end.peer_state(2) == PeerState::Dead && end.epoch() > start;
            while conformance::receive(end, 2, Class::Eager, n) {
                n += 1;
            }
            if n > 0
                && let Some(mut teller) = teller.take()
            {
                teller.write_all(&[1]).unwrap();
            }
            dead
        });
        assert!(n > 0);
        assert_eq!(conformance::send(&mut end, 2, Class::Eager, 0, 0), SendOutcome::Gone);
        end.segment().set_life(1, Life::Finalized);
    });
    watcher.watch(1, survivor).unwrap();
    watcher.watch(2, victim).unwrap();
    assert!(matches!(watcher.watch(3, victim), Err(Error::NoSuchRank { .. })));
    told.read_exact(&mut [0]).unwrap();
    assert!(watcher.poll(Some(Duration::ZERO)).unwrap().is_empty());
    watcher.kill(2, libc::SIGKILL).unwrap();
    let deaths = watcher.poll(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(deaths.len(), 1);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!((deaths[0].rank, deaths[0].status.signal()), (2, Some(libc::SIGKILL)));
    assert!(!deaths[0].finalized);
    assert_eq!(segment.life(2), Life::Dead);
    let deaths = watcher.poll(Some(Duration::from_secs(10))).unwrap();
    assert_eq!((deaths[0].rank, deaths[0].status.code(), deaths[0].finalized), (1, Some(0), true));
    assert_eq!(watcher.reap(Duration::from_secs(1)).unwrap(), 0);
    watcher.kill(2, libc::SIGKILL).unwrap();
}

fn an_ended_process_that_finalized_is_no_death() {
    let segment = Arc::new(Segment::create(1).unwrap());
    let mut watcher = Watcher::new(segment.clone());
    let pid = rank(&segment, 0, |end| end.segment().set_life(0, Life::Finalized));
    watcher.watch(0, pid).unwrap();
    let deaths = watcher.poll(None).unwrap();
    assert!(deaths[0].finalized && deaths[0].status.success());
    let epoch = segment.epoch();
    assert!(watcher.poll(None).unwrap().is_empty() && watcher.running() == 0);
    assert_eq!((segment.epoch(), segment.life(0)), (epoch, Life::Finalized));
    watcher.reap(Duration::ZERO).unwrap();
}

fn nothing_is_reaped_before_the_end() {
    let segment = Arc::new(Segment::create(1).unwrap());
    let mut watcher = Watcher::new(segment.clone());
    let pid = child(|| std::process::exit(7));
    watcher.watch(0, pid).unwrap();
    assert_eq!(watcher.poll(None).unwrap()[0].status.code(), Some(7));
    signal(pid, 0); // still there, as a zombie
    assert_eq!(watcher.reap(Duration::from_secs(1)).unwrap(), 0);
    // SAFETY: no pointers; whether the number is free again.
    assert_eq!(unsafe { libc::kill(pid as i32, 0) }, -1);
}

/// Makes a system call fail in this process from now on, as a kernel without memory would.
fn refuse(call: libc::c_long, errno: i32) {
    filter(call, libc::SECCOMP_RET_ERRNO | errno as u32);
}

/// Has a system call of this process answered by a filter from now on. Of several filters the severest counts.
fn filter(call: libc::c_long, answer_to_call: u32) {
    let load = |offset| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: offset };
    let answer = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let filter = [
        load(0), // the number of the call
        libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: call as u32 },
        answer(answer_to_call),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program is live during the call; both calls concern this thread only.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

fn refused_memory_is_an_error() {
    for errno in [libc::ENOSPC, libc::ENOMEM] {
        let segment = Arc::new(Segment::create(2).unwrap());
        let pid = child(move || {
            let mut end = ShmTransport::new(segment, 0).unwrap();
            end.connect(1).unwrap();
            refuse(libc::SYS_fallocate, errno);
            end.connect(1).unwrap(); // has its memory
            for error in [end.connect(0).unwrap_err(), end.connect_bulk(1).unwrap_err()] {
                println!("  {error}");
                assert!(matches!(&error, TransportError::NoMemory { rank: 0, source, .. }
                    if source.raw_os_error() == Some(errno)));
                assert!(error.to_string().contains("raise the memory limit"));
            }
            assert!(!end.is_connected(0));
            assert_eq!(conformance::send(&mut end, 0, Class::Eager, 0, 0), SendOutcome::Gone);
            assert_eq!(conformance::send(&mut end, 1, Class::Bulk, 0, 0), SendOutcome::Gone);
            assert_eq!(conformance::send(&mut end, 1, Class::Eager, 0, 9), SendOutcome::Sent);
            let error = Segment::create(2).unwrap_err();
            assert!(matches!(error, Error::Refused { call: "fallocate", .. }), "{error}");
        });
        assert_eq!(reap(pid), 0);
    }
    let pid = child(|| {
        refuse(libc::SYS_memfd_create, libc::ENOSYS);
        let error = Segment::create(2).unwrap_err();
        println!("  {error}");
        assert!(matches!(error, Error::Refused { call: "memfd_create", .. }));
    });
    assert_eq!(reap(pid), 0);
}

/// Two ranks, both this process's, exchange packets of every class.
fn exchange_in(segment: Segment) {
    let segment = Arc::new(segment);
    let mut ends = [0, 1].map(|rank| ShmTransport::new(segment.clone(), rank).unwrap());
    segment.set_life(0, Life::Alive);
    segment.set_life(1, Life::Alive);
    let [a, b] = &mut ends;
    a.connect_bulk(1).unwrap();
    a.prepare_long(1, 1024);
    for class in Class::ALL {
        assert_eq!(conformance::send(a, 1, class, 3, 10), SendOutcome::Sent);
        b.begin_pass();
        let Recv::Packet(packet) = b.peek(0, class) else { panic!("{class:?}") };
        assert_eq!(packet.len, 10);
        b.consume(0, class);
    }
}

fn refused_placement_changes_nothing() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let pid = child(move || {
            refuse(libc::SYS_mbind, errno);
            println!("  {}", tocsin_shm_transport::bind_refusal(0).unwrap());
            let segment = Segment::create_on(2, 0, &[Some(0), Some(0)]).unwrap();
            // It has been refused once, and is not asked for again.
            filter(libc::SYS_mbind, libc::SECCOMP_RET_KILL_PROCESS);
            assert_eq!((segment.node(0), segment.node(1)), (Some(0), Some(0)));
            assert!(segment.allocate_board(1));
            exchange_in(segment);
        });
        assert_eq!(reap(pid), 0, "{errno}");
    }
    // Who has no node asks for nothing.
    let pid = child(|| {
        filter(libc::SYS_mbind, libc::SECCOMP_RET_KILL_PROCESS);
        exchange_in(Segment::create(2).unwrap());
        exchange_in(Segment::create_on(2, 0, &[None; 2]).unwrap());
    });
    assert_eq!(reap(pid), 0);
    let pid = child(|| {
        filter(libc::SYS_mbind, libc::SECCOMP_RET_KILL_PROCESS);
        exchange_in(Segment::create_on(2, 0, &[Some(0)]).unwrap());
    });
    assert_eq!(reap(pid) & 0x7f, libc::SIGSYS, "who has one asks");
}

/// A child of fork() has copies of its parent's blocks, whose memory is the parent's.
fn a_child_gives_nothing_back() {
    let segment = Arc::new(Segment::create_with_heap(2, 1 << 20).unwrap());
    let block = segment.alloc(0, 4096).unwrap();
    let at = block.as_ptr();
    // SAFETY: the block is this function's alone.
    unsafe { at.write(7) };
    let mut block = Some(block);
    let pid = child(|| drop(block.take()));
    assert_eq!(reap(pid), 0);
    // SAFETY: here the block lives.
    assert_eq!(unsafe { at.read_volatile() }, 7);
    assert!(block.is_some());
}

/// A process that has its memory locked maps nothing but what is allocated.
fn locked_memory_leaves_holes() {
    const ARENA: u64 = 64 << 20;
    let pid = child(|| {
        // SAFETY: no pointers; and below a live structure, for which zero is a valid value.
        if unsafe { libc::mlockall(libc::MCL_FUTURE) } != 0 {
            return println!("  mlockall: {}", std::io::Error::last_os_error());
        }
        // A limit is an error, as others are.
        let Ok(segment) = Segment::create_with_heap(2, ARENA) else { return };
        let segment = Arc::new(segment);
        let Ok(_block) = segment.alloc(0, 4096) else { return };
        // SAFETY: as above.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        assert_eq!(unsafe { libc::fstat(segment.fd().as_raw_fd(), &raw mut stat) }, 0);
        let allocated = stat.st_blocks as u64 * 512;
        println!("  {allocated} bytes");
        assert!(allocated < ARENA);
    });
    assert_eq!(reap(pid), 0);
}

fn limits_are_errors() {
    let limit = |resource, value| {
        let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
        // SAFETY: `limit` is live.
        assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
    };
    let table: [(libc::__rlimit_resource_t, u64, &str); 3] = [
        (libc::RLIMIT_FSIZE, 1 << 16, "ftruncate"),
        (libc::RLIMIT_AS, 1 << 20, "mmap"),
        (libc::RLIMIT_NOFILE, 0, "memfd_create"),
    ];
    for (resource, value, call) in table {
        let pid = child(|| {
            // SAFETY: ignoring a signal in a child of ours.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
            limit(resource, value);
            let error = Segment::create(8).unwrap_err();
            println!("  {error}");
            assert!(error.to_string().contains("ulimit"));
            assert!(matches!(error, Error::Refused { call: c, .. } if c == call), "{error}");
        });
        assert_eq!(reap(pid), 0, "{call}");
    }
}

fn a_hostile_process_is_only_corrupt() {
    let segment = Arc::new(Segment::create(2).unwrap());
    // The whole segment but the read-only part and the bits that say what is allocated, overwritten with
    // random bytes again and again, while an honest rank works with it.
    let victim = rank(&segment, 0, |mut end| {
        end.connect_bulk(1).unwrap();
        end.prepare_long(1, 1024);
        let (mut corrupt, mut packets, mut n, mut told_at) = (0, 0u64, 0u64, u64::MAX);
        until(&mut end, |end| {
            n += 1;
            for class in Class::ALL {
                let len = if n.is_multiple_of(8) { 10_000 } else { n as usize % 17 };
                let _any = conformance::send(end, 1, class, n, len);
                match end.peek(1, class) {
                    Recv::Corrupt => {
                        corrupt += 1;
                        told_at = n;
                    }
                    Recv::Packet(packet) => {
                        for i in 0..packet.len {
                            // SAFETY: the transport promises that these bytes are readable.
                            std::hint::black_box(unsafe { packet.payload.add(i).read_volatile() });
                        }
                        packets += 1;
                        end.consume(1, class);
                    }
                    Recv::Empty => {}
                }
            }
            let _any = (end.work_left(), end.epoch(), end.aborted(), end.peer_state(1));
            // A while longer: it is told once.
            n > told_at.saturating_add(500)
        });
        println!("  told {corrupt} times, after {packets} packets of nonsense");
        assert_eq!(corrupt, 1);
    });
    let liar = child(|| {
        let file = std::fs::File::from(segment.fd().as_fd().try_clone_to_owned().unwrap());
        let (small, bulk) = segment.geometry().connection_bytes();
        let (areas, _) = segment.geometry().small_part(0, 0);
        let mut random = conformance::Random::new(5);
        // All four pair areas, behind which are the pools; but the holes stay holes (rank 1 to itself).
        loop {
            let noise: Vec<u8> = (0..512).flat_map(|_| random.word().to_ne_bytes()).collect();
            let at = areas + random.below((3 * (small + bulk)) as usize) as u64;
            use std::os::unix::fs::FileExt;
            file.write_all_at(&noise, at).unwrap();
        }
    });
    let status = reap(victim);
    signal(liar, libc::SIGKILL);
    reap(liar);
    assert_eq!(status, 0);
}

fn nothing_is_left() {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap().matches("memfd:tocsin").count();
    let (fds, mapped) = (open(), maps());
    {
        let segment = Arc::new(Segment::create(4).unwrap());
        let mut end = ShmTransport::new(segment.clone(), 0).unwrap();
        end.connect_bulk(3).unwrap();
        drop(Segment::attach(segment.fd().try_clone_to_owned().unwrap(), 4).unwrap());
        assert_eq!((open(), maps()), (fds + 1, mapped + 1));
    }
    assert_eq!((open(), maps()), (fds, mapped));
    assert!(shm_files().is_empty());
}
