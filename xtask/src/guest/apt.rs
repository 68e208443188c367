//! Debian's packages, through its own apt: that checks the archive's signatures. Lists, cache and state are our own, so that it
//! works for an ordinary user and leaves the machine's apt as it is. Nothing is installed: packages are unpacked where we say.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use super::{cache, quietly};
use crate::{Outcome, child, prerequisites};

const UPDATE: Duration = Duration::from_secs(300);
const FETCH: Duration = Duration::from_secs(600);
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The apts of one run, each made, and its index fetched, when it is first asked for.
#[derive(Default)]
pub struct Archive {
    machine: OnceLock<Result<Apt, String>>,
    suites: [OnceLock<Result<Apt, String>>; SUITES.len()],
}

const SUITES: [&str; 2] = ["bookworm", "trixie"];

impl Archive {
    /// With the machine's own sources.
    ///
    /// # Errors
    /// As [`Apt::of_machine`].
    pub fn machine(&self) -> Result<&Apt, String> {
        self.machine.get_or_init(Apt::of_machine).as_ref().map_err(Clone::clone)
    }

    /// With one of Debian's suites, from the mirror that the machine uses.
    ///
    /// # Errors
    /// As [`Apt::of_suite`], or when no mirror is known.
    pub fn suite(&self, suite: &str) -> Result<&Apt, String> {
        let index = SUITES.iter().position(|&s| s == suite).ok_or_else(|| format!("no suite {suite}"))?;
        let make = || {
            let mirror = match std::env::var("XTASK_DEBIAN_MIRROR") {
                Ok(mirror) => mirror,
                Err(_) => self.machine()?.mirror()?,
            };
            Apt::of_suite(&mirror, suite)
        };
        self.suites[index].get_or_init(make).as_ref().map_err(Clone::clone)
    }
}

/// An apt of our own.
pub struct Apt {
    dir: PathBuf,
}

impl Apt {
    /// With the machine's own sources and what it has installed: for programs to run on it.
    ///
    /// # Errors
    /// When there is no apt, or the index cannot be fetched.
    pub fn of_machine() -> Result<Apt, String> {
        let apt = Apt::new("apt-machine", "Dir::State::status \"/var/lib/dpkg/status\";\n")?;
        // Sources that are no Debian's may fail, and we need none of them.
        if let Err(e) = apt.update() {
            println!("{e}; going on with what there is");
        }
        Ok(apt)
    }

    /// With Debian's `suite` from `mirror` and nothing installed.
    ///
    /// # Errors
    /// When there is no apt or no Debian keyring, or the index cannot be fetched.
    pub fn of_suite(mirror: &str, suite: &str) -> Result<Apt, String> {
        if !Path::new(KEYRING).is_file() {
            return Err(format!("{KEYRING} is missing; run: sudo apt-get install -y debian-archive-keyring"));
        }
        let name = format!("apt-{suite}");
        let dir = cache::root()?.join(&name);
        let at = dir.display();
        let apt = Apt::new(
            &name,
            &format!(
                "Dir::State::status \"{at}/nothing-installed\";\nDir::Etc::SourceList \"{at}/sources.list\";\n\
                 Dir::Etc::SourceParts \"/dev/null\";\n"
            ),
        )?;
        cache::write(&dir.join("nothing-installed"), "")?;
        let sources: String = ["deb", "deb-src"]
            .iter()
            .map(|kind| format!("{kind} [signed-by={KEYRING}] {mirror} {suite} main\n"))
            .collect();
        cache::write(&dir.join("sources.list"), sources)?;
        apt.update()?;
        Ok(apt)
    }

    fn new(name: &str, settings: &str) -> Result<Apt, String> {
        if prerequisites::find("apt-get").is_none() {
            return Err("the guest's emulator and kernels come from Debian's archive, and this machine has no apt-get".to_owned());
        }
        let dir = cache::root()?.join(name);
        for part in ["lists/partial", "cache/archives/partial"] {
            cache::make_dir(&dir.join(part))?;
        }
        let at = dir.display();
        // Hooks of the machine's configuration may want root; AppStream's and Contents' indexes are of no use here.
        let conf = format!(
            "Dir::State \"{at}\";\nDir::State::lists \"{at}/lists\";\nDir::Cache \"{at}/cache\";\n{settings}\
             Dir::Cache::pkgcache \"pkgcache.bin\";\nDir::Cache::srcpkgcache \"srcpkgcache.bin\";\n\
             Acquire::Languages \"none\";\nAcquire::Retries \"5\";\nAcquire::http::Timeout \"60\";\nAcquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
             Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled \"false\";\nAPT::Sandbox::User \"\";\n\
             Debug::NoLocking \"true\";\n#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n\
             #clear DPkg::Post-Invoke;\n#clear DPkg::Pre-Install-Pkgs;\n"
        );
        cache::write(&dir.join("apt.conf"), conf)?;
        Ok(Apt { dir })
    }

    fn command(&self, program: &str, arguments: &[&str], limit: Duration) -> Command {
        let conf = self.dir.join("apt.conf");
        let conf = conf.to_string_lossy();
        let mut all = vec!["-q", "-c", &*conf];
        all.extend(arguments);
        let mut command = child::command(program, &all, limit);
        command.env("LC_ALL", "C.UTF-8").env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn update(&self) -> Outcome {
        let log = self.dir.join("update.log");
        quietly(self.command("apt-get", &["update"], UPDATE), UPDATE, &log, "apt-get update")?;
        // What several threads then read.
        quietly(self.command("apt-cache", &["gencaches"], UPDATE), UPDATE, &log, "apt-cache gencaches")
    }

    /// The address of Debian's own archive among the machine's sources.
    ///
    /// # Errors
    /// When there is none.
    pub fn mirror(&self) -> Result<String, String> {
        let format = ["indextargets", "--format", "$(ORIGIN) $(CODENAME) $(REPO_URI)"];
        let list = child::output(self.command("apt-get", &format, UPDATE), "apt-get indextargets")?;
        mirror_of(&list).map(str::to_owned).ok_or_else(|| {
            "apt knows no mirror of Debian; name one by XTASK_DEBIAN_MIRROR=http://HOST/debian".to_owned()
        })
    }

    /// What a package depends on.
    ///
    /// # Errors
    /// When there is no such package.
    pub fn depends(&self, package: &str) -> Result<Vec<String>, String> {
        let words = [
            "depends",
            "--no-recommends",
            "--no-suggests",
            "--no-conflicts",
            "--no-breaks",
            "--no-replaces",
            package,
        ];
        let list = child::output(self.command("apt-cache", &words, UPDATE), "apt-cache depends")?;
        Ok(list.lines().filter_map(|l| l.trim().strip_prefix("Depends: ")).map(str::to_owned).collect())
    }

    /// Downloads exactly these packages (`name` or `name=version`) and unpacks them under `root`.
    ///
    /// # Errors
    /// When one cannot be had.
    pub fn unpack(&self, packages: &[&str], root: &Path) -> Outcome {
        let debs = root.with_extension("debs");
        cache::remove(&debs)?;
        cache::make_dir(&debs)?;
        let mut words = vec!["download"];
        words.extend(packages);
        let mut command = self.command("apt-get", &words, FETCH);
        command.current_dir(&debs);
        quietly(command, FETCH, &debs.join("fetch.log"), &words.join(" "))?;
        unpack_all(&debs, root)?;
        cache::remove(&debs)
    }

    /// Downloads these packages with all they need that is not installed, and unpacks them under `root`.
    ///
    /// # Errors
    /// When one cannot be had.
    pub fn unpack_with_dependencies(&self, packages: &[&str], root: &Path) -> Outcome {
        let archives = self.dir.join("cache/archives");
        cache::remove(&archives)?;
        cache::make_dir(&archives.join("partial"))?;
        let mut words = vec!["install", "-y", "--no-install-recommends", "--download-only"];
        words.extend(packages);
        let log = self.dir.join("install.log");
        quietly(self.command("apt-get", &words, FETCH), FETCH, &log, "apt-get")?;
        unpack_all(&archives, root)
    }

    /// Downloads a source package's tarball and gives its path in `into`.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn tarball(&self, source: &str, into: &Path) -> Result<PathBuf, String> {
        cache::make_dir(into)?;
        let mut command =
            self.command("apt-get", &["source", "--tar-only", "--download-only", source], FETCH);
        command.current_dir(into);
        quietly(command, FETCH, &into.join("fetch.log"), source)?;
        files(into, ".orig.tar.xz")?.into_iter().next().ok_or_else(|| format!("{source} has no .orig.tar.xz"))
    }
}

/// The lines are `ORIGIN CODENAME ADDRESS`.
fn mirror_of(list: &str) -> Option<&str> {
    list.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (origin, codename, address) = (words.next()?, words.next()?, words.next()?);
        // Security updates and backports have archives, or at least code names, of their own.
        (origin == "Debian" && !codename.contains('-')).then(|| address.trim_end_matches('/'))
    })
}

fn files(dir: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    files.retain(|f| f.to_string_lossy().ends_with(ending));
    files.sort();
    Ok(files)
}

fn unpack_all(debs: &Path, root: &Path) -> Outcome {
    let limit = Duration::from_secs(120);
    for deb in files(debs, ".deb")? {
        let words = ["-x", &*deb.to_string_lossy(), &*root.to_string_lossy()];
        child::output(child::command("dpkg-deb", &words, limit), "dpkg-deb")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_debians_own() {
        let list = "Other nodistro https://other.example/\nDebian bookworm-security http://m.example/debian-security/\n\
                    Debian bookworm http://m.example/debian/\n";
        assert_eq!(mirror_of(list), Some("http://m.example/debian"));
        assert_eq!(mirror_of("Ubuntu noble http://u.example/ubuntu/\n"), None);
        assert_eq!(mirror_of(""), None);
    }
}
