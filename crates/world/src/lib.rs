//! Ranks, communicators, raw requests, bootstrap, launcher: one surface for every face of tocsin.
mod comm;
mod config;
mod error;
pub mod launcher;
mod request;
mod stand_in;
mod threads;
mod world;

pub use comm::{Comm, Message};
pub use config::{
    Bind, Config, DEFAULT_EAGER_MAX, DEFAULT_SIGNAL, DEFAULT_UNEXPECTED_MAX, Lmt, ProgressPlacement,
    VARIABLES, Variable, parse_size,
};
pub use error::Error;
pub use request::{Callback, RawRequest, Status, wait_all, wait_any};
pub use stand_in::*;
pub use threads::{threads, threads_each};
pub use tocsin_doorbell::{BackendKind, Masked};
pub use tocsin_nbc::{DataType, Op, UserFunction, UserOp, ValueIndex32, ValueIndex64};
pub use tocsin_progress::stats::Snapshot;
pub use world::World;

/// Version of this library, checked between launcher and program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
