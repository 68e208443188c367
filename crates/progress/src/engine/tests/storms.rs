//! More than a handler does in one entry, from everywhere at once.

use super::*;

/// Two senders, a storm of stray signals, and a thread that enters, leaves, waits and computes.
#[test]
fn a_storm_loses_nothing() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Signal);
    let stop = Arc::new(AtomicBool::new(false));
    // SAFETY: no precondition.
    let (pid, tid) = unsafe { (libc::getpid(), libc::gettid()) };
    let mut threads = Vec::new();
    for sender in 0..2 {
        let (shared, stop) = (shared.clone(), stop.clone());
        threads.push(std::thread::spawn(move || {
            let mut n = 0u32;
            while !stop.load(SeqCst) {
                shared.post(sender, if n.is_multiple_of(3) { Urgency::Plain } else { Urgency::Urgent });
                n = n.wrapping_add(1);
                if n.is_multiple_of(7) {
                    std::thread::yield_now();
                }
            }
        }));
    }
    let (posts, seen) = (shared.clone(), stop.clone());
    threads.push(std::thread::spawn(move || {
        while !seen.load(SeqCst) {
            // A stray signal is ours only if something is posted: post and signal in one.
            posts.descriptor_post();
            // SAFETY: the thread exists until it joins this one; SIGURG is handled or ignored.
            unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, libc::SIGURG) };
            std::thread::sleep(Duration::from_micros(20));
        }
    }));
    let begun = Instant::now();
    let mut round = 0u64;
    // A machine that is busy with other things takes longer to get there.
    let stormed = || {
        let stats = engine.stats().snapshot();
        stats.interrupts > 100 && stats.deferrals > 0
    };
    while begun.elapsed() < Duration::from_millis(1500)
        || !stormed() && begun.elapsed() < Duration::from_secs(60)
    {
        match round % 4 {
            0 => drop(engine.enter()),
            1 => {
                engine.poke(Context::User);
            }
            2 => {
                let target = shared.handled.load(SeqCst) + 3;
                engine.wait_until(
                    || shared.handled.load(SeqCst) >= target,
                    Some(Duration::from_micros(round % 200)),
                );
            }
            _ => {
                let mut inside = engine.enter();
                inside.pass();
                assert_eq!(inside.context(), Context::User);
            }
        }
        round += 1;
    }
    stop.store(true, SeqCst);
    threads.into_iter().for_each(|t| t.join().unwrap());
    // From here on the thread only computes: handlers and the timer must bring the rest.
    compute_until("the rest", || shared.handled.load(SeqCst) == shared.posted());
    let stats = engine.stats().snapshot();
    println!("{round} rounds, {} posted, {stats:?}", shared.posted());
    assert!(stats.interrupts > 100 && stats.deferrals > 0, "{stats:?}");
    drop(receiver);
}

impl Shared {
    /// A posted vector without data, so that the next signal counts as a ring.
    fn descriptor_post(&self) {
        let mark = Mark::new();
        fence(SeqCst);
        let _outcome = ring(&self.descriptor, &mark, 5, Urgency::Plain);
    }
}

/// How often somebody else was given this thread's core.
fn times_preempted() -> i64 {
    // SAFETY: all bytes zero is a value of the structure, which is there during the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_nivcsw
    }
}

/// Rule 5 under a flood of messages that cost 1 us each: handlers take at most half, nothing is lost.
#[test]
fn a_flood_leaves_half_of_the_time() {
    let shared = Shared::new();
    let engine = engine(&shared, 1_000);
    let receiver = install(&shared, &engine, BackendKind::Signal);
    let stop = Arc::new(AtomicBool::new(false));
    let (flood, seen) = (shared.clone(), stop.clone());
    let flooding = std::thread::spawn(move || {
        while !seen.load(SeqCst) {
            // Always something there, as a flood has it.
            if flood.posted() - flood.handled.load(SeqCst) < 10_000 {
                flood.post(0, Urgency::Urgent);
            }
        }
    });
    // The clock counts how long a handler is without its core, too: what was taken from this thread meanwhile is left out.
    let span = || {
        let (begun, before, taken) = (now_ns(), engine.stats().snapshot(), times_preempted());
        compute_until("some time", || now_ns() - begun > 2_000_000);
        let spent = engine.stats().snapshot().since(&before);
        let charged = spent.stolen_ns + spent.interrupts * crate::duty::ENTRY_NS;
        let share = charged as f64 * 100.0 / (now_ns() - begun) as f64;
        (times_preempted() == taken).then_some(share)
    };
    let shares: Vec<f64> = (0..5_000).filter_map(|_| span()).take(50).collect();
    let share = shares.iter().sum::<f64>() / shares.len() as f64;
    let stats = engine.stats().snapshot();
    stop.store(true, SeqCst);
    flooding.join().unwrap();
    compute_until("the rest", || shared.handled.load(SeqCst) == shared.posted());
    println!(
        "handlers took {share:.1} % ({shares:.0?}) by {} entries, {} throttles, {} handled",
        stats.interrupts,
        stats.throttles,
        shared.handled.load(SeqCst)
    );
    assert!(share < 50.0, "{shares:?}");
    assert!(stats.interrupts > 100, "{stats:?}");
    drop(receiver);
}
