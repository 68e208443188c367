//! Programs that building the guest takes and this machine may lack. What is missing is unpacked into the cache, which needs no
//! root and installs nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::Archive;
use super::cache;
use crate::prerequisites::find;

/// A program, and Debian's package of it.
const PROGRAMS: [(&str, &str); 5] =
    [("make", "make"), ("g++", "g++"), ("patch", "patch"), ("xz", "xz-utils"), ("xorriso", "xorriso")];

/// What building a kernel takes on top: a program or a header.
const KERNEL: [(&str, &str); 4] =
    [("flex", "flex"), ("bison", "bison"), ("bc", "bc"), ("/usr/include/libelf.h", "libelf-dev")];

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
        let root = cache::once(&cache::key("tools", &parts), |dir, _| {
            println!("fetching {}", missing.join(", "));
            archive.machine()?.unpack_with_dependencies(&missing, dir)
        })
        .map_err(|e| {
            format!(
                "{e}\nmissing; run: sudo apt-get install -y --no-install-recommends {}",
                missing.join(" ")
            )
        })?;
        Ok(Tools { root: Some(root) })
    }

    /// Has the command find them.
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
