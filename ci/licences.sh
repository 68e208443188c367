#!/usr/bin/env bash
# Every dependency has a licence that xtask/src/licences.rs allows.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo xtask licences
