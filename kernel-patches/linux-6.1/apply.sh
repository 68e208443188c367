#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# apply.sh TREE [COUNT]: gives a source tree of Linux 6.1 (Debian's linux-source-6.1) user interrupts.
#
# Copies the core, which the tree shares with the module, and applies the patches in order, or the first COUNT of them.
# Each is tried before it is applied, so a patch that does not fit leaves the tree as the one before it left it.
set -eu

stop() {
    echo "apply.sh: $*" >&2
    exit 1
}

[ $# -eq 1 ] || [ $# -eq 2 ] || stop "usage: apply.sh TREE [COUNT]"
series=$(cd "$(dirname "$0")" && pwd)
module=$(cd "$series/../module" && pwd)
tree=$1
count=${2:-all}

command -v patch >/dev/null || stop "the program patch is missing; install the package patch"
[ -e "$tree/Makefile" ] || stop "$tree is no source tree: it has no Makefile"
{ grep -q '^VERSION = 6$' "$tree/Makefile" && grep -q '^PATCHLEVEL = 1$' "$tree/Makefile"; } ||
    stop "$tree is not Linux 6.1, for which this series is"
to=$tree/arch/x86/kernel/uintr
[ ! -e "$to" ] || stop "$tree has the series already: arch/x86/kernel/uintr is there"

mkdir "$to"
cp -R "$module/core" "$module/include" "$to/"
applied=0
for file in "$series"/0*.patch; do
    [ "$count" != "$applied" ] || break
    name=$(basename "$file")
    # -F0: a patch whose surroundings have changed wants to be read by somebody.
    if ! why=$(patch -d "$tree" -p1 -N -F0 --dry-run <"$file" 2>&1); then
        echo "$why" >&2
        stop "$name does not apply to $tree; $applied patches are applied"
    fi
    patch -d "$tree" -p1 -N -F0 -s <"$file"
    applied=$((applied + 1))
done
echo "$applied patches applied to $tree"
