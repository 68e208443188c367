// SPDX-License-Identifier: GPL-2.0
#include "ioctls.h"

#include "harness.h"

#include <fcntl.h>
#include <sys/mman.h>

int open_knem(void)
{
	int fd = open(NODE, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0, "%s: %s", NODE, strerror(errno));
	return fd;
}

int64_t create_of(int fd, const struct knem_cmd_param_iovec *parts, uint32_t number, uint32_t protection, uint32_t flags)
{
	struct knem_cmd_create_region call = {
		.iovec_array = (uint64_t)parts, .iovec_nr = number, .protection = protection, .flags = flags
	};

	return ioctl(fd, KNEM_CMD_CREATE_REGION, &call) ? -1 : (int64_t)call.cookie;
}

int64_t create(int fd, const void *start, uint64_t size, uint32_t protection, uint32_t flags)
{
	struct knem_cmd_param_iovec part = { .base = (uint64_t)start, .len = size };

	return create_of(fd, &part, 1, protection, flags);
}

int64_t region(int fd, const void *start, uint64_t size)
{
	int64_t cookie = create(fd, start, size, BOTH, 0);

	CHECK(cookie > 0, "%s", strerror(errno));
	return cookie;
}

int destroy(int fd, uint64_t cookie)
{
	return ioctl(fd, KNEM_CMD_DESTROY_REGION, &cookie);
}

int copy_of(int fd, uint64_t cookie, uint64_t offset, const struct knem_cmd_param_iovec *parts, uint32_t number, int write,
	    uint32_t flags)
{
	struct knem_cmd_inline_copy call = {
		.local_iovec_array = (uint64_t)parts, .local_iovec_nr = number, .write = write, .remote_cookie = cookie,
		.remote_offset = offset, .flags = flags
	};

	return ioctl(fd, KNEM_CMD_INLINE_COPY, &call) ? -1 : (int)call.current_status;
}

int from(int fd, uint64_t cookie, uint64_t offset, void *to, uint64_t size)
{
	struct knem_cmd_param_iovec part = { .base = (uint64_t)to, .len = size };

	return copy_of(fd, cookie, offset, &part, 1, 0, 0);
}

int into(int fd, uint64_t cookie, uint64_t offset, const void *from, uint64_t size)
{
	struct knem_cmd_param_iovec part = { .base = (uint64_t)from, .len = size };

	return copy_of(fd, cookie, offset, &part, 1, 1, 0);
}

void expect_copy(int fd, uint64_t cookie, char value)
{
	char found = 0;

	CHECK(from(fd, cookie, 0, &found, 1) == KNEM_STATUS_SUCCESS && found == value, "%#x", found);
}

char *memory(size_t size, char value)
{
	char *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	return memset(start, value, size);
}

int64_t pinned(void)
{
	FILE *file;
	/* Who reads it has each processor tell what it has counted. */
	FILE *refresh = fopen("/proc/sys/vm/stat_refresh", "r");
	long acquired = -1, released = -1;
	char line[256];

	CHECK(refresh, "%s", strerror(errno));
	CHECK(!fgets(line, sizeof(line), refresh) && !ferror(refresh), "%s", strerror(errno));
	fclose(refresh);
	file = fopen("/proc/vmstat", "r");
	CHECK(file, "%s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "nr_foll_pin_acquired %ld", &acquired);
		sscanf(line, "nr_foll_pin_released %ld", &released);
	}
	fclose(file);
	CHECK(acquired >= 0 && released >= 0, "the kernel does not count pinned pages");
	return acquired - released;
}
