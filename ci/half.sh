#!/usr/bin/env bash
# The feature `half`: lints, and what adds and compares numbers of 16 bits, in every collective. And that all is well without it,
# where the C library, which has it by default, says what it lacks.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo clippy -p tocsin-nbc -p tocsin-world -p tocsin -p tocsin-ffi -p tocsin-tests --features half --all-targets --locked -- -D warnings
cargo test -p tocsin-nbc --features half --locked --lib --test collectives --test pairwise
cargo test -p tocsin-tests --release --features half --locked --test product_types
cargo clippy -p tocsin-nbc -p tocsin-world -p tocsin -p tocsin-ffi -p tocsin-tests --no-default-features --all-targets --locked -- -D warnings
cargo test -p tocsin-nbc --locked --lib kernels
cargo test -p tocsin-ffi --no-default-features --locked --lib
cargo test -p tocsin-tests --release --no-default-features --locked --test ffi_programs floats_of_16_bits
