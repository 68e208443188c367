// SPDX-License-Identifier: GPL-2.0
/*
 * The calls of the stand-in for XPMEM, and what they refuse. As root. MODULE=path of xpmem.ko, which must be loaded.
 */
#include "harness.h"
#include "ioctls.h"
#include "owner.h"
#include "touch.h"
#include "../xpmem_uapi.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

TEST(version_and_unknown_calls)
{
	int fd = open_xpmem();

	CHECK(ioctl(fd, XPMEM_CMD_VERSION, NULL) == XPMEM_VERSION);
	CHECK(XPMEM_CMD_MAKE == 0x7801 && XPMEM_CMD_DETACH == 0x7806);
	REFUSED(ioctl(fd, _IO('x', 7), NULL), ENOTTY);
	for (int call = 1; call <= 6; call++)
		REFUSED(ioctl(fd, _IO('x', call), NULL), EFAULT);
}

TEST(make_and_what_it_refuses)
{
	int fd = open_xpmem(), type = XPMEM_PERMIT_MODE;
	char *start = memory(NULL, SIZE);
	uint64_t at = (uint64_t)start, all = -1;
	int64_t first = make(fd, start, SIZE), second = make(fd, start, SIZE);

	CHECK(first != second && (first & 0xffffffff) == getpid() && (second & 0xffffffff) == getpid());
	CHECK(make(fd, start, all) > 0 && make(fd, NULL, all) > 0 && make_by(fd, at, SIZE, type, 0) > 0);
	REFUSED(make_by(fd, at, SIZE, 0, 0600), EINVAL);
	REFUSED(make_by(fd, at, SIZE, 2, 0600), EINVAL);
	REFUSED(make_by(fd, at, SIZE, type, 01000), EINVAL);
	REFUSED(make_by(fd, at, 0, type, 0600), EINVAL);
	REFUSED(make_by(fd, at + 1, SIZE, type, 0600), EINVAL);
	REFUSED(make_by(fd, at, SIZE - 1, type, 0600), EINVAL);
	REFUSED(make_by(fd, at, all & -PAGE, type, 0600), EINVAL);
	REFUSED(make_by(fd, 1ull << 63, SIZE, type, 0600), EINVAL);
	REFUSED(make_by(fd, 1ull << 63, all, type, 0600), EINVAL);
}

TEST(remove_and_what_it_refuses)
{
	int fd = open_xpmem();
	int64_t segment = make(fd, memory(NULL, SIZE), SIZE);

	REFUSED(remove_segment(fd, segment ^ 1ll << 40), ENOENT);
	IN_CHILD(REFUSED(remove_segment(fd, segment), EACCES));
	IN_CHILD(REFUSED(remove_segment(open_xpmem(), segment), EACCES));
	CHECK(!remove_segment(fd, segment));
	REFUSED(remove_segment(fd, segment), ENOENT);
	REFUSED(get_by(fd, segment, XPMEM_RDWR, XPMEM_PERMIT_MODE, 0), ENOENT);
}

/* As somebody else, who is in no group of root's. */
static int64_t stranger_gets(int64_t segment, int flags)
{
	int fd = open_xpmem();

	CHECK(!syscall(SYS_setgroups, 0, NULL) && !setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534));
	return get_by(fd, segment, flags, XPMEM_PERMIT_MODE, 0);
}

/* The same, but for the group. */
static int64_t fellow_gets(int64_t segment, int flags)
{
	int fd = open_xpmem();

	CHECK(!syscall(SYS_setgroups, 0, NULL) && !setresuid(65534, 65534, 65534));
	return get_by(fd, segment, flags, XPMEM_PERMIT_MODE, 0);
}

TEST(get_and_what_it_refuses)
{
	int fd = open_xpmem(), type = XPMEM_PERMIT_MODE;
	char *start = memory(NULL, SIZE);
	int64_t segment = make(fd, start, SIZE), permit = get(fd, segment);
	int64_t open_ = make_by(fd, (uint64_t)start, SIZE, type, 0644);
	int64_t group = make_by(fd, (uint64_t)start, SIZE, type, 0060);

	CHECK((permit & 0xffffffff) == getpid() && permit != get(fd, segment));
	CHECK(get_by(fd, segment, XPMEM_RDONLY, type, 0) > 0);
	REFUSED(get_by(fd, segment, 0, type, 0), EINVAL);
	REFUSED(get_by(fd, segment, XPMEM_RDONLY | XPMEM_RDWR, type, 0), EINVAL);
	REFUSED(get_by(fd, segment, 4, type, 0), EINVAL);
	REFUSED(get_by(fd, segment, XPMEM_RDWR, 0, 0), EINVAL);
	REFUSED(get_by(fd, segment, XPMEM_RDWR, type, 0600), EINVAL);
	REFUSED(get_by(fd, segment ^ 1ll << 40, XPMEM_RDWR, type, 0), ENOENT);
	CHECK(!geteuid(), "it takes root to become others");
	/* Root may all. */
	CHECK(get(fd, group) > 0);
	IN_CHILD(REFUSED(stranger_gets(segment, XPMEM_RDONLY), EACCES));
	IN_CHILD(REFUSED(stranger_gets(open_, XPMEM_RDWR), EACCES));
	IN_CHILD(CHECK(stranger_gets(open_, XPMEM_RDONLY) > 0));
	IN_CHILD(REFUSED(stranger_gets(group, XPMEM_RDWR), EACCES));
	IN_CHILD(CHECK(fellow_gets(group, XPMEM_RDWR) > 0));
}

TEST(attach_and_what_it_refuses)
{
	int fd = open_xpmem();
	int64_t segment = make(fd, memory(NULL, SIZE), SIZE), permit = get(fd, segment), other = get(fd, segment);
	char *at;

	CHECK(attach_at(fd, permit, SIZE - PAGE, 1, NULL) != MAP_FAILED);
	REFUSED((long)attach_at(fd, permit, 1, PAGE, NULL), EINVAL);
	REFUSED((long)attach_at(fd, permit, -PAGE, PAGE, NULL), EINVAL);
	REFUSED((long)attach_at(fd, permit, 0, 0, NULL), EINVAL);
	REFUSED((long)attach_at(fd, permit, 0, SIZE + 1, NULL), EINVAL);
	REFUSED((long)attach_at(fd, permit, SIZE, 1, NULL), EINVAL);
	REFUSED((long)attach_at(fd, permit, PAGE, SIZE, NULL), EINVAL);
	REFUSED((long)attach_at(fd, permit, PAGE, -1, NULL), EINVAL);
	REFUSED((long)attach_at(fd, permit, 0, PAGE, (void *)1), EINVAL);
	REFUSED((long)attach_at(fd, permit ^ 1ll << 40, 0, PAGE, NULL), ENOENT);
	IN_CHILD(REFUSED((long)attach_at(open_xpmem(), permit, 0, PAGE, NULL), EACCES));

	REFUSED(release(fd, permit ^ 1ll << 40), ENOENT);
	IN_CHILD(REFUSED(release(fd, permit), EACCES));
	IN_CHILD(REFUSED(release(open_xpmem(), permit), EACCES));
	CHECK(!release(fd, permit));
	REFUSED(release(fd, permit), ENOENT);
	REFUSED((long)attach_at(fd, permit, 0, PAGE, NULL), ENOENT);

	at = attach(fd, other, 0, SIZE);
	CHECK(!remove_segment(fd, segment));
	REFUSED((long)attach_at(fd, other, 0, PAGE, NULL), ENOENT);
	CHECK(!detach(fd, at));
}

TEST(detach_takes_all_of_it)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem();
	int64_t permit = get(fd, order->segment);
	char *at = attach(fd, permit, 0, SIZE), *other = attach(fd, permit, PAGE, SIZE - PAGE);

	VALUE(at, 'o');
	CHECK(!detach(fd, at + 3 * PAGE + 5));
	SIGNAL(at, SIGSEGV);
	SIGNAL(at + SIZE - 1, SIGSEGV);
	REFUSED(detach(fd, at), EINVAL);
	REFUSED(detach(fd, memory(NULL, PAGE)), EINVAL);
	VALUE(other, 'o');
	CHECK(!munmap(other, SIZE - PAGE));
	REFUSED(detach(fd, other), EINVAL);
}

static int unload(void)
{
	return syscall(SYS_delete_module, "xpmem", O_NONBLOCK);
}

TEST(unloading)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem(), file;
	char *at = attach(fd, get(fd, order->segment), 0, SIZE);
	uint64_t limit = nanoseconds() + 60000000000ull;

	VALUE(at, 'o');
	REFUSED(unload(), EAGAIN);
	close(fd);
	REFUSED(unload(), EAGAIN);
	kill_owner(order);
	while (unload()) {
		CHECK(errno == EAGAIN || errno == EBUSY, "%s", strerror(errno));
		CHECK(nanoseconds() < limit, "still in use");
		usleep(10000);
	}
	REFUSED(open(NODE, O_RDWR), ENOENT);
	file = open(text_argument("MODULE", "xpmem.ko"), O_RDONLY | O_CLOEXEC);
	CHECK(!syscall(SYS_finit_module, file, "", 0), "%s", strerror(errno));
	close(open_xpmem());
}
