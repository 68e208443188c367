//! The thread that runs callbacks while their rank is outside the library: it sleeps when there is none.
#![allow(missing_docs, clippy::unwrap_used)] // a test

use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};
use tocsin_world::{BackendKind, Comm, Config, ConstBuf, Mode, MutBuf};

/// Messages without a callback in a round.
const MESSAGES: u64 = 1000;
/// One of so many rounds must pass without waking the thread: when the first begins it may be on its way to sleep, and a kernel may wake for nothing.
const ROUNDS: usize = 4;

const CALLED_BACK: i32 = 1;
const INTERRUPTS: i32 = 2;
const WAITED_FOR: i32 = 3;

fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed().as_secs() < 60, "{what} never came");
        std::thread::yield_now();
    }
}

/// A file that the kernel keeps of a thread of this process.
fn of_thread(tid: i32, file: &str) -> std::io::Result<String> {
    std::fs::read_to_string(format!("/proc/self/task/{tid}/{file}"))
}

/// Whether a thread sleeps until somebody wakes it.
fn is_asleep(tid: i32) -> bool {
    // The call's number and arguments: a futex, without a time-out. Not every kernel tells.
    let may_be_woken_only = of_thread(tid, "syscall").ok().is_none_or(|call| {
        let call: Vec<&str> = call.split(' ').collect();
        call[0] == libc::SYS_futex.to_string() && call[4] == "0x0"
    });
    may_be_woken_only && of_thread(tid, "stat").unwrap().contains(") S ")
}

/// How often a thread has left its core. One that sleeps before and after, and has not left any between, has not run.
fn switches(tid: i32) -> u64 {
    let status = of_thread(tid, "status").unwrap();
    let counts = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
    counts.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum()
}

/// Rank 0, and whom it asks for messages by their tags.
struct Asks {
    comm: Comm,
    ask: mpsc::Sender<i32>,
}

impl Asks {
    /// A message whose callback runs while this rank waits for a channel: the thread that ran it.
    fn called_back(&self) -> i32 {
        let mut room = [0u8; 16];
        let (tell, ran) = mpsc::channel();
        // SAFETY: - the buffer outlives the request.
        let mut request =
            unsafe { self.comm.irecv_raw(into(&mut room), Some(1), Some(CALLED_BACK)) }.unwrap();
        request.on_complete(Box::new(move |_| {
            let name = std::thread::current().name().map(str::to_owned);
            // SAFETY: - no precondition.
            tell.send((unsafe { libc::gettid() }, name)).unwrap();
        }));
        self.ask.send(CALLED_BACK).unwrap();
        let (tid, name) = ran.recv_timeout(Duration::from_secs(60)).unwrap();
        request.wait().unwrap();
        assert_eq!(name.as_deref(), Some("tocsin-callbacks"));
        tid
    }

    /// Messages without a callback: each second one is taken by a handler, the others by this thread, which waits.
    fn not_called_back(&self) {
        let mut room = [0u8; 16];
        let before = self.comm.stats().interrupts;
        for _ in 0..MESSAGES / 2 {
            // SAFETY: - the buffer outlives the request.
            let mut request =
                unsafe { self.comm.irecv_raw(into(&mut room), Some(1), Some(INTERRUPTS)) }.unwrap();
            // Says that this one is to interrupt.
            assert!(!request.is_done());
            self.ask.send(INTERRUPTS).unwrap();
            until("a message by a handler", || request.is_over());
            request.wait().unwrap();
            self.ask.send(WAITED_FOR).unwrap();
            // SAFETY: - the buffer outlives the call.
            unsafe { self.comm.recv_raw(into(&mut room), Some(1), Some(WAITED_FOR)) }.unwrap();
        }
        let interrupts = self.comm.stats().interrupts - before;
        assert!(interrupts >= MESSAGES / 2, "{interrupts} interrupts");
    }
}

fn into(buf: &mut [u8]) -> MutBuf {
    MutBuf::contiguous(buf.as_mut_ptr(), buf.len())
}

#[test]
fn it_sleeps_while_messages_come_that_have_no_callback() {
    let mut config = Config::default();
    config.backend = Some(BackendKind::Signal);
    let (ask, asked) = mpsc::channel();
    // Taken by their ranks, so that the other one ends, too, when one panics.
    let (ask, asked) = (Mutex::new(Some(ask)), Mutex::new(Some(asked)));
    let ended = tocsin_world::threads(2, &config, |comm| {
        if comm.rank() == 1 {
            let asked = asked.lock().unwrap().take().unwrap();
            for tag in asked {
                let message = [1u8; 16];
                // SAFETY: - the buffer outlives the call.
                unsafe { comm.send_raw(ConstBuf::contiguous(message.as_ptr(), 16), 0, tag, Mode::Standard) }
                    .unwrap();
            }
            return;
        }
        let rank = Asks { comm, ask: ask.lock().unwrap().take().unwrap() };
        let tid = rank.called_back();
        let round = || {
            until("sleep", || is_asleep(tid));
            let before = switches(tid);
            rank.not_called_back();
            until("sleep after messages", || is_asleep(tid));
            switches(tid) - before
        };
        // It has something to do again after each.
        for _ in 0..3 {
            let mut rounds = vec![round()];
            while rounds.last() != Some(&0) && rounds.len() < ROUNDS {
                rounds.push(round());
            }
            assert_eq!(rounds.last(), Some(&0), "it has run in each round, so often: {rounds:?}");
            let before = switches(tid);
            assert_eq!(rank.called_back(), tid);
            until("sleep after a callback", || is_asleep(tid) && switches(tid) > before);
        }
    });
    ended.unwrap();
}
