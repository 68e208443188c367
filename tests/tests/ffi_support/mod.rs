//! Builds the C interface and programs that use it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// How a program is linked.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    /// With libtocsin.a.
    Static,
    /// With libtocsin.so, which it finds by its soname.
    Shared,
}

/// How a program is compiled.
#[derive(Clone, Copy, Debug)]
pub enum Language {
    /// C11.
    C,
    /// C++17.
    Cxx,
}

/// The workspace's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Files that only this test makes.
pub fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).expect("the scratch directory can be made");
    dir
}

/// Runs a command that must succeed; gives what it printed.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("cannot run {command:?}: {e}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// Builds both libraries in this test's own profile, with floats of 16 bits or without as these tests are; the directory that has them, with
/// a link by the soname.
pub fn libraries() -> &'static Path {
    static LIBRARIES: OnceLock<PathBuf> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        // .../target/PROFILE/deps/test
        let test = std::env::current_exe().expect("the test has a path");
        let built = test.ancestors().nth(2).expect("the test is in deps");
        let profile = match built.file_name().and_then(|name| name.to_str()).expect("a profile") {
            "debug" => "dev",
            other => other,
        };
        let target = built.parent().expect("the target directory");
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let features: &[&str] = if cfg!(feature = "half") { &[] } else { &["--no-default-features"] };
        succeed(
            Command::new(cargo)
                .args(["build", "--locked", "-p", "tocsin-ffi", "--profile", profile])
                .args(features)
                .arg("--target-dir")
                .arg(target)
                .current_dir(root()),
        );
        let dir = scratch("ffi-lib");
        for (file, link) in [
            ("libtocsin.a", "libtocsin.a"),
            ("libtocsin.so", "libtocsin.so"),
            ("libtocsin.so", "libtocsin.so.0"),
        ] {
            let link = dir.join(link);
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(built.join(file), &link).expect("linked");
        }
        dir
    })
}

/// Whether programs can be compiled as C++ here. Without a compiler the C++ half of these tests cannot run, which a
/// machine with `REQUIRE_CXX` set (as CI is) takes for a failure.
pub fn has_cxx() -> bool {
    let found = Command::new("c++").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        let line = "no C++ compiler; for the tests as C++ run: sudo apt-get install -y g++";
        assert!(std::env::var_os("REQUIRE_CXX").is_none(), "{line}");
        eprintln!("{line}");
    }
    found
}

fn compiler(language: Language) -> cc::Tool {
    let mut build = cc::Build::new();
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    build.target(&triple).host(&triple).opt_level(1).debug(true).cargo_metadata(false).warnings(false);
    build.cpp(matches!(language, Language::Cxx)).get_compiler()
}

/// Compiles `tests/c/NAME.c`, every warning an error; once for all tests of this process.
pub fn compile(name: &str, language: Language, link: Link) -> PathBuf {
    static COMPILED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let libraries = libraries();
    let program = scratch("ffi-programs").join(format!("{name}-{language:?}-{link:?}"));
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if compiled.contains(&program) {
        return program;
    }
    let source = root().join(format!("tests/c/{name}.c"));
    let mut command = compiler(language).to_command();
    command
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-I"])
        .arg(root().join("crates/ffi/include"));
    if cfg!(not(feature = "half")) {
        command.arg("-DWITHOUT_HALF");
    }
    match language {
        Language::C => command.arg("-std=c11").arg(source),
        Language::Cxx => command.args(["-std=c++17", "-x", "c++"]).arg(source).args(["-x", "none"]),
    };
    command.arg("-o").arg(&program);
    match link {
        Link::Static => command.arg(libraries.join("libtocsin.a")).args(STATIC_NEEDS),
        Link::Shared => command
            .arg("-L")
            .arg(libraries)
            .arg("-ltocsin")
            .arg(format!("-Wl,-rpath,{}", libraries.display())),
    };
    succeed(&mut command);
    compiled.insert(program.clone());
    program
}

/// What the static library needs of the system, as `Libs.private` in tocsin.pc.
const STATIC_NEEDS: [&str; 7] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];
