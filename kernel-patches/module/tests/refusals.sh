#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Kernels that cannot be served: the build must say so before it compiles anything. Their headers are made up here, from
# the three files that it looks at.
set -eu
module=$(dirname "$0")/..
kernel=$(mktemp -d)
trap 'rm -rf "$kernel"' EXIT

# exports NAMESPACE: as that kernel gives cr4_update_irqsoff to modules (an empty one: to any)
exports() {
    printf '0x00000000\tcr4_update_irqsoff\tvmlinux\tEXPORT_SYMBOL_GPL\t%s\n' "$1" >"$kernel/Module.symvers"
}

# says WORDS: the check fails with them; says nothing: it passes
says() {
    if make -s -C "$module" check KDIR="$kernel" >"$kernel/said" 2>&1; then
        said=nothing
    else
        said=$(cat "$kernel/said")
    fi
    case $said in
    *"$1"*) ;;
    *)
        echo "the build should say \"$1\" and says: $said" >&2
        exit 1
        ;;
    esac
}

says 'no kernel headers'
printf '0x00000000\tschedule\tvmlinux\tEXPORT_SYMBOL\t\n' >"$kernel/Module.symvers"
echo 'CONFIG_PREEMPT_NOTIFIERS=y' >"$kernel/.config"
says 'does not export cr4_update_irqsoff to every module'
exports 'module:kvm'
says 'does not export cr4_update_irqsoff to every module'
exports ''
says nothing
echo 'CONFIG_PREEMPT_RT=y' >>"$kernel/.config"
says 'for real time (CONFIG_PREEMPT_RT)'
: >"$kernel/.config"
says 'no preemption notifiers'
