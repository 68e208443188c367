#!/usr/bin/env bash
# The algorithms under Miri: undefined behaviour in them, seen on the tests that need no system call that Miri lacks.
# ci/miri.txt lists them: a package, then what its tests' names begin with.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! rustup run nightly cargo miri --version >/dev/null 2>&1; then
    echo "error: Miri is missing; run: rustup toolchain install nightly --component miri --component rust-src" >&2
    exit 1
fi
# Tree borrows: a Box that moves may have raw pointers into it, as memory that is shared has.
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-permissive-provenance}"
# Miri is some hundred times slower than the machine.
export PROPTEST_CASES="${PROPTEST_CASES:-4}"
# Of another compiler than the rest, so in a directory of its own.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri"

failed=0
while read -r package names; do
    [[ -z "$package" || "$package" == "#"* ]] && continue
    echo "== $package: $names"
    read -r -a filter <<<"$names"
    if ! timeout --kill-after=10 "${MIRI_LIMIT:-3600}" \
        rustup run nightly cargo miri test --locked -p "$package" --lib -- "${filter[@]}"; then
        echo "error: Miri found something in $package ($names)" >&2
        failed=1
    fi
done <ci/miri.txt
exit "$failed"
