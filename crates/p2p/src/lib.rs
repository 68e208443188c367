//! Point to point: tag matching, requests, eager and rendezvous.
#![warn(missing_debug_implementations)]

mod args;
mod error;
mod layout;

pub use args::{Config, Counters, MessageId, Mode, RecvArgs, SendArgs, Status};
pub use error::Error;
pub use layout::{ConstBuf, Layout, MutBuf};
pub use tocsin_progress::{Budget, Code, Completion, Id, Outcome, Pass};
pub use tocsin_transport::Class;

use core::ptr::NonNull;
use tocsin_transport::Transport;

/// Point-to-point state of one rank.
#[derive(Debug)]
pub struct P2p<T> {
    transport: T,
}

#[allow(missing_docs, unused_variables, clippy::missing_safety_doc)]
impl<T: Transport> P2p<T> {
    pub fn new(transport: T, config: Config) -> Result<Self, Error> { Ok(P2p { transport }) }
    pub fn transport(&self) -> &T { &self.transport }
    pub fn transport_mut(&mut self) -> &mut T { &mut self.transport }
    pub unsafe fn isend(&mut self, args: SendArgs) -> Result<Id, Error> { Err(Error::NoSuchMessage) }
    pub unsafe fn irecv(&mut self, args: RecvArgs) -> Result<Id, Error> { Err(Error::NoSuchMessage) }
    pub fn reserve_request(&mut self) -> Result<Id, Error> { Err(Error::NoSuchMessage) }
    pub fn prepare_peer(&mut self, peer: u32, max_bytes: usize) -> Result<(), Error> { Err(Error::NoSuchMessage) }
    pub fn iprobe(&mut self, context: u32, source: Option<u32>, tag: Option<i32>) -> Result<Option<Status>, Error> { Ok(None) }
    pub fn improbe(&mut self, context: u32, source: Option<u32>, tag: Option<i32>) -> Result<Option<(MessageId, Status)>, Error> { Ok(None) }
    pub unsafe fn mrecv(&mut self, message: MessageId, buf: MutBuf, cookie: u64) -> Result<Id, Error> { Err(Error::NoSuchMessage) }
    pub fn cancel(&mut self, id: Id) -> bool { false }
    pub fn detach(&mut self, id: Id) {}
    pub fn release(&mut self, id: Id) {}
    pub fn grow_unexpected(&mut self) -> bool { false }
    pub fn revoke(&mut self, context: u32, members: &[u32]) {}
    pub fn set_members(&mut self, context: u32, members: &[u32]) -> Result<(), Error> { Ok(()) }
    pub fn forget_context(&mut self, context: u32) {}
    pub fn set_wants(&mut self, id: Id) {}
    pub unsafe fn start_send(&mut self, id: Id, args: SendArgs) {}
    pub unsafe fn start_recv(&mut self, id: Id, args: RecvArgs) {}
    pub fn abandon(&mut self, id: Id) {}
    pub fn progress(&mut self, budget: &mut Budget) -> Pass { Pass::Idle }
    pub fn next_completed(&mut self) -> Option<(u64, Outcome)> { None }
    pub fn wants_plain(&self) -> bool { false }
    pub fn work_left(&self) -> bool { false }
    pub fn outstanding_sends(&self) -> usize { 0 }
    pub fn failed_epoch(&self) -> u64 { 0 }
    pub fn failed_peer(&self, members: &[u32]) -> Option<(u32, Code)> { None }
    pub fn is_revoked(&self, context: u32) -> bool { false }
    pub fn counters(&self) -> Counters { Counters::default() }
    pub fn completion(&self, id: Id) -> Option<NonNull<Completion>> { None }
}
