//! Commands that measure nothing.

pub(crate) mod info;
pub(crate) mod run;
