#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Loads the module, as every guest does first.
if insmod /uintr.ko && [ -c /dev/uintr ] && [ "$(stat -c %a /dev/uintr)" = 666 ]; then
    echo "ok loaded"
    echo "1 passed, 0 failed"
else
    dmesg | tail -n 5
    echo "FAILED loaded: insmod or /dev/uintr"
    echo "0 passed, 1 failed"
    exit 1
fi
