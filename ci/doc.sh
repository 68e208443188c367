#!/usr/bin/env bash
# The documentation builds without a warning (broken links are warnings).
set -euo pipefail
cd "$(dirname "$0")/.."
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
