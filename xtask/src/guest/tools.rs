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

/// Where libraries lie, on the machine and under what is unpacked.
const LIBRARIES: [&str; 2] = ["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu"];

/// Part of the cache's key: what is done with the packages.
const UNPACKING: &str = "3";

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
        let root = cache::once(&cache::key("tools", &parts), |dir| {
            println!("fetching {}", missing.join(", "));
            archive.machine()?.unpack_with_dependencies(&missing, dir)?;
            complete_compiler(dir)?;
            complete_libraries(dir, &LIBRARIES.map(Path::new))
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
        let libraries = under(&LIBRARIES.map(|dir| &dir[1..]));
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
        // bison and flex find skeletons and m4 by absolute paths.
        for (name, file) in [("BISON_PKGDATADIR", "usr/share/bison"), ("M4", "usr/bin/m4")] {
            if root.join(file).exists() {
                command.env(name, root.join(file));
            }
        }
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

/// The link by which a linker finds a library is in its development package, and what it points to, beside it, in another, which
/// is not unpacked if the machine has it: then the link leads there.
fn complete_libraries(root: &Path, machine: &[&Path]) -> Outcome {
    for dir in LIBRARIES {
        for link in entries(&root.join(&dir[1..])) {
            let Some(name) = fs::read_link(&link).ok().filter(|_| !link.exists()) else { continue };
            let Some(there) = machine.iter().map(|dir| dir.join(&name)).find(|file| file.exists()) else {
                continue;
            };
            fs::remove_file(&link)
                .and_then(|()| symlink(&there, &link))
                .map_err(|e| format!("cannot link {}: {e}", link.display()))?;
        }
    }
    Ok(())
}

/// What is in a directory; nothing is, where there is none.
fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).map(|all| all.filter_map(|e| e.ok().map(|e| e.path())).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_what_the_machine_has_lead_there() {
        let base = std::env::temp_dir().join(format!("tocsin-tools-{}", std::process::id()));
        let (root, machine) = (base.join("unpacked"), base.join("machine"));
        let unpacked = root.join(&LIBRARIES[0][1..]);
        fs::create_dir_all(&unpacked).unwrap();
        fs::create_dir_all(&machine).unwrap();
        fs::write(machine.join("libhere-1.so"), "").unwrap();
        fs::write(unpacked.join("libboth-1.so"), "").unwrap();
        fs::write(machine.join("libboth-1.so"), "").unwrap();
        for name in ["here", "both", "nowhere"] {
            symlink(format!("lib{name}-1.so"), unpacked.join(format!("lib{name}.so"))).unwrap();
        }
        complete_libraries(&root, &[&base.join("none"), &machine]).unwrap();
        let leads = |name: &str| fs::read_link(unpacked.join(name)).unwrap();
        assert_eq!(leads("libhere.so"), machine.join("libhere-1.so"));
        assert_eq!(leads("libboth.so"), Path::new("libboth-1.so"));
        assert_eq!(leads("libnowhere.so"), Path::new("libnowhere-1.so"));
        fs::remove_dir_all(base).unwrap();
    }
}
