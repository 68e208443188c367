//! On which NUMA nodes the memory that ranks share lies: on those of the ranks that are bound, where the machine has several.
//!
//! Who makes a world knows which processor each rank is going to be bound to, and says so in the segment before there is any memory for
//! a rank. A rank that joins corrects that: it may not have been bound, or its program by somebody else.

use tocsin_shm_transport::{Segment, bind_refusal};
use tocsin_topology::{MemoryNodes, allowed_cpus};

use crate::config::{Config, Seat};

/// The segment of a world of `ranks` ranks with these seats, each of which may allocate `arena` bytes of its heap.
pub(crate) fn segment_for(
    ranks: u32,
    arena: u64,
    seats: &[Seat],
) -> Result<Segment, tocsin_shm_transport::Error> {
    Segment::create_on(ranks, arena, &nodes_of(seats, MemoryNodes::machine))
}

/// Why no world of two ranks of this configuration can be made here; `None` if one can. User threads only.
pub fn world_refusal(config: &Config) -> Option<String> {
    segment_for(2, config.arena(2), &[]).err().map(|error| error.to_string())
}

/// The node of each seat. `machine` is asked only if somebody is bound.
fn nodes_of(seats: &[Seat], machine: impl FnOnce() -> MemoryNodes) -> Vec<Option<u32>> {
    if seats.iter().all(|seat| seat.cpu.is_none()) {
        return Vec::new();
    }
    let machine = machine();
    seats.iter().map(|seat| machine.of(&[seat.cpu?])).collect()
}

/// Says where the calling thread's rank really runs. Where no node was foreseen for it there is nothing to say: it was not to be bound, or
/// the machine has one node.
pub(crate) fn publish_node(segment: &Segment, rank: u32) {
    publish(segment, rank, || MemoryNodes::machine().of(&allowed_cpus().ok()?));
}

fn publish(segment: &Segment, rank: u32, real: impl FnOnce() -> Option<u32>) {
    if let Some(foreseen) = segment.node(rank) {
        let real = real();
        if real != Some(foreseen) {
            segment.set_node(rank, real);
        }
    }
}

/// Why the memory that bound ranks share is not placed on their NUMA nodes here; `None` if it is. User threads only.
pub fn placement_refusal() -> Option<String> {
    let machine = MemoryNodes::machine();
    let none = machine.no_choice().map(ToString::to_string);
    none.or_else(|| machine.numbers().find_map(bind_refusal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bind;

    /// Two nodes, of processors 0 and 1 and of 2 and 3.
    fn two_nodes(name: &str) -> MemoryNodes {
        let root = std::env::temp_dir().join(format!("tocsin-world-{name}-{}", std::process::id()));
        for (file, text) in
            [("has_cpu", "0-1"), ("has_memory", "0-1"), ("node0/cpulist", "0-1"), ("node1/cpulist", "2-3")]
        {
            let path = root.join("node").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let nodes = MemoryNodes::at(&root);
        std::fs::remove_dir_all(&root).unwrap();
        nodes
    }

    fn seat(cpu: Option<usize>) -> Seat {
        Seat { cpu, progress: Some(0) }
    }

    #[test]
    fn who_is_bound_has_the_node_of_its_processor() {
        let seats = [Some(3), None, Some(0), Some(2), Some(9)].map(seat);
        let nodes = nodes_of(&seats, || two_nodes("seats"));
        assert_eq!(nodes, [Some(1), None, Some(0), Some(1), None]);
    }

    #[test]
    fn nobody_bound_asks_nothing() {
        let asked = || panic!("the machine was asked");
        assert!(nodes_of(&[seat(None); 3], asked).is_empty() && nodes_of(&[], asked).is_empty());
        publish(&Segment::create(1).unwrap(), 0, || panic!("the machine was asked"));
    }

    #[test]
    fn a_world_that_cannot_be_made_says_what_to_do() {
        let mut config = Config::default();
        assert_eq!(world_refusal(&config), None);
        // Without a heap it is a world all the same.
        for (heap, says) in [("0", None), ("16384G", Some("set TOCSIN_HEAP to less"))] {
            config.set("TOCSIN_HEAP", heap).unwrap();
            let why = world_refusal(&config);
            assert_eq!(why.is_some(), says.is_some(), "{why:?}");
            assert!(says.is_none_or(|says| why.as_ref().unwrap().contains(says)), "{why:?}");
        }
    }

    #[test]
    fn machines_of_one_node_have_none() {
        assert_eq!(nodes_of(&[seat(Some(0)); 2], || MemoryNodes::at("/nonexistent")), [None, None]);
    }

    #[test]
    fn a_rank_says_where_it_really_runs() {
        // On the node that was foreseen, on another, on none.
        for real in [Some(1), Some(0), None] {
            let segment = Segment::create_on(2, 0, &[Some(0), Some(1)]).unwrap();
            publish(&segment, 1, || real);
            assert_eq!((segment.node(0), segment.node(1)), (Some(0), real));
        }
    }

    /// In a world as programs make it; on machines of one node that nobody has one.
    #[test]
    fn the_ranks_of_a_world_have_the_nodes_that_they_are_bound_to() {
        for bind in [Bind::ScatterNuma, Bind::None] {
            let config = Config { bind, ..Config::default() };
            let ranks = crate::threads(2, &config, |comm| {
                let rank = comm.shared();
                (rank.segment.node(rank.rank), MemoryNodes::machine().of(&allowed_cpus().unwrap()))
            });
            for (said, here) in ranks.unwrap() {
                assert_eq!(said, here.filter(|_| bind != Bind::None), "{bind}");
            }
        }
    }

    #[test]
    fn the_reason_is_told() {
        let several = MemoryNodes::machine().numbers().next().is_some();
        let why = placement_refusal();
        assert!(several || why.is_some_and(|why| why.contains("one NUMA node")));
    }
}
