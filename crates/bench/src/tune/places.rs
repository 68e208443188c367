//! Where ranks are measured, on a machine whose processors are not all alike to each other.

use crate::error::Error;
use tocsin_topology::{Topology, allowed_cpus, bind_thread_to_all};
use tocsin_world::Seat;
use tocsin_world::tune::Relation;

/// What there is between cores of this machine, nearest first; nothing where it is the same between all of them, or where placement
/// sees another machine than this, so that nobody can be put there.
pub(super) fn relations() -> Result<Vec<Relation>, Error> {
    let configured = tocsin_world::Config::from_env().map_err(|e| Error::Usage(e.to_string()))?;
    if configured.topology.is_some() {
        return Ok(Vec::new());
    }
    let relations = Topology::machine().map_err(Error::failed)?.relations();
    Ok(if relations.len() > 1 { relations } else { Vec::new() })
}

/// The places at which so many pairs at once are measured; `None`: as far apart as they can be.
pub(super) fn to_measure(relations: &[Relation], at_once: u32) -> Vec<Option<Relation>> {
    if at_once > 1 || relations.is_empty() {
        return vec![None];
    }
    relations.iter().copied().map(Some).collect()
}

/// Those of the relations of which a part of a machine has a core for each of so many ranks; nothing where there is no choice.
pub(super) fn with_room(machine: &Topology, relations: &[Relation], ranks: u32) -> Vec<Relation> {
    let has_room = |relation: &&Relation| machine.part_of(**relation, ranks as usize).is_some();
    let all: Vec<Relation> = relations.iter().filter(has_room).copied().collect();
    if all.len() > 1 { all } else { Vec::new() }
}

/// What lies between the farthest two of ranks that are bound so; `None`: not all of them are.
pub(super) fn of_seats(machine: &Topology, seats: &[Seat]) -> Option<Relation> {
    let cpus: Vec<usize> = seats.iter().map(|seat| seat.cpu).collect::<Option<_>>()?;
    machine.widest(&cpus)
}

/// Of what rows say what was measured at a place: of that, and the farthest also of ranks of which nobody knows where they are.
pub(super) fn that_it_says(relations: &[Relation], measured: Option<Relation>) -> Vec<Option<Relation>> {
    match measured {
        Some(_) if measured == relations.last().copied() => vec![None, measured],
        _ => vec![measured],
    }
}

/// As long as it lives, the calling thread and those that it starts may run on some processors alone.
#[derive(Debug)]
pub(super) struct Confined {
    before: Vec<usize>,
}

impl Confined {
    /// Two with that between them.
    pub(super) fn to(relation: Relation) -> Result<Confined, Error> {
        let pair = Topology::machine().map_err(Error::failed)?.pair_of(relation);
        let (a, b) =
            pair.ok_or_else(|| Error::Failed(format!("no two processors are so here: {relation}")))?;
        Confined::to_all(&[a, b])
    }

    /// Those of a part of the machine with so many cores, of which the farthest two have that between them.
    pub(super) fn to_part(relation: Relation, cores: u32) -> Result<Confined, Error> {
        let part = Topology::machine().map_err(Error::failed)?.part_of(relation, cores as usize);
        let part = part.ok_or_else(|| {
            Error::Failed(format!("no part of this machine has {cores} cores so: {relation}"))
        })?;
        Confined::to_all(&part)
    }

    fn to_all(cpus: &[usize]) -> Result<Confined, Error> {
        let before = allowed_cpus().map_err(Error::failed)?;
        bind_thread_to_all(cpus).map_err(Error::failed)?;
        Ok(Confined { before })
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        // It was allowed before.
        let _there = bind_thread_to_all(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Relation::{Across, Cache, Node};

    #[test]
    fn one_pair_is_measured_at_each_distance() {
        assert_eq!(to_measure(&[], 1), [None]);
        assert_eq!(to_measure(&[Cache, Across], 1), [Some(Cache), Some(Across)]);
        assert_eq!(to_measure(&[Cache, Across], 2), [None]);
    }

    #[test]
    fn the_farthest_holds_for_ranks_that_are_anywhere() {
        let all = [Cache, Node, Across];
        assert_eq!(that_it_says(&all, Some(Node)), [Some(Node)]);
        assert_eq!(that_it_says(&all, Some(Across)), [None, Some(Across)]);
        assert_eq!(that_it_says(&[Cache, Node], Some(Node)), [None, Some(Node)]);
        assert_eq!(that_it_says(&[], None), [None]);
    }

    #[test]
    fn collectives_are_measured_where_each_rank_has_a_core() {
        let machine = Topology::synthetic("numa:2 l3:2 core:2").unwrap();
        let with_room = |ranks| with_room(&machine, &machine.relations(), ranks);
        assert_eq!(with_room(2), [Cache, Node, Across]);
        assert_eq!([with_room(3), with_room(4)], [[Node, Across], [Node, Across]]);
        // Who can be in one way only, or not at all, is measured as it comes.
        assert_eq!([with_room(8), with_room(9)], [[], []]);
        assert_eq!(super::with_room(&machine, &[], 2), []);
    }

    #[test]
    fn a_thread_is_confined_as_long_as_it_says() {
        let before = allowed_cpus().unwrap();
        let machine = Topology::machine().unwrap();
        for relation in machine.relations() {
            let confined = Confined::to(relation).unwrap();
            let there = Topology::machine().unwrap();
            assert_eq!((there.pus(), there.relations()), (2, vec![relation]));
            drop(confined);
            assert_eq!(allowed_cpus().unwrap(), before);
            let confined = Confined::to_part(relation, 2).unwrap();
            let there = Topology::machine().unwrap();
            assert!(there.cores.len() >= 2 && there.relations().last() == Some(&relation));
            drop(confined);
            assert_eq!(allowed_cpus().unwrap(), before);
        }
        assert!(Confined::to_part(Across, 100_000).unwrap_err().to_string().contains("100000 cores"));
        let missing = Relation::ALL.into_iter().find(|relation| !machine.relations().contains(relation));
        assert!(missing.is_none_or(|relation| Confined::to(relation).is_err()));
    }
}
