/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * User interrupts by /dev/uintr: what programs and the module agree on.
 *
 * The device's descriptor carries no authority: every call acts on the calling thread (its receiver) and on its
 * address space (its table of senders). What carries authority is a vector's descriptor: who holds one may ring.
 *
 * Each call returns -1 and errno, or what its comment says. All: EFAULT (argument not readable or writable),
 * EINVAL (a flag or reserved field is not 0), ENOTTY (unknown call, or from a 32-bit program).
 */
#ifndef UINTR_UAPI_H
#define UINTR_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Version of this interface, in struct uintr_info.abi. */
#define UINTR_ABI 1
/* Vectors of a receiver, 0 to 63; the highest is delivered first. */
#define UINTR_VECTORS 64
/* Entries of a process's table of senders, and so its indexes, 0 to 255. */
#define UINTR_SENDERS 256
/* The least alternate stack, in bytes. */
#define UINTR_MIN_STACK 4096

/* What is loaded, and counters since it was loaded. */
struct uintr_info {
	__u32 abi;		/* UINTR_ABI */
	__u32 notification_vector;
	__u32 x2apic;		/* 1: APIC ids are written as x2APIC has them */
	__u32 reserved;
	__u64 receivers;	/* registered now, in the whole system */
	__u64 upids;		/* descriptors that somebody still refers to */
	__u64 tables;		/* tables of senders there are */
	__u64 notifications;	/* notifications that found no receiver on the CPU (a receiver's merge saw them) */
};

/* Registers the calling thread. Errors: EBUSY (it is registered), EINVAL (handler or stack not a user address,
 * stack_size under UINTR_MIN_STACK), ENOMEM. */
struct uintr_handler {
	__u64 handler;		/* address of the entry point */
	__u64 stack;		/* lowest address of the alternate stack; 0: the interrupted stack, 128 bytes below RSP */
	__u64 stack_size;	/* in bytes; 0 if stack is 0. The handler starts at stack + stack_size */
	__u32 flags;		/* 0 */
	__u32 reserved;		/* 0 */
};

/* Sets or removes (stack 0, size 0) the alternate stack of the calling thread, which is registered.
 * Errors: EINVAL (as above), EOPNOTSUPP (not registered). */
struct uintr_stack {
	__u64 stack;
	__u64 stack_size;
	__u32 flags;		/* 0 */
	__u32 reserved;		/* 0 */
};

/* Gives a descriptor (close-on-exec) of a vector of the calling thread. Returns it.
 * Errors: ENOSPC (vector over 63), EOPNOTSUPP (not registered), ENOMEM, EMFILE, ENFILE. */
struct uintr_vector {
	__u32 vector;
	__u32 flags;		/* 0 */
};

/* Lets this process ring what a descriptor stands for. Returns the index, SENDUIPI's operand. The same receiver and
 * vector give the same index, whatever the descriptor; registrations are counted.
 * Errors: EBADF, EOPNOTSUPP (not a vector's descriptor), ESHUTDOWN (the receiver is gone), ENOSPC (table full),
 * ENOMEM. */
struct uintr_sender {
	__s32 fd;
	__u32 flags;		/* 0 */
};

/* Takes one registration of an index back; the index ends with the last. Errors: EINVAL (not in use). */
struct uintr_index {
	__u32 index;
	__u32 flags;		/* 0 */
};

/* The calling thread's counters. Errors: EOPNOTSUPP (not registered). */
struct uintr_stats {
	__u64 switched_in;	/* times the thread was put on a CPU */
	__u64 switched_out;
	__u64 merged;		/* times posted vectors were found at switching in */
	__u64 migrated;		/* times the CPU was another one */
};

#define UINTR_IOC_MAGIC 'u'
#define UINTR_IOC_INFO			_IOR(UINTR_IOC_MAGIC, 0x10, struct uintr_info)
#define UINTR_IOC_REGISTER_HANDLER	_IOW(UINTR_IOC_MAGIC, 0x11, struct uintr_handler)
/* Errors: EINVAL (not registered). */
#define UINTR_IOC_UNREGISTER_HANDLER	_IO(UINTR_IOC_MAGIC, 0x12)
#define UINTR_IOC_ALT_STACK		_IOW(UINTR_IOC_MAGIC, 0x13, struct uintr_stack)
#define UINTR_IOC_VECTOR_FD		_IOW(UINTR_IOC_MAGIC, 0x14, struct uintr_vector)
#define UINTR_IOC_REGISTER_SENDER	_IOW(UINTR_IOC_MAGIC, 0x15, struct uintr_sender)
#define UINTR_IOC_UNREGISTER_SENDER	_IOW(UINTR_IOC_MAGIC, 0x16, struct uintr_index)
/* An index of a vector of the calling thread itself. Returns it. Errors: as VECTOR_FD and REGISTER_SENDER. */
#define UINTR_IOC_REGISTER_SELF		_IOW(UINTR_IOC_MAGIC, 0x17, struct uintr_vector)
#define UINTR_IOC_STATS			_IOR(UINTR_IOC_MAGIC, 0x18, struct uintr_stats)

/* Of the descriptors that the system call uintr_ipi_fd gives: has the calling process send by the table that the
 * descriptor stands for. Errors: EBUSY (it has a table already), ENOMEM.
 */
#define UIPI_SET_TARGET_TABLE		_IO(UINTR_IOC_MAGIC, 0x00)

#endif
