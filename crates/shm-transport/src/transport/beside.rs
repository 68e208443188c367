//! Who computes on this rank's core, and how many share it.

use super::ShmTransport;
use tocsin_doorbell::core_number;

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

/// Who is on a core.
#[derive(Clone, Copy, Default)]
struct Share {
    core: u32,
    /// Ranks that wait, or are active, there.
    active: u32,
    /// Somebody computes there.
    computes: bool,
}

impl ShmTransport {
    /// See [`Transport::roomier_core`](tocsin_transport::Transport::roomier_core). None in worlds that are larger than one look.
    pub(super) fn core_with_fewer(&self, core: u32, now: u64) -> Option<u32> {
        let ranks = self.segment.ranks();
        if ranks > LOOKED_AT {
            return None;
        }
        let mine = core_number(core);
        let (mut shares, mut known) = ([Share::default(); LOOKED_AT as usize], 0);
        for rank in 0..ranks {
            let descriptor = &self.segment.block(rank)?.descriptor;
            let computes = if rank == self.rank { None } else { descriptor.computes_on(|| now) };
            let is = if rank == self.rank { Some(mine) } else { descriptor.is_where(now) };
            // Who never waits does not look whether to go.
            if rank < self.rank && computes.is_none() && descriptor.waits_where(now) == Some(mine) {
                return None;
            }
            let Some(at) = computes.or(is) else { continue };
            let listed = shares.iter().take(known).position(|share| share.core == at);
            let share = shares.get_mut(listed.unwrap_or(known))?;
            share.core = at;
            share.active = share.active.wrapping_add(u32::from(computes.is_none()));
            share.computes |= computes.is_some();
            known = known.wrapping_add(usize::from(listed.is_none()));
        }
        let known = shares.get(..known)?;
        let here = known.iter().find(|share| share.core == mine)?.active;
        let others = known.iter().filter(|share| share.core != mine && !share.computes);
        let fewest = others.min_by_key(|share| share.active)?;
        (here >= fewest.active.saturating_add(2)).then_some(fewest.core)
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

    /// Ranks of a world each of which has said just now that it waits on such a core, if on any.
    fn on_cores<R>(cores: &[Option<u32>], with: impl FnOnce(&[ShmTransport], u64) -> R) -> R {
        let now = now_ns();
        let ends = world(cores.len() as u32);
        for (end, core) in ends.iter().zip(cores) {
            core.iter().for_each(|core| end.own.waits_on(*core, now));
        }
        with(&ends, now)
    }

    #[test]
    fn who_shares_its_core_with_two_more_than_are_elsewhere_finds_where() {
        let roomier = |cores: &[Option<u32>], who: usize, core| {
            on_cores(cores, |ends, now| ends[who].roomier_core(core, now))
        };
        let [a, b, c] = [Some(4), Some(9), Some(2)];
        assert_eq!(roomier(&[a, a, a, b], 0, 4), b);
        assert_eq!([1, 2].map(|who| roomier(&[a, a, a, b], who, 4)), [None, None], "the first goes");
        assert_eq!(roomier(&[a, a, a, b], 3, 9), None);
        assert_eq!(roomier(&[a, a, b, b], 0, 4), None);
        assert_eq!(roomier(&[a, a, b], 0, 4), None, "one less is as good");
        assert_eq!(roomier(&[b, a, a, a, b, c], 1, 4), c, "the least");
        assert_eq!(roomier(&[b, a, a, a, b, b], 1, 4), None);
        assert_eq!(roomier(&[a, a, a, None], 0, 4), None, "nothing is known of others");
        // It has been moved, and says so when it waits.
        assert_eq!(roomier(&[b, a, a, b], 0, 4), b);
        let many: Vec<_> = (0..65).map(|rank| if rank < 60 { a } else { b }).collect();
        assert_eq!(roomier(&many[..64], 0, 4), b);
        assert_eq!(roomier(&many, 0, 4), None, "too many to look at");
    }

    #[test]
    fn who_does_not_wait_shares_no_core_and_who_computes_is_left_alone() {
        let [a, b] = [Some(4), Some(9)];
        on_cores(&[a, a, a, b], |ends, now| {
            let roomier = |who: usize| ends[who].roomier_core(4, now);
            let later = now + 50_000_000;
            assert_eq!((roomier(0), ends[0].roomier_core(4, later)), (b, None), "that was long ago");
            // The others go on, and the last does not.
            (0..3).for_each(|rank: usize| ends[rank].own.waits_on(4, later));
            assert_eq!(ends[0].roomier_core(4, later), None, "nobody is known to wait elsewhere");
            ends[3].own.waits_on(9, later);
            assert_eq!(ends[0].roomier_core(4, later), b);
            assert_eq!(ends[1].roomier_core(4, later), None, "the first goes");
            assert_eq!([0, 3].map(|peer| ends[1].is_where(peer, later)), [a, b]);
            // The first posts, and never waits.
            let later = later + 50_000_000;
            ends[0].own.is_on(4, later);
            (1..4).for_each(|rank: usize| ends[rank].own.waits_on(if rank < 3 { 4 } else { 9 }, later));
            assert_eq!(ends[1].is_where(0, later), a);
            assert_eq!(ends[1].roomier_core(4, later), b, "the first that waits goes");
            assert_eq!(ends[2].roomier_core(4, later), None);
        });
        on_cores(&[a, a, a, b], |ends, now| {
            let roomier = |who: usize| ends[who].roomier_core(4, now);
            // Who computes has a thread.
            let with_thread = |rank: u32, then: &dyn Fn()| {
                let (descriptor, config) =
                    (ends[0].segment().descriptor(rank), Config::new(BackendKind::Signal));
                // SAFETY: the descriptor's segment outlives the receiver, and the function needs no context.
                let installed =
                    unsafe { Receiver::install(descriptor, &config, looks_at_nothing, std::ptr::null()) };
                let _receiver = installed.unwrap();
                then();
            };
            with_thread(3, &|| {
                ends[3].own.computes_from(now - 2 * COMPUTES_NS, 9);
                assert_eq!(roomier(0), None, "it would be in its way");
                ends[3].own.has_nothing_under_way();
                assert_eq!(roomier(0), b);
            });
            with_thread(0, &|| {
                ends[0].own.computes_from(now - 2 * COMPUTES_NS, 4);
                assert_eq!([1, 2].map(roomier), [None, None], "two that wait, and one elsewhere");
            });
        });
    }
}
