//! The shared library's name for the dynamic linker: libtocsin.so.MAJOR, so that an incompatible version is another file.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtocsin.so.{major}");
}
