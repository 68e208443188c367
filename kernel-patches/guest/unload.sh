#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Unloads the module, as every guest does last: nothing that ran may still hold it.
if rmmod uintr && [ ! -e /dev/uintr ] && ! grep -q '^uintr ' /proc/modules; then
    echo "ok unloaded"
    echo "1 passed, 0 failed"
else
    grep '^uintr ' /proc/modules
    echo "FAILED unloaded: somebody still uses it"
    echo "0 passed, 1 failed"
    exit 1
fi
