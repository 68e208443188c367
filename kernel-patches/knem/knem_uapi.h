/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Those ioctls of /dev/knem that the stand-in has, as programs of KNEM make them: numbers and layouts.
 */
#ifndef KNEM_UAPI_H
#define KNEM_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define KNEM_ABI_VERSION 0xd

/* All that is given. features: bit 0 for DMA engines. The others are flags that the module leaves out, or always sets. */
struct knem_cmd_info {
	__u32 abi;
	__u32 features;
	__u32 ignored_flags;
	__u32 forced_flags;
};

struct knem_cmd_param_iovec {
	__u64 base;
	__u64 len;
};

/* The region goes with its first copy. */
#define KNEM_FLAG_SINGLEUSE (1 << 5)
/* Of copies: the local pages are pinned, too. */
#define KNEM_FLAG_PINLOCAL (1 << 4)

/* protection: PROT_READ, PROT_WRITE. cookie is given. */
struct knem_cmd_create_region {
	__u64 iovec_array;
	__u32 iovec_nr;
	__u32 flags;
	__u32 protection;
	__u32 pad1;
	__u64 cookie;
};

/* write: into the region. Ends where either end does. current_status is given: how it went, if the call has not failed. */
struct knem_cmd_inline_copy {
	__u64 local_iovec_array;
	__u32 local_iovec_nr;
	__u32 write;
	__u64 remote_cookie;
	__u64 remote_offset;
	__u32 flags;
	__u32 current_status;
	__u32 async_status_index;
	__u32 pad;
};

#define KNEM_STATUS_PENDING 0
#define KNEM_STATUS_SUCCESS 1
#define KNEM_STATUS_FAILED 2

#define KNEM_CMD_GET_INFO _IOW('K', 0x10, struct knem_cmd_info)
#define KNEM_CMD_CREATE_REGION _IOWR('K', 0x21, struct knem_cmd_create_region)
/* Takes a cookie. */
#define KNEM_CMD_DESTROY_REGION _IOR('K', 0x22, __u64)
#define KNEM_CMD_INLINE_COPY _IOR('K', 0x33, struct knem_cmd_inline_copy)

#endif
