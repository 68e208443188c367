//! Where things are: the workspace, its target directory, what cargo knows of it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The workspace's root.
pub fn root() -> PathBuf {
    // `cargo run` sets it for the program too; a binary started by hand falls back to where it was compiled.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| PathBuf::from("."), PathBuf::from)
}

/// The cargo that runs us, else the one in the path.
pub fn program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Where cargo builds: `CARGO_TARGET_DIR`, or `target` under the root.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// What is installed, and measured against others, is built by this profile.
pub const INSTALLED: &str = "dist";

/// Where [`INSTALLED`] is built.
pub fn installed() -> PathBuf {
    target_dir().join(INSTALLED)
}

/// `cargo metadata` with the arguments given.
///
/// # Errors
/// When cargo fails or prints what is no JSON.
pub fn metadata(arguments: &[&str]) -> Result<Value, String> {
    let output = Command::new(program())
        .args(["metadata", "--format-version", "1"])
        .args(arguments)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed ({})", output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata printed no JSON: {e}"))
}

/// A string of a JSON object, or "".
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

/// An array of a JSON object, or nothing.
pub fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
