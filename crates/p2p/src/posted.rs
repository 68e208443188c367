//! Receives that wait for their message.

use tocsin_progress::{Completion, Id};

use crate::list::{Link, Linked, List};
use crate::pattern::{Bins, KINDS, Pattern};
use crate::request::{ANY_TAG, Member, Request, Requests};

/// Bins per kind at the start; user threads double them as receives are posted.
const BINS: usize = 256;

/// How far [`Posted::take_first`] looks into a bin: there are two receives in it on average, at most.
const NEAR: u32 = 8;

/// The receives posted in one class. The earliest posted that matches wins, by sequence number; inside a bin the order
/// is that of posting, so only the first match of each kind is looked at.
#[derive(Debug)]
pub(crate) struct Posted {
    bins: Bins,
    counts: [usize; KINDS],
    /// All of them together: a sum of what was just counted waits for that.
    all: usize,
}

impl Request {
    /// What a posted receive asks for.
    #[inline]
    pub(crate) fn pattern(&self) -> Pattern {
        // A receive of any tag has 0 there.
        Pattern::plain(self.context, self.peer, self.tag, self.has(ANY_TAG))
    }

    /// Makes it a receive that asks for this.
    #[inline]
    pub(crate) fn set_pattern(&mut self, asks: &Pattern) {
        self.context = asks.context;
        (self.peer, self.tag) = asks.numbers();
        self.flags = if asks.has_any_tag() { ANY_TAG } else { 0 };
    }
}

impl Posted {
    pub(crate) fn new() -> Option<Posted> {
        Some(Posted { bins: Bins::new(BINS)?, counts: [0; KINDS], all: 0 })
    }

    /// Posts a receive of this pattern. Handler-safe, O(1).
    #[inline(always)]
    pub(crate) fn insert(&mut self, requests: &mut Requests, id: Id, pattern: &Pattern) {
        let Some(request) = requests.get_mut(id) else { return };
        request.member = Member::Posted;
        self.count(pattern, 1);
        if let Some(bin) = self.bins.bin(pattern) {
            bin.push(requests, 0, id);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all == 0
    }

    /// Whether some ask for any source or any tag.
    #[inline]
    pub(crate) fn has_wild(&self) -> bool {
        let [_, wild @ ..] = &self.counts;
        wild.iter().any(|count| *count != 0)
    }

    /// Where receives that name source and tag wait for such messages, for [`take_first`](Self::take_first).
    #[inline(always)]
    pub(crate) fn bin_of(&self, context: u32, source: u32, tag: i32) -> usize {
        self.bins.index(&Pattern::of(0, context, source, tag))
    }

    /// Takes the oldest receive of a bin out that names source and tag so, if it is among the first [`NEAR`] and `meet` takes it. Nothing is done otherwise.
    /// Handler-safe, O(1).
    #[inline(always)]
    pub(crate) fn take_first(
        &mut self,
        requests: &mut Requests,
        bin: usize,
        (context, source, tag): (u32, u32, i32),
        meet: impl FnOnce(&mut Request, &Completion) -> bool,
    ) -> bool {
        let [exact, ..] = &mut self.counts;
        let Some(list) = self.bins.list_mut(bin) else { return false };
        let mut at = list.first_index();
        for _ in 0..NEAR {
            let Some((id, request, completion)) = requests.at_both_mut(at) else { return false };
            let link = request.link(0);
            let is_for_it = request.context == context && request.peer == source && request.tag == tag;
            if !is_for_it || request.has(ANY_TAG) {
                at = link.next_index();
                continue;
            }
            if !meet(request, completion) {
                return false;
            }
            request.member = Member::None;
            *exact = exact.wrapping_sub(1);
            self.all = self.all.wrapping_sub(1);
            if at == list.first_index() {
                request.set_link(0, Link::UNLINKED);
                list.take_first(requests, 0, link);
            } else {
                list.remove(requests, 0, id);
            }
            return true;
        }
        false
    }

    /// Receives of any source.
    pub(crate) fn any_source(&self) -> usize {
        let counts = self.counts.iter().enumerate();
        counts.filter(|(kind, _)| Pattern::has_no_source(*kind)).map(|(_, count)| count).sum()
    }

    /// Takes one out. Handler-safe, O(1).
    #[inline]
    pub(crate) fn remove(&mut self, requests: &mut Requests, id: Id) {
        let Some(request) = requests.get_mut(id) else { return };
        request.member = Member::None;
        let pattern = request.pattern();
        self.count(&pattern, -1);
        if let Some(bin) = self.bins.bin(&pattern) {
            bin.remove(requests, 0, id);
        }
    }

    #[inline]
    fn count(&mut self, pattern: &Pattern, by: isize) {
        if let Some(count) = self.counts.get_mut(pattern.kind()) {
            *count = count.wrapping_add_signed(by);
            self.all = self.all.wrapping_add_signed(by);
        }
    }

    /// The receive that a message goes to. Handler-safe; bounded by the receives in the four bins, of which there are
    /// a few on average, because user threads grow the bins.
    #[inline]
    pub(crate) fn find(&self, requests: &Requests, context: u32, source: u32, tag: i32) -> Option<Id> {
        if !self.has_wild() {
            return self.first(requests, &Pattern::of(0, context, source, tag)).map(|(id, _)| id);
        }
        self.find_among_wild(requests, context, source, tag)
    }

    fn find_among_wild(&self, requests: &Requests, context: u32, source: u32, tag: i32) -> Option<Id> {
        let mut best: Option<(Id, u64)> = None;
        for kind in 0..KINDS {
            let first = self.first(requests, &Pattern::of(kind, context, source, tag));
            if let Some((id, sequence)) = first
                && best.is_none_or(|(_, earliest)| sequence < earliest)
            {
                best = Some((id, sequence));
            }
        }
        best.map(|(id, _)| id)
    }

    /// The first posted of those with a pattern, and when that was.
    #[inline]
    fn first(&self, requests: &Requests, pattern: &Pattern) -> Option<(Id, u64)> {
        if self.counts.get(pattern.kind()) == Some(&0) {
            return None;
        }
        let mut at = self.bins.look(pattern)?.first_index();
        while let Some((id, request)) = requests.at(at) {
            if request.pattern() == *pattern {
                return Some((id, request.sequence));
            }
            at = request.link(0).next_index();
        }
        None
    }

    /// Doubles the bins when they are crowded. User threads only: it allocates. A refusal of memory only costs speed.
    #[inline]
    pub(crate) fn make_room(&mut self, requests: &mut Requests) {
        if self.is_crowded() {
            self.add_bins(requests);
        }
    }

    /// Whether the bins should be doubled.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.all >= self.bins.per_kind().wrapping_mul(2)
    }

    #[cold]
    fn add_bins(&mut self, requests: &mut Requests) {
        let Some(mut bins) = Bins::new(self.bins.per_kind().saturating_mul(4)) else { return };
        // A new bin takes from one old bin only, in order: the order of posting stays.
        for list in self.bins.lists() {
            let mut at = list.first(requests);
            while let Some(id) = at {
                at = List::next(requests, 0, id);
                let Some(pattern) = requests.get(id).map(Request::pattern) else { break };
                if let Some(bin) = bins.bin(&pattern) {
                    bin.push(requests, 0, id);
                }
            }
        }
        self.bins = bins;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tocsin_progress::Slots;

    /// How many receives [`Posted::first`] looks at.
    fn looks(posted: &Posted, requests: &Requests, pattern: &Pattern) -> usize {
        let mut at = posted.bins.look(pattern).unwrap().first_index();
        let mut looks = 0;
        while let Some((_, request)) = requests.at(at) {
            looks += 1;
            if request.pattern() == *pattern {
                break;
            }
            at = request.link(0).next_index();
        }
        looks
    }

    /// With 10 000 receives posted, of some sources and tags as programs number them and of any, a message is compared with as few as with 10: with two or three
    /// of each kind, and nowhere with many.
    #[test]
    fn a_message_is_compared_with_few_of_many() {
        type Numbers = fn(u32) -> (u32, i32);
        let by_tag: Numbers = |at| (1, at as i32);
        let by_thousands: Numbers = |at| (1, at as i32 * 1024);
        let by_source: Numbers = |at| (at, 7);
        let by_both: Numbers = |at| (at % 100, (at / 100) as i32);
        for (numbers, wild) in
            [by_tag, by_thousands, by_source, by_both].map(|of| [(of, false), (of, true)]).concat()
        {
            for many in [10, 100, 1000, 10_000] {
                let mut requests = Slots::with_shared(Request::new, Completion::new);
                let mut posted = Posted::new().unwrap();
                requests.reserve(many as usize).unwrap();
                let kind = |at: u32| if wild { at as usize % KINDS } else { 0 };
                let pattern = |kind: usize, at| Pattern::of(kind, 5, numbers(at).0, numbers(at).1);
                for at in 0..many {
                    posted.make_room(&mut requests);
                    let id = requests.alloc().unwrap();
                    let request = requests.get_mut(id).unwrap();
                    request.set_pattern(&pattern(kind(at), at));
                    request.sequence = u64::from(at);
                    posted.insert(&mut requests, id, &pattern(kind(at), at));
                }
                let (mut all, mut most) = (0, 0);
                for at in 0..many {
                    let kinds = if wild { 0..KINDS } else { 0..1 };
                    let looks: usize = kinds.map(|kind| looks(&posted, &requests, &pattern(kind, at))).sum();
                    (all, most) = (all + looks, most.max(looks));
                    let (source, tag) = numbers(at);
                    assert!(posted.find(&requests, 5, source, tag).is_some());
                }
                let average = all as f64 / f64::from(many);
                let kinds = if wild { KINDS } else { 1 };
                assert!(
                    average < 2.5 * kinds as f64 && most <= 16 * kinds,
                    "{many}: {average}, {most} at most"
                );
            }
        }
    }

    #[test]
    fn those_that_share_a_bin_are_met_out_of_turn() {
        const MANY: i32 = 400;
        let mut requests = Slots::with_shared(Request::new, Completion::new);
        let mut posted = Posted::new().unwrap();
        requests.reserve(MANY as usize).unwrap();
        for tag in 0..MANY {
            let pattern = Pattern::of(0, 5, 1, tag);
            let id = requests.alloc().unwrap();
            requests.get_mut(id).unwrap().set_pattern(&pattern);
            posted.insert(&mut requests, id, &pattern);
        }
        assert!(!posted.is_crowded());
        // The last first: whatever shares its bin was posted before it.
        for tag in (0..MANY).rev() {
            let bin = posted.bin_of(5, 1, tag);
            assert!(!posted.take_first(&mut requests, bin, (5, 1, tag), |_, _| false), "left as it is");
            let taken = posted.take_first(&mut requests, bin, (5, 1, tag), |request, _| request.tag == tag);
            assert!(taken, "{tag}");
            assert!(!posted.take_first(&mut requests, bin, (5, 1, tag), |_, _| true), "it is gone");
        }
        assert!(posted.is_empty() && posted.bins.lists().iter().all(crate::list::List::is_empty));
    }
}
