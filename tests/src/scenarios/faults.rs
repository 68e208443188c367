//! What a rank sees when another one dies.

mod trap;

use std::time::{Duration, Instant};

use tocsin_world::{Comm, ConstBuf, Error, Mode, MutBuf, RawRequest};

use crate::random::Random;
use crate::run::Arguments;

/// One operation in which every rank takes part, small or large.
fn step(comm: &Comm, random: &mut Random, buffer: &mut [u8], out: &mut [u8]) -> Result<(), Error> {
    let (me, ranks) = (comm.rank(), comm.size());
    let finish = |request: Result<RawRequest, Error>| request?.wait().map(drop);
    let bytes = random.below(buffer.len() as u64 / 8) as usize * 8;
    match random.below(4) {
        0 => finish(comm.ibarrier_raw(None)),
        // SAFETY: the buffers live until `finish` has waited; a failed request touches them no more.
        1 => finish(unsafe {
            comm.ibcast_raw(out.as_mut_ptr(), bytes, random.below(u64::from(ranks)) as u32, None)
        }),
        2 => finish(unsafe {
            // SAFETY: as above.
            comm.iallreduce_raw(
                Some(buffer.as_ptr()),
                out.as_mut_ptr(),
                bytes / 8,
                tocsin_world::DataType::U64,
                tocsin_world::Op::Sum,
                None,
            )
        }),
        _ => {
            // A ring, then a barrier: every rank depends on every other.
            let (right, left) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
            // SAFETY: as above; both requests are waited for or the process ends.
            let mut receive = unsafe {
                comm.irecv_raw(MutBuf::contiguous(out.as_mut_ptr(), out.len()), Some(left), Some(3))?
            };
            // SAFETY: as above.
            let mut send = unsafe {
                comm.isend_raw(ConstBuf::contiguous(buffer.as_ptr(), bytes), right, 3, Mode::Standard)?
            };
            let (received, sent) = (receive.wait(), send.wait());
            received?;
            sent?;
            finish(comm.ibarrier_raw(None))
        }
    }
}

/// Says that the scenario runs when all ranks have joined: of one that dies before behind a shell which goes on, nobody can know.
fn say_running(comm: &Comm) {
    let met = comm.ibarrier_raw(None).and_then(|mut request| request.wait());
    assert!(met.is_ok(), "{met:?}");
    if comm.rank() == 0 {
        println!("running");
    }
}

/// `seed`, `victim`: operations among all ranks without end, until one of them fails; the error must name `victim`. Prints the
/// time of CLOCK_MONOTONIC at which it came, in ns, and succeeds. `bytes`: the longest message, 96 KiB unless it is given. `killed_after_us`: the victim ends
/// itself after so many microseconds, whatever it is at.
pub fn until_death(comm: &Comm, arguments: &Arguments) {
    let victim = arguments.number("victim") as u32;
    let mut random = Random::new(arguments.number("seed"));
    let bytes = arguments.optional("bytes").map_or(96 << 10, |_| arguments.number("bytes") as usize);
    let mut buffer = vec![7_u8; bytes];
    let mut out = vec![0_u8; bytes];
    say_running(comm);
    if comm.rank() == victim && arguments.optional("killed_after_us").is_some() {
        let after = Duration::from_micros(arguments.number("killed_after_us"));
        std::thread::spawn(move || {
            std::thread::sleep(after);
            // SAFETY: no memory effects.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        });
    }
    let error = loop {
        if let Err(error) = step(comm, &mut random, &mut buffer, &mut out) {
            break error;
        }
    };
    // A receive whose send was refused is dropped, and a progress thread may still write where it receives.
    std::mem::forget((buffer, out));
    match error {
        Error::PeerDead { rank, .. } if rank == victim => {
            println!("saw {} {}", comm.rank(), tocsin_sync::clock::now_ns());
        }
        other => {
            eprintln!("rank {}: expected the death of {victim}, got: {other}", comm.rank());
            std::process::exit(9);
        }
    }
    // Whatever else is called now must answer as well.
    let again = comm.ibarrier_raw(None).and_then(|mut r| r.wait());
    assert!(again.is_err(), "a barrier with a dead rank succeeded");
}

/// `seed`, `victim`: the others send to it and receive from it by blocking calls, messages that are copied out while they are
/// copied in among them. Else as [`until_death`].
pub fn blocked_until_death(comm: &Comm, arguments: &Arguments) {
    const ROOM: usize = 64 << 10;
    let victim = arguments.number("victim") as u32;
    let mut random = Random::new(arguments.number("seed") ^ u64::from(comm.rank()) << 32);
    let (mut out, mut room) = (vec![0_u8; ROOM], vec![0_u8; ROOM]);
    let mut send = |to: u32, value: u8| {
        let bytes = random.below(ROOM as u64 + 1) as usize;
        let bytes = out.get_mut(..bytes).unwrap_or_default();
        bytes.fill(value);
        // SAFETY: the buffer lives during the call.
        unsafe { comm.send_raw(ConstBuf::contiguous(bytes.as_ptr(), bytes.len()), to, 3, Mode::Standard) }
            .map(drop)
    };
    let mut receive = |from: u32, value: u8| {
        room.fill(!value);
        // SAFETY: as above.
        let status =
            unsafe { comm.recv_raw(MutBuf::contiguous(room.as_mut_ptr(), room.len()), Some(from), Some(3))? };
        let (here, behind) = room.split_at(status.bytes);
        assert!(
            here.iter().all(|&b| b == value),
            "a message of {} bytes came otherwise than sent",
            here.len()
        );
        assert!(behind.iter().all(|&b| b == !value), "bytes behind a message of {}", here.len());
        Ok(())
    };
    say_running(comm);
    for lap in (0..251_u8).cycle() {
        let ended = if comm.rank() == victim {
            (0..comm.size())
                .filter(|&other| other != victim)
                .try_for_each(|other| receive(other, lap).and_then(|()| send(other, lap)))
        } else {
            send(victim, lap).and_then(|()| receive(victim, lap))
        };
        match ended {
            Ok(()) => {}
            Err(Error::PeerDead { rank, .. }) if rank == victim => {
                println!("saw {} {}", comm.rank(), tocsin_sync::clock::now_ns());
                return;
            }
            Err(other) => {
                eprintln!("rank {}: expected the death of {victim}, got: {other}", comm.rank());
                std::process::exit(9);
            }
        }
    }
}

/// Rank 0 ends its process with status 0 and without finalizing, as the others wait for it by `way`: each hears that it is dead.
pub fn left_by_exit(comm: &Comm, arguments: &Arguments) {
    const LARGE: usize = 4 << 20;
    let way = arguments.text("way");
    // All have joined.
    let met = comm.ibarrier_raw(None).and_then(|mut request| request.wait());
    assert!(met.is_ok(), "{met:?}");
    if comm.rank() == 0 {
        std::process::exit(0);
    }
    let mut memory = vec![0_u8; LARGE];
    let receive = |memory: &mut [u8], from| {
        // SAFETY: the buffer lives during the call.
        unsafe { comm.recv_raw(MutBuf::contiguous(memory.as_mut_ptr(), 8), from, Some(3)) }.map(drop)
    };
    let ended = match way {
        "receive" => receive(&mut memory, Some(0)),
        "any" => receive(&mut memory, None),
        // SAFETY: the buffer lives during the call.
        "send" => unsafe {
            comm.send_raw(ConstBuf::contiguous(memory.as_ptr(), LARGE), 0, 3, Mode::Standard).map(drop)
        },
        "probe" => comm.probe(Some(0), Some(3)).map(drop),
        "iprobe" => loop {
            if let Err(error) = comm.iprobe(Some(0), Some(3)) {
                break Err(error);
            }
        },
        "collective" => comm.ibarrier_raw(Some("dissemination")).and_then(|mut r| r.wait()).map(drop),
        "board" => comm.ibarrier_raw(Some("shm")).and_then(|mut r| r.wait()).map(drop),
        "new" => comm.dup().map(drop),
        _ => panic!("way={way}: receive, any, send, probe, iprobe, collective, board, new"),
    };
    match ended {
        Err(Error::PeerDead { rank: 0, .. }) => println!("saw {}", comm.rank()),
        other => {
            eprintln!("rank {}, {way}: expected the death of rank 0, got: {other:?}", comm.rank());
            std::process::exit(9);
        }
    }
}

/// Rank 0 dies by what it has to share of a collective on a board: of its `bytes` bytes none can be read from `at` on. The others, who
/// wait or else `compute`, hear of it.
pub fn dies_copying(comm: &Comm, arguments: &Arguments) {
    let (bytes, at) = (arguments.number("bytes") as usize, arguments.number("at") as usize);
    let (ranks, computes) = (comm.size() as usize, arguments.optional("compute").is_some());
    let met = comm.ibarrier_raw(None).and_then(|mut request| request.wait());
    assert!(met.is_ok(), "{met:?}");
    let mut out = vec![0_u8; bytes * ranks];
    let hole = (comm.rank() == 0).then(|| Hole::new(bytes * ranks, at));
    let mut plain = vec![7_u8; bytes * ranks];
    let own = hole.as_ref().map_or(plain.as_mut_ptr(), |hole| hole.start);
    // SAFETY: the buffers live until the request has ended; on rank 0 the call is the last thing that it does.
    let request = unsafe {
        match arguments.text("op") {
            "ibcast" => comm.ibcast_raw(own, bytes, 0, Some("shm")),
            "iallgather" => comm.iallgather_raw(Some(own), out.as_mut_ptr(), bytes, Some("shm")),
            "ialltoall" => comm.ialltoall_raw(Some(own), out.as_mut_ptr(), bytes, Some("shm")),
            other => panic!("op={other}: ibcast, iallgather, ialltoall"),
        }
    };
    let mut request = match request {
        Ok(request) => request,
        Err(Error::PeerDead { rank: 0, .. }) => return println!("saw {}", comm.rank()),
        Err(other) => panic!("rank {}: {other}", comm.rank()),
    };
    let end = Instant::now() + Duration::from_secs(5);
    while computes && !request.is_done() && Instant::now() < end {
        std::hint::spin_loop();
    }
    match request.wait() {
        Err(Error::PeerDead { rank: 0, .. }) => println!("saw {}", comm.rank()),
        other => {
            eprintln!("rank {}: expected the death of rank 0, got: {other:?}", comm.rank());
            std::process::exit(9);
        }
    }
}

/// Rank 0 dies by what it sends: of its `bytes` bytes none can be read from `at` on. The receive was posted before, into the shared heap, and its rank waits or else `computes`.
pub fn dies_sending(comm: &Comm, arguments: &Arguments) {
    const BEFORE: u8 = 0xa5;
    let (bytes, at) = (arguments.number("bytes") as usize, arguments.number("at") as usize);
    let computes = arguments.optional("compute").is_some();
    let block = comm.alloc(bytes).unwrap_or_else(|error| panic!("{error}"));
    let hole = (comm.rank() == 0).then(|| Hole::new(bytes, at));
    let mut request = (comm.rank() == 1).then(|| {
        // SAFETY: the block is this rank's alone, and lives until the request has ended.
        let posted = unsafe {
            block.as_ptr().write_bytes(BEFORE, bytes);
            comm.irecv_raw(MutBuf::contiguous(block.as_ptr(), bytes), Some(0), Some(1))
        };
        posted.unwrap_or_else(|error| panic!("{error}"))
    });
    let met = comm.ibarrier_raw(None).and_then(|mut request| request.wait());
    assert!(met.is_ok(), "{met:?}");
    if let Some(hole) = hole {
        let buf = ConstBuf::contiguous(hole.start, bytes);
        // SAFETY: the call is the last thing that this rank does, which dies in it.
        let sent = unsafe { comm.send_raw(buf, 1, 1, Mode::Standard) };
        panic!("it lives: {sent:?}");
    }
    let Some(request) = &mut request else { return };
    let end = Instant::now() + Duration::from_secs(5);
    while computes && !request.is_done() && Instant::now() < end {
        std::hint::spin_loop();
    }
    match request.wait() {
        Err(Error::PeerDead { rank: 0, .. }) => {
            // SAFETY: the block is this rank's alone again, and was filled.
            let got = unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) };
            let begun = got.iter().any(|byte| *byte != BEFORE);
            println!("saw {}{}", comm.rank(), if begun { ", of a part" } else { "" });
        }
        other => {
            eprintln!("rank {}: expected the death of rank 0, got: {other:?}", comm.rank());
            std::process::exit(9);
        }
    }
}

/// Rank 1 dies while rank 0 copies `bytes` bytes to it, when that comes to the page at `at`. The receive was posted before, into the shared heap, and its rank waits or else `computes`.
/// That everything is sent, or that rank 1 is dead, ends rank 0's message.
pub fn dies_receiving(comm: &Comm, arguments: &Arguments) {
    let (bytes, at) = (arguments.number("bytes") as usize, arguments.number("at") as usize);
    let (computes, both) = (arguments.optional("compute").is_some(), arguments.text("lmt") == "auto");
    let block = comm.alloc(bytes).unwrap_or_else(|error| panic!("{error}"));
    let mut doomed = std::process::id();
    // SAFETY: the word lives during the call.
    let told = unsafe { comm.ibcast_raw((&raw mut doomed).cast(), size_of_val(&doomed), 1, None) };
    told.and_then(|mut request| request.wait()).unwrap_or_else(|error| panic!("{error}"));
    // A large message before it: the first one makes what pages go through.
    let mut large = vec![1_u8; bytes];
    // SAFETY: the buffer lives during the call.
    let sent = unsafe {
        match comm.rank() {
            0 => comm.send_raw(ConstBuf::contiguous(large.as_ptr(), bytes), 1, 2, Mode::Standard).map(drop),
            _ => comm.recv_raw(MutBuf::contiguous(large.as_mut_ptr(), bytes), Some(0), Some(2)).map(drop),
        }
    };
    sent.unwrap_or_else(|error| panic!("{error}"));
    if comm.rank() == 1 {
        // SAFETY: the block is this rank's alone, and lives as long as the rank does.
        let posted = unsafe { comm.irecv_raw(MutBuf::contiguous(block.as_ptr(), bytes), Some(0), Some(1)) };
        let mut request = posted.unwrap_or_else(|error| panic!("{error}"));
        say_running(comm);
        let end = Instant::now() + Duration::from_secs(5);
        while computes && Instant::now() < end {
            std::hint::spin_loop();
        }
        panic!("it lives: {:?}", request.wait());
    }
    let trap = trap::Trap::new(bytes, at, doomed);
    say_running(comm);
    // Who computes does so by then, mostly.
    let begins = Instant::now() + Duration::from_millis(2);
    while Instant::now() < begins {
        std::hint::spin_loop();
    }
    let before = comm.stats();
    let buf = ConstBuf::contiguous(trap.start(), bytes);
    // SAFETY: the buffer lives during the call.
    let sent = unsafe { comm.send_raw(buf, 1, 1, Mode::Standard) };
    assert!(trap.has_sprung(), "rank 1 lives: {sent:?}");
    let since = comm.stats().since(&before);
    let copied = since.bytes_copied_user + since.bytes_copied_handler + since.bytes_copied_progress;
    match sent {
        // Where both can copy, rank 1 may have copied the rest.
        Ok(_) => assert!(copied >= if both { 1 } else { bytes as u64 }, "a part of it is sent: {since:?}"),
        Err(Error::PeerDead { rank: 1, .. }) => {}
        Err(other) => panic!("expected the death of rank 1, got: {other}"),
    }
    println!("saw 0{}", if since.bytes_in_place > 0 { ", into the receive" } else { "" });
}

/// Memory that cannot be read from some byte on.
struct Hole {
    start: *mut u8,
}

impl Hole {
    /// `len` bytes, of which only those before `at` can be read; it stays mapped.
    fn new(len: usize, at: usize) -> Hole {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a mapping where nothing is, of which the first part is made usable; both results are checked.
        let start = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start, at, libc::PROT_READ | libc::PROT_WRITE), 0);
            start
        };
        Hole { start: start.cast() }
    }
}

/// Computes without a library call until it is killed, or for `seconds`.
pub fn spin(comm: &Comm, arguments: &Arguments) {
    if comm.rank() == 0 {
        println!("running");
    }
    let end = Instant::now() + Duration::from_secs(arguments.number("seconds"));
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}
