//! C interface of tocsin: tocsin.h, static and shared library.
//!
//! # For users
//! The header says it all; it is written from the documentation of the functions here.
//!
//! # Implementation details
//! - Every exported function is one call of [`border::guarded`], which catches panics, keeps the error's text for
//!   `tocsin_last_error` and gives its code.
//! - A pointer to one object is an `Option` of a reference: C passes NULL or what the header's contract promises, a
//!   live object that nobody else changes meanwhile; but for requests, whose handles may point nowhere. Buffers and arrays are raw pointers, checked in [`pointer`].
//! - Handles are boxes given away by `Box::into_raw`, but for those of sends that were over at once ([`over`]), which point nowhere. What frees one takes the handle's address and clears it.
//! - Integers that name something (types, operators, ranks) are checked, never transmuted.
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of every function is the header's, stated there once"
)]

mod blocking;
mod blocks;
mod border;
mod callback;
mod collectives;
mod comm;
mod datatype;
mod form;
mod heap;
mod operator;
mod over;
mod persistent;
mod point_to_point;
mod pointer;
mod prepared;
mod reductions;
mod request;
mod status;
mod strided;
mod threads;
mod world;
