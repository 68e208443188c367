#!/usr/bin/env bash
# Formatting of the whole workspace.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all -- --check
