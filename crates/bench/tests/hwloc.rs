//! The command with the feature `hwloc`: what it says of this machine by libhwloc is what `/sys` says, and so are places.
#![cfg(feature = "hwloc")]
#![allow(clippy::unwrap_used)] // a test

mod lines;

use lines::rows;
use serde_json::{Value, json};
use std::process::Command;
use tocsin_topology::{Discover, Policy, Sys};

#[test]
fn info_is_that_of_sys() {
    let ours = Sys::default().discover().unwrap();
    let row = &rows("info --json")[0];
    let theirs = &row["topology"];
    assert!(theirs["source"].as_str().unwrap().starts_with("hwloc"), "{theirs}");
    let numbers = [ours.cores.len(), ours.pus(), ours.nodes.len()];
    assert_eq!(json!([row["cores"], row["pus"], row["numa_nodes"]]), json!(numbers), "{row}");
    let cores = ours.cores.iter().map(|core| json!([core.cpus, ours.nodes[core.node].number, core.package]));
    let said = theirs["cores"].as_array().unwrap().iter();
    let said = said.map(|core| json!([core["cpus"], core["numa"], core["package"]]));
    assert_eq!(said.collect::<Value>(), cores.collect::<Value>());
}

#[test]
fn places_are_those_of_sys() {
    let ours = Sys::default().discover().unwrap();
    for (name, policy) in [("scatter", Policy::Scatter), ("scatter_numa", Policy::ScatterNuma)] {
        for ranks in 1..=ours.cores.len() {
            let rows = rows(&format!("plan placement --json --bind {name} --ranks {ranks}"));
            let cpus = rows.iter().map(|row| row["cpu"].clone()).collect::<Value>();
            assert_eq!(cpus, json!(ours.place(policy, ranks)), "{name}, {ranks} ranks");
        }
    }
}

/// A description that only libhwloc reads, on the command line and in the environment.
#[test]
fn descriptions_are_those_of_libhwloc() {
    let text = "package:2 [numa] die:2 core:2 pu:1";
    let plan = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
        command.args(["plan", "placement", "--json", "--ranks", "4", "--bind", "scatter_numa"]);
        command
    };
    for command in [plan().args(["--topology", text]), plan().env("TOCSIN_TOPOLOGY", text)] {
        let out = command.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let rows = String::from_utf8(out.stdout).unwrap();
        let places = rows.lines().map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            json!([row["cpu"], row["numa"]])
        });
        assert_eq!(places.collect::<Value>(), json!([[0, 0], [2, 0], [4, 1], [6, 1]]));
    }
}
