#!/usr/bin/env bash
# The loom models: every loom_*.rs of a crate, found by its name, in release. They have a target directory of
# their own, since `--cfg loom` changes every crate. With arguments: only the models named, as in `ci/loom.sh loom_ring`.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
# Enough for every race of two or three threads that these protocols had; a model may set its own.
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"
target_dir="${CARGO_TARGET_DIR:-target}/loom"

# Runs one model and fails unless at least one test of it ran.
run() {
    local name=$1 manifest=$2 output
    local -a filter=()
    shift 2
    # Among a library's own tests, the models are those in modules of that name.
    [[ "$1" == --lib ]] && filter=(-- loom)
    echo "== $name"
    # Compiled before the clock starts.
    cargo test --release --locked --target-dir "$target_dir" --manifest-path "$manifest" "$@" --no-run || return 1
    output=$(mktemp)
    if ! timeout --kill-after=10 "${LOOM_LIMIT:-300}" \
        cargo test --release --locked --target-dir "$target_dir" --manifest-path "$manifest" "$@" "${filter[@]}" 2>&1 |
        tee "$output"; then
        echo "error: $name failed" >&2
        rm -f "$output"
        return 1
    fi
    if ! grep -qE '^test result: ok\. [1-9][0-9]* passed' "$output"; then
        echo "error: $name ran no model; is it compiled without cfg(loom)?" >&2
        rm -f "$output"
        return 1
    fi
    rm -f "$output"
}

shopt -s nullglob globstar
models=0
failed=0
for file in crates/*/tests/loom_*.rs crates/*/src/**/loom_*.rs; do
    name=$(basename "$file" .rs)
    if (($# > 0)) && [[ " $* " != *" $name "* ]]; then
        continue
    fi
    models=$((models + 1))
    manifest=$(cut -d/ -f1,2 <<<"$file")/Cargo.toml
    if [[ "$file" == */tests/* ]]; then
        run "$file" "$manifest" --test "$name" || failed=1
    else
        run "$file" "$manifest" --lib || failed=1
    fi
done

if ((models == 0)); then
    echo "error: no loom model found for: ${*:-loom_*.rs}" >&2
    exit 1
fi
exit "$failed"
