//! Atomics switch, handler flag, clock, errno: what every layer of tocsin stands on.
