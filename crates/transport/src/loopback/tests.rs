use super::*;
use crate::{conformance, kind};

#[test]
fn conforms() {
    conformance::all(&mut fabric);
}

#[test]
fn conforms_between_threads() {
    conformance::threaded(&mut fabric);
}

#[test]
fn conforms_with_the_smallest_capacities() {
    let limits = Limits { packets: [1, 1, 1, 1], ..Limits::default() };
    conformance::all(&mut |n| fabric_with(n, limits));
}

#[test]
fn flush_rings_a_dirty_peer_once() {
    let mut ends = fabric(2);
    ends[0].connect(1).unwrap();
    for _ in 0..3 {
        let header = Header { kind: kind::EAGER, ..Header::default() };
        // SAFETY: no payload.
        let outcome =
            unsafe { ends[0].try_send(1, Class::Eager, Urgency::Plain, &header, std::ptr::null(), 0) };
        assert_eq!(outcome, SendOutcome::Sent);
    }
    assert_eq!(ends[0].rings_to(1), 0);
    ends[0].flush();
    ends[0].flush();
    assert_eq!(ends[0].rings_to(1), 1);
}
