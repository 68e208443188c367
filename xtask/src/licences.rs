//! The licence of every dependency, out of `cargo metadata`.

use crate::cargo::{items, metadata, text};
use crate::{Outcome, spdx};

/// Licences that ask for no more than their notice, so that both of ours fit beside them.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Other licences, each for one package and for a reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "cbindgen",
    "MPL-2.0",
    "writes the C header in a test; nothing of it is linked into what is installed",
)];

/// Checks every package that is not ours.
///
/// # Errors
/// Names each package whose licence is not allowed.
pub fn run() -> Outcome {
    // Only what our targets compile: the lock file also lists other systems' packages.
    let metadata = metadata(&[
        "--locked",
        "--filter-platform=x86_64-unknown-linux-gnu",
        "--filter-platform=aarch64-unknown-linux-gnu",
    ])?;
    let mut checked = 0;
    let mut refused = Vec::new();
    for package in items(&metadata, "packages").iter().filter(|p| !p["source"].is_null()) {
        let (name, version, licence) =
            (text(package, "name"), text(package, "version"), text(package, "license"));
        checked += 1;
        let excepted = |l: &str| EXCEPTIONS.iter().any(|(n, e, _)| *n == name && *e == l);
        if !spdx::allows(licence, &|l| ALLOWED.contains(&l) || excepted(l)) {
            let shown = if licence.is_empty() { "none named" } else { licence };
            refused.push(format!("{name} {version}: {shown}"));
        }
    }
    if checked == 0 {
        return Err("cargo metadata listed no dependency at all".to_owned());
    }
    if !refused.is_empty() {
        return Err(format!("licences that are not in xtask/src/licences.rs:\n  {}", refused.join("\n  ")));
    }
    println!("{checked} dependencies, every licence allowed");
    for (name, licence, why) in EXCEPTIONS {
        println!("  by exception: {name} ({licence}): {why}");
    }
    Ok(())
}
