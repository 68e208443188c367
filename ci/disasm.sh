#!/usr/bin/env bash
# The machine code of the handler path, and whether reductions are vectorised: see ci/wait-free.txt and ci/packed.txt for the
# functions, and xtask/src/disasm.rs and xtask/src/disasm/packed.rs for the rules.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo xtask disasm
