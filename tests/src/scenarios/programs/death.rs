//! Programs one of whose ranks dies.

use std::time::Duration;

use tocsin_world::Comm;

use crate::run::Arguments;

/// Exit status of a rank that has learned of a death.
pub const LEARNED: i32 = 9;

/// From now on an operation that fails ends this process there and then, while others are under way: with [`LEARNED`] if it says that a rank
/// is dead, else with 1. `victim` ends after `after_us`.
pub fn expect(comm: &Comm, arguments: &Arguments) {
    let me = comm.rank();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.to_string();
        let learned = text.contains("is dead");
        if !learned {
            eprintln!("rank {me}: {text}");
        }
        // SAFETY: ends the process.
        unsafe { libc::_exit(if learned { LEARNED } else { 1 }) }
    }));
    if u64::from(me) == arguments.number("victim") {
        let after = Duration::from_micros(arguments.number("after_us"));
        std::thread::spawn(move || {
            std::thread::sleep(after);
            // SAFETY: ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        });
    }
}
