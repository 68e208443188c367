#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A cgroup with little memory: large messages arrive by every strategy, and who asks the shared heap for more than there is hears of the limit
# instead of being killed by it.
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

# arrive KIND LMT [ARGUMENT...]: large messages of these ranks by this strategy
arrive() {
    kind=$1 lmt=$2
    shift 2
    inside bench pingpong --kind "$kind" --lmt "$lmt" --sizes 100K,4M --rounds 1 --warmup 0 --json "$@" >/tmp/rows 2>/tmp/errors ||
        failed "no ping-pong of $kind ranks by $lmt: $(cat /tmp/errors)"
    [ "$(grep -c "\"verified\":true" /tmp/rows)" = 2 ] || failed "of $kind ranks by $lmt: $(cat /tmp/rows)"
}

mount -t cgroup2 none /sys/fs/cgroup || failed "no cgroups"
echo +memory >/sys/fs/cgroup/cgroup.subtree_control || failed "no limits of memory"
mkdir "$group"
echo 128M >"$group/memory.max" || failed "no limit"
inside info --json >/tmp/info || failed "info does not run"
for lmt in direct cma vmsplice double; do
    grep -q "\"name\":\"$lmt\",\"usable\":true" /tmp/info || failed "info says: $(cat /tmp/info)"
done
for lmt in direct cma vmsplice double; do
    arrive process "$lmt"
    arrive thread "$lmt"
done
arrive process direct --buffers shared
if inside bench pingpong --kind process --buffers shared --sizes 128M --rounds 1 --warmup 0 >/tmp/rows 2>/tmp/errors; then
    failed "more than there is: $(cat /tmp/rows)"
fi
grep -q "memory\.max" /tmp/errors || failed "who asks for more than there is hears: $(cat /tmp/errors)"
[ "$(killed)" = 0 ] || failed "somebody was killed: $(cat "$group/memory.events")"
echo "ok limits"
echo "1 passed, 0 failed"
