//! What the commands need of the machine: found, installed, or asked for by the exact line to type.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Outcome, child};

/// The program of that name in the path.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

fn is_root() -> bool {
    let limit = Duration::from_secs(5);
    child::output(child::command("id", &["-u"], limit), "id").is_ok_and(|id| id.trim() == "0")
}

/// Makes sure that one of `programs` can be started; as root installs the Debian package that has it.
///
/// # Errors
/// When it is missing and cannot be installed: with the line to type.
pub fn program(programs: &[&str], package: &str) -> Outcome {
    if programs.iter().any(|p| find(p).is_some()) {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {package}");
    if is_root() && find("apt-get").is_some() {
        println!("installing {package}: none of {programs:?} was found");
        let script = format!("apt-get update && {line}");
        let limit = Duration::from_secs(600);
        let mut command = child::command("sh", &["-c", &script], limit);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        if child::run(command, limit).failure.is_none() && programs.iter().any(|p| find(p).is_some()) {
            return Ok(());
        }
    }
    Err(format!("none of {programs:?} was found; run: sudo {line}"))
}

/// The C compiler: rustc links by it, and the tests of the C interface compile with it.
///
/// # Errors
/// When there is none, or it compiles nothing because libc's headers are missing.
pub fn c_compiler() -> Outcome {
    program(&["cc"], "gcc libc6-dev")?;
    let limit = Duration::from_secs(20);
    let script = "printf '#include <stdio.h>\\nint main(void){return 0;}\\n' | cc -xc - -o /dev/null";
    child::output(child::command("sh", &["-c", script], limit), "cc")
        .map(drop)
        .map_err(|e| format!("{e}: libc's headers are missing? run: sudo apt-get install -y libc6-dev"))
}

/// A component of a toolchain, as in `nightly` and `miri`; installed by rustup when missing.
///
/// # Errors
/// When rustup cannot install it: with the line to type.
pub fn component(toolchain: &str, component: &str) -> Outcome {
    let limit = Duration::from_secs(300);
    let installed =
        child::command("rustup", &["component", "list", "--installed", "--toolchain", toolchain], limit);
    if child::output(installed, "rustup").is_ok_and(|list| list.lines().any(|l| l.starts_with(component))) {
        return Ok(());
    }
    println!("installing component {component} of {toolchain}");
    let add = child::command("rustup", &["component", "add", component, "--toolchain", toolchain], limit);
    match child::run(add, limit).failure {
        None => Ok(()),
        Some(_) => Err(format!(
            "{component} is missing; run: rustup toolchain install {toolchain} --component {component}"
        )),
    }
}
