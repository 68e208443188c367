//! Starts while nobody has to be interrupted or woken, because all others look by themselves: no system call, whatever the backend.
//!
//! A rank looks by itself while it is in a wait, but no longer than it is patient. So each of the others is kept in a wait for as long as one rank
//! starts all: in a reduction's operator, whose last operand comes when the thread that is to meet it sleeps. Woken by it, it says that it looks by itself before it
//! runs the operator. With the backend `thread` that is the progress thread, else the user's. (Backend `uintr` wants a processor that has user interrupts.)

use std::process::Command;
use std::sync::OnceLock;

use tocsin::{Comm, Config, Error, Launch, Op, UserOp, World};
use tocsin_sync::atomic::{AtomicU32, Ordering};

use super::calls::Calls;
use super::{Named, all, child_arguments};

/// What ranks say to each other without the library.
#[derive(Default)]
#[repr(C)]
struct Words {
    /// Ranks that have posted what the others need for being kept.
    posted: AtomicU32,
    /// Turns for which the one that starts is ready.
    ready: AtomicU32,
    /// Ranks whose progress thread sleeps.
    asleep: AtomicU32,
    /// Turns in which the one that starts has sent the operand that keeps the others.
    sent: AtomicU32,
    /// Times that somebody was kept.
    kept: AtomicU32,
    /// Turns in which all was started.
    started: AtomicU32,
}

static WORDS: OnceLock<&'static Words> = OnceLock::new();

fn until(word: &AtomicU32, value: u32) {
    while word.load(Ordering::SeqCst) < value {
        std::thread::yield_now();
    }
}

/// The operand that keeps whoever meets it until all is started in the turn that it names.
fn keep(a: u64, b: u64) -> u64 {
    let turn = a.max(b) as u32;
    if turn > 0 {
        let words = WORDS.get().unwrap();
        if words.started.load(Ordering::SeqCst) < turn {
            words.kept.fetch_add(1, Ordering::SeqCst);
            until(&words.started, turn);
        }
    }
    a.max(b)
}

/// Names of what a child is told by its environment.
const WORDS_FILE: &str = "PERSISTENT_START_WORDS";
const RANKS: &str = "PERSISTENT_START_RANKS";
const RUNS: u32 = 3;

/// Maps the words that all ranks share.
fn map_words() -> &'static Words {
    use std::os::fd::AsRawFd;
    let path = std::env::var_os(WORDS_FILE).unwrap();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    // SAFETY: a new mapping of a file that is long enough; its zeros are what the words begin as, and nobody unmaps it.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(std::ptr::null_mut(), LEN, access, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(at, libc::MAP_FAILED);
        &*at.cast::<Words>()
    }
}

const LEN: usize = 4096;

/// Until those threads of this process sleep that `of` names, by their status.
fn until_asleep(of: impl Fn(&str) -> bool) {
    let is_awake = |task: std::path::PathBuf| {
        // A task that has ended is not awake.
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        of(&status) && !status.contains("\nState:\tS")
    };
    while std::fs::read_dir("/proc/self/task").unwrap().any(|task| is_awake(task.unwrap().path())) {
        std::thread::yield_now();
    }
}

/// In turns they look for ever, and never do.
fn until_progress_threads_sleep() {
    if is("TOCSIN_SCHEDULE", "event") {
        until_asleep(|status| status.starts_with("Name:\ttocsin-progress\n"));
    }
}

fn is(variable: &str, value: &str) -> bool {
    std::env::var(variable).is_ok_and(|is| is == value)
}

/// One rank starts all while the others are kept. The calls that its starts make, one after the other; none on the others. `aside`: for what keeps
/// them, whose order among the collectives is another on each rank.
fn starts_of_turn(
    comm: &Comm,
    aside: &Comm,
    (turn, starter): (u32, u32),
    calls: &Calls,
    prepared: &mut [Named],
) -> Result<Vec<Vec<libc::c_long>>, Error> {
    let words = WORDS.get().unwrap();
    let (rank, others) = (comm.rank(), comm.size() - 1);
    let linear = aside.with_algorithm("linear");
    let roots = (0..comm.size()).filter(|root| *root != starter);
    let operands = |mine: u32| {
        let mine = u64::from(mine);
        let op = Op::User(UserOp::ordered(keep));
        roots.clone().map(|root| linear.ireduce(vec![mine], op, root)).collect::<Result<Vec<_>, Error>>()
    };
    let mut made = Vec::new();
    if rank == starter {
        words.ready.fetch_add(1, Ordering::SeqCst);
        until(&words.asleep, turn * others);
        // Nor is it inside meanwhile, where who starts would have to wait for it.
        until_progress_threads_sleep();
        let requests = operands(turn)?;
        words.sent.fetch_add(1, Ordering::SeqCst);
        until(&words.kept, turn * others);
        for (_, one) in prepared {
            let mut started = Ok(());
            made.push(calls.during(|| started = one.start()));
            started?;
        }
        words.started.fetch_add(1, Ordering::SeqCst);
        for request in requests {
            request.wait()?;
        }
    } else {
        let requests = operands(0)?;
        words.posted.fetch_add(1, Ordering::SeqCst);
        until(&words.ready, turn);
        until(&words.posted, turn * others);
        if is("TOCSIN_BACKEND", "thread") {
            until_progress_threads_sleep();
            words.asleep.fetch_add(1, Ordering::SeqCst);
            until(&words.started, turn);
        } else {
            // SAFETY: no pointers.
            let waits = format!("\nPid:\t{}\n", unsafe { libc::gettid() });
            std::thread::spawn(move || {
                until_asleep(|status| status.contains(&waits));
                words.asleep.fetch_add(1, Ordering::SeqCst);
            });
        }
        for request in requests {
            request.wait()?;
        }
    }
    Ok(made)
}

/// What a start may do by a call although nobody has to be told of anything.
fn is_allowed(call: libc::c_long, comm: &Comm) -> bool {
    let shares_cores = comm.size() as usize > std::thread::available_parallelism().unwrap().get();
    match call {
        // The copy itself, from or to another process that has started.
        libc::SYS_process_vm_readv | libc::SYS_process_vm_writev => is("TOCSIN_TEST_COPIES", "1"),
        // A progress thread that looks in turns may be inside the engine just now.
        libc::SYS_sched_yield if !is("TOCSIN_SCHEDULE", "event") => true,
        // Where ranks share cores, one that has posted something long stays for a while, and gives its core away meanwhile, in short slices.
        libc::SYS_sched_yield | libc::SYS_sched_getattr | libc::SYS_sched_setattr => shares_cores,
        _ => false,
    }
}

fn rank_that_starts(comm: &Comm) -> Result<(), Error> {
    WORDS.get_or_init(map_words);
    let aside = comm.dup()?;
    // In one packet; longer than what a slot of a board holds; announced.
    let mut prepared = all(comm, 8)?;
    prepared.extend(all(comm, 300)?);
    prepared.extend(all(comm, 40_000)?);
    let calls = Calls::of_this_thread();
    // The first run, too, asks for nothing: whatever it needs is there.
    for run in 0..RUNS {
        for starter in 0..comm.size() {
            let turn = run * comm.size() + starter + 1;
            for (at, noted) in
                starts_of_turn(comm, &aside, (turn, starter), &calls, &mut prepared)?.iter().enumerate()
            {
                let (name, length) = (prepared[at].0, at / (prepared.len() / 3));
                let unwanted: Vec<_> = noted.iter().filter(|call| !is_allowed(**call, comm)).collect();
                assert!(
                    unwanted.is_empty(),
                    "calls {unwanted:?} of {name}, length {length}, run {run}, rank {starter}"
                );
            }
        }
        for (_, one) in &mut prepared {
            while one.test().transpose()?.is_none() {
                std::hint::spin_loop();
            }
        }
    }
    Ok(())
}

/// Backend, schedule of progress threads.
/// (With `event` each post wakes the rank's own progress thread, which is a call.)
const BACKENDS: [(&str, &str); 3] = [("poll", "event"), ("signal", "event"), ("thread", "round-robin")];

/// A file that is as long as the words are, and zero; removed at the end.
struct Zeros(std::path::PathBuf);

impl Zeros {
    fn new(name: &str) -> Zeros {
        let path = std::env::temp_dir().join(format!("tocsin-{name}-{}", std::process::id()));
        std::fs::write(&path, [0; LEN]).unwrap();
        Zeros(path)
    }
}

impl Drop for Zeros {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_start_beside_threads_that_look_makes_no_system_call() {
    for (backend, schedule) in BACKENDS {
        for lmt in ["auto", "direct", "double"] {
            for ranks in 2..=3 {
                let words = Zeros::new("starts-of-threads");
                let output = Command::new(std::env::current_exe().unwrap())
                    .args(child_arguments("quiet::threads_that_start"))
                    .envs([("TOCSIN_BACKEND", backend), ("TOCSIN_SCHEDULE", schedule), ("TOCSIN_LMT", lmt)])
                    .env(WORDS_FILE, &words.0)
                    .env(RANKS, ranks.to_string())
                    .output()
                    .unwrap();
                assert_eq!(
                    output.status.code(),
                    Some(0),
                    "{backend}, {schedule}, {lmt}, {ranks} ranks: {output:?}"
                );
            }
        }
    }
}

/// (`vmsplice` puts pages into pipes, which are opened when they are needed: all of that is calls.)
#[test]
fn a_start_beside_processes_that_look_makes_no_system_call() {
    for (backend, schedule) in BACKENDS {
        for (lmt, copies) in [("auto", "1"), ("cma", "1"), ("double", "0")] {
            for ranks in 2..=3 {
                let words = Zeros::new("starts-of-processes");
                let mut launch = Launch::new(std::env::current_exe().unwrap(), ranks);
                for (name, value) in
                    [("TOCSIN_BACKEND", backend), ("TOCSIN_SCHEDULE", schedule), ("TOCSIN_LMT", lmt)]
                {
                    launch.config.set(name, value).unwrap();
                }
                launch.args = child_arguments("quiet::process_that_starts").map(Into::into).into();
                launch.env = vec![
                    (WORDS_FILE.into(), words.0.clone().into()),
                    ("TOCSIN_TEST_COPIES".into(), copies.into()),
                ];
                let report = launch.run().unwrap();
                assert_eq!(report.status, 0, "{backend}, {schedule}, {lmt}, {ranks} ranks: {report:?}");
            }
        }
    }
}

#[test]
#[ignore = "in a process of its own: a_start_beside_threads_that_look_makes_no_system_call runs it"]
fn threads_that_start() {
    let Some(ranks) = std::env::var_os(RANKS) else { return };
    // SAFETY: alarm has no memory effects; SIGALRM's default action ends a process that hangs.
    unsafe { libc::alarm(60) };
    let ranks = ranks.to_str().unwrap().parse().unwrap();
    let config = Config::from_env().unwrap();
    // All know of what fails in one, which the others would wait for.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        std::process::exit(1);
    }));
    for result in World::threads_with(ranks, &config, |comm| rank_that_starts(&comm)).unwrap() {
        result.unwrap();
    }
}

#[test]
#[ignore = "a rank of a_start_beside_processes_that_look_makes_no_system_call"]
fn process_that_starts() {
    if std::env::var_os(WORDS_FILE).is_none() || std::env::var_os(RANKS).is_some() {
        return;
    }
    // SAFETY: as in `threads_that_start`.
    unsafe { libc::alarm(60) };
    let world = World::from_env().unwrap();
    let comm = world.comm();
    rank_that_starts(&comm).unwrap();
    drop(comm);
    world.finalize().unwrap();
}
