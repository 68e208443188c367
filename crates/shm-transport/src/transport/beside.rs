//! Who computes on this rank's core.

use super::ShmTransport;

/// Ranks that are looked at in one call: each has a page of its own, so that a look may miss all caches.
const LOOKED_AT: u32 = 64;

impl ShmTransport {
    /// See [`Transport::computes_beside`](tocsin_transport::Transport::computes_beside). In larger worlds the next call goes on where this one ends.
    pub(super) fn is_beside_computing(&mut self, core: u32, now: u64) -> bool {
        let ranks = self.segment.ranks();
        for _ in 0..ranks.min(LOOKED_AT) {
            let rank = self.next_beside;
            let computes = || self.segment.block(rank)?.descriptor.computes_on(|| now);
            if rank != self.rank && computes() == Some(core) {
                // The next call finds it at once.
                return true;
            }
            self.next_beside = if rank.wrapping_add(1) < ranks { rank.wrapping_add(1) } else { 0 };
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::world;
    use super::*;
    use tocsin_doorbell::{BackendKind, COMPUTES_NS, Cause, Config, Receiver};
    use tocsin_sync::clock::now_ns;
    use tocsin_transport::Transport;

    unsafe fn looks_at_nothing(_context: *const (), _cause: Cause) {}

    #[test]
    fn who_computes_on_a_core_is_found() {
        for (ranks, other) in [(2, 1), (3, 0), (3, 2), (200, 199)] {
            let mut ends = world(ranks);
            let descriptor = ends[0].segment().descriptor(other);
            let config = Config::new(BackendKind::Signal);
            // SAFETY: the descriptor's segment outlives the receiver, and the function needs no context.
            let _receiver =
                unsafe { Receiver::install(descriptor, &config, looks_at_nothing, std::ptr::null()) }
                    .unwrap();
            let own = ends[other as usize].own;
            let looker = usize::from(other == 0);
            // As many calls as the world has parts.
            let mut finds = |who: usize, core| {
                (0..ranks.div_ceil(LOOKED_AT)).any(|_| ends[who].computes_beside(core, now_ns()))
            };
            assert!(!finds(looker, 7), "{ranks}");
            own.computes_from(now_ns() - 2 * COMPUTES_NS, 7);
            assert!(finds(looker, 7) && finds(looker, 7) && !finds(looker, 6), "{ranks}");
            assert!(!finds(other as usize, 7), "{ranks}: itself");
            own.begin_poll();
            assert!(!finds(looker, 7), "{ranks}: it looks by itself");
            own.end_poll();
            assert!(finds(looker, 7), "{ranks}");
            own.has_nothing_under_way();
            assert!(!finds(looker, 7), "{ranks}: it has nothing under way");
        }
    }
}
