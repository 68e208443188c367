#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# /dev/knem, and an ordinary user: `tocsin info` says that it is used, who asks for it has it, and so has who asks for nothing where Yama lets nobody
# copy otherwise. Who may not open it is told so.
program=/t/tocsin-bench-machine
scope=/proc/sys/kernel/yama/ptrace_scope

failed() {
    echo "FAILED knem: $*"
    echo "0 passed, 1 failed"
    exit 1
}

# as_nobody ARGUMENT...: the program
as_nobody() {
    su nobody -c "HOME=/tmp $program $*"
}

pinned() {
    sed -n 's/^nr_foll_pin_acquired //p' /proc/vmstat
}

# arrive BY ARGUMENT...: large messages, by this strategy
arrive() {
    by=$1
    shift
    as_nobody bench pingpong --kind process --sizes 100K,1M --rounds 1 --warmup 0 --json "$@" >/tmp/rows 2>/tmp/errors || failed "no ping-pong: $(cat /tmp/errors)"
    [ "$(grep -c "\"lmt\":\"$by\".*\"verified\":true" /tmp/rows)" = 2 ] || failed "not by $by: $(cat /tmp/rows)"
}

# all ONCE: what has arrived did so in one copy by the device, or in two
all() {
    for bytes in 102400 1048576; do
        once=
        [ "$1" = none ] || once="\"$1\":$bytes"
        grep -q "\"size_bytes\":$bytes,.*\"bytes_once_by\":{$once}" /tmp/rows || failed "not all by $1: $(cat /tmp/rows)"
    done
}

[ -e $scope ] || failed "this kernel has no Yama"
echo 1 >$scope
as_nobody info --json >/tmp/info || failed "info does not run"
grep -q '"name":"knem","usable":true' /tmp/info || failed "info says: $(cat /tmp/info)"
arrive cma
arrive knem --lmt knem
all knem
echo 2 >$scope
before=$(pinned)
arrive knem
[ "$(pinned)" -ge $((before + 400)) ] || failed "so many pages were pinned: $before, then $(pinned)"
chmod 600 /dev/knem
as_nobody info --json >/tmp/info || failed "info does not run"
grep -q '"name":"knem","usable":false,"why_not":"open of /dev/knem is refused' /tmp/info || failed "closed, info says: $(cat /tmp/info)"
arrive double --lmt knem
all none
arrive double
chmod 666 /dev/knem
echo 1 >$scope
echo "ok knem"
echo "1 passed, 0 failed"
