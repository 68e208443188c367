#!/usr/bin/env bash
# The feature `hwloc`: lints, and what libhwloc says of this machine and of machines that it is told of.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! pkg-config --exists hwloc libudev; then
    echo "error: libhwloc is missing; run: sudo apt-get install -y libhwloc-dev libudev-dev" >&2
    exit 1
fi
cargo clippy -p tocsin-topology --features hwloc --all-targets --locked -- -D warnings
cargo test -p tocsin-topology --features hwloc --locked
