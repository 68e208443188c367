//! Tests that cross crates: what they share.
//!
//! A *scenario* is what one rank does; [`run`] runs it on every rank of a world, as threads of the test process or as
//! processes of the program `tocsin-rank`. Every program here that names this library has the tripwire allocator: an allocation or a free inside a
//! handler aborts it.

pub mod example;
pub mod forbid;
pub mod in_order;
pub mod memory;
pub mod products;
pub mod random;
pub mod run;
pub mod scenarios;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub mod stepper;
pub mod suite;
pub mod ways;
pub mod worlds;

/// What the README shows runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

use std::alloc::System;

use tocsin_sync::tripwire::Tripwire;

#[global_allocator]
static ALLOCATOR: Tripwire<System> = Tripwire::new(System);
