#!/usr/bin/env bash
# The feature `half`: lints, and what adds and compares numbers of 16 bits, in every collective.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo clippy -p tocsin-nbc -p tocsin-world -p tocsin -p tocsin-tests --features half --all-targets --locked -- -D warnings
cargo test -p tocsin-nbc --features half --locked --lib --test collectives --test pairwise
cargo test -p tocsin-tests --release --features half --locked --test product_types
