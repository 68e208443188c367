/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The ioctls of /dev/xpmem as programs of XPMEM make them: numbers, and layouts on 64-bit machines.
 */
#ifndef XPMEM_UAPI_H
#define XPMEM_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Given by XPMEM_CMD_VERSION as its result. */
#define XPMEM_VERSION 0x00027004

#define XPMEM_CMD_VERSION _IO('x', 0)
#define XPMEM_CMD_MAKE _IO('x', 1)
#define XPMEM_CMD_REMOVE _IO('x', 2)
#define XPMEM_CMD_GET _IO('x', 3)
#define XPMEM_CMD_RELEASE _IO('x', 4)
#define XPMEM_CMD_ATTACH _IO('x', 5)
#define XPMEM_CMD_DETACH _IO('x', 6)

#define XPMEM_RDONLY 1
#define XPMEM_RDWR 2
#define XPMEM_PERMIT_MODE 1

/* size: all ones for all that follows. permit_value: an octal mode. segid is given. */
struct xpmem_cmd_make {
	__u64 vaddr;
	__u64 size;
	__s32 permit_type;
	__u64 permit_value;
	__s64 segid;
};

struct xpmem_cmd_remove {
	__s64 segid;
};

/* permit_value: 0. apid is given. */
struct xpmem_cmd_get {
	__s64 segid;
	__s32 flags;
	__s32 permit_type;
	__u64 permit_value;
	__s64 apid;
};

struct xpmem_cmd_release {
	__s64 apid;
};

/* vaddr: where, or 0; where it is is given. fd and flags are not looked at. */
struct xpmem_cmd_attach {
	__s64 apid;
	__s64 offset;
	__u64 size;
	__u64 vaddr;
	__s32 fd;
	__s32 flags;
};

struct xpmem_cmd_detach {
	__u64 vaddr;
};

#endif
