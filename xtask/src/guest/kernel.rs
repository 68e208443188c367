//! Debian's stock kernels for clouds with what a module is built against, and our own build of Debian's source.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::apt::{Apt, Archive};
use super::tools::Tools;
use super::{cache, relocatable};
use crate::{Outcome, child};

/// A kernel that can be booted and built against.
#[derive(Clone)]
pub struct Built {
    /// What isolinux loads.
    pub image: PathBuf,
    /// What a module's Makefile calls KDIR.
    pub headers: PathBuf,
    /// What its `make` wants to be told.
    pub settings: Vec<String>,
    /// Where some of its own modules are, if they are kept.
    pub modules: Option<PathBuf>,
}

/// Modules of stock kernels that tests load, in an order in which they can be.
const MODULES: [&str; 4] = ["irqbypass", "kvm", "kvm-intel", "msr"];

/// The newest kernel for clouds that `suite` has.
///
/// # Errors
/// When its packages cannot be fetched, or are laid out in another way than we know.
pub fn stock(suite: &str, archive: &Archive, tools: &Tools) -> Result<Built, String> {
    let dir = cache::once(&cache::key("kernel", &["5", suite]), |dir| {
        println!("fetching the stock kernel of {suite}");
        fetch(archive.suite(suite)?, suite, tools, dir)
    })?;
    let headers = format!("linux-headers-{}", cache::read(&dir.join("release"))?.trim());
    // What was cached may name the place where it was made.
    relocatable::make(&dir, &headers)?;
    Ok(Built {
        image: dir.join("image"),
        headers: dir.join("tree/usr/src").join(headers),
        // The newest compiler's option may be unknown to this machine's, and pahole is not there: no debugger will look.
        settings: ["CC=cc", "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=", "CONFIG_DEBUG_INFO_BTF_MODULES="]
            .map(str::to_owned)
            .to_vec(),
        modules: Some(dir.join("modules")),
    })
}

fn fetch(apt: &Apt, suite: &str, tools: &Tools, dir: &Path) -> Outcome {
    let starting_with = |package: &str, prefix: &str| {
        let found = apt.depends(package)?.into_iter().find(|name| name.starts_with(prefix));
        found.ok_or_else(|| format!("{package} of {suite} depends on no {prefix}*"))
    };
    let image = starting_with("linux-image-cloud-amd64", "linux-image-")?;
    let headers = starting_with("linux-headers-cloud-amd64", "linux-headers-")?;
    let kbuild = starting_with(&headers, "linux-kbuild-")?;
    let depends = apt.depends(&headers)?;
    let common = depends
        .iter()
        .find(|name| name.starts_with("linux-headers-") && name.ends_with("-common"))
        .ok_or_else(|| format!("{headers} depends on no common headers"))?;
    let release = headers.trim_start_matches("linux-headers-");

    let boot = dir.join("boot");
    apt.unpack(&[&image], &boot)?;
    cache::copy(&boot.join(format!("boot/vmlinuz-{release}")), &dir.join("image"))?;
    keep_modules(&boot, tools, &dir.join("modules"))?;
    cache::remove(&boot)?;

    let root = dir.join("tree");
    apt.unpack(&[&headers, common, &kbuild], &root)?;

    let libraries = dir.join("libraries");
    let elf = if suite == "bookworm" { "libelf1" } else { "libelf1t64" };
    apt.unpack(&["libc6", elf, "zlib1g", "libzstd1"], &libraries)?;
    relocatable::make(dir, &headers)?;
    cache::write(&dir.join("release"), release)
}

/// Copies what tests load from below `package`, where newer kernels have it compressed.
fn keep_modules(package: &Path, tools: &Tools, to: &Path) -> Outcome {
    cache::make_dir(to)?;
    let name = |file: &str| format!("-name '{file}.ko' -o -name '{file}.ko.xz'");
    let names: Vec<String> = MODULES.iter().map(|file| name(file)).collect();
    let script = format!(
        "set -e; find '{}' {} | while read -r file; do cp \"$file\" '{to}'; done; \
         for file in '{to}'/*.xz; do [ ! -e \"$file\" ] || xz -d \"$file\"; done",
        package.display(),
        names.join(" -o "),
        to = to.display()
    );
    let mut command = child::command("sh", &["-c", &script], Duration::from_secs(60));
    tools.add_to(&mut command);
    child::output(command, "keeping modules")?;
    match MODULES.iter().find(|file| !to.join(format!("{file}.ko")).is_file()) {
        Some(file) => Err(format!("the stock kernel has no module {file}")),
        None => Ok(()),
    }
}
