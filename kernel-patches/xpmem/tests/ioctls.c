// SPDX-License-Identifier: GPL-2.0
#include "ioctls.h"

#include "harness.h"
#include "../xpmem_uapi.h"

#include <fcntl.h>
#include <sys/mman.h>

int open_xpmem(void)
{
	int fd = open(NODE, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0, "%s: %s", NODE, strerror(errno));
	return fd;
}

int64_t make_by(int fd, uint64_t start, uint64_t size, int type, uint64_t mode)
{
	struct xpmem_cmd_make call = { .vaddr = start, .size = size, .permit_type = type, .permit_value = mode };

	return ioctl(fd, XPMEM_CMD_MAKE, &call) ? -1 : call.segid;
}

int64_t make(int fd, void *start, uint64_t size)
{
	int64_t id = make_by(fd, (uint64_t)start, size, XPMEM_PERMIT_MODE, 0600);

	CHECK(id > 0, "%s", strerror(errno));
	return id;
}

int remove_segment(int fd, int64_t id)
{
	struct xpmem_cmd_remove call = { .segid = id };

	return ioctl(fd, XPMEM_CMD_REMOVE, &call);
}

int64_t get_by(int fd, int64_t segment, int flags, int type, uint64_t value)
{
	struct xpmem_cmd_get call = { .segid = segment, .flags = flags, .permit_type = type, .permit_value = value };

	return ioctl(fd, XPMEM_CMD_GET, &call) ? -1 : call.apid;
}

int64_t get(int fd, int64_t segment)
{
	int64_t id = get_by(fd, segment, XPMEM_RDWR, XPMEM_PERMIT_MODE, 0);

	CHECK(id > 0, "%s", strerror(errno));
	return id;
}

int release(int fd, int64_t id)
{
	struct xpmem_cmd_release call = { .apid = id };

	return ioctl(fd, XPMEM_CMD_RELEASE, &call);
}

void *attach_at(int fd, int64_t permit, int64_t offset, uint64_t size, void *at)
{
	struct xpmem_cmd_attach call = {
		.apid = permit, .offset = offset, .size = size, .vaddr = (uint64_t)at, .fd = -1
	};

	return ioctl(fd, XPMEM_CMD_ATTACH, &call) ? MAP_FAILED : (void *)call.vaddr;
}

char *attach(int fd, int64_t permit, int64_t offset, uint64_t size)
{
	void *at = attach_at(fd, permit, offset, size, NULL);

	CHECK(at != MAP_FAILED, "%s", strerror(errno));
	return at;
}

int detach(int fd, void *at)
{
	struct xpmem_cmd_detach call = { .vaddr = (uint64_t)at };

	return ioctl(fd, XPMEM_CMD_DETACH, &call);
}

char *memory(void *at, size_t size)
{
	char *start = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	return start;
}
