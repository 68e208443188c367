#!/usr/bin/env bash
# Lints of every target: libraries, binaries, tests, benches, examples.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo clippy --workspace --all-targets --locked -- -D warnings
