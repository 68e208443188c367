//! The machine as libhwloc describes it (feature `hwloc`): this one, or one of its synthetic descriptions.

use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::{CacheType, ObjectType};

use crate::model::Pu;
use crate::{Cache, CacheKind, Discover, Error, Topology, allowed_cpus};

/// Asks libhwloc.
#[derive(Clone, Debug, Default)]
pub struct Hwloc {
    synthetic: Option<String>,
}

impl Hwloc {
    /// A machine in hwloc's own synthetic notation, such as `package:2 l3:1 core:4 pu:2`: more than [`Synthetic`](crate::Synthetic) reads.
    pub fn synthetic(text: impl Into<String>) -> Hwloc {
        Hwloc { synthetic: Some(text.into()) }
    }
}

const CACHES: [ObjectType; 5] =
    [ObjectType::L1Cache, ObjectType::L2Cache, ObjectType::L3Cache, ObjectType::L4Cache, ObjectType::L5Cache];

impl Discover for Hwloc {
    fn discover(&self) -> Result<Topology, Error> {
        let refused = |why: String| Error::Hwloc { why };
        let builder = hwlocality::Topology::builder();
        let (source, builder) = match &self.synthetic {
            Some(text) => {
                let builder = builder.from_synthetic(text).map_err(|e| refused(format!("`{text}`: {e}")))?;
                (format!("hwloc, synthetic {text}"), builder)
            }
            None => ("hwloc".to_owned(), builder),
        };
        let machine = builder.build().map_err(|e| refused(e.to_string()))?;
        let usable = match &self.synthetic {
            Some(_) => None,
            None => Some(allowed_cpus()?),
        };
        let is_usable = |cpu: &usize| usable.as_ref().is_none_or(|usable| usable.contains(cpu));
        let pus = machine.objects_with_type(ObjectType::PU).filter_map(pu).filter(|pu| is_usable(&pu.cpu));
        let mut pus: Vec<Pu> = pus.collect();
        pus.sort_by_key(|pu| pu.cpu);
        if pus.is_empty() {
            return Err(refused("it names none of the processors that this thread may run on".into()));
        }
        let mut caches = Vec::new();
        for (level, kind) in (1u8..).zip(CACHES) {
            for object in machine.objects_with_type(kind) {
                let Some(ObjectAttributes::Cache(cache)) = object.attributes() else { continue };
                let kind = match cache.cache_type() {
                    CacheType::Data => CacheKind::Data,
                    CacheType::Unified => CacheKind::Unified,
                    _ => continue,
                };
                let cpus: Vec<usize> = cpus(object).into_iter().filter(is_usable).collect();
                if !cpus.is_empty() {
                    caches.push(Cache { level, kind, bytes: cache.size().map_or(0, Into::into), cpus });
                }
            }
        }
        Ok(Topology::assemble(source, pus, caches))
    }
}

/// Kernel numbers of the hardware threads in an object, ascending.
fn cpus(object: &TopologyObject) -> Vec<usize> {
    object.cpuset().map(|set| set.iter_set().map(usize::from).collect()).unwrap_or_default()
}

fn pu(object: &TopologyObject) -> Option<Pu> {
    let cpu = object.os_index()?;
    // The lowest hardware thread of a core names it, as in `/sys`.
    let core = object.first_ancestor_with_type(ObjectType::Core).and_then(|core| cpus(core).first().copied());
    let package = object.first_ancestor_with_type(ObjectType::Package).and_then(TopologyObject::os_index);
    let node = object.nodeset().and_then(|nodes| nodes.first_set()).map(usize::from);
    Some(Pu { cpu, package: package.unwrap_or(0), node: node.unwrap_or(0), core: core.unwrap_or(cpu) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Synthetic, Sys};
    use std::collections::BTreeSet;

    #[test]
    fn a_synthetic_machine_is_what_its_description_says() {
        let text = "package:2 [numa] l3:1(size=33554432) core:4 pu:2";
        let machine = Hwloc::synthetic(text).discover().unwrap();
        assert_eq!((machine.nodes.len(), machine.cores.len(), machine.pus()), (2, 8, 16));
        assert_eq!(machine.cores[5].package, 1);
        let l3: Vec<&Cache> = machine.caches.iter().filter(|cache| cache.level == 3).collect();
        assert_eq!((l3.len(), l3[0].bytes, l3[0].cpus.len()), (2, 32 << 20, 8));
        assert!(machine.source.contains(text));
        // The same places as on the machine that this crate describes by itself.
        let own = Topology::synthetic("package:2 numa:1 l3:1 core:4 pu:2").unwrap();
        for ranks in 1..=8 {
            assert_eq!(machine.place(Policy::ScatterNuma, ranks), own.place(Policy::ScatterNuma, ranks));
        }
    }

    #[test]
    fn a_description_that_does_not_parse_is_an_error() {
        let error = Hwloc::synthetic("core:no").discover().unwrap_err().to_string();
        assert!(error.contains("core:no"), "{error}");
    }

    /// What both parsers read is the same machine.
    #[test]
    fn both_parsers_agree() {
        for text in [
            "numa:1 core:1 pu:1",
            "numa:2 core:4 pu:1",
            "node:2 core:2 pu:2",
            "package:2 numa:1 l3:1 core:4 pu:2",
            "socket:2 numa:2 core:3 pu:1",
            "package:1 numa:4 l3:2 l2:2 core:1 pu:2",
            "numa:3 l2:2 core:2 pu:2",
            "package:2 l3:2 numa:1 core:2 pu:1",
        ] {
            let (theirs, ours) =
                (Hwloc::synthetic(text).discover().unwrap(), Synthetic::new(text).discover().unwrap());
            assert_eq!(cores(&theirs), cores(&ours), "{text}");
            let caches = |machine: &Topology| {
                let all = machine.caches.iter().map(|cache| (cache.level, cache.cpus.clone()));
                all.collect::<BTreeSet<_>>()
            };
            assert_eq!(caches(&theirs), caches(&ours), "{text}");
            for policy in [Policy::Scatter, Policy::ScatterNuma] {
                for ranks in 1..=ours.cores.len() {
                    assert_eq!(
                        theirs.place(policy, ranks),
                        ours.place(policy, ranks),
                        "{text}, {ranks} ranks"
                    );
                }
            }
        }
    }

    /// What only libhwloc reads, cores and nodes of it; and what a description means, whoever could read it.
    #[test]
    fn descriptions_go_to_who_can_read_them() {
        for (text, cores, nodes) in [
            ("package:2 die:2 core:2 pu:1", 8, 1),
            ("package:2 [numa] core:2 pu:2", 4, 2),
            ("group:2 core:2 pu:1", 4, 1),
            ("package:2 l3:2 l2:2 l1d:1 core:1 pu:2", 8, 1),
            ("2 4 2", 16, 8),
        ] {
            assert!(Synthetic::new(text).discover().is_err(), "{text}");
            let machine = Topology::synthetic(text).unwrap();
            assert_eq!((machine.cores.len(), machine.nodes.len()), (cores, nodes), "{text}");
            assert!(machine.source.starts_with("hwloc"), "{}", machine.source);
        }
        // libhwloc wants `pu`, and has one node where none is named.
        for (text, nodes) in [("numa:2 core:4", 2), ("package:2 core:2 pu:1", 2)] {
            let machine = Topology::synthetic(text).unwrap();
            assert_eq!((machine.nodes.len(), machine.source), (nodes, format!("synthetic {text}")));
        }
        // Neither.
        for text in ["", "core", "core:0 pu:1", "core:2 numa:2", "isle:2 core:2 pu:1"] {
            let error = Topology::synthetic(text).unwrap_err();
            assert!(matches!(error, Error::Synthetic { .. }), "{text}: {error}");
        }
    }

    /// What nobody should build is not given to libhwloc.
    #[test]
    fn too_large_a_machine_is_refused() {
        for text in [
            "core:300 pu:300",
            "die:300 core:300 pu:1",
            "300 300",
            "die:2(indexes=1,0) core:99999999 pu:99999999",
            "die:2(indexes=1,0)core:60000pu:60000",
            "group:60000core:60000pu:1",
            "die:0xffff core:0xffff pu:1",
            "die:2 core:-1 pu:1",
        ] {
            assert!(Topology::synthetic(text).is_err(), "{text}");
            assert!(Synthetic::new(text).is_too_large(), "{text}");
        }
        assert!(
            !Synthetic::new("package:2(memory=99999999) [numa(memory=99999999)] core:2 pu:2").is_too_large()
        );
    }

    /// Node and hardware threads of each core.
    fn cores(machine: &Topology) -> Vec<(usize, Vec<usize>)> {
        machine.cores.iter().map(|core| (core.node, core.cpus.clone())).collect()
    }

    /// What it says of this machine agrees with what the kernel says, as far as both tell.
    #[test]
    fn this_machine() {
        let (theirs, ours) = (Hwloc::default().discover().unwrap(), Sys::default().discover().unwrap());
        assert_eq!(cores(&theirs), cores(&ours));
        assert_eq!(theirs.pus(), ours.pus());
    }
}
