#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A kernel that saves the user-interrupt state itself has XSS[14] set: the module must not load beside it, and say so.
# What this kernel does not, the processor's register is made to say. Needs the module loaded, and leaves it so.
failed() {
    dmesg | tail -n 5
    echo "FAILED xss: $*"
    echo "0 passed, 1 failed"
    exit 1
}

# MSR 0xda0 lies 436 times 8 bytes into the device. The rest of the register, which the kernel uses, is kept.
register=/dev/cpu/0/msr
transfer() {
    dd bs=8 count=1 "$@" 2>/dev/null
}

# with BYTE: the register with that for its second byte, bits 8 to 15.
with() {
    { head -c 1 /tmp/xss; printf %b "\\0$(printf %o "$1")"; tail -c 6 /tmp/xss; } >/tmp/changed
    transfer if=/tmp/changed of=$register seek=436 conv=notrunc
}

insmod /k/msr.ko || failed "the kernel's module msr does not load"
rmmod uintr || failed "it is in use"
transfer if=$register skip=436 >/tmp/xss
[ "$(wc -c </tmp/xss)" = 8 ] || failed "XSS cannot be read"
second=$(od -An -tu1 -j1 -N1 /tmp/xss | tr -d ' ')
with $((second | 64)) || failed "XSS[14] cannot be set"
if insmod /uintr.ko 2>/tmp/why; then
    failed "it loaded"
fi
dmesg | grep 'uintr: XSS bit 14 is set' || failed "but without saying why: $(cat /tmp/why)"
with "$second" || failed "XSS[14] cannot be cleared"
insmod /uintr.ko || failed "it does not load when the bit is clear"
echo "ok xss"
echo "1 passed, 0 failed"
