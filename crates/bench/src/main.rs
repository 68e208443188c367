//! The `tocsin` command.

fn main() {}
