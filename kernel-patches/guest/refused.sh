#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# With page-table isolation the CPU could not reach the module's tables from user mode: it must not load, and say so.
if insmod /uintr.ko 2>/tmp/why; then
    echo "FAILED refused: it loaded"
elif ! dmesg | grep -i 'uintr.*page.table isolation'; then
    cat /tmp/why
    dmesg | tail -n 5
    echo "FAILED refused: but without saying why"
else
    echo "ok refused"
    echo "1 passed, 0 failed"
    exit 0
fi
echo "0 passed, 1 failed"
exit 1
