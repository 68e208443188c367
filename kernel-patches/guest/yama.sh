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

# arrive BY: large messages, by this strategy
arrive() {
    as_nobody bench pingpong --kind process --sizes 100K,1M --rounds 1 --warmup 0 --json >/tmp/rows 2>/tmp/errors || failed "no ping-pong: $(cat /tmp/errors)"
    [ "$(grep -c "\"lmt\":\"$1\".*\"verified\":true" /tmp/rows)" = 2 ] || failed "not by $1: $(cat /tmp/rows)"
}

[ -e $scope ] || failed "this kernel has no Yama"
echo 1 >$scope
as_nobody info --json >/tmp/info || failed "info does not run"
grep -q '"name":"cma","usable":true' /tmp/info || failed "with 1, info says: $(cat /tmp/info)"
arrive cma
echo 2 >$scope
as_nobody info --json >/tmp/info || failed "info does not run"
grep -q '"name":"cma","usable":false,"why_not":"[^"]*ptrace_scope is 2' /tmp/info || failed "with 2, info says: $(cat /tmp/info)"
arrive double
echo "ok yama"
echo "1 passed, 0 failed"
