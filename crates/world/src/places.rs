//! In which parts of the machine the ranks of a world are, for collectives whose trees follow that.
//!
//! Who makes a world says so in the segment, of the ranks that it binds, before anybody has the segment, and nobody changes it: all ranks
//! read the same, and make the same trees of it. A rank that could not be bound after all is somewhere else: then its messages go farther, and no
//! result depends on that. Any word is a place or none, so that a peer which writes there can have trees differ, and ranks wait for each other for
//! ever, as if it sent nothing.

use std::sync::Arc;

use tocsin_nbc::Hierarchy;
use tocsin_shm_transport::Segment;
use tocsin_topology::{Locality, Relation, Topology};

use crate::config::Seat;

/// Says where the ranks with these seats are going to be on a machine.
pub(crate) fn note(segment: &Segment, seats: &[Seat], machine: Option<&Topology>) {
    let Some(machine) = machine else { return };
    let cpus: Vec<Option<usize>> = seats.iter().map(|seat| seat.cpu).collect();
    for (rank, locality) in (0..).zip(machine.localities(&cpus)) {
        segment.note_place(rank, locality.and_then(Locality::to_word).unwrap_or(0));
    }
}

/// What a rank has read of it, once: the same for all its communicators.
#[derive(Debug)]
pub(crate) struct Places(Option<Box<[Option<Locality>]>>);

impl Places {
    /// Of all ranks of a world.
    pub(crate) fn of(segment: &Segment) -> Places {
        let all: Box<[_]> =
            (0..segment.ranks()).map(|rank| Locality::from_word(segment.place(rank))).collect();
        // Where nothing is known, there is nothing to keep.
        Places(all.iter().any(Option::is_some).then_some(all))
    }

    /// Those of some ranks of the world; `None`: they are in one part, as far as is known.
    pub(crate) fn hierarchy(&self, members: &[u32]) -> Option<Arc<Hierarchy>> {
        let all = self.0.as_deref()?;
        let of_members: Vec<_> =
            members.iter().map(|rank| all.get(*rank as usize).copied().flatten()).collect();
        Hierarchy::new(&of_members).map(Arc::new)
    }

    /// What lies between the farthest two of some ranks of the world; `None`: they are fewer, or of some it is not known where they are.
    pub(crate) fn relation(&self, members: &[u32]) -> Option<Relation> {
        let all = self.0.as_deref()?;
        Relation::between(members.iter().map(|rank| all.get(*rank as usize).copied().flatten()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bind, Config, threads};

    /// How many parts the members of a communicator are in, by level.
    fn parts(hierarchy: Option<&Hierarchy>) -> Vec<usize> {
        hierarchy.map(|hierarchy| hierarchy.parts().collect()).unwrap_or_default()
    }

    #[test]
    fn what_is_said_is_read() {
        let machine = Topology::synthetic("numa:2 l3:2 core:2").unwrap();
        let segment = Segment::create(8).unwrap();
        assert_eq!(Places::of(&segment).hierarchy(&[0, 1, 2, 3]), None);
        let seat = |cpu| Seat { cpu: Some(cpu), progress: None };
        note(&segment, &std::array::from_fn::<_, 8, _>(seat), Some(&machine));
        let places = Places::of(&segment);
        assert_eq!(parts(places.hierarchy(&[0, 1, 2, 3, 4, 5, 6, 7]).as_deref()), [2, 4]);
        assert_eq!(parts(places.hierarchy(&[7, 5, 4]).as_deref()), [2]);
        assert_eq!(places.hierarchy(&[3, 2]), None);
        let relation = |members: &[u32]| places.relation(members);
        assert_eq!(relation(&[3, 2]), Some(Relation::Cache));
        assert_eq!(relation(&[1, 2, 3]), Some(Relation::Node));
        assert_eq!(relation(&[2, 3, 7]), Some(Relation::Across));
        assert_eq!([&[][..], &[1], &[0, 1, 99]].map(relation), [None; 3]);
        // Who is in no world is nowhere, and so is whose word means nothing.
        assert_eq!(parts(places.hierarchy(&[0, 1, 99]).as_deref()), [2]);
        for word in [0, 1, u64::MAX] {
            segment.note_place(0, word);
            assert_eq!(parts(Places::of(&segment).hierarchy(&[0, 2, 3]).as_deref()), [2], "{word}");
        }
    }

    /// Whether the machine has these cores or not: placement is as it sees it.
    #[test]
    fn communicators_know_the_parts_of_their_members() {
        let topology = Some("package:2 numa:1 l3:2 core:2".to_owned());
        let config = Config { bind: Bind::ScatterNuma, topology, ..Config::default() };
        let of_ranks = threads(8, &config, |comm| {
            let dup = comm.dup().unwrap();
            let halves = comm.split(Some(comm.rank() / 4), 0).unwrap().unwrap();
            let pairs = comm.split(Some(comm.rank() / 2), 0).unwrap().unwrap();
            [&comm, &dup, &halves, &pairs].map(|comm| parts(comm.hierarchy()))
        });
        for of_rank in of_ranks.unwrap() {
            assert_eq!(of_rank, [vec![2, 4], vec![2, 4], vec![2], vec![]]);
        }
        let unbound = Config { bind: Bind::None, ..config };
        let of_ranks = threads(8, &unbound, |comm| parts(comm.hierarchy())).unwrap();
        assert!(of_ranks.iter().all(Vec::is_empty));
    }
}
