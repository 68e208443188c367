#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Yama's ptrace_scope, and an ordinary user: with 1, which admits whom a rank names, ranks copy from each other by the kernel; with 2, which
# admits nobody without privileges, `tocsin info` says so, and large messages go through shared memory. All of them arrive.
program=/t/tocsin-bench-machine
scope=/proc/sys/kernel/yama/ptrace_scope

failed() {
    echo "FAILED yama: $*"
    echo "0 passed, 1 failed"
    exit 1
}

# as_nobody ARGUMENT...: the program
as_nobody() {
    su nobody -c "HOME=/tmp $program $*"
}

# arrive BY ONCE: large messages, for whom the kernel's copies are asked, by this strategy, so many bytes of each in one copy
arrive() {
    as_nobody bench pingpong --kind process --backend signal --lmt cma --sizes 100K,1M --rounds 1 --warmup 0 --json >/tmp/rows 2>/tmp/errors || failed "no ping-pong: $(cat /tmp/errors)"
    for bytes in 102400 1048576; do
        once=
        [ "$2" = none ] || once="\"$2\":$bytes"
        grep -q "\"lmt\":\"$1\".*\"size_bytes\":$bytes,.*\"bytes_once_by\":{$once}.*\"verified\":true" /tmp/rows || failed "not by $1: $(cat /tmp/rows)"
    done
}

[ -e $scope ] || failed "this kernel has no Yama"
echo 1 >$scope
as_nobody info --json >/tmp/info || failed "info does not run"
grep -q '"name":"cma","usable":true' /tmp/info || failed "with 1, info says: $(cat /tmp/info)"
arrive cma kernel
echo 2 >$scope
as_nobody info --json >/tmp/info || failed "info does not run"
grep -q '"name":"cma","usable":false,"why_not":"[^"]*ptrace_scope is 2' /tmp/info || failed "with 2, info says: $(cat /tmp/info)"
arrive double none
echo "ok yama"
echo "1 passed, 0 failed"
