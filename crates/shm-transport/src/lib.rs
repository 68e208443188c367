//! Shared-memory transport: nameless segments, lanes, peer death.
