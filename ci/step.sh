#!/usr/bin/env bash
# The stepper: a handler at every instruction boundary, in a build with the instructions that a user runs.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test -p tocsin-tests --profile step --locked --test 'step_*' -- --nocapture
