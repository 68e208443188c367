//! `cargo xtask install` lays out what a C program needs, and tocsin.pc says where it is.

mod ffi_support;

use std::process::Command;

use ffi_support::{root, scratch, succeed};

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
}
