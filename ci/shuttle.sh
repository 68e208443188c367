#!/usr/bin/env bash
# The random schedules: every crates/*/tests/shuttle_*.rs, found by its name, in release, with a target directory of
# their own. Where loom tries every order of two or three threads, these try many orders of more.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom --cfg shuttle"
target_dir="${CARGO_TARGET_DIR:-target}/shuttle"

shopt -s nullglob
files=(crates/*/tests/shuttle_*.rs)
if ((${#files[@]} == 0)); then
    echo "error: there is no crates/*/tests/shuttle_*.rs" >&2
    exit 1
fi
failed=0
for file in "${files[@]}"; do
    echo "== $file"
    if ! timeout --kill-after=10 "${SHUTTLE_LIMIT:-1800}" cargo test --release --locked --target-dir "$target_dir" \
        --manifest-path "${file%/tests/*}/Cargo.toml" --test "$(basename "$file" .rs)"; then
        echo "error: $file failed" >&2
        failed=1
    fi
done
exit "$failed"
