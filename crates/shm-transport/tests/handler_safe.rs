//! The whole conformance suite with every handler-safe call made inside a handler's scope, under an allocator that
//! aborts when it is entered there.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::sync::Arc;

use tocsin_shm_transport::{Life, Segment, ShmTransport};
use tocsin_sync::thread::{HandlerScope, register};
use tocsin_sync::tripwire::Tripwire;
use tocsin_transport::{
    Arrival, Awaits, Capabilities, Class, Error, Header, PeerState, Recv, SendOutcome, Transport, Urgency,
    conformance, loopback,
};

#[global_allocator]
static ALLOCATOR: Tripwire<std::alloc::System> = Tripwire::new(std::alloc::System);

/// Enters a handler's scope around every call that a handler may make.
struct Inside<T>(T);

impl<T> Inside<T> {
    fn call<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        let _handler = HandlerScope::enter();
        f(&mut self.0)
    }

    fn look<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        let _handler = HandlerScope::enter();
        f(&self.0)
    }
}

// SAFETY: passes everything on to a transport.
unsafe impl<T: Transport> Transport for Inside<T> {
    fn rank(&self) -> u32 {
        self.look(T::rank)
    }
    fn size(&self) -> u32 {
        self.look(T::size)
    }
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }
    fn connect(&mut self, peer: u32) -> Result<(), Error> {
        self.0.connect(peer)
    }
    fn connect_bulk(&mut self, peer: u32) -> Result<(), Error> {
        self.0.connect_bulk(peer)
    }
    fn is_connected(&self, peer: u32) -> bool {
        self.look(|t| t.is_connected(peer))
    }
    fn begin_pass(&mut self) {
        self.call(T::begin_pass);
    }
    fn connected(&self) -> &[u32] {
        let _handler = HandlerScope::enter();
        self.0.connected()
    }
    unsafe fn try_send(
        &mut self,
        peer: u32,
        class: Class,
        urgency: Urgency,
        header: &Header,
        payload: *const u8,
        len: usize,
    ) -> SendOutcome {
        // SAFETY: the caller's promise, passed on.
        self.call(|t| unsafe { t.try_send(peer, class, urgency, header, payload, len) })
    }
    unsafe fn try_send_piece(
        &mut self,
        peer: u32,
        header: &Header,
        payload: *const u8,
        len: usize,
        of: u64,
        ahead: bool,
    ) -> SendOutcome {
        // SAFETY: the caller's promise, passed on.
        self.call(|t| unsafe { t.try_send_piece(peer, header, payload, len, of, ahead) })
    }
    unsafe fn try_send_long_piece(
        &mut self,
        peer: u32,
        header: &Header,
        payload: *const u8,
        len: usize,
        of: u64,
    ) -> bool {
        // SAFETY: the caller's promise, passed on.
        self.call(|t| unsafe { t.try_send_long_piece(peer, header, payload, len, of) })
    }
    fn longest_whole(&self) -> usize {
        self.look(T::longest_whole)
    }
    unsafe fn try_send_whole(&mut self, peer: u32, header: &Header, payload: *const u8, len: usize) -> bool {
        // SAFETY: the caller's promise, passed on.
        self.call(|t| unsafe { t.try_send_whole(peer, header, payload, len) })
    }
    fn peek(&mut self, peer: u32, class: Class) -> Recv {
        self.call(|t| t.peek(peer, class))
    }
    fn arrival(&self, peer: u32, class: Class) -> Arrival {
        self.look(|t| t.arrival(peer, class))
    }
    fn coming(&self, peer: u32) -> u8 {
        self.look(|t| t.coming(peer))
    }
    fn peek_coming(&mut self, peer: u32, class: Class) -> Recv {
        self.call(|t| t.peek_coming(peer, class))
    }
    fn come(&self, peer: u32, class: Class) -> u64 {
        self.look(|t| t.come(peer, class))
    }
    fn await_coming(&mut self, peer: u32, awaits: Awaits) {
        self.call(|t| t.await_coming(peer, awaits));
    }
    fn prepare_long(&mut self, peer: u32, of: usize) {
        self.0.prepare_long(peer, of);
    }
    fn rouse(&mut self, peer: u32) {
        self.call(|t| t.rouse(peer));
    }
    fn is_awaited_soon(&self, peer: u32) -> bool {
        self.look(|t| t.is_awaited_soon(peer))
    }
    fn is_awaited_by(&self, peer: u32) -> bool {
        self.look(|t| t.is_awaited_by(peer))
    }
    fn consume(&mut self, peer: u32, class: Class) {
        self.call(|t| t.consume(peer, class));
    }
    fn work_left(&self) -> bool {
        self.look(T::work_left)
    }
    fn flush(&mut self) {
        self.call(T::flush);
    }
    fn peer_state(&self, peer: u32) -> PeerState {
        self.look(|t| t.peer_state(peer))
    }
    fn epoch(&self) -> u64 {
        self.look(T::epoch)
    }
    fn aborted(&self) -> Option<i32> {
        self.look(T::aborted)
    }
}

#[test]
fn shared_memory_never_allocates_in_a_handler() {
    let _registered = register(std::ptr::null()).unwrap();
    conformance::all(&mut |ranks| {
        let segment = Arc::new(Segment::create(ranks).unwrap());
        (0..ranks)
            .map(|rank| {
                segment.set_life(rank, Life::Alive);
                Inside(ShmTransport::new(segment.clone(), rank).unwrap())
            })
            .collect()
    });
}

#[test]
fn loopback_never_allocates_in_a_handler() {
    let _registered = register(std::ptr::null()).unwrap();
    conformance::all(&mut |ranks| loopback::fabric(ranks).into_iter().map(Inside).collect());
}

/// Says to `connecting_in_a_handler` that it runs in the process that must abort.
const MUST_ABORT: &str = "TOCSIN_TEST_MUST_ABORT";

/// No test of its own: what `the_tripwire_notices` runs in another process.
#[test]
#[ignore = "in a process of its own: the_tripwire_notices runs it"]
fn connecting_in_a_handler() {
    if std::env::var_os(MUST_ABORT).is_none() {
        return;
    }
    let _registered = register(std::ptr::null()).unwrap();
    let mut ends = loopback::fabric(2);
    let _handler = HandlerScope::enter();
    ends[0].connect(1).unwrap();
}

#[test]
fn the_tripwire_notices() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "connecting_in_a_handler", "--ignored", "--nocapture"])
        .env(MUST_ABORT, "1")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tripwire: allocation inside a handler"), "{said}");
}
