#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# unload.sh MODULE: unloads it, as every guest does last: nothing that ran may still hold it.
if rmmod "$1" && [ ! -e "/dev/$1" ] && ! grep -q "^$1 " /proc/modules; then
    echo "ok unloaded"
    echo "1 passed, 0 failed"
else
    grep "^$1 " /proc/modules
    echo "FAILED unloaded: somebody still uses it"
    echo "0 passed, 1 failed"
    exit 1
fi
