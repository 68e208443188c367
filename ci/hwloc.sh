#!/usr/bin/env bash
# The feature `hwloc`: lints, what libhwloc says of this machine and of machines that it is told of, and the command with it.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! pkg-config --exists hwloc libudev; then
    echo "error: libhwloc is missing; run: sudo apt-get install -y libhwloc-dev libudev-dev" >&2
    exit 1
fi
# All crates that have it, so that what they need is built once.
cargo clippy -p tocsin-topology -p tocsin-world -p tocsin -p tocsin-bench -p tocsin-ffi --features hwloc --all-targets --locked -- -D warnings
cargo test -p tocsin-topology --features hwloc --locked
cargo test -p tocsin-bench --features hwloc --locked --test hwloc
