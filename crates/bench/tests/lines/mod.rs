//! Lines of the command, run as people and programs run them.
#![allow(dead_code, missing_docs, clippy::unwrap_used)] // a test, and each of those uses some of it

use serde_json::Value;
use std::process::{Command, Output};

pub fn tocsin(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tocsin")).args(line.split_whitespace()).output().unwrap()
}

/// Runs a line that must succeed; its rows.
pub fn rows(line: &str) -> Vec<Value> {
    let out = tocsin(line);
    let (stdout, stderr) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{line}: {}: {stderr}", out.status);
    stdout.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{line}: {l}: {e}"))).collect()
}

pub fn has(row: &Value, keys: &str) {
    for key in keys.split_whitespace() {
        assert!(row.get(key).is_some(), "no key {key} in {row}");
    }
}
