mod flow;
mod pool;
mod rings;

use std::sync::Arc;

use tocsin_transport::conformance;

use super::*;

pub(crate) fn world(ranks: u32) -> Vec<ShmTransport> {
    let segment = Arc::new(Segment::create(ranks).unwrap());
    (0..ranks)
        .map(|rank| {
            segment.set_life(rank, Life::Alive);
            ShmTransport::new(segment.clone(), rank).unwrap()
        })
        .collect()
}

impl ShmTransport {
    fn state(&mut self, peer: usize) -> &mut Peer {
        self.peers.get_mut(peer).unwrap()
    }
}

#[test]
fn conforms() {
    conformance::all(&mut world);
}

#[test]
fn conforms_between_threads() {
    conformance::threaded(&mut world);
}

#[test]
fn a_rank_has_one_endpoint() {
    let segment = Arc::new(Segment::create(2).unwrap());
    let first = ShmTransport::new(segment.clone(), 1).unwrap();
    drop(first);
    assert!(matches!(ShmTransport::new(segment.clone(), 1), Err(Error::RankTaken { rank: 1 })));
    assert!(matches!(ShmTransport::new(segment, 2), Err(Error::NoSuchRank { rank: 2, ranks: 2 })));
}

#[test]
fn the_gone_are_gone_and_what_they_sent_is_there() {
    for life in [Life::Finalized, Life::Dead] {
        let mut ends = world(2);
        ends[0].connect(1).unwrap();
        ends[1].begin_pass();
        assert_eq!(conformance::send(&mut ends[1], 0, Class::Eager, 0, 100), SendOutcome::Sent);
        let before = ends[0].epoch();
        ends[0].begin_pass();
        ends[0].segment().clone().set_life(1, life);
        assert!(ends[0].epoch() > before);
        assert!(ends[0].work_left());
        assert_eq!(conformance::send(&mut ends[0], 1, Class::Eager, 0, 0), SendOutcome::Gone);
        ends[0].begin_pass();
        assert!(conformance::receive(&mut ends[0], 1, Class::Eager, 0));
        assert!(!ends[0].segment().mark_dead(1), "whoever is gone does not die again");
    }
}

#[test]
fn an_abort_reaches_everybody_and_the_first_code_stays() {
    let mut ends = world(3);
    ends[0].begin_pass();
    assert!(!ends[0].work_left());
    ends[2].segment().set_abort(-7);
    ends[1].segment().set_abort(9);
    assert!(ends[0].work_left());
    assert!(ends.iter().all(|e| e.aborted() == Some(-7)));
}

#[test]
fn the_memory_of_unconnected_pairs_is_never_touched() {
    let blocks = |end: &ShmTransport| {
        let file = std::fs::File::from(end.segment().fd().try_clone_to_owned().unwrap());
        std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap())
    };
    let mut ends = world(4);
    let (small, bulk) = ends[0].segment().geometry().connection_bytes();
    let start = blocks(&ends[0]);
    for end in &mut ends {
        end.begin_pass();
        for peer in 0..4 {
            for class in Class::ALL {
                assert!(matches!(end.peek(peer, class), Recv::Empty));
                end.consume(peer, class);
                assert_eq!(conformance::send(end, peer, class, 0, 0), SendOutcome::Gone);
            }
        }
        assert!(!end.work_left());
        end.flush();
    }
    assert_eq!(blocks(&ends[0]), start);
    ends[0].connect(1).unwrap();
    assert_eq!(blocks(&ends[0]) - start, 2 * small / 512);
    ends[1].connect(0).unwrap();
    assert_eq!(blocks(&ends[0]) - start, 2 * small / 512);
    ends[1].connect_bulk(0).unwrap();
    ends[1].connect_bulk(0).unwrap();
    assert_eq!(blocks(&ends[0]) - start, (2 * small + bulk) / 512);
    let before = blocks(&ends[0]);
    ends[3].connect(3).unwrap();
    assert_eq!(blocks(&ends[0]) - before, small / 512);
}

#[test]
fn many_ranks_fit() {
    let segment = Arc::new(Segment::create(crate::MAX_RANKS).unwrap());
    let mut last = ShmTransport::new(segment.clone(), 1023).unwrap();
    let mut first = ShmTransport::new(segment, 0).unwrap();
    last.connect_bulk(0).unwrap();
    first.begin_pass();
    assert_eq!(first.connected(), [1023]);
    for class in Class::ALL {
        let len = last.capabilities().max_payload(class);
        assert_eq!(conformance::send(&mut last, 0, class, 0, len), SendOutcome::Sent);
        assert!(conformance::receive(&mut first, 1023, class, 0));
    }
}
