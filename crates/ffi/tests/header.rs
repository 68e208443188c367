//! tocsin.h is what cbindgen writes from crates/ffi/src today. After a change there:
//! `BLESS=1 cargo test -p tocsin-ffi --test header`.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test that fails says so by panicking.

use std::path::PathBuf;

fn ffi() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn generated() -> String {
    let config = cbindgen::Config::from_file(ffi().join("cbindgen.toml")).expect("cbindgen.toml is valid");
    // Sources one by one, in this order, and not the crate: that would have cbindgen look through all dependencies.
    let sources = [
        "status",
        "border",
        "world",
        "comm",
        "heap",
        "request",
        "callback",
        "point_to_point",
        "datatype",
        "operator",
        "collectives",
        "blocks",
        "reductions",
        "persistent",
        "prepared",
        "strided",
        "blocking",
        "threads",
    ];
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(ffi().join(format!("src/{source}.rs")));
    }
    let mut header = Vec::new();
    builder.generate().expect("the sources parse").write(&mut header);
    String::from_utf8(header).expect("UTF-8")
}

#[test]
fn the_checked_in_header_is_current() {
    let path = ffi().join("include/tocsin.h");
    let generated = generated();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &generated).expect("the header is writable");
        return;
    }
    let checked_in = std::fs::read_to_string(&path).expect("the header exists");
    for (number, (is, should)) in checked_in.lines().zip(generated.lines()).enumerate() {
        assert_eq!(is, should, "line {} of tocsin.h is old: run with BLESS=1", number + 1);
    }
    assert_eq!(checked_in.len(), generated.len(), "tocsin.h is old: run with BLESS=1");
}

#[test]
fn every_exported_function_is_in_the_header() {
    let header = generated();
    for entry in std::fs::read_dir(ffi().join("src")).expect("the sources exist") {
        let source = std::fs::read_to_string(entry.expect("readable").path()).expect("readable");
        for rest in source.split("extern \"C\" fn tocsin_").skip(1) {
            let name = rest.split('(').next().unwrap_or("");
            assert!(
                header.contains(&format!(" tocsin_{name}(")) || header.contains(&format!("*tocsin_{name}(")),
                "tocsin_{name} is not in the header"
            );
        }
    }
}
