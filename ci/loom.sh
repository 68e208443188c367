#!/usr/bin/env bash
# The loom models: every crates/*/tests/loom_*.rs, found by its name, in release. They have a target directory of
# their own, since `--cfg loom` changes every crate. With arguments: only the models named, as in `ci/loom.sh loom_ring`.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
# Enough for every race of two or three threads that these protocols had; a model may set its own.
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"
target_dir="${CARGO_TARGET_DIR:-target}/loom"

shopt -s nullglob
models=0
failed=0
for file in crates/*/tests/loom_*.rs; do
    name=$(basename "$file" .rs)
    if (($# > 0)) && [[ " $* " != *" $name "* ]]; then
        continue
    fi
    manifest="${file%/tests/*}/Cargo.toml"
    models=$((models + 1))
    echo "== $file"
    # Compiled before the clock starts.
    cargo test --release --locked --target-dir "$target_dir" --manifest-path "$manifest" --test "$name" --no-run
    output=$(mktemp)
    if ! timeout --kill-after=10 "${LOOM_LIMIT:-300}" \
        cargo test --release --locked --target-dir "$target_dir" --manifest-path "$manifest" --test "$name" 2>&1 |
        tee "$output"; then
        echo "error: $file failed" >&2
        failed=1
    elif ! grep -qE '^test result: ok\. [1-9][0-9]* passed' "$output"; then
        echo "error: $file ran no model; is it compiled without cfg(loom)?" >&2
        failed=1
    fi
    rm -f "$output"
done

if ((models == 0)); then
    echo "error: no loom model found for: ${*:-crates/*/tests/loom_*.rs}" >&2
    exit 1
fi
exit "$failed"
