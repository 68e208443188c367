//! Progress threads run where their placement says.
#![allow(missing_docs, clippy::unwrap_used)] // a test

use std::fs;
use tocsin_world::{BackendKind, Bind, Config, ProgressPlacement};

/// The processors that this process's progress threads may run on, as the kernel prints them.
fn progress_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let ours = statuses.filter(|text| text.starts_with("Name:\ttocsin-progress"));
    let list = |text: String| {
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(list.trim().to_owned())
    };
    let mut all: Vec<String> = ours.filter_map(list).collect();
    all.sort();
    all
}

#[test]
fn as_planned() {
    for (bind, progress) in
        [(Bind::Scatter, ProgressPlacement::OddEven), (Bind::ScatterNuma, ProgressPlacement::Numa)]
    {
        let mut config = Config::default();
        config.backend = Some(BackendKind::Thread);
        config.bind = bind;
        config.progress = progress;
        let seats = config.seats(2).unwrap();
        let mut planned: Vec<String> = seats.iter().map(|seat| seat.progress.unwrap().to_string()).collect();
        planned.sort();
        tocsin_world::threads(2, &config, |comm| {
            // Both have joined, so that both threads were started; each binds itself before it does anything else.
            comm.ibarrier_raw(None).unwrap().wait().unwrap();
            while comm.rank() == 0 && progress_threads() != planned {
                std::thread::yield_now();
            }
            comm.ibarrier_raw(None).unwrap().wait().unwrap();
        })
        .unwrap();
    }
}
