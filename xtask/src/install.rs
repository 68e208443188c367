//! `cargo xtask install`: what a C program needs, laid out under a prefix.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cargo::{INSTALLED, installed, items, metadata, program, root, text};
use crate::{Outcome, child};

/// Where to.
pub struct Destination {
    /// Written into tocsin.pc: where programs will find it.
    prefix: PathBuf,
    /// Set before the prefix when files are written (for packagers); usually empty.
    destdir: PathBuf,
}

impl Destination {
    /// Reads the command line.
    ///
    /// # Errors
    /// When the prefix is missing or not absolute, or an option is unknown.
    pub fn parse(words: &[&str]) -> Result<Destination, String> {
        let (mut prefix, mut destdir) = (None, PathBuf::new());
        let mut rest = words.iter();
        while let Some(option) = rest.next() {
            let value = rest.next().ok_or_else(|| format!("{option} wants a directory"))?;
            match *option {
                "--prefix" => prefix = Some(PathBuf::from(value)),
                "--destdir" => destdir = PathBuf::from(value),
                _ => return Err(format!("unknown option {option}; --prefix DIR [--destdir DIR]")),
            }
        }
        match prefix {
            Some(prefix) if prefix.is_absolute() => Ok(Destination { prefix, destdir }),
            Some(prefix) => Err(format!("the prefix must be an absolute path, not {}", prefix.display())),
            None => Err("cargo xtask install --prefix DIR".to_owned()),
        }
    }

    fn dir(&self, name: &str) -> Result<PathBuf, String> {
        let inside = self.prefix.strip_prefix("/").unwrap_or(&self.prefix);
        let base =
            if self.destdir.as_os_str().is_empty() { self.prefix.clone() } else { self.destdir.join(inside) };
        let dir = base.join(name);
        fs::create_dir_all(&dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
        Ok(dir)
    }
}

/// Builds and installs.
///
/// # Errors
/// When a build fails or a file cannot be written.
pub fn run(destination: &Destination) -> Outcome {
    let limit = Duration::from_secs(1800);
    let build = [
        "build",
        "--profile",
        INSTALLED,
        "--locked",
        "-p",
        "tocsin-ffi",
        "-p",
        "tocsin-bench",
        "--lib",
        "--bins",
    ];
    if let Some(failure) = child::run(child::command(&program(), &build, limit), limit).failure {
        return Err(format!("the build failed: {failure}"));
    }
    let version = version()?;
    // As crates/ffi/build.rs gives it to the linker.
    let soname = format!("libtocsin.so.{}", version.split('.').next().unwrap_or("0"));
    let built = installed();

    let include = destination.dir("include")?;
    copy(&root().join("crates/ffi/include/tocsin.h"), &include.join("tocsin.h"))?;
    let lib = destination.dir("lib")?;
    copy(&built.join("libtocsin.a"), &lib.join("libtocsin.a"))?;
    let real = format!("libtocsin.so.{version}");
    copy(&built.join("libtocsin.so"), &lib.join(&real))?;
    link(&real, &lib.join(&soname))?;
    link(&soname, &lib.join("libtocsin.so"))?;
    copy(&built.join("tocsin"), &destination.dir("bin")?.join("tocsin"))?;

    let template = root().join("crates/ffi/tocsin.pc.in");
    let pc = fs::read_to_string(&template)
        .map_err(|e| format!("cannot read {}: {e}", template.display()))?
        .replace("@PREFIX@", &escaped(&destination.prefix.to_string_lossy()))
        .replace("@VERSION@", &version);
    let pc_file = destination.dir("lib/pkgconfig")?.join("tocsin.pc");
    fs::write(&pc_file, pc).map_err(|e| format!("cannot write {}: {e}", pc_file.display()))?;
    println!("{}", pc_file.display());
    Ok(())
}

/// A path as pkg-config takes it for one word.
fn escaped(path: &str) -> String {
    let special = |c: char| c.is_whitespace() || matches!(c, '\\' | '"' | '\'' | '#');
    let one = |c: char| match c {
        '$' => "$$".to_owned(),
        c if special(c) => format!("\\{c}"),
        c => c.to_string(),
    };
    path.chars().map(one).collect()
}

fn version() -> Result<String, String> {
    let metadata = metadata(&["--no-deps", "--offline"])?;
    let package = items(&metadata, "packages").iter().find(|p| text(p, "name") == "tocsin-ffi");
    package
        .map(|p| text(p, "version").to_owned())
        .ok_or_else(|| "tocsin-ffi is not in the workspace".to_owned())
}

fn copy(from: &Path, to: &Path) -> Outcome {
    // A library in use must not be written over: programs have it mapped.
    let _ = fs::remove_file(to);
    fs::copy(from, to).map_err(|e| format!("cannot copy {} to {}: {e}", from.display(), to.display()))?;
    println!("{}", to.display());
    Ok(())
}

fn link(target: &str, at: &Path) -> Outcome {
    let _ = fs::remove_file(at);
    symlink(target, at).map_err(|e| format!("cannot link {}: {e}", at.display()))?;
    println!("{} -> {target}", at.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(escaped("/usr/local"), "/usr/local");
        assert_eq!(escaped("/opt/of us/a#b$c"), "/opt/of\\ us/a\\#b$$c");
    }

    #[test]
    fn destinations() {
        let d = Destination::parse(&["--prefix", "/usr", "--destdir", "/tmp/x"]).expect("valid");
        assert_eq!((d.prefix, d.destdir), (PathBuf::from("/usr"), PathBuf::from("/tmp/x")));
        for bad in [&[][..], &["--prefix"], &["--prefix", "relative"], &["--root", "/x"]] {
            assert!(Destination::parse(bad).is_err(), "{bad:?}");
        }
    }
}
