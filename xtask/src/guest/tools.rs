//! Programs that building the guest takes and this machine may lack. What is missing is unpacked into the cache, which needs no
//! root and installs nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::Archive;
use super::cache;
use crate::Outcome;
use crate::prerequisites::find;

/// A program, and Debian's package of it.
const PROGRAMS: [(&str, &str); 5] =
    [("make", "make"), ("g++", "g++"), ("patch", "patch"), ("xz", "xz-utils"), ("xorriso", "xorriso")];

/// What building a kernel takes on top: a program or a header.
const KERNEL: [(&str, &str); 4] =
    [("flex", "flex"), ("bison", "bison"), ("bc", "bc"), ("/usr/include/libelf.h", "libelf-dev")];

/// Part of the cache's key: what is done with the packages.
const UNPACKING: &str = "2";

/// Where to find what had to be unpacked.
#[derive(Default)]
pub struct Tools {
    root: Option<PathBuf>,
}

impl Tools {
    /// Finds or fetches what is needed.
    ///
    /// # Errors
    /// When something is missing and cannot be fetched: with the line to type.
    pub fn find(archive: &Archive, with_kernel: bool) -> Result<Tools, String> {
        let wanted = PROGRAMS.iter().chain(KERNEL.iter().filter(|_| with_kernel));
        let there =
            |name: &str| if name.starts_with('/') { Path::new(name).exists() } else { find(name).is_some() };
        let missing: Vec<&str> =
            wanted.filter(|(name, _)| !there(name)).map(|&(_, package)| package).collect();
        if missing.is_empty() {
            return Ok(Tools::default());
        }
        let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let mut parts = missing.clone();
        parts.push(&release);
        parts.push(UNPACKING);
        let root = cache::once(&cache::key("tools", &parts), |dir, _| {
            println!("fetching {}", missing.join(", "));
            archive.machine()?.unpack_with_dependencies(&missing, dir)?;
            complete_compiler(dir)
        })
        .map_err(|e| {
            format!(
                "{e}\nmissing; run: sudo apt-get install -y --no-install-recommends {}",
                missing.join(" ")
            )
        })?;
        Ok(Tools { root: Some(root) })
    }

    /// Has a command find them.
    pub fn add_to(&self, command: &mut Command) {
        let Some(root) = &self.root else { return };
        let under = |names: &[&str]| names.iter().map(|n| root.join(n)).collect::<Vec<_>>();
        let libraries = under(&["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"]);
        for (name, dirs) in [
            ("PATH", under(&["usr/bin", "bin", "usr/sbin"])),
            ("LD_LIBRARY_PATH", libraries.clone()),
            ("LIBRARY_PATH", libraries),
            ("CPATH", under(&["usr/include", "usr/include/x86_64-linux-gnu"])),
        ] {
            let before = std::env::var_os(name).unwrap_or_default();
            let all = dirs.into_iter().chain(std::env::split_paths(&before));
            if let Ok(value) = std::env::join_paths(all) {
                command.env(name, value);
            }
        }
        // bison finds its skeletons and m4 by absolute paths.
        command.env("BISON_PKGDATADIR", root.join("usr/share/bison")).env("M4", root.join("usr/bin/m4"));
    }
}

/// A compiler that was unpacked looks for what belongs to it beside itself, and there alone: its C++ half is there, the C half
/// is the machine's.
fn complete_compiler(root: &Path) -> Outcome {
    let compilers = Path::new("usr/lib/gcc/x86_64-linux-gnu");
    for unpacked in entries(&root.join(compilers)) {
        let Some(version) = unpacked.file_name() else { continue };
        for part in entries(&Path::new("/").join(compilers).join(version)) {
            let Some(name) = part.file_name() else { continue };
            let here = unpacked.join(name);
            if fs::symlink_metadata(&here).is_err() {
                symlink(&part, &here).map_err(|e| format!("cannot link {}: {e}", here.display()))?;
            }
        }
    }
    Ok(())
}

/// What is in a directory; nothing is, where there is none.
fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).map(|all| all.filter_map(|e| e.ok().map(|e| e.path())).collect()).unwrap_or_default()
}
