//! Back-pressure: floods that must neither lose, nor block what they have nothing to do with, nor stop a computation.

use std::hint::black_box;

use tocsin_world::{Comm, ConstBuf, Mode, MutBuf, RawRequest, wait_all};

use crate::run::Arguments;

fn wait(request: Result<RawRequest, tocsin_world::Error>) {
    if let Err(error) = request.and_then(|mut r| r.wait()) {
        panic!("{error}");
    }
}

/// `count`: rank 0 posts that many sends of 64 bytes to rank 1, both run a barrier, then rank 1 receives them all.
pub fn sends_then_barrier(comm: &Comm, arguments: &Arguments) {
    let count = arguments.number("count");
    let content = |i: u64| [i ^ 0x5555, i, !i, i << 7, i, i, i, i.rotate_left(9)];
    let mut sent = Vec::new();
    let contents: Vec<[u64; 8]> =
        if comm.rank() == 0 { (0..count).map(content).collect() } else { Vec::new() };
    for block in &contents {
        // SAFETY: `contents` lives, unchanged, until the wait at the end.
        let request =
            unsafe { comm.isend_raw(ConstBuf::contiguous(block.as_ptr().cast(), 64), 1, 5, Mode::Standard) };
        sent.push(request.unwrap_or_else(|e| panic!("{e}")));
    }
    wait(comm.ibarrier_raw(None));
    if comm.rank() == 1 {
        for i in 0..count {
            let mut block = [0_u64; 8];
            // SAFETY: `block` lives, untouched, until the wait.
            wait(unsafe {
                comm.irecv_raw(MutBuf::contiguous(block.as_mut_ptr().cast(), 64), Some(0), Some(5))
            });
            assert_eq!(block, content(i), "message {i}");
        }
    }
    wait_all(&mut sent.iter_mut().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"));
    wait(comm.ibarrier_raw(None));
}

/// `count`: rank 2 stops itself. Rank 0 sends that many messages to it, long ones among them, and between them exchanges as many with rank 1,
/// which come back whole; then rank 2 goes on, and has all of its own. Ranks are processes.
pub fn beside_a_stopped_rank(comm: &Comm, arguments: &Arguments) {
    const LONGEST: usize = 8 << 10;
    let count = arguments.number("count") as usize;
    let length = |n: usize| 900 + n * 7919 % (LONGEST - 900);
    let fill = |n: usize, to: usize| vec![(n * 31 + to * 7 + 1) as u8; length(n)];
    let send = |bytes: &[u8], to| {
        // SAFETY: the buffer lives during the call.
        unsafe { comm.send_raw(ConstBuf::contiguous(bytes.as_ptr(), bytes.len()), to, 5, Mode::Standard) }
            .unwrap_or_else(|e| panic!("{e}"));
    };
    let mut room = vec![0_u8; LONGEST];
    let mut receive = |from| -> Vec<u8> {
        // SAFETY: as above.
        let got =
            unsafe { comm.recv_raw(MutBuf::contiguous(room.as_mut_ptr(), LONGEST), Some(from), Some(5)) };
        let got = got.unwrap_or_else(|e| panic!("{e}"));
        room.get(..got.bytes).unwrap_or_default().to_vec()
    };
    match comm.rank() {
        0 => {
            let pid: [u8; 4] = receive(2).try_into().unwrap_or_else(|e| panic!("{e:?}"));
            let pid = i32::from_ne_bytes(pid);
            let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            while !state().rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T')) {
                std::thread::yield_now();
            }
            let kept: Vec<Vec<u8>> = (0..count).map(|n| fill(n, 2)).collect();
            let mut sent = Vec::new();
            for (n, bytes) in kept.iter().enumerate() {
                let bytes = ConstBuf::contiguous(bytes.as_ptr(), bytes.len());
                // SAFETY: `kept` lives, unchanged, until the wait below.
                let request = unsafe { comm.isend_raw(bytes, 2, 5, Mode::Standard) };
                sent.push(request.unwrap_or_else(|e| panic!("{e}")));
                send(&fill(n, 1), 1);
                assert_eq!(receive(1), fill(n, 1), "message {n}");
            }
            // SAFETY: no memory effects; the process is a rank of this world, which has not been reaped.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGCONT) }, 0);
            wait_all(&mut sent.iter_mut().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"));
        }
        1 => (0..count).for_each(|_| send(&receive(0), 0)),
        2 => {
            // SAFETY: no memory effects.
            send(&unsafe { libc::getpid() }.to_ne_bytes(), 0);
            // SAFETY: as above; rank 0 has this process go on.
            unsafe { libc::raise(libc::SIGSTOP) };
            (0..count).for_each(|n| assert_eq!(receive(0), fill(n, 2), "message {n}"));
        }
        _ => {}
    }
    wait(comm.ibarrier_raw(None));
}

/// A fixed amount of work that the compiler can neither skip nor shorten.
fn compute(units: u64) -> u64 {
    let mut x = 0x1234_5678_u64;
    for _ in 0..units {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    }
    x
}

/// `count`, `units`, `keep` (percent): every other rank sends `count` synchronous messages, which need rank 0 at
/// once, while rank 0 computes `units`; it must keep `keep` percent of its speed.
pub fn flood(comm: &Comm, arguments: &Arguments) {
    let (count, units) = (arguments.number("count"), arguments.number("units"));
    let others = u64::from(comm.size()) - 1;
    if comm.rank() == 0 {
        black_box(compute(units / 10));
        let start = cpu_seconds();
        black_box(compute(units));
        let alone = cpu_seconds() - start;
        let mut buffers = vec![0_u64; (others * count) as usize];
        let mut requests: Vec<RawRequest> = buffers
            .iter_mut()
            .enumerate()
            .map(|(i, word)| {
                let source = 1 + (i as u64 % others) as u32;
                let buffer = MutBuf::contiguous(std::ptr::from_mut(word).cast(), 8);
                // SAFETY: `buffers` lives, untouched, until the wait below.
                unsafe { comm.irecv_raw(buffer, Some(source), Some(1)) }.unwrap_or_else(|e| panic!("{e}"))
            })
            .collect();
        wait(comm.ibarrier_raw(None));
        let before = comm.stats();
        let start = cpu_seconds();
        black_box(compute(units));
        let flooded = cpu_seconds() - start;
        let after = comm.stats();
        wait_all(&mut requests.iter_mut().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"));
        for (i, word) in buffers.iter().enumerate() {
            assert_eq!(*word, i as u64 / others, "a message was lost or came out of order");
        }
        let kept = 100.0 * alone / flooded;
        println!(
            "flood: alone {:.1} ms, flooded {:.1} ms of its own CPU time: kept {kept:.0} % of its speed; {} interrupts, {} packets meanwhile",
            alone * 1e3,
            flooded * 1e3,
            after.interrupts - before.interrupts,
            after.packets_received - before.packets_received,
        );
        assert!(after.packets_received > before.packets_received, "no flood arrived while rank 0 computed");
        assert!(kept >= arguments.number("keep") as f64, "kept only {kept:.0} % of its speed");
    } else {
        wait(comm.ibarrier_raw(None));
        let words: Vec<u64> = (0..count).collect();
        let mut requests: Vec<RawRequest> = words
            .iter()
            .map(|word| {
                let buffer = ConstBuf::contiguous(std::ptr::from_ref(word).cast(), 8);
                // SAFETY: `words` lives, unchanged, until the wait below.
                unsafe { comm.isend_raw(buffer, 0, 1, Mode::Synchronous) }.unwrap_or_else(|e| panic!("{e}"))
            })
            .collect();
        wait_all(&mut requests.iter_mut().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"));
    }
    wait(comm.ibarrier_raw(None));
}

/// `rounds`, `uintr`: in each round rank 0 computes until a barrier is over that the others, in turn, enter last: who does that
/// has to interrupt it, on a board as by messages (of 3 ranks each sends it one). With `uintr=1` all of them must have done so by
/// user interrupt, and everybody must be able to.
pub fn rings_who_computes(comm: &Comm, arguments: &Arguments) {
    for algorithm in ["shm", "dissemination"] {
        let before = comm.stats();
        for round in 0..arguments.number("rounds") {
            barrier_of_who_computes(comm, algorithm, 1 + (round % u64::from(comm.size() - 1)) as u32);
        }
        wait(comm.ibarrier_raw(None));
        let after = comm.stats();
        let by_user_interrupt = after.rings_by_user_interrupt - before.rings_by_user_interrupt;
        let by_signal = after.rings_by_signal - before.rings_by_signal;
        let (interrupts, user_interrupts) =
            (after.interrupts - before.interrupts, after.user_interrupts - before.user_interrupts);
        println!(
            "rank {}, {algorithm}: {by_user_interrupt} rings by user interrupt, {by_signal} by signal; {interrupts} interrupts, \
             {user_interrupts} by user interrupt",
            comm.rank(),
        );
        if arguments.number("uintr") == 1 {
            assert_eq!(after.ranks_without_user_interrupts, 0, "ranks that refused the connection");
            assert!(comm.rank() == 0 || by_user_interrupt > 0, "rank 0 was rung by signal alone");
            assert!(comm.rank() != 0 || user_interrupts > 0, "rank 0 was interrupted by signal alone");
        } else {
            assert!(comm.rank() == 0 || by_signal > 0, "rank 0 was not rung");
        }
    }
}

/// A barrier that rank 0 waits for by computing, and that `last` enters when all others have.
fn barrier_of_who_computes(comm: &Comm, algorithm: &str, last: u32) {
    let nothing = std::ptr::dangling_mut::<u8>();
    if comm.rank() == last {
        for other in (0..comm.size()).filter(|other| *other != last) {
            // SAFETY: no bytes are received.
            let told = unsafe { comm.recv_raw(MutBuf::contiguous(nothing, 0), Some(other), Some(2)) };
            assert!(told.is_ok(), "{told:?}");
        }
        // Rank 0 has left the library by then, most likely, and computes.
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut barrier = comm.ibarrier_raw(Some(algorithm)).unwrap_or_else(|e| panic!("{e}"));
    if comm.rank() != last {
        // SAFETY: no bytes are sent.
        let told = unsafe { comm.send_raw(ConstBuf::contiguous(nothing, 0), last, 2, Mode::Standard) };
        assert!(told.is_ok(), "{told:?}");
    }
    let begun = std::time::Instant::now();
    // The first look says that somebody who computes wants to hear of it; the others are loads.
    while comm.rank() == 0 && !barrier.is_done() {
        assert!(begun.elapsed().as_secs() < 60, "nobody interrupted the computation");
        black_box(compute(1000));
    }
    wait_all(&mut [&mut barrier]).unwrap_or_else(|e| panic!("{e}"));
}

/// `units`: the first half of the ranks compute that much, and then send; each of the others waits for one of them, and takes a twentieth of that time of a core at most.
pub fn waits_for_who_computes(comm: &Comm, arguments: &Arguments) {
    let (me, half) = (comm.rank(), comm.size() / 2);
    let mut word = [0_u8; 8];
    wait(comm.ibarrier_raw(None));
    if me < half {
        black_box(compute(arguments.number("units")));
        let buffer = ConstBuf::contiguous(word.as_ptr(), word.len());
        // SAFETY: the buffer lives during the call.
        let sent = unsafe { comm.send_raw(buffer, me + half, 1, Mode::Standard) };
        sent.unwrap_or_else(|e| panic!("{e}"));
    } else {
        let (begun, before) = (std::time::Instant::now(), cpu_seconds());
        let buffer = MutBuf::contiguous(word.as_mut_ptr(), word.len());
        // SAFETY: as above.
        let got = unsafe { comm.recv_raw(buffer, Some(me - half), Some(1)) };
        got.unwrap_or_else(|e| panic!("{e}"));
        let (waited, used) = (begun.elapsed().as_secs_f64(), cpu_seconds() - before);
        println!("waited {:.1} ms, with {:.2} ms of CPU time", waited * 1e3, used * 1e3);
        assert!(used <= waited / 20.0, "who waits for {waited} s takes {used} s of a core");
    }
    wait(comm.ibarrier_raw(None));
}

/// This thread's CPU time in seconds: handlers run on it and are counted, other ranks' use of the core is not.
pub(super) fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
