//! Builds what runs in the guest: Rust tests and programs, static, so that the guest needs no libraries; the module; its C tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::kernel::Built;
use super::list::{Program, STAND_INS};
use super::tools::Tools;
use super::{cache, quietly};
use crate::cargo::{items, metadata, program, root, target_dir, text};
use crate::{Outcome, child};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Says to the emulator, from inside, how long its processors' turns are.
pub const QUANTUM: &str = "quantum";

/// Where everything of the guest that belongs to this checkout is kept.
pub fn work_dir() -> PathBuf {
    target_dir().join("guest")
}

/// Builds the Rust programs among these and gives the path of each.
///
/// # Errors
/// When one is not there or does not build.
pub fn rust(programs: &BTreeSet<Program>) -> Result<BTreeMap<Program, PathBuf>, String> {
    let ids = package_ids()?;
    let id =
        |package: &str| ids.get(package).cloned().ok_or_else(|| format!("there is no package {package}"));
    let (mut tests, mut libs, mut bins) = (Vec::new(), Vec::new(), Vec::new());
    let mut wanted: BTreeMap<(String, &str, String), Program> = BTreeMap::new();
    for wish in programs {
        match wish {
            Program::Test { package, target } => {
                tests.extend(["-p", package, "--test", target]);
                wanted.insert((id(package)?, "test", target.clone()), wish.clone());
            }
            Program::Bin { package, target } => {
                bins.extend(["-p", package, "--bin", target]);
                wanted.insert((id(package)?, "bin", target.clone()), wish.clone());
            }
            Program::Lib { package } => {
                libs.extend(["-p", package]);
                wanted.insert((id(package)?, "lib", String::new()), wish.clone());
            }
            Program::C { .. } | Program::Selftest { .. } | Program::Script { .. } => {}
        }
    }
    let mut built = BTreeMap::new();
    for (command, more, words) in
        [("test", &["--no-run"][..], tests), ("test", &["--no-run", "--lib"], libs), ("build", &[], bins)]
    {
        if words.is_empty() {
            continue;
        }
        for message in cargo(command, more, &words)? {
            let target = &message["target"];
            let kinds = items(target, "kind");
            let kind = ["test", "bin", "lib"].into_iter().find(|kind| kinds.iter().any(|k| k == kind));
            let (Some(kind), Some(file)) = (kind, message["executable"].as_str()) else { continue };
            let name = if kind == "lib" { "" } else { text(target, "name") };
            if let Some(wish) = wanted.get(&(text(&message, "package_id").to_owned(), kind, name.to_owned()))
            {
                built.insert(wish.clone(), PathBuf::from(file));
            }
        }
    }
    match wanted.values().find(|wish| !built.contains_key(wish)) {
        Some(wish) => Err(format!("cargo built no {}", wish.file())),
        None => Ok(built),
    }
}

fn package_ids() -> Result<BTreeMap<String, String>, String> {
    let metadata = metadata(&["--no-deps", "--offline"])?;
    let ids = items(&metadata, "packages").iter();
    Ok(ids.map(|p| (text(p, "name").to_owned(), text(p, "id").to_owned())).collect())
}

/// What cargo says of each thing it built.
fn cargo(command: &str, more: &[&str], words: &[&str]) -> Result<Vec<Value>, String> {
    let limit = Duration::from_secs(1500);
    let mut arguments =
        vec![command, "--release", "--locked", "--target", TARGET, "--message-format", "json"];
    arguments.extend(more);
    arguments.extend(words);
    let mut cargo = child::command(&program(), &arguments, limit);
    cargo
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("CARGO_TARGET_DIR", work_dir().join("cargo"))
        // Every byte of the image is read through an emulated CD drive.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .stderr(Stdio::inherit());
    let output = child::output(cargo, "building the guest's programs")?;
    Ok(output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Builds one of the tests that the kernel's tree has of its own, beside the module.
///
/// # Errors
/// When the tree has no such test, or it does not build.
pub fn selftest(kernel: &Built, name: &str, tools: &Tools, dir: &Path) -> Result<PathBuf, String> {
    let to = dir.join(format!("selftest-{name}"));
    cache::make_dir(&to)?;
    // Against the C library's headers: the tree's are not installed.
    let script = format!(
        "make -C '{}/tools/testing/selftests/{name}' OUTPUT='{}' LDFLAGS=-static KHDR_INCLUDES=' '",
        kernel.headers.display(),
        to.display()
    );
    shell(&script, tools, &dir.join(format!("selftest-{name}.log")), "building the kernel's own tests")?;
    Ok(to.join(name))
}

/// Builds the module against this kernel; beside it, [`QUANTUM`]; above it, the C programs asked for. The stand-ins that are asked
/// for, too, each in a directory of its name.
///
/// # Errors
/// When one does not build.
pub fn module(
    kernel: &Built,
    name: &str,
    tools: &Tools,
    files: &BTreeSet<String>,
    stand_ins: &BTreeSet<&str>,
) -> Result<PathBuf, String> {
    // Kbuild writes beside the source, and two kernels would do so in one place.
    let dir = work_dir().join(format!("module-{name}"));
    cache::make_dir(&dir)?;
    let (from, to) = (root().join("kernel-patches"), dir.to_string_lossy().into_owned());
    let script = format!(
        "set -e; cd '{}'; cp -Ru module {} '{to}'; sh '{to}/module/tests/refusals.sh'; make -C '{to}/module' KDIR='{}' {}",
        from.display(),
        STAND_INS.join(" "),
        kernel.headers.display(),
        kernel.settings.join(" ")
    );
    shell(&script, tools, &dir.join("module.log"), "building the module")?;
    for name in stand_ins {
        let (headers, settings) = (kernel.headers.display(), kernel.settings.join(" "));
        let script = format!("make -C '{headers}' M='{to}/{name}' {settings} modules");
        shell(
            &script,
            tools,
            &dir.join(format!("{name}.log")),
            &format!("building the stand-in for {name}"),
        )?;
    }
    let script = format!(
        "cc -O2 -Wall -Wextra -static -o '{to}/module/{QUANTUM}' '{}/guest/{QUANTUM}.c'",
        from.display()
    );
    shell(&script, tools, &dir.join("quantum.log"), "building quantum")?;
    for file in files {
        let script = format!("make -C '{to}/module/tests' OUT='{to}' '{to}/{file}'");
        shell(&script, tools, &dir.join(format!("{file}.log")), file)?;
    }
    Ok(dir)
}

fn shell(script: &str, tools: &Tools, log: &Path, what: &str) -> Outcome {
    let limit = Duration::from_secs(300);
    let mut command = child::command("sh", &["-c", script], limit);
    tools.add_to(&mut command);
    quietly(command, limit, log, what)
}
