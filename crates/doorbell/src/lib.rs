//! Notify that thread: by user interrupt, signal, futex, or not at all.
