#!/usr/bin/env bash
# Makes the toolchain that rust-toolchain.toml pins usable: installs it when it is missing, with its components
# and targets. Asks the network for nothing that is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v rustup >/dev/null; then
    echo "error: rustup is not installed; see https://rustup.rs" >&2
    exit 1
fi

# Some set-ups forbid rustup to install a toolchain by itself, so nothing below relies on that.
value() { sed -n "s/^$1 *= *\"\(.*\)\".*/\1/p" rust-toolchain.toml; }
list() { sed -n "s/^$1 *= *\[\(.*\)\].*/\1/p" rust-toolchain.toml | tr -d '",'; }
channel=$(value channel)
read -r -a components <<<"$(list components)"
read -r -a targets <<<"$(list targets)"

if ! rustup run "$channel" rustc --version >/dev/null 2>&1; then
    echo "installing Rust $channel"
    if ! timeout 600 rustup toolchain install "$channel" --profile minimal --no-self-update; then
        # No network, but perhaps the same release under another name.
        if [[ "$(rustup run stable rustc --version 2>/dev/null)" == "rustc $channel "* ]]; then
            rustup toolchain link "$channel" "$(rustup run stable rustc --print sysroot)"
        else
            echo "error: Rust $channel is missing; run: rustup toolchain install $channel" >&2
            exit 1
        fi
    fi
fi

for component in "${components[@]}"; do
    if ! rustup component list --installed --toolchain "$channel" | grep -q "^$component"; then
        timeout 300 rustup component add "$component" --toolchain "$channel"
    fi
done
for target in "${targets[@]}"; do
    if ! rustup target list --installed --toolchain "$channel" | grep -qx "$target"; then
        timeout 300 rustup target add "$target" --toolchain "$channel"
    fi
done
rustup run "$channel" rustc --version
