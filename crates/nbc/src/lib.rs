//! Non-blocking collectives: schedules compiled from a table of algorithms, run step by step.
//!
//! # For users
//!
//! A call is described by [`Arguments`](table::Arguments); [`table::compile`] translates it, on the user's thread, into a
//! [`Schedule`]: a graph of sends, receives, copies and reductions. [`Nbc::post`] reserves what the steps need and starts
//! those that wait for nothing. From then on [`Nbc::progress`] runs whatever an arrival makes ready, in whichever context
//! it is called: a handler, a user call, a progress thread. Nothing but buffer addresses is needed from the user after
//! the post, so that a rank that has posted and computes is progressed by its handler alone.
//!
//! A group may have a [board](Nbc::open_board): small collectives are then done there, without a schedule
//! ([`table::call_on_board`], [`Nbc::post_on_board`]) or with one that is nothing but a name for it, as persistent ones have.
//! Before the token is released [`Nbc::announce`] has those rung who wait for what was posted. A board whose communicator is gone is
//! [closed](Nbc::close_board), and when all members have left it, its memory may be [another's](Nbc::is_board_over).
//!
//! A group may have [`Choices`]: algorithms that were measured to be the quickest, which are taken before those that
//! [`table::choose_for`] would take by itself, wherever they can serve the call.
//!
//! A group may know the [`Hierarchy`] of its members: in which parts of the machine they are, for algorithms whose trees follow that.
//!
//! # What a path may not do
//!
//! | path | allocates or frees | runs user operators |
//! |---|---|---|
//! | [`table::compile`], [`Nbc::prepare`], [`Nbc::post`], [`Nbc::post_on_board`], [`Nbc::open_board`], [`Nbc::release`], [`Nbc::detach`], [`Nbc::collect`] | yes: user threads only | no ([`Nbc::post`]: yes) |
//! | [`Nbc::start`], [`Nbc::fail_group`], [`Nbc::completion`], [`Nbc::announce`], [`Nbc::close_board`], [`Nbc::is_board_over`] | no | no |
//! | [`Nbc::progress`] in a handler | no | only those declared handler-safe |
//! | [`Nbc::progress`] elsewhere | no | yes |
#![warn(missing_debug_implementations)]

mod algorithms;
mod arguments;
pub mod board;
pub mod builder;
mod choices;
mod datatype;
mod error;
mod executor;
mod group;
mod hierarchy;
mod kernels;
pub mod messages;
mod op;
mod operation;
pub mod order;
mod schedule;
mod split;
pub mod table;
pub mod trace;
mod view;

pub use choices::{Choices, MOST as MOST_CHOICES};
pub use datatype::{DataType, ValueIndex32, ValueIndex64};
pub use error::Error;
pub use executor::{Copied, Nbc, Posted};
pub use group::Group;
pub use hierarchy::Hierarchy;
pub use op::{Op, UserFunction, UserOp};
pub use schedule::Schedule;
pub use view::{Action, Outline, StepView};
