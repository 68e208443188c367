#!/usr/bin/env bash
# The machine code of the handler path: see ci/wait-free.txt for the functions and xtask/src/disasm.rs for the rules.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo xtask disasm
