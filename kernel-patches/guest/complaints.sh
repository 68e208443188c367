#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Whether init sees what kernels say when something is wrong, in the words of 6.1 and 6.12, and nothing in what they always say.
eval "$(grep '^complaints=' /init)"
wrong=0

while read -r line; do
    echo "$line" | grep -qE "$complaints" || { echo "not seen: $line"; wrong=1; }
done <<'END'
BUG: kernel NULL pointer dereference, address: 0000000000000008
BUG: KASAN: use-after-free in uintr_receiver_put+0x12/0x40 [uintr]
BUG: sleeping function called from invalid context at kernel/locking/mutex.c:580
BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 31s!
BUG: MAX_LOCKDEP_CHAINS too low!
BUG uintr_receiver (Tainted: G           OE     ): Poison overwritten
BUG uintr_receiver (Not tainted): Right Redzone overwritten
WARNING: possible circular locking dependency detected
WARNING: CPU: 1 PID: 77 at arch/x86/kernel/fpu/core.c:57 x+0x1/0x2
INFO: task delivery:99 blocked for more than 120 seconds.
INFO: trying to register non-static key.
turning off the locking correctness validator.
Oops: 0000 [#1] PREEMPT SMP NOPTI
UBSAN: shift-out-of-bounds in core/table.c:1:2
kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
kmemleak: Kernel memory leak detector disabled
watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [rings:88]
rcu: INFO: rcu_preempt self-detected stall on CPU
refcount_t: underflow; use-after-free.
unchecked MSR access error: WRMSR to 0x988 (tried to write 0x000000f0000000ff) at rIP: 0xffffffffc0000000
__common_interrupt: 1.240 No irq handler for vector
END

while read -r line; do
    echo "$line" | grep -qE "$complaints" && { echo "seen: $line"; wrong=1; }
done <<'END'
rcu: RCU lockdep checking is enabled.
kmemleak: Kernel memory leak detector initialized (mem pool available: 15068)
Serial: 8250/16550 driver, 4 ports, IRQ sharing disabled
uintr: user interrupts enabled, notification vector 0xf0, xAPIC destinations
traps: calls[123] trap invalid opcode ip:401000 sp:7ffc00000000 error:0 in calls[401000+1000]
END

if [ $wrong = 0 ]; then
    echo "ok complaints_are_seen"
    echo "1 passed, 0 failed"
else
    echo "FAILED complaints_are_seen: init's words do not fit"
    echo "0 passed, 1 failed"
    exit 1
fi
