#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Asks the kernel for memory that it can no longer reach. The first scan only marks; the second tells.
leaks=/sys/kernel/debug/kmemleak

fail() {
    echo "FAILED no_leaks: $*"
    echo "0 passed, 1 failed"
    exit 1
}

# One that has given up keeps its file, empty, and takes no order.
scan() {
    [ -e $leaks ] || fail "no kmemleak"
    echo scan >$leaks || fail "kmemleak does not scan"
}

scan
sleep 6 # kmemleak tells of nothing younger than 5 s
scan
! grep . $leaks || fail "unreachable memory"
echo "ok no_leaks"
echo "1 passed, 0 failed"
