//! Per-rank counters.

use tocsin_sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Relaxed counters of one rank, shared by all that work for it. Handlers may count; anybody may read.
        ///
        /// Progress class: wait-free; [`add`] is one `lock add`.
        #[derive(Debug)]
        pub struct Stats {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// The counters at one time. Each is exact; together they may be a few events apart.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            /// All zero.
            pub fn new() -> Stats {
                Stats { $($name: AtomicU64::new(0),)* }
            }

            /// Reads all counters.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl Snapshot {
            /// Every counter's name and value, in order of declaration. Not for handlers.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// What was counted since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Snapshot) -> Snapshot {
                Snapshot { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }
        }
    };
}

counters! {
    /// Handler entries.
    interrupts,
    /// Those of them that came by user interrupt.
    user_interrupts,
    /// Nanoseconds that handlers took from the rank's thread, without the cost of entry and return, and without most entries
    /// that found nothing: they read no clock.
    stolen_ns,
    /// Passes over the work, by anybody.
    passes,
    /// Handler entries that found the engine busy and left their request to the holder.
    deferrals,
    /// Times the receiver suppressed its doorbell because handlers had taken their share.
    throttles,
    /// Times a thread of the rank went to sleep in a wait.
    sleeps,
    /// Times that the rank's progress thread was scheduled, where it shares its core or polls; not where it has the core to itself.
    turns,
    /// Packets sent.
    packets_sent,
    /// Packets received.
    packets_received,
    /// Payload bytes sent.
    bytes_sent,
    /// Payload bytes received.
    bytes_received,
    /// Bytes copied by user threads.
    bytes_copied_user,
    /// Bytes copied by handlers.
    bytes_copied_handler,
    /// Bytes copied by progress threads.
    bytes_copied_progress,
    /// Bytes of large messages that this rank copied once from sender to receiver, in memory that both have mapped: thread ranks, the shared heap, XPMEM.
    bytes_in_place,
    /// The same by the kernel, from or to another process (`process_vm_readv`, `process_vm_writev`).
    bytes_by_kernel,
    /// The same by KNEM.
    bytes_by_knem,
    /// Bytes of large messages that this rank read out of pipes into which their senders had put pages (`vmsplice`).
    bytes_by_pages,
    /// Times that this rank interrupted another by user interrupt.
    rings_by_user_interrupt,
    /// Times that it interrupted another by signal alone.
    rings_by_signal,
    /// Ranks with user interrupts that refused this one's connection: they are rung by signal.
    ranks_without_user_interrupts,
    /// Callbacks run.
    callbacks,
}

impl Default for Stats {
    fn default() -> Self {
        Self::new()
    }
}

impl Stats {
    /// Counts copied bytes under the context that copied them. One `lock add`. Handlers may call it.
    #[inline]
    pub fn copied(&self, context: crate::Context, bytes: usize) {
        let counter = match context {
            crate::Context::User => &self.bytes_copied_user,
            crate::Context::Handler => &self.bytes_copied_handler,
            crate::Context::ProgressThread => &self.bytes_copied_progress,
        };
        add(counter, bytes as u64);
    }
}

/// Adds to a counter. One `lock add`. Handlers may call it.
#[inline]
pub fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn snapshot_and_difference() {
        let stats = Stats::new();
        add(&stats.passes, 3);
        let before = stats.snapshot();
        add(&stats.passes, 2);
        stats.copied(crate::Context::Handler, 10);
        let difference = stats.snapshot().since(&before);
        assert_eq!((difference.passes, difference.bytes_copied_handler), (2, 10));
        assert!(difference.entries().contains(&("passes", 2)));
    }
}
