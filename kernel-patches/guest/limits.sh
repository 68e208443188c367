#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A cgroup whose memory is limited: large messages arrive where each strategy that needs no device is asked for, and who asks the shared heap for more
# than there is hears of the limit instead of being killed by it.
program=/t/tocsin-bench-machine
group=/sys/fs/cgroup/poor

failed() {
    echo "FAILED limits: $*"
    echo "0 passed, 1 failed"
    exit 1
}

# inside ARGUMENT...: the program, in the cgroup
inside() {
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" $program "$@"
}

killed() {
    sed -n 's/^oom_kill //p' "$group/memory.events"
}

# arrive KIND LMT ROW WAY [ARGUMENT...]: large messages of these ranks, for whom this strategy is asked, whose rows name that one, go this way alone; `lanes`: in two copies
arrive() {
    ranks=$1 asked=$2 named=$3 by=$4
    shift 4
    inside bench pingpong --kind "$ranks" --lmt "$asked" --sizes 100K,4M --rounds 1 --warmup 0 --json "$@" >/tmp/rows 2>/tmp/errors ||
        failed "no ping-pong of $ranks ranks by $asked: $(cat /tmp/errors)"
    for bytes in 102400 4194304; do
        case $by in
        lanes) once= ;;
        # The first makes the pipe, and of pages the kernel takes fewer now and then.
        pages) once="\"pages\":[0-9]\{5,\}" ;;
        *) once="\"$by\":$bytes" ;;
        esac
        grep -q "\"lmt\":\"$named\".*\"size_bytes\":$bytes,.*\"bytes_once_by\":{$once}.*\"verified\":true" /tmp/rows ||
            failed "$ranks ranks by $asked, by $by: $(cat /tmp/rows)"
    done
}

mount -t cgroup2 none /sys/fs/cgroup || failed "no cgroups"
echo +memory >/sys/fs/cgroup/cgroup.subtree_control || failed "no limits of memory"
mkdir "$group" || failed "no cgroup"
echo 32M >"$group/memory.max" || failed "no limit"
inside info --json >/tmp/info || failed "info does not run"
for lmt in direct cma vmsplice double; do
    grep -q "\"name\":\"$lmt\",\"usable\":true" /tmp/info || failed "info says: $(cat /tmp/info)"
done
for ranks in process thread; do
    arrive "$ranks" cma cma kernel
    arrive "$ranks" vmsplice vmsplice pages
    arrive "$ranks" double double lanes
done
arrive thread direct direct memory
arrive process direct double lanes
# The row names the way of private buffers.
arrive process direct double memory --buffers shared
# Three quarters of what there is.
peak=$(cat "$group/memory.peak")
[ "$peak" -ge 25165824 ] || failed "no more than $peak bytes were used"
if inside bench pingpong --kind process --buffers shared --sizes 64M --rounds 1 --warmup 0 >/tmp/rows 2>/tmp/errors; then
    failed "more than there is: $(cat /tmp/rows)"
fi
grep -q "shared heap.*memory\.max" /tmp/errors || failed "who asks for more than there is hears: $(cat /tmp/errors)"
[ "$(killed)" = 0 ] || failed "somebody was killed: $(cat "$group/memory.events")"
echo "ok limits"
echo "1 passed, 0 failed"
