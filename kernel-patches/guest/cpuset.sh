#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A cgroup whose cpuset.mems leaves one of two NUMA nodes out, while its processes run on both: there is nothing to choose, `tocsin info` says
# why, and all memory of a world is of the other node, with no policy.
program=/t/tocsin-bench-machine
group=/sys/fs/cgroup/half

failed() {
    echo "FAILED cpuset: $*"
    echo "0 passed, 1 failed"
    exit 1
}

# inside COMMAND...: in the cgroup
inside() {
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
}

mount -t cgroup2 none /sys/fs/cgroup || failed "no cgroups"
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control || failed "no cpusets"
mkdir "$group"
echo 0 >"$group/cpuset.mems" || failed "no memory of node 0"
inside $program info --json >/tmp/info || failed "info does not run"
grep '"name":"bound","usable":false,"why_not":"[^"]*(mems) leaves out 1"' /tmp/info || failed "info says: $(cat /tmp/info)"
TOCSIN_BIND=scatter_numa inside $program threads-placed 2 >/tmp/placed || failed "a world does not run"
grep '"cpus":\[2\]' /tmp/placed || failed "nobody runs on node 1: $(cat /tmp/placed)"
if sed 's/"nodes":\[0\],"policies":\[null\]//g' /tmp/placed | grep -E '"nodes"|"refused"'; then
    failed "not on node 0 alone, or by a policy: $(cat /tmp/placed)"
fi
echo "ok cpuset"
echo "1 passed, 0 failed"
