//! A world of ranks inside one test, driven by hand.
#![allow(dead_code)] // each test binary uses its part
#![allow(clippy::unwrap_used)] // clippy exempts test functions only

use tocsin_p2p::{
    Budget, Class, Code, Config, ConstBuf, Id, Layout, Mode, MutBuf, Outcome, P2p, Pass, RecvArgs, SendArgs,
};
use tocsin_progress::Context;
use tocsin_sync::thread::{self, HandlerScope, Registration};
use tocsin_sync::tripwire::Tripwire;
use tocsin_transport::loopback::{
    Limits, Loopback, fabric_with, fabric_with_pages, fabric_with_shared_buffers, fabric_with_single_copies,
};
use tocsin_transport::{Reach, Transport};

/// Every pass of these tests runs as in a handler: who allocates there aborts the test.
#[global_allocator]
static ALLOCATOR: Tripwire<std::alloc::System> = Tripwire::new(std::alloc::System);

/// Whether large messages travel by single copies: in the programs that run these tests a second time for that.
pub fn single_copies() -> bool {
    module_path!().starts_with("single_copies") || pipelines() || shared_buffers() || regions()
}

/// Whether they go in pieces where both ranks wait, and by single copies where not: in those that run them a third time. All say that they
/// wait, and each runs its passes now as one that does, now as one that does not.
pub fn pipelines() -> bool {
    module_path!().starts_with("pipelined")
}

/// Whether they travel by single copies from and to the buffers that ranks share, about every second one, and else through lanes: in those that
/// run them a fourth time. All say that they wait.
pub fn shared_buffers() -> bool {
    module_path!().starts_with("shared")
}

/// Whether they travel by pages through a pipe: in those that run them a fifth time.
pub fn pages() -> bool {
    module_path!().starts_with("paged")
}

/// Whether they travel by single copies from and to buffers that are exposed first: in those that run them a sixth time.
pub fn regions() -> bool {
    module_path!().starts_with("regions")
}

/// Whether all say that they wait.
fn all_wait() -> bool {
    pipelines() || shared_buffers()
}

pub const ANY: (Option<u32>, Option<i32>) = (None, None);

/// Tight lanes, so that full ones are common.
pub const TIGHT: Limits = Limits { packets: [3, 2, 2, 1], max_payload: [300, 300, 16, 128] };

pub fn tight_config() -> Config {
    Config {
        eager_max: 64,
        coll_eager_max: 64,
        waiting_eager_max: 0,
        single_copy_from: 0,
        unexpected_messages: 1,
        unexpected_blocks: 1,
        unexpected_limit: 8 << 20,
        pipelines: false,
        compares: false,
        pieces_from: 0,
        publish: true,
    }
}

pub struct World {
    pub ranks: Vec<P2p<Loopback>>,
    passes: u64,
    _registration: Option<Registration>,
}

/// A receive buffer with guard bytes around what may be written.
pub struct Target {
    memory: Vec<u8>,
    len: usize,
}

const GUARD: usize = 16;

impl Target {
    pub fn new(len: usize) -> Target {
        Target { memory: vec![0xee; len + 2 * GUARD], len }
    }

    pub fn buf(&mut self) -> MutBuf {
        MutBuf::contiguous(self.memory[GUARD..].as_mut_ptr(), self.len)
    }

    pub fn bytes(&self) -> &[u8] {
        assert!(self.memory[..GUARD].iter().all(|b| *b == 0xee), "written before the buffer");
        assert!(self.memory[GUARD + self.len..].iter().all(|b| *b == 0xee), "written after the buffer");
        &self.memory[GUARD..GUARD + self.len]
    }
}

pub fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 56) as u8
        })
        .collect()
}

impl World {
    pub fn new(n: u32) -> World {
        World::with(n, Limits::default(), Config { publish: true, ..Config::default() })
    }

    pub fn tight(n: u32) -> World {
        World::with(n, TIGHT, tight_config())
    }

    pub fn with(n: u32, limits: Limits, config: Config) -> World {
        let config = Config { pipelines: pipelines(), ..config };
        let mut ends = match (single_copies(), pipelines()) {
            _ if pages() => fabric_with_pages(n, limits, 2),
            _ if regions() => fabric_with_single_copies(n, limits, Reach::Region),
            _ if shared_buffers() => fabric_with_shared_buffers(n, limits, Reach::None),
            (true, true) => fabric_with_single_copies(n, limits, Reach::Kernel),
            (true, false) => fabric_with_single_copies(n, limits, Reach::Direct),
            (false, _) => fabric_with(n, limits),
        };
        for end in ends.iter_mut().filter(|_| all_wait()) {
            (0..n).for_each(|peer| end.set_waiting(peer, true));
            (0..n).for_each(|peer| end.set_committed(peer, true));
        }
        let ranks = ends.into_iter().map(|end| P2p::new(end, config).unwrap()).collect();
        World { ranks, passes: 0, _registration: thread::register(std::ptr::null()).ok() }
    }

    pub fn isend(&mut self, from: u32, to: u32, tag: i32, data: &[u8]) -> Id {
        self.isend_with(from, to, tag, data, Mode::Standard, Class::Eager)
    }

    pub fn isend_with(&mut self, from: u32, to: u32, tag: i32, data: &[u8], mode: Mode, class: Class) -> Id {
        let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
        let args = SendArgs { context: 0, dest: to, tag, buf, mode, class, cookie: 0 };
        // SAFETY: tests keep the data alive until the world is gone or the send complete.
        unsafe { self.ranks[from as usize].isend(args) }.unwrap()
    }

    pub fn irecv(&mut self, at: u32, source: Option<u32>, tag: Option<i32>, target: &mut Target) -> Id {
        self.try_irecv(at, source, tag, target).unwrap()
    }

    /// As who leaves next posts a long one; and whether something lay in the lane.
    pub fn irecv_long(
        &mut self,
        at: u32,
        source: Option<u32>,
        tag: Option<i32>,
        target: &mut Target,
    ) -> (Id, bool) {
        let args = RecvArgs { context: 0, source, tag, buf: target.buf(), class: Class::Eager, cookie: 0 };
        // SAFETY: as in `isend_with`.
        unsafe { self.ranks[at as usize].irecv_long(args) }.unwrap()
    }

    pub fn try_irecv(
        &mut self,
        at: u32,
        source: Option<u32>,
        tag: Option<i32>,
        target: &mut Target,
    ) -> Result<Id, tocsin_p2p::Error> {
        let args = RecvArgs { context: 0, source, tag, buf: target.buf(), class: Class::Eager, cookie: 0 };
        // SAFETY: as in `isend_with`.
        unsafe { self.ranks[at as usize].irecv(args) }
    }

    /// One pass as in a handler; with [`pipelines`] now and then as by a thread that waits.
    pub fn pass(&mut self, rank: u32) -> Pass {
        self.passes = self.passes.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let waits = all_wait() && self.passes >> 62 != 0;
        let budget = |context| Budget::limited(context, 32, 64 << 10);
        let mut budget = if waits { budget(Context::User).waiting() } else { budget(Context::Handler) };
        self.pass_with(rank, &mut budget)
    }

    pub fn pass_with(&mut self, rank: u32, budget: &mut Budget) -> Pass {
        let _scope = HandlerScope::enter();
        assert!(thread::in_handler());
        let p2p = &mut self.ranks[rank as usize];
        let pass = p2p.progress(budget);
        p2p.transport_mut().flush();
        pass
    }

    /// Passes over all ranks until nothing moves; user threads add room for unexpected messages.
    pub fn settle(&mut self) {
        self.settle_with(true);
    }

    pub fn settle_with(&mut self, grow: bool) {
        for _ in 0..10_000_000u64 {
            let mut moved = false;
            for rank in 0..self.ranks.len() as u32 {
                moved |= self.pass(rank) != Pass::Idle;
                if grow {
                    moved |= self.ranks[rank as usize].grow_unexpected() == tocsin_p2p::Grown::Room;
                }
            }
            // Handlers of both leave a copy to the other, who says that it waits: so does each in the end.
            for rank in 0..if moved || !all_wait() { 0 } else { self.ranks.len() as u32 } {
                let mut budget = Budget::limited(Context::User, 32, 64 << 10).waiting();
                moved |= self.pass_with(rank, &mut budget) != Pass::Idle;
            }
            if !moved {
                return;
            }
        }
        panic!("the world never settles");
    }

    pub fn outcome(&self, rank: u32, id: Id) -> Option<Outcome> {
        let completion = self.ranks[rank as usize].completion(id).unwrap();
        // SAFETY: the slab lives as long as the rank.
        unsafe { completion.as_ref() }.outcome()
    }

    pub fn code(&self, rank: u32, id: Id) -> Option<Code> {
        self.outcome(rank, id).map(|o| o.code)
    }

    pub fn set_state(&self, rank: u32, state: tocsin_transport::PeerState) {
        self.ranks[0].transport().set_state(rank, state);
    }
}

/// A strided layout over `data`'s bytes, spread out by a gap of 3 after every `block`.
pub fn spread(data: &[u8], block: usize) -> (Vec<u8>, Layout) {
    let count = data.len().div_ceil(block);
    let mut memory = vec![0xdd; count * (block + 3)];
    for (i, byte) in data.iter().enumerate() {
        memory[i / block * (block + 3) + i % block] = *byte;
    }
    (memory, Layout::Strided { block, stride: block as isize + 3, count })
}
