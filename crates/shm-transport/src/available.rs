//! How much memory there is left to allocate: of the machine, and of the control groups that this process is in.
//!
//! Memory that is asked for and not there ends in somebody's death, by the kernel's choice; who asks for much looks before.

use std::fs;
use std::path::Path;

/// What the kernel and others may need meanwhile, bytes. Page tables of what is allocated come on top.
const RESERVE: u64 = 32 << 20;
/// How much is allocated between two looks, bytes. A look takes some 50 us, this some milliseconds; others allocate, too.
pub(crate) const STEP: u64 = 16 << 20;

/// Whether so many bytes may be had where so many are left.
pub(crate) fn suffices(available: u64, bytes: u64) -> bool {
    bytes.saturating_add(bytes / 256).saturating_add(RESERVE) <= available
}

/// Bytes that may still be allocated, caches that the kernel would give up for it included. `None`: nobody says. Not for handlers.
pub(crate) fn available() -> Option<u64> {
    available_under(Path::new("/"))
}

/// The same of a machine whose `proc` and `sys` stand under `root`.
fn available_under(root: &Path) -> Option<u64> {
    let info = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let kib = |name| number_of(&info, name).map(|kib| kib.saturating_mul(1024));
    let swap = kib("SwapFree:").unwrap_or(0);
    let machine = kib("MemAvailable:").map(|free| free.saturating_add(swap));
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let rooms = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let names = match controllers {
            "" => &V2,
            _ if controllers.split(',').any(|name| name == "memory") => &V1,
            _ => return None,
        };
        names.room(&root.join(names.mount), path, swap)
    });
    rooms.chain(machine).min()
}

/// The number behind a name at the beginning of a line.
fn number_of(text: &str, name: &str) -> Option<u64> {
    let found =
        text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '\t'])));
    found?.split_whitespace().next()?.parse().ok()
}

/// What a version of control groups calls what.
struct Names {
    mount: &'static str,
    limit: &'static str,
    used: &'static str,
    /// In `memory.stat`: what can be given up.
    caches: [&'static str; 2],
    /// Limit and use of swap space, where that is counted apart.
    swap: Option<[&'static str; 2]>,
}

const V2: Names = Names {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    caches: ["inactive_file", "active_file"],
    swap: Some(["memory.swap.max", "memory.swap.current"]),
};

const V1: Names = Names {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    caches: ["total_inactive_file", "total_active_file"],
    swap: None,
};

impl Names {
    /// The least that a group or one of those around it has left. Where the path is of another name space, the mount itself counts.
    fn room(&self, mount: &Path, path: &str, swap: u64) -> Option<u64> {
        let own = mount.join(path.trim_start_matches('/'));
        own.ancestors()
            .take_while(|group| group.starts_with(mount))
            .filter_map(|group| self.room_in(group, swap))
            .min()
    }

    fn room_in(&self, group: &Path, swap: u64) -> Option<u64> {
        let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
        // "max" is no number, and no limit.
        let (limit, used) = (number(self.limit)?, number(self.used)?);
        let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let caches =
            self.caches.iter().filter_map(|name| number_of(&stat, name)).fold(0, u64::saturating_add);
        let swap = self.swap.map_or(0, |[limit, used]| {
            let limit = if group.join(limit).exists() { number(limit).unwrap_or(u64::MAX) } else { 0 };
            limit.saturating_sub(number(used).unwrap_or(0)).min(swap)
        });
        Some(limit.saturating_sub(used).saturating_add(caches.min(used)).saturating_add(swap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own, gone with the value.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str, files: &[(&str, &str)]) -> Scratch {
            let root = std::env::temp_dir().join(format!("tocsin-available-{name}-{}", std::process::id()));
            for (file, text) in files {
                let file = root.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            Scratch(root)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _left = fs::remove_dir_all(&self.0);
        }
    }

    const INFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:  16000000 kB\nMemFree: 1 kB\nMemAvailable:    4000 kB\nSwapTotal: 9 kB\nSwapFree:          1000 kB\n",
    );

    #[test]
    fn a_machine_without_limits_says_what_it_has() {
        let machine = Scratch::new("machine", &[INFO, ("proc/self/cgroup", "0::/user.slice\n")]);
        assert_eq!(available_under(&machine.0), Some(5000 * 1024));
        assert_eq!(available_under(&machine.0.join("nowhere")), None);
        assert!(available().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn the_narrowest_group_counts() {
        let group = "sys/fs/cgroup/a/b";
        let file = |name: &str| format!("{group}/{name}");
        let (limit, used, stat) = (file("memory.max"), file("memory.current"), file("memory.stat"));
        let files = [
            INFO,
            ("proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n"),
            (limit.as_str(), "max\n"),
            (used.as_str(), "900000\n"),
            ("sys/fs/cgroup/a/memory.max", "1000000\n"),
            ("sys/fs/cgroup/a/memory.current", "900000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 5\nfile 700000\ninactive_file 200000\nactive_file 50000\n"),
        ];
        let machine = Scratch::new("groups", &files);
        assert_eq!(available_under(&machine.0), Some(350_000));
        // Swap space counts where the group may have some.
        fs::write(machine.0.join("sys/fs/cgroup/a/memory.swap.max"), "70000\n").unwrap();
        fs::write(machine.0.join("sys/fs/cgroup/a/memory.swap.current"), "30000\n").unwrap();
        assert_eq!(available_under(&machine.0), Some(390_000));
        fs::write(machine.0.join(&limit), "900100").unwrap();
        fs::write(machine.0.join(&stat), "inactive_file 0\n").unwrap();
        assert_eq!(available_under(&machine.0), Some(100));
    }

    #[test]
    fn older_groups_and_groups_of_another_name_space_count_too() {
        let older = Scratch::new(
            "older",
            &[
                INFO,
                ("proc/self/cgroup", "7:cpu,cpuacct:/\n4:memory:/docker/0815\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "4000"),
                ("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 20\n"),
            ],
        );
        assert_eq!(available_under(&older.0), Some(1020));
    }

    #[test]
    fn something_is_left_for_others() {
        assert!(suffices(RESERVE, 0) && !suffices(RESERVE - 1, 0) && !suffices(u64::MAX - 1, u64::MAX));
        assert!(suffices(RESERVE + 257, 256) && !suffices(RESERVE + 256, 256));
    }
}
