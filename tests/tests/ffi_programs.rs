//! C programs do the exchange that the Rust tests do: as C11 and as C++, linked to either library, as processes and as
//! threads, on every backend.

mod ffi_support;

use std::path::Path;
use std::process::Command;

use ffi_support::{Language, Link, compile, has_cxx, succeed};
use tocsin_world::launcher::Launch;
use tocsin_world::{BackendKind, Config};

const BACKENDS: [BackendKind; 3] = [BackendKind::Signal, BackendKind::Thread, BackendKind::Poll];

fn launch(program: &Path, ranks: u32, backend: BackendKind) {
    let mut launch = Launch::new(program, ranks);
    launch.config.backend = Some(backend);
    let report = launch.run().expect("the program can be launched");
    assert_eq!(report.status, 0, "{} with {ranks} ranks on {backend:?}: {report:?}", program.display());
}

/// A command with the variable that names the backend, and a limit.
fn limited(program: &Path, backend: BackendKind) -> Command {
    let mut config = Config::default();
    config.backend = Some(backend);
    let mut command = Command::new("timeout");
    command.arg("100").arg(program).envs(config.to_variables());
    command
}

#[test]
fn processes_in_c_with_the_static_library() {
    let program = compile("processes", Language::C, Link::Static);
    for backend in BACKENDS {
        for ranks in [1, 2, 3, 4] {
            launch(&program, ranks, backend);
        }
    }
}

#[test]
fn processes_in_c_with_the_shared_library() {
    let program = compile("processes", Language::C, Link::Shared);
    for backend in BACKENDS {
        launch(&program, 3, backend);
    }
}

#[test]
fn a_program_started_alone_is_a_world_of_one() {
    let program = compile("processes", Language::C, Link::Static);
    let printed = succeed(&mut limited(&program, BackendKind::Signal));
    assert!(printed.contains("rank 0 of 1: 0 failures"), "{printed}");
}

#[test]
fn threads_in_c() {
    let program = compile("threads", Language::C, Link::Shared);
    for backend in BACKENDS {
        for ranks in ["1", "2", "4"] {
            succeed(limited(&program, backend).arg(ranks));
        }
    }
}

#[test]
fn misuse_gives_errors() {
    let program = compile("misuse", Language::C, Link::Static);
    succeed(&mut limited(&program, BackendKind::Poll));
}

#[test]
fn the_same_programs_as_cxx() {
    if !has_cxx() {
        return;
    }
    for link in [Link::Static, Link::Shared] {
        launch(&compile("processes", Language::Cxx, link), 2, BackendKind::Signal);
    }
    succeed(limited(&compile("threads", Language::Cxx, Link::Static), BackendKind::Signal).arg("3"));
    succeed(&mut limited(&compile("misuse", Language::Cxx, Link::Shared), BackendKind::Poll));
}

#[test]
fn a_wrong_variable_is_an_error_that_lists_the_right_values() {
    let program = compile("processes", Language::C, Link::Static);
    let output = Command::new(&program).env("TOCSIN_BACKEND", "telepathy").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("wrong environment variable") && text.contains("signal, thread, poll"), "{text}");
}
