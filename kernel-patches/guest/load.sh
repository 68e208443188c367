#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# load.sh MODULE: loads it, as every guest does first.
if insmod "/$1.ko" && [ -c "/dev/$1" ] && [ "$(stat -c %a "/dev/$1")" = 666 ]; then
    echo "ok loaded"
    echo "1 passed, 0 failed"
else
    dmesg | tail -n 5
    echo "FAILED loaded: insmod or /dev/$1"
    echo "0 passed, 1 failed"
    exit 1
fi
