#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Asks the kernel for memory that it can no longer reach. The first scan only marks; the second tells.
leaks=/sys/kernel/debug/kmemleak
echo scan >$leaks
sleep 6 # kmemleak tells of nothing younger than 5 s
echo scan >$leaks
if [ -e $leaks ] && ! grep . $leaks; then
    echo "ok no_leaks"
    echo "1 passed, 0 failed"
else
    echo "FAILED no_leaks: unreachable memory, or no kmemleak"
    echo "0 passed, 1 failed"
    exit 1
fi
