use super::*;
use std::collections::HashSet;
use tocsin_topology::{Locality, Topology};

/// Knuth's generator (MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % n
    }
}

/// All of a group's.
fn family(hierarchy: Option<&Hierarchy>, size: u32, root: u32) -> Vec<Kin> {
    (0..size).map(|rank| kin(hierarchy, size, rank, root)).collect()
}

/// Each rank but the root is the child of its parent, of nobody else, and comes from the root.
fn check(family: &[Kin], root: u32, what: &str) {
    let mut heard = vec![0; family.len()];
    let mut tell = vec![root];
    while let Some(rank) = tell.pop() {
        for child in &family[rank as usize].children {
            let of_child = &family[child.rank as usize];
            assert_eq!(of_child.parent, Some(rank), "{what}");
            assert_eq!(of_child.children.is_empty(), child.is_leaf, "{what}");
            heard[child.rank as usize] += 1;
            tell.push(child.rank);
        }
        assert!(heard.iter().all(|times| *times <= 1), "{what}");
    }
    assert_eq!(family[root as usize].parent, None);
    assert_eq!(heard.iter().sum::<usize>(), family.len() - 1, "{what}");
}

/// Of any ranks anywhere on any machine, whichever is the root: messages between parts are one less than parts.
#[test]
fn each_part_is_entered_once() {
    let mut random = Random(1);
    let orders = [
        ["package", "numa", "l3", "l2"],
        ["numa", "package", "l3", "l2"],
        ["package", "l3", "numa", "l2"],
        ["l3", "numa", "package", "l2"],
    ];
    for _ in 0..1500 {
        let levels =
            orders[random.below(orders.len())].map(|level| format!("{level}:{}", 1 + random.below(4)));
        let text = format!("{} core:{} pu:{}", levels.join(" "), 1 + random.below(4), 1 + random.below(2));
        let machine = Topology::synthetic(&text).unwrap();
        let size = 1 + random.below(40);
        let unknown = random.below(3) == 0;
        let cpu = |_| Some(random.below(machine.pus())).filter(|cpu| !unknown || cpu % 3 > 0);
        let cpus: Vec<Option<usize>> = (0..size).map(cpu).collect();
        let localities = machine.localities(&cpus);
        let hierarchy = Hierarchy::new(&localities);
        let root = random.below(size) as u32;
        let family = family(hierarchy.as_ref(), size as u32, root);
        let what = format!("{text}, {cpus:?}, root {root}");
        check(&family, root, &what);
        let kinds: [fn(&Locality) -> u32; 3] = [|l| l.package, |l| l.node, |l| l.cache];
        for kind in kinds {
            let part = |rank: u32| localities[rank as usize].as_ref().map(kind);
            let parts: HashSet<_> = (0..size as u32).map(part).collect();
            let crosses = |(rank, kin): &(u32, &Kin)| kin.parent.is_some_and(|of| part(of) != part(*rank));
            let crossing = (0..).zip(&family).filter(crosses).count();
            assert_eq!(crossing, parts.len() - 1, "{what}");
        }
    }
}

/// Where parts of different kinds cross, as no real machine's do.
#[test]
fn any_parts_make_a_tree() {
    let mut random = Random(2);
    for _ in 0..1500 {
        let size = 1 + random.below(40);
        let mut number = || random.below(5) as u32;
        let mut one = || Locality { package: number(), node: number(), cache: number() };
        let localities: Vec<_> = (0..size).map(|_| Some(one())).collect();
        let hierarchy = Hierarchy::new(&localities);
        let root = random.below(size) as u32;
        check(&family(hierarchy.as_ref(), size as u32, root), root, &format!("{localities:?}, root {root}"));
    }
}

/// Where nothing is known, whom the binomial tree has.
#[test]
fn without_parts_it_is_the_binomial_tree() {
    for size in 1..40 {
        for (root, rank) in (0..size).flat_map(|root| (0..size).map(move |rank| (root, rank))) {
            let (kin, tree) = (kin(None, size, rank, root), Tree::new(rank, size, root));
            assert_eq!(kin.parent, tree.parent());
            let children = tree.children().map(|(place, _)| tree.member(place));
            assert!(kin.children.iter().map(|child| child.rank).eq(children));
        }
    }
}

/// Two nodes of two caches of four cores: the other node, the other cache, then the own one.
#[test]
fn the_widest_parts_come_first() {
    let machine = Topology::synthetic("numa:2 l3:2 core:4").unwrap();
    let cpus: Vec<Option<usize>> = (0..16).map(Some).collect();
    let hierarchy = Hierarchy::new(&machine.localities(&cpus)).unwrap();
    let of = |rank| {
        let kin = kin(Some(&hierarchy), 16, rank, 6);
        (kin.parent, kin.children.iter().map(|child| (child.rank, child.is_leaf)).collect::<Vec<_>>())
    };
    // It leads its node, its cache, and whom it meets there.
    assert_eq!(of(6), (None, vec![(8, false), (0, false), (4, false), (7, true)]));
    assert_eq!(of(8), (Some(6), vec![(12, false), (10, false), (9, true)]));
    assert_eq!(of(4), (Some(6), vec![(5, true)]));
    assert_eq!(of(5), (Some(4), vec![]));
}
