//! Debian's 6.1 with our series and the checkers of `debug-6.1.config`: takes minutes to build, so the cache keeps it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::apt::{Apt, Archive};
use super::kernel::Built;
use super::tools::Tools;
use super::{cache, quietly, recipe};
use crate::{Outcome, cargo, child};

const CONFIG: &str = "debug-6.1.config";
/// Part of the cache's key: what is done with the source.
const BUILD: &str = "1";

/// Finds or builds it.
///
/// # Errors
/// When the source cannot be fetched, patched or built.
pub fn find(archive: &Archive, tools: &Tools) -> Result<Built, String> {
    let config = cache::read(&recipe(CONFIG))?;
    let series = cargo::root().join("kernel-patches/linux-6.1");
    let mut parts = vec![BUILD.to_owned(), config];
    contents(&series, &mut parts)?;
    if series.is_dir() {
        // It takes the core's source from the module.
        for part in ["core", "include"] {
            contents(&cargo::root().join("kernel-patches/module").join(part), &mut parts)?;
        }
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let dir = cache::once(&cache::key("linux", &parts), |dir| {
        println!("building Linux 6.1 with the series and its checkers; this takes a while");
        build(archive.suite("bookworm")?, tools, &series, dir)
    })?;
    Ok(Built {
        image: dir.join("tree/arch/x86/boot/bzImage"),
        headers: dir.join("tree"),
        settings: vec!["CC=cc".to_owned()],
        modules: None,
    })
}

/// All files below that bear on the kernel, in order; a directory that is not there has none.
fn contents(dir: &Path, parts: &mut Vec<String>) -> Outcome {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    let mut files: Vec<_> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    files.sort();
    for file in files {
        if file.is_dir() {
            contents(&file, parts)?;
        } else if file.extension().is_none_or(|e| e != "md") {
            let bytes = fs::read(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
            parts.push(file.file_name().unwrap_or_default().to_string_lossy().into_owned());
            parts.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(())
}

fn build(bookworm: &Apt, tools: &Tools, series: &Path, dir: &Path) -> Outcome {
    let package = dir.join("package");
    bookworm.unpack(&["linux-source-6.1"], &package)?;
    cache::make_dir(&dir.join("tree"))?;
    let apply = series.join("apply.sh");
    let apply = if apply.is_file() { format!("sh '{}' .", apply.display()) } else { "true".to_owned() };
    // A module is built against headers and scripts: sources and objects are 2 GB that nobody needs again.
    let script = format!(
        "set -e; cd '{dir}/tree'; tar -xf ../package/usr/src/linux-source-6.1.tar.xz --strip-components=1; rm -rf ../package\n\
         {apply}\n\
         make -s KCONFIG_ALLCONFIG='{config}' allnoconfig; make -s -j$(nproc) bzImage modules_prepare\n\
         [ -e Module.symvers ] || cp vmlinux.symvers Module.symvers; rm -f vmlinux\n\
         find . -name '*.[oa]' -not -path './scripts/*' -not -path './tools/*' -delete\n\
         find . -name '*.c' -not -path './scripts/*' -not -path './tools/*' -delete\n\
         rm -rf Documentation drivers/*/ sound samples",
        dir = dir.display(),
        config = recipe(CONFIG).display(),
    );
    let limit = Duration::from_secs(6000);
    let mut command = child::command("sh", &["-c", &script], limit);
    tools.add_to(&mut command);
    quietly(command, limit, &dir.with_extension("log"), "building the kernel")
}
