//! Who notices that a program does not go on.

use std::fmt::Write as _;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Seconds without a step, after which it says where the rank is, and ends the process.
const PATIENCE_S: u32 = 25;

/// A thread that does.
#[derive(Debug)]
pub struct Watch {
    /// How many steps, and the last.
    step: Arc<Mutex<(u64, String)>>,
    end: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// `who`: what it says first.
    pub fn new(who: String) -> Watch {
        let step = Arc::new(Mutex::new((0, String::new())));
        let (end, ended) = mpsc::channel();
        let seen = step.clone();
        let thread = std::thread::spawn(move || {
            let (mut before, mut seconds) = (0, 0);
            // Whoever is stopped counts no seconds meanwhile.
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let (steps, text) = &*seen.lock().unwrap_or_else(PoisonError::into_inner);
                seconds = if *steps == before { seconds + 1 } else { 0 };
                before = *steps;
                if seconds >= PATIENCE_S {
                    eprintln!("{who}: nothing for {PATIENCE_S} s, after {steps} steps: {text}");
                    // The others say it, too.
                    std::thread::sleep(Duration::from_secs(3));
                    std::process::abort();
                }
            }
        });
        Watch { step, end, thread: Some(thread) }
    }

    /// The rank has gone on, to this.
    pub fn say(&self, what: impl FnOnce() -> String) {
        let mut step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        step.0 += 1;
        step.1.clear();
        let _always_ok = write!(step.1, "{}", what());
    }

    /// It is over.
    pub fn end(&mut self) {
        // Gone if it has found something.
        let _gone = self.end.send(());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
