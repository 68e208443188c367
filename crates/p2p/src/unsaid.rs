//! What a peer must hear about single messages, and has not for want of room in the Control lane.

use tocsin_transport::transfer::RECORDS;
use tocsin_transport::{Header, SendOutcome, Transport, kind};

use crate::P2p;
use crate::urgency::Tells;

/// What is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// To the sender of a message: its pages are read.
    Read,
    /// To the receiver of one: no more of it comes.
    Aborted,
    /// To the other end of one that is given up, or ends, here: all of it is copied.
    Copied,
}

impl Word {
    /// What is said before revocations, lest what is all there is given up for them; and what is said after, so that why it is given up is known.
    pub(crate) const BEFORE: [Word; 2] = [Word::Read, Word::Copied];
    pub(crate) const AFTER: [Word; 1] = [Word::Aborted];

    fn header(self, name: u64) -> Header {
        let kind = match self {
            Word::Read | Word::Copied => kind::FIN,
            Word::Aborted => kind::ABORT_SEND,
        };
        Header { kind, a: name, ..Header::default() }
    }
}

/// The names of the requests at the other end, per word: as many of each as a pair has records.
#[derive(Debug, Default)]
pub(crate) struct Unsaid([Names; 3]);

#[derive(Debug)]
struct Names {
    names: [u64; RECORDS as usize],
    count: u8,
}

impl Default for Names {
    fn default() -> Names {
        Names { names: [0; RECORDS as usize], count: 0 }
    }
}

impl Unsaid {
    pub(crate) fn len(&self) -> usize {
        self.0.iter().fold(0, |sum, names| sum.saturating_add(usize::from(names.count)))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|names| names.count == 0)
    }

    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(|names| names.count = 0);
    }

    /// False: there are too many.
    fn push(&mut self, word: Word, name: u64) -> bool {
        let Some(names) = self.0.get_mut(word as usize) else { return false };
        let Some(place) = names.names.get_mut(usize::from(names.count)) else { return false };
        *place = name;
        names.count = names.count.wrapping_add(1);
        true
    }

    fn last(&self, word: Word) -> Option<u64> {
        let names = self.0.get(word as usize)?;
        names.names.get(usize::from(names.count).checked_sub(1)?).copied()
    }

    fn pop(&mut self, word: Word) {
        if let Some(names) = self.0.get_mut(word as usize) {
            names.count = names.count.saturating_sub(1);
        }
    }
}

impl<T: Transport> P2p<T> {
    /// Says something of a message, as soon as there is room for it; that it is given up, after the revocations that the peer has yet to hear of. Nothing, to one that takes no
    /// more. False: there is no room, and too much waits to be said. Handler-safe.
    pub(crate) fn say(&mut self, peer: u32, word: Word, name: u64, tells: Tells) -> bool {
        let Some(state) = self.peers.get(peer as usize).filter(|state| state.fate.no_more_to().is_none())
        else {
            return true;
        };
        let waits = word == Word::Aborted && !state.revokes.is_empty();
        if !waits && self.transmit_control(peer, tells, &word.header(name)) != SendOutcome::Full {
            return true;
        }
        if !self.peers.get_mut(peer as usize).is_some_and(|state| state.unsaid.push(word, name)) {
            return false;
        }
        self.owed = self.owed.wrapping_add(1);
        self.outgoing.insert(peer);
        true
    }

    /// Says what is unsaid to a peer, of these words, as far as there is room. Whether there was for all.
    pub(crate) fn retry_unsaid(&mut self, peer: u32, words: &[Word]) -> bool {
        for word in words.iter().copied() {
            while let Some(name) = self.peers.get(peer as usize).and_then(|state| state.unsaid.last(word)) {
                if self.transmit_control(peer, Tells::Overdue, &word.header(name)) == SendOutcome::Full {
                    return false;
                }
                if let Some(state) = self.peers.get_mut(peer as usize) {
                    state.unsaid.pop(word);
                }
                self.owed = self.owed.saturating_sub(1);
            }
        }
        true
    }
}
