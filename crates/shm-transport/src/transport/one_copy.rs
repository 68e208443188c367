//! Large messages in one copy: which way there is to a peer's buffer, and the copy.

use tocsin_sync::atomic::Ordering;
use tocsin_transport::Reach;

use super::ShmTransport;
use super::attached::Attached;
use super::copy::Kernel;

impl ShmTransport {
    /// See [`Transport::reach`](tocsin_transport::Transport::reach).
    #[inline]
    pub(super) fn way_to(&mut self, peer: u32) -> Reach {
        let local = self.segment.is_local(peer);
        let (Some(state), Some(block)) = (self.peers.get_mut(peer as usize), self.segment.block(peer)) else {
            return Reach::None;
        };
        if self.strategies.direct && local {
            Reach::Direct
        } else if let Some(attached) = &mut self.attached
            && attached.is_open(peer, &block.state, local)
        {
            Reach::Attached
        } else if self.strategies.cma && state.kernel.is_open(&block.state) {
            Reach::Kernel
        } else if let Some(regions) = &mut self.regions
            && regions.is_open(peer, &block.state, local)
        {
            Reach::Region
        } else {
            Reach::None
        }
    }

    /// See [`Transport::reach_at`](tocsin_transport::Transport::reach_at).
    #[inline]
    pub(super) fn way_to_buffer(&mut self, peer: u32, address: u64, len: u64) -> Reach {
        if self.strategies.direct && !self.segment.is_local(peer) && self.shared(peer, address, len).is_some()
        {
            return Reach::Shared;
        }
        self.way_to(peer)
    }

    /// Where this process has a buffer of a peer's, if that lies in the peer's part of the heap.
    fn shared(&self, peer: u32, address: u64, len: u64) -> Option<*mut u8> {
        // SYNC POINT: Relaxed: an address that the peer has said before it announced a buffer, by a packet that is published after it.
        let base = self.segment.block(peer)?.state.heap.load(Ordering::Relaxed);
        self.segment.in_heap(peer, base, address, len)
    }

    /// See [`Transport::is_shared_with`](tocsin_transport::Transport::is_shared_with).
    #[inline]
    pub(super) fn finds_in_heap(&self, peer: u32, address: u64, len: u64) -> bool {
        let Some(block) = self.segment.block(peer) else { return false };
        // SYNC POINT: Relaxed: a peer that has mapped the heap never does without again, and nothing of what it has written is read by
        // virtue of this.
        // Who has not said where its own is has nothing there that a peer finds.
        self.heap_said
            && block.state.heap.load(Ordering::Relaxed) != 0
            && !self.segment.is_local(peer)
            && self.segment.is_in_arena(self.rank, address, len)
    }

    /// Says where this process has mapped the heap, once it is in use. User threads only.
    #[inline]
    pub(super) fn say_where_the_heap_is(&mut self) {
        if self.heap_said || !self.strategies.direct || !self.segment.is_heap_used() {
            return;
        }
        if let (Some(base), Some(block)) = (self.segment.try_map_heap(), self.segment.block(self.rank)) {
            self.heap_said = true;
            // SYNC POINT: Relaxed: it is an address, and says nothing of what lies there.
            block.state.heap.store(base.as_ptr() as u64, Ordering::Relaxed);
        }
    }

    /// See [`Transport::pull`](tocsin_transport::Transport::pull).
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn pull_by(
        &mut self,
        peer: u32,
        reach: Reach,
        from: u64,
        to: *mut u8,
        len: usize,
    ) -> bool {
        // SAFETY: the caller vouches for `to`; what is at the other end is found out by trying.
        let mapped = |attached: &mut Attached| unsafe { attached.read(peer, from, to, len) };
        // SAFETY: as above; the kernel finds it out.
        let by_kernel = |kernel: &Kernel| unsafe { kernel.read(from, to, len) };
        match reach {
            // By key, and not by address.
            Reach::None | Reach::Region => false,
            Reach::Shared => match self.shared(peer, from, len as u64) {
                // SAFETY: the caller vouches for `to`, which is not in the peer's arena; there all of `from` lies, mapped as long as the segment. What the
                // peer writes there meanwhile, if it does not keep to the protocol, is copied as it is.
                Some(from) => unsafe {
                    core::ptr::copy_nonoverlapping(from, to, len);
                    true
                },
                None => false,
            },
            // SAFETY: the caller vouches for both ends.
            Reach::Direct => unsafe {
                core::ptr::copy_nonoverlapping(from as *const u8, to, len);
                true
            },
            Reach::Attached => self.attached.as_mut().is_some_and(mapped) || self.by_kernel(peer, by_kernel),
            Reach::Kernel => self.by_kernel(peer, by_kernel),
        }
    }

    /// Where the kernel may copy.
    fn by_kernel(&mut self, peer: u32, copy: impl FnOnce(&Kernel) -> bool) -> bool {
        let (Some(state), Some(block)) = (self.peers.get_mut(peer as usize), self.segment.block(peer)) else {
            return false;
        };
        self.strategies.cma && state.kernel.is_open(&block.state) && copy(&state.kernel)
    }

    /// See [`Transport::push`](tocsin_transport::Transport::push).
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn push_by(
        &mut self,
        peer: u32,
        reach: Reach,
        from: *const u8,
        to: u64,
        len: usize,
    ) -> bool {
        // SAFETY: the caller vouches for `from`; what is at the other end is found out by trying.
        let mapped = |attached: &mut Attached| unsafe { attached.write(peer, from, to, len) };
        // SAFETY: as above; the kernel finds it out.
        let by_kernel = |kernel: &Kernel| unsafe { kernel.write(from, to, len) };
        match reach {
            // By key, and not by address.
            Reach::None | Reach::Region => false,
            Reach::Shared => match self.shared(peer, to, len as u64) {
                // SAFETY: as in `pull_by`.
                Some(to) => unsafe {
                    core::ptr::copy_nonoverlapping(from, to, len);
                    true
                },
                None => false,
            },
            // SAFETY: the caller vouches for both ends.
            Reach::Direct => unsafe {
                core::ptr::copy_nonoverlapping(from, to as *mut u8, len);
                true
            },
            Reach::Attached => self.attached.as_mut().is_some_and(mapped) || self.by_kernel(peer, by_kernel),
            Reach::Kernel => self.by_kernel(peer, by_kernel),
        }
    }
}
