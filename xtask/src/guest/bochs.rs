//! The emulator: Debian's source of Bochs with our patch, and the BIOS images that go with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::apt::{Apt, Archive};
use super::tools::Tools;
use super::{cache, quietly, recipe};
use crate::{Outcome, child};

const VERSION: &str = "3.0+dfsg-1";
/// AMX is off: Bochs has it without XFD, and Linux does not start without that.
const FLAGS: &str = "--enable-x86-64 --enable-cpu-level=6 --enable-smp --enable-all-optimizations --enable-avx --enable-evex \
    --enable-cet --enable-protection-keys --enable-uintr --enable-vmx=2 --enable-memtype --enable-monitor-mwait \
    --disable-large-ramfile --disable-docbook --disable-plugins --with-nogui";
/// No -g: half of the time would be spent on what is stripped.
const CXXFLAGS: &str = "-O2";

/// Where the emulator and its BIOS images are.
#[derive(Clone)]
pub struct Bochs {
    dir: PathBuf,
}

impl Bochs {
    /// Finds or builds it.
    ///
    /// # Errors
    /// When the source cannot be fetched, patched or built.
    pub fn find(tools: &Tools, archive: &Archive) -> Result<Bochs, String> {
        let patch = recipe("bochs-uintr.patch");
        let text = cache::read(&patch)?;
        let dir = cache::once(&cache::key("bochs", &[VERSION, FLAGS, CXXFLAGS, &text]), |dir| {
            println!("building the emulator Bochs {VERSION}");
            build(tools, archive.suite("trixie")?, &patch, dir)
        })?;
        Ok(Bochs { dir })
    }

    pub fn program(&self) -> PathBuf {
        self.dir.join("bochs")
    }

    pub fn bios(&self) -> PathBuf {
        self.dir.join("BIOS-bochs-latest")
    }

    pub fn vga_bios(&self) -> PathBuf {
        self.dir.join("vgabios.bin")
    }
}

fn build(tools: &Tools, trixie: &Apt, patch: &Path, dir: &Path) -> Outcome {
    let work = dir.join("work");
    let tarball = trixie.tarball(&format!("bochs={VERSION}"), &work)?;
    // Distribution, architecture and BIOS are one version of one source.
    let bios = format!("bochsbios={VERSION}");
    trixie.unpack(&[&bios, "vgabios"], &work.join("bios"))?;
    cache::copy(&work.join("bios/usr/share/bochs/BIOS-bochs-latest"), &dir.join("BIOS-bochs-latest"))?;
    cache::copy(&work.join("bios/usr/share/vgabios/vgabios.bin"), &dir.join("vgabios.bin"))?;

    let source = work.join("source");
    cache::make_dir(&source)?;
    let (tarball, patch) = (tarball.to_string_lossy(), patch.to_string_lossy());
    let script = format!(
        "set -e; cd {}; tar -xf '{tarball}' --strip-components=1; patch -p1 --forward <'{patch}'; \
         CFLAGS={CXXFLAGS} CXXFLAGS={CXXFLAGS} ./configure {FLAGS}; make -j$(nproc) bochs; strip bochs",
        source.display()
    );
    let limit = Duration::from_secs(2400);
    let mut command = child::command("sh", &["-c", &script], limit);
    tools.add_to(&mut command);
    quietly(command, limit, &dir.with_extension("log"), "building Bochs")?;
    cache::copy(&source.join("bochs"), &dir.join("bochs"))?;
    cache::remove(&work)
}
