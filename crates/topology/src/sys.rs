//! The machine as Linux describes it under `/sys/devices/system`
//! (Documentation/ABI/stable/sysfs-devices-system-cpu, sysfs-devices-node).

use crate::model::Pu;
use crate::{Cache, CacheKind, Discover, Error, Topology, allowed_cpus};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel describes the machine.
pub(crate) const ROOT: &str = "/sys/devices/system";

/// Reads `/sys`, or a copy of it.
#[derive(Clone, Debug)]
pub struct Sys {
    root: PathBuf,
    only: Option<Vec<usize>>,
}

impl Default for Sys {
    fn default() -> Sys {
        Sys { root: PathBuf::from(ROOT), only: None }
    }
}

impl Sys {
    /// Reads another directory laid out as `/sys/devices/system`, limited to the processors given.
    pub fn at(root: impl Into<PathBuf>, cpus: Vec<usize>) -> Sys {
        Sys { root: root.into(), only: Some(cpus) }
    }

    /// The node of each processor that the nodes' own lists name: the same as [`node_in`] finds, but a container may show one without the
    /// other.
    fn nodes(&self) -> BTreeMap<usize, usize> {
        let dir = self.root.join("node");
        let cpus = |node: &usize| read(&dir.join(format!("node{node}/cpulist"))).and_then(|text| list(&text));
        let of_node = |node: usize| cpus(&node).unwrap_or_default().into_iter().map(move |cpu| (cpu, node));
        numbered(&dir, "node").into_iter().flat_map(of_node).collect()
    }
}

/// The node that a processor's directory has a link to.
fn node_in(cpu_dir: &Path) -> Option<usize> {
    numbered(cpu_dir, "node").into_iter().next()
}

/// The numbers of what a directory has of names such as `node3`, ascending.
fn numbered(dir: &Path, prefix: &str) -> Vec<usize> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
    let mut numbers: Vec<usize> = names.filter_map(|n| n.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

impl Discover for Sys {
    fn discover(&self) -> Result<Topology, Error> {
        let usable = match &self.only {
            Some(cpus) => cpus.clone(),
            None => allowed_cpus()?,
        };
        let mut pus = Vec::with_capacity(usable.len());
        let mut caches: Vec<Cache> = Vec::new();
        let nodes = OnceCell::new();
        for &cpu in &usable {
            let dir = self.root.join(format!("cpu/cpu{cpu}"));
            // The first hardware thread of a core names it: `core_id` repeats in every die and package. It is taken
            // before the mask is applied, so that siblings stay siblings.
            let siblings = ["core_cpus_list", "thread_siblings_list"]
                .iter()
                .find_map(|file| list(&read(&dir.join("topology").join(file))?))
                .unwrap_or_default();
            let core = siblings.first().copied().unwrap_or(cpu);
            let package = number(&dir.join("topology/physical_package_id")).unwrap_or(0);
            let node = node_in(&dir).or_else(|| nodes.get_or_init(|| self.nodes()).get(&cpu).copied());
            pus.push(Pu { cpu, package, node: node.unwrap_or(0), core });
            // A cache is reported by each of its sharers; the first usable one records it.
            for index in 0.. {
                let Some(cache) = cache(&dir.join(format!("cache/index{index}")), &usable) else {
                    break;
                };
                if let Some(cache) = cache.filter(|c| c.cpus.first() == Some(&cpu)) {
                    caches.push(cache);
                }
            }
        }
        Ok(Topology::assemble(self.root.display().to_string(), pus, caches))
    }
}

/// `None`: there is no such cache. `Some(None)`: one that is of no interest here.
fn cache(dir: &Path, usable: &[usize]) -> Option<Option<Cache>> {
    let kind = match read(&dir.join("type"))?.as_str() {
        "Data" => CacheKind::Data,
        "Unified" => CacheKind::Unified,
        _ => return Some(None),
    };
    let mut cpus = list(&read(&dir.join("shared_cpu_list"))?)?;
    cpus.retain(|cpu| usable.contains(cpu));
    let level = u8::try_from(number(&dir.join("level"))?).ok()?;
    let bytes = read(&dir.join("size")).and_then(|text| bytes(&text)).unwrap_or(0);
    Some(Some(Cache { level, kind, bytes, cpus }))
}

pub(crate) fn read(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &Path) -> Option<usize> {
    read(path)?.parse().ok()
}

/// `32K`, `36608K`, `1M`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// The kernel's list format: `0-3,8,10-11`.
pub(crate) fn list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first > 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests;
