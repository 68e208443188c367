//! Random messages between all ranks, checked against MPI's matching rules.
//!
//! Every rank derives the same plan from the seed: a list of messages, and for each destination one way of receiving. Within
//! one way the rules leave a model: messages of one source that match the same receives arrive in the order of their
//! sends (MPI 4.1, section 3.5), so a cursor per source, or per source and tag, says which content must have come.

use std::collections::HashMap;

use tocsin_world::{Comm, ConstBuf, Mode, MutBuf, RawRequest, wait_all};

use crate::memory::{self, Buffer};
use crate::random::Random;
use crate::run::Arguments;
use crate::ways;

/// How a destination receives in one round.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Exact,
    AnyTag,
    AnySource,
    Any,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    source: u32,
    dest: u32,
    tag: i32,
    bytes: usize,
    content: u64,
    mode: Mode,
}

/// A size around one of the thresholds where the path changes (inline, eager, rendezvous, one bulk piece, several).
pub(super) fn size(random: &mut Random, max: u64) -> usize {
    const AROUND: [u64; 10] = [0, 8, 16, 64, 512, 4096, 8192, 16384, 65536, 131_072];
    let near = AROUND[random.below(AROUND.len() as u64) as usize];
    let size = match random.below(4) {
        0 => near,
        1 => near + random.below(3),
        2 => near.saturating_sub(random.below(3)),
        _ => random.below(max + 1),
    };
    size.min(max) as usize
}

/// Bytes from which on a message is large in every world.
const LARGE: usize = 128 << 10;

/// Up to so many bytes go out of the shared heap in pieces where both ranks wait.
const IN_PIECES: usize = 256 << 10;

/// `seed`, `rounds`, `messages` (per round, over all ranks), `max` (bytes of one message); `longest`: bytes that one between two ranks has at least.
pub fn random_messages(comm: &Comm, arguments: &Arguments) {
    let mut random = Random::new(arguments.number("seed"));
    let (messages, max) = (arguments.number("messages"), arguments.number("max"));
    let before = comm.stats();
    let sent = (0..arguments.number("rounds")).map(|_| round(comm, &mut random, messages, max));
    let Sent { longest, large } = sent.fold(Sent::default(), Sent::and);
    if let Some(by) = arguments.optional("by") {
        ways::assert_all(comm, by, &comm.stats().since(&before), large);
    }
    let asked = arguments.optional("longest").map_or(0, |_| arguments.number("longest"));
    assert!(longest >= asked, "no message between two ranks has more than {longest} bytes");
}

fn wait(request: Result<RawRequest, tocsin_world::Error>) {
    match request.and_then(|mut r| r.wait()) {
        Ok(_) => {}
        Err(error) => panic!("{error}"),
    }
}

/// What one rank, or all, have sent between two ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// Bytes of the longest, of all ranks.
    pub(super) longest: u64,
    /// Bytes of this rank's large messages; between processes that share nothing else, of those out of the heap.
    pub(super) large: u64,
}

impl Sent {
    pub(super) fn and(self, other: Sent) -> Sent {
        Sent { longest: self.longest.max(other.longest), large: self.large + other.large }
    }
}

/// One round: a plan, its sends and receives in a random order of posting, the check, and a barrier: a message of the
/// next round must find no wildcard of this one.
pub(super) fn round(comm: &Comm, random: &mut Random, messages: u64, max: u64) -> Sent {
    let (me, ranks) = (comm.rank(), u64::from(comm.size()));
    let ways: Vec<Way> = (0..ranks)
        .map(|_| [Way::Exact, Way::AnyTag, Way::AnySource, Way::Any][random.below(4) as usize])
        .collect();
    let plan: Vec<Message> = (0..messages)
        .map(|_| Message {
            source: random.below(ranks) as u32,
            dest: random.below(ranks) as u32,
            tag: random.below(3) as i32,
            bytes: size(random, max),
            content: random.bits(),
            mode: if random.below(4) == 0 { Mode::Synchronous } else { Mode::Standard },
        })
        .collect();
    // From here on each rank makes its own choices.
    let mut own = Random::new(random.bits() ^ u64::from(me));

    let outgoing: Vec<&Message> = plan.iter().filter(|m| m.source == me).collect();
    let mut incoming: Vec<&Message> = plan.iter().filter(|m| m.dest == me).collect();
    own.shuffle(&mut incoming);
    let way = ways[me as usize];

    let send_buffers: Vec<Buffer> = outgoing
        .iter()
        .map(|m| {
            let mut buffer = vec![0; m.bytes];
            Random::fill(m.content, &mut buffer);
            Buffer::from(buffer).share(comm, own.bits())
        })
        .collect();
    // A receive that may match several messages has room for the longest; the rest is a canary.
    let room = max as usize + 8;
    let mut receive_buffers: Vec<Buffer> = incoming
        .iter()
        .map(|m| {
            let alike = plan.iter().filter(|o| (o.source, o.dest, o.tag) == (m.source, me, m.tag)).count();
            let bytes = if matches!(way, Way::Exact) && alike == 1 { m.bytes + 8 } else { room };
            Buffer::from(vec![0xa5; bytes]).share(comm, own.bits())
        })
        .collect();

    // Sends and receives interleaved at random, each in its own order.
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    while sends.len() < outgoing.len() || receives.len() < incoming.len() {
        let left = (outgoing.len() - sends.len()) as u64;
        let both = left + (incoming.len() - receives.len()) as u64;
        if own.below(both) < left {
            let (message, buffer) = (outgoing[sends.len()], &send_buffers[sends.len()]);
            let buffer = ConstBuf::contiguous(buffer.as_ptr(), buffer.len());
            // SAFETY: the buffer lives, unchanged, until the wait below.
            let request = unsafe { comm.isend_raw(buffer, message.dest, message.tag, message.mode) };
            sends.push(request.unwrap_or_else(|e| panic!("{e}")));
        } else {
            let message = incoming[receives.len()];
            let buffer = &mut receive_buffers[receives.len()];
            let buffer = MutBuf::contiguous(buffer.as_mut_ptr(), buffer.len() - 8);
            let (source, tag) = match way {
                Way::Exact => (Some(message.source), Some(message.tag)),
                Way::AnyTag => (Some(message.source), None),
                Way::AnySource => (None, Some(message.tag)),
                Way::Any => (None, None),
            };
            // SAFETY: the buffer lives, untouched, until the wait below.
            let request = unsafe { comm.irecv_raw(buffer, source, tag) };
            receives.push(request.unwrap_or_else(|e| panic!("{e}")));
        }
    }
    let mut all: Vec<&mut RawRequest> = sends.iter_mut().chain(receives.iter_mut()).collect();
    own.shuffle(&mut all);
    wait_all(&mut all).unwrap_or_else(|e| panic!("{e}"));

    // What came, in the order of posting, against the order of sending.
    let mut cursors: HashMap<(u32, Option<i32>), usize> = HashMap::new();
    for (request, buffer) in receives.iter_mut().zip(&receive_buffers) {
        let status = request.wait().unwrap_or_else(|e| panic!("{e}"));
        let by_tag = matches!(way, Way::Exact | Way::AnySource);
        let key = (status.source, by_tag.then_some(status.tag));
        let cursor = cursors.entry(key).or_default();
        let expected = plan
            .iter()
            .filter(|m| m.dest == me && m.source == status.source && (!by_tag || m.tag == status.tag))
            .nth(*cursor)
            .unwrap_or_else(|| panic!("rank {me}: {way:?}: a message nobody sent: {status:?}"));
        *cursor += 1;
        assert_eq!((status.tag, status.bytes), (expected.tag, expected.bytes), "rank {me} {way:?}");
        let mut content = vec![0; expected.bytes];
        Random::fill(expected.content, &mut content);
        assert!(buffer[..expected.bytes] == content, "rank {me} {way:?}: wrong bytes in {expected:?}");
        assert!(buffer[expected.bytes..].iter().all(|b| *b == 0xa5), "rank {me}: written past {expected:?}");
    }
    wait(comm.ibarrier_raw(None));
    let between = |m: &&Message| m.source != m.dest;
    let longest = plan.iter().filter(between).map(|m| m.bytes).max().unwrap_or(0) as u64;
    let mine = outgoing.iter().zip(&send_buffers).filter(|(m, _)| between(m) && m.bytes >= LARGE);
    let only_heap = memory::is_mixed();
    let from_heap = |m: &Message, buffer: &Buffer| matches!(buffer, Buffer::Heap(_)) && m.bytes > IN_PIECES;
    let large = mine.filter(|(m, buffer)| !only_heap || from_heap(m, buffer));
    Sent { longest, large: large.map(|(m, _)| m.bytes as u64).sum() }
}
