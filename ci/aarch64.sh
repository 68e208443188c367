#!/usr/bin/env bash
# The library crates compile for aarch64, where the backend is `signal`.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu

if ! rustup target list --installed | grep -qx "$target"; then
    timeout 300 rustup target add "$target"
fi
cargo check --target "$target" --locked --workspace \
    --exclude tocsin-bench --exclude tocsin-tests --exclude xtask
