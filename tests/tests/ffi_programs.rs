//! C programs do the exchange that the Rust tests do: as C11 and as C++, linked to either library, as processes and as
//! threads, on every backend. And what `cargo xtask install` lays out is found and runs.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test that fails says so by panicking.

mod ffi_support;

use std::path::Path;
use std::process::Command;

use ffi_support::{Language, Link, compile, has_cxx, root, scratch, succeed};
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

/// Or, of a library without them, that it says so.
#[test]
fn floats_of_16_bits_of_processes() {
    let program = compile("halves", Language::C, Link::Static);
    for backend in BACKENDS {
        for ranks in [1, 2, 3, 4] {
            launch(&program, ranks, backend);
        }
    }
}

#[test]
fn floats_of_16_bits_of_threads() {
    let program = compile("halves", Language::C, Link::Shared);
    for backend in BACKENDS {
        for ranks in ["1", "2", "3", "4"] {
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
    succeed(limited(&compile("halves", Language::Cxx, Link::Static), BackendKind::Signal).arg("2"));
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

#[test]
fn an_installed_library_is_found_and_runs() {
    let prefix = scratch("ffi-install");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    succeed(
        Command::new(cargo)
            .args([
                "run",
                "--quiet",
                "--release",
                "--locked",
                "--package",
                "xtask",
                "--",
                "install",
                "--prefix",
            ])
            .arg(&prefix)
            .current_dir(root()),
    );
    for file in
        ["include/tocsin.h", "lib/libtocsin.a", "lib/libtocsin.so", "lib/libtocsin.so.0", "bin/tocsin"]
    {
        assert!(prefix.join(file).exists(), "{file} is not installed");
    }
    let pc = std::fs::read_to_string(prefix.join("lib/pkgconfig/tocsin.pc")).expect("tocsin.pc is installed");
    assert!(pc.contains(&format!("prefix={}\n", prefix.display())) && !pc.contains('@'), "{pc}");

    // As a user of the library would; where pkg-config is missing, by what tocsin.pc says.
    let query = |arguments: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.args(arguments).arg("tocsin").env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        command
            .output()
            .ok()
            .filter(|o| o.status.success())
            .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
    };
    let lib = prefix.join("lib");
    let flags = query(&["--cflags", "--libs"]).unwrap_or_else(|| {
        eprintln!("pkg-config is missing; its answer is taken from tocsin.pc");
        assert!(
            pc.contains("Libs: -L${libdir} -ltocsin\n") && pc.contains("Cflags: -I${includedir}\n"),
            "{pc}"
        );
        format!("-I{} -L{} -ltocsin", prefix.join("include").display(), lib.display())
    });
    let program = scratch("ffi-install-program").join("misuse");
    let mut command = Command::new("cc");
    command.arg("-std=c11").arg(root().join("tests/c/misuse.c")).arg("-o").arg(&program);
    succeed(command.args(flags.split_whitespace()));
    succeed(Command::new("timeout").arg("60").arg(&program).env("LD_LIBRARY_PATH", &lib));

    // The README's program, by the README's commands.
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README can be read");
    let shown = readme.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a C program");
    let source = program.with_file_name("readme.c");
    std::fs::write(&source, shown).expect("written");
    let program = program.with_file_name("readme");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror"]).arg(&source).arg("-o").arg(&program);
    succeed(command.args(flags.split_whitespace()).arg(format!("-Wl,-rpath,{}", lib.display())));
    let mut run = Command::new("timeout");
    run.arg("60").arg(prefix.join("bin/tocsin")).args(["run", "-n", "4", "--"]).arg(&program);
    assert_eq!(succeed(&mut run), "4.99995e+09\n".repeat(4));
}
