//! Messages between the ranks of a node that make progress by interrupt: typed, safe, scoped.
