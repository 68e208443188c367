//! Receives that wait for their message.

use tocsin_progress::Id;

use crate::list::List;
use crate::pattern::{Bins, KINDS, Pattern};
use crate::request::{ANY_SOURCE, ANY_TAG, Member, Request, Requests};

/// Bins per kind at the start; user threads double them as receives are posted.
const BINS: usize = 256;

/// The receives posted in one class. The earliest posted that matches wins, by sequence number; inside a bin the order
/// is that of posting, so only the first match of each kind is looked at.
#[derive(Debug)]
pub(crate) struct Posted {
    bins: Bins,
    counts: [usize; KINDS],
}

impl Request {
    /// What a posted receive asks for.
    #[inline]
    pub(crate) fn pattern(&self) -> Pattern {
        Pattern {
            context: self.context,
            source: (self.peer != ANY_SOURCE).then_some(self.peer),
            tag: (!self.has(ANY_TAG)).then_some(self.tag),
        }
    }
}

impl Posted {
    pub(crate) fn new() -> Option<Posted> {
        Some(Posted { bins: Bins::new(BINS)?, counts: [0; KINDS] })
    }

    /// Posts. Handler-safe, O(1).
    pub(crate) fn insert(&mut self, requests: &mut Requests, id: Id) {
        let Some(request) = requests.get_mut(id) else { return };
        request.member = Member::Posted;
        let pattern = request.pattern();
        self.count(&pattern, 1);
        if let Some(bin) = self.bins.bin(&pattern) {
            bin.push(requests, 0, id);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.counts == [0; KINDS]
    }

    /// Receives of any source.
    pub(crate) fn any_source(&self) -> usize {
        let counts = self.counts.iter().enumerate();
        counts.filter(|(kind, _)| Pattern::of(*kind, 0, 0, 0).source.is_none()).map(|(_, count)| count).sum()
    }

    /// Takes one out. Handler-safe, O(1).
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
        }
    }

    /// The receive that a message goes to. Handler-safe; bounded by the receives in the four bins, of which there are
    /// a few on average, because user threads grow the bins.
    pub(crate) fn find(&self, requests: &Requests, context: u32, source: u32, tag: i32) -> Option<Id> {
        let mut best: Option<(u64, Id)> = None;
        for (kind, count) in self.counts.iter().enumerate() {
            if *count == 0 {
                continue;
            }
            let pattern = Pattern::of(kind, context, source, tag);
            let mut at = self.bins.look(&pattern).and_then(|bin| bin.first(requests));
            while let Some(id) = at {
                let Some(request) = requests.get(id) else { break };
                if request.pattern() == pattern {
                    if best.is_none_or(|(sequence, _)| request.sequence < sequence) {
                        best = Some((request.sequence, id));
                    }
                    break;
                }
                at = List::next(requests, 0, id);
            }
        }
        best.map(|(_, id)| id)
    }

    /// Doubles the bins when they are crowded. User threads only: it allocates. A refusal of memory only costs speed.
    pub(crate) fn make_room(&mut self, requests: &mut Requests) {
        let posted = self.counts.iter().fold(0usize, |sum, n| sum.saturating_add(*n));
        if posted < self.bins.per_kind().saturating_mul(2) {
            return;
        }
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
