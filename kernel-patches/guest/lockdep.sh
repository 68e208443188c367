#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Whether the kernel still watches its locks: at its first complaint, or when its tables are full, lockdep turns itself off.
if grep 'debug_locks: *1$' /proc/lockdep_stats; then
    echo "ok locks_were_watched"
    echo "1 passed, 0 failed"
else
    grep 'debug_locks' /proc/lockdep_stats
    echo "FAILED locks_were_watched: lockdep is off, or was never there"
    echo "0 passed, 1 failed"
    exit 1
fi
