// SPDX-License-Identifier: GPL-2.0
/*
 * The calls of the stand-in for KNEM, what they do and what they refuse. As root. MODULE=path of knem.ko, which must be
 * loaded.
 */
#include "harness.h"
#include "ioctls.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

TEST(numbers_and_unknown_calls)
{
	int fd = open_knem();
	struct knem_cmd_info info = { .abi = 1, .features = 1, .ignored_flags = 1, .forced_flags = 1 };

	CHECK(KNEM_CMD_GET_INFO == 0x40104b10 && KNEM_CMD_CREATE_REGION == 0xc0204b21);
	CHECK(KNEM_CMD_DESTROY_REGION == 0x80084b22 && KNEM_CMD_INLINE_COPY == 0x80304b33);
	CHECK(!ioctl(fd, KNEM_CMD_GET_INFO, &info));
	CHECK(info.abi == 0xd && !info.features && !info.ignored_flags && !info.forced_flags);
	REFUSED(ioctl(fd, _IO('K', 7), NULL), ENOSYS);
	REFUSED(ioctl(fd, KNEM_CMD_GET_INFO, NULL), EFAULT);
	REFUSED(ioctl(fd, KNEM_CMD_CREATE_REGION, NULL), EFAULT);
	REFUSED(ioctl(fd, KNEM_CMD_DESTROY_REGION, NULL), EFAULT);
	REFUSED(ioctl(fd, KNEM_CMD_INLINE_COPY, NULL), EFAULT);
}

TEST(who_only_reads_has_no_calls)
{
	int fd = open(NODE, O_RDONLY | O_CLOEXEC);
	struct knem_cmd_info info;

	CHECK(fd >= 0, "%s", strerror(errno));
	REFUSED(ioctl(fd, KNEM_CMD_GET_INFO, &info), EBADF);
}

TEST(create_and_what_it_refuses)
{
	int fd = open_knem();
	char *start = memory(SIZE, 'm');
	const char *constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct knem_cmd_param_iovec none = { 0 };
	int64_t before = pinned(), first = region(fd, start, SIZE), second = region(fd, start + 1, SIZE - 1);

	CHECK(first != second && pinned() == before + 2 * PAGES);
	CHECK(create_of(fd, &none, 1, READ, 0) > 0 && create_of(fd, NULL, 0, READ, 0) > 0);
	CHECK(create(fd, constant, PAGE, READ, 0) > 0);
	REFUSED(create(fd, constant, PAGE, WRITE, 0), EFAULT);
	REFUSED(create(fd, NULL, PAGE, READ, 0), EFAULT);
	CHECK(!munmap(start + SIZE - PAGE, PAGE));
	before = pinned();
	REFUSED(create(fd, start, SIZE, READ, 0), EFAULT);
	REFUSED(create(fd, start, -1, READ, 0), EFAULT);
	REFUSED(create(fd, (void *)-PAGE, PAGE, READ, 0), EFAULT);
	REFUSED(create_of(fd, (void *)1, 1, READ, 0), EFAULT);
	REFUSED(create_of(fd, &none, -1, READ, 0), ENOMEM);
	REFUSED(create(fd, start, PAGE, 4, 0), EINVAL);
	REFUSED(create(fd, start, PAGE, READ, 1), EINVAL);
	CHECK(pinned() == before);
}

TEST(destroy_and_what_it_refuses)
{
	int fd = open_knem(), other = open_knem();
	char *start = memory(SIZE, 'm'), got;
	int64_t before = pinned(), cookie = region(fd, start, SIZE);

	REFUSED(destroy(fd, cookie ^ 1ll << 40), EINVAL);
	REFUSED(destroy(other, cookie), EINVAL);
	IN_CHILD(REFUSED(destroy(open_knem(), cookie), EINVAL));
	CHECK(pinned() == before + PAGES);
	CHECK(!destroy(fd, cookie));
	REFUSED(destroy(fd, cookie), EINVAL);
	REFUSED(from(fd, cookie, 0, &got, 1), EINVAL);
	CHECK(pinned() == before);
}

TEST(copies_both_ways)
{
	int fd = open_knem();
	char *start = memory(SIZE, 'm'), *here = memory(SIZE, 'h');
	int64_t cookie = region(fd, start + 5, SIZE - 10);

	for (int at = 0; at < SIZE; at++)
		start[at] = at * 7 + at / PAGE;
	for (int offset = 0; offset < 2 * PAGE; offset += 1021) {
		char mark = 'i' + offset % 3;

		IN_CHILD({
			int fd_ = open_knem();

			CHECK(from(fd_, cookie, offset, here, 3 * PAGE) == KNEM_STATUS_SUCCESS);
			CHECK(!memcmp(here, start + 5 + offset, 3 * PAGE) && here[3 * PAGE] == 'h');
			memset(here, mark, 3 * PAGE);
			CHECK(into(fd_, cookie, offset, here, 3 * PAGE) == KNEM_STATUS_SUCCESS);
		});
		for (int at = 0; at < 3 * PAGE; at++)
			CHECK(start[5 + offset + at] == mark, "%d of %d", at, offset);
	}
	CHECK(start[4] == (char)(4 * 7) && start[SIZE - 5] == (char)((SIZE - 5) * 7 + PAGES - 1));
}

/* What the owner has there later is not what was pinned. */
TEST(a_region_is_pages_and_not_addresses)
{
	int fd = open_knem();
	char *start = memory(SIZE, 'm');
	int64_t cookie = region(fd, start, SIZE);

	CHECK(mmap(start, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start);
	*start = 'n';
	expect_copy(fd, cookie, 'm');
	CHECK(!munmap(start, SIZE));
	expect_copy(fd, cookie, 'm');
}

/* Children write to copies of their own. */
TEST(forks_leave_a_region_to_its_owner)
{
	int fd = open_knem();
	char *start = memory(SIZE, 'm'), here = 'h';
	int64_t cookie = region(fd, start, SIZE);

	IN_CHILD({
		*start = 'c';
		CHECK(into(open_knem(), cookie, PAGE, &here, 1) == KNEM_STATUS_SUCCESS);
		CHECK(start[PAGE] == 'm');
	});
	CHECK(start[PAGE] == 'h');
	start[1] = 'o';
	expect_copy(fd, cookie, 'm');
	CHECK(from(fd, cookie, 1, &here, 1) == KNEM_STATUS_SUCCESS && here == 'o');
}

TEST(parts_follow_each_other)
{
	int fd = open_knem();
	char *start = memory(SIZE, 'm'), *here = memory(SIZE, 'h');
	struct knem_cmd_param_iovec parts[] = {
		{ (uint64_t)start + PAGE - 3, 7 }, { 0, 0 }, { (uint64_t)start, 1 }, { (uint64_t)start + 3 * PAGE, 2 * PAGE },
	};
	struct knem_cmd_param_iovec local[] = {
		{ (uint64_t)here + 9, 3 }, { (uint64_t)here + 2, 2 }, { 0, 0 }, { (uint64_t)here + 2 * PAGE, 2 * PAGE },
	};
	int64_t cookie = create_of(fd, parts, 4, BOTH, 0);

	for (int at = 0; at < 7; at++)
		start[PAGE - 3 + at] = 'a' + at;
	*start = 'z';
	start[3 * PAGE] = 'y';
	CHECK(copy_of(fd, cookie, 1, local, 4, 0, 0) == KNEM_STATUS_SUCCESS);
	CHECK(!memcmp(here + 9, "bcdh", 4) && !memcmp(here + 2, "efh", 3));
	CHECK(!memcmp(here + 2 * PAGE, "gzym", 4) && here[4 * PAGE - 1] == 'm' && here[4 * PAGE] == 'h');
	here[9] = 'B';
	CHECK(copy_of(fd, cookie, 1, local, 4, 1, KNEM_FLAG_PINLOCAL) == KNEM_STATUS_SUCCESS);
	CHECK(start[PAGE - 2] == 'B' && start[PAGE - 1] == 'c');
}

TEST(a_copy_ends_where_the_region_does)
{
	int fd = open_knem();
	char *start = memory(SIZE, 'm'), *here = memory(SIZE, 'h');
	int64_t cookie = region(fd, start, PAGE);

	CHECK(from(fd, cookie, PAGE - 2, here, 10) == KNEM_STATUS_SUCCESS && !memcmp(here, "mmh", 3));
	CHECK(from(fd, cookie, PAGE, here + 100, 10) == KNEM_STATUS_SUCCESS && here[100] == 'h');
	CHECK(from(fd, cookie, -1, here + 100, 10) == KNEM_STATUS_SUCCESS && here[100] == 'h');
	CHECK(into(fd, cookie, PAGE - 1, here + 100, 10) == KNEM_STATUS_SUCCESS);
	CHECK(start[PAGE - 1] == 'h' && start[PAGE] == 'm');
	CHECK(from(fd, cookie, 0, NULL, 0) == KNEM_STATUS_SUCCESS);
}

TEST(copies_and_what_they_refuse)
{
	int fd = open_knem();
	char *start = memory(SIZE, 'm'), *here = memory(SIZE, 'h');
	struct knem_cmd_param_iovec local = { (uint64_t)here, PAGE };
	int64_t reads = create(fd, start, SIZE, READ, 0), writes = create(fd, start, SIZE, WRITE, 0);

	REFUSED(into(fd, reads, 0, here, 1), EACCES);
	REFUSED(from(fd, writes, 0, here, 1), EACCES);
	REFUSED(from(fd, reads ^ 1ll << 40, 0, here, 1), EINVAL);
	REFUSED(from(fd, 0, 0, here, 1), EINVAL);
	REFUSED(copy_of(fd, reads, 0, &local, 1, 0, 1), EINVAL);
	REFUSED(copy_of(fd, reads, 0, (void *)1, 1, 0, 0), EFAULT);
	REFUSED(copy_of(fd, reads, 0, &local, -1, 0, 0), ENOMEM);
	/* What comes to light in the middle is a status. */
	CHECK(from(fd, reads, 0, NULL, 1) == KNEM_STATUS_FAILED);
	CHECK(!mprotect(here + PAGE, PAGE, PROT_NONE));
	CHECK(from(fd, reads, 0, here, 2 * PAGE) == KNEM_STATUS_FAILED && *here == 'm');
	CHECK(into(fd, writes, 0, here, 2 * PAGE) == KNEM_STATUS_FAILED);
}

/* Each copies once, and only what it may. */
TEST(single_use)
{
	int fd = open_knem();
	char *start = memory(SIZE, 'm'), *here = memory(SIZE, 'h');
	int64_t before = pinned(), cookie = create(fd, start, SIZE, READ, KNEM_FLAG_SINGLEUSE);

	REFUSED(into(fd, cookie, 0, here, 1), EACCES);
	CHECK(from(fd, cookie, 0, here, SIZE) == KNEM_STATUS_SUCCESS && here[SIZE - 1] == 'm');
	REFUSED(from(fd, cookie, 0, here, SIZE), EINVAL);
	REFUSED(destroy(fd, cookie), EINVAL);
	cookie = create(fd, start, SIZE, READ, KNEM_FLAG_SINGLEUSE);
	CHECK(!destroy(fd, cookie));
	cookie = create(fd, start, SIZE, READ, KNEM_FLAG_SINGLEUSE);
	CHECK(from(fd, cookie, 0, NULL, SIZE) == KNEM_STATUS_FAILED);
	REFUSED(from(fd, cookie, 0, here, SIZE), EINVAL);
	CHECK(pinned() == before);
}

/* As somebody else. */
static int stranger_copies(int64_t cookie)
{
	int fd = open_knem();
	char got;

	CHECK(!syscall(SYS_setgroups, 0, NULL) && !setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534));
	return from(fd, cookie, 0, &got, 1);
}

TEST(a_region_is_its_users)
{
	int fd = open_knem();
	char *start = memory(SIZE, 'm');
	int64_t cookie = region(fd, start, SIZE);

	CHECK(!geteuid(), "it takes root to become others");
	IN_CHILD(REFUSED(stranger_copies(cookie), EPERM));
	IN_CHILD(expect_copy(open_knem(), cookie, 'm'));
}

TEST(a_region_goes_with_the_file_that_made_it)
{
	int fd = open_knem(), made = open_knem(), twin = dup(made);
	char *start = memory(SIZE, 'm'), got;
	int64_t before = pinned(), cookie = region(made, start, SIZE), other = region(fd, start, SIZE);

	close(made);
	expect_copy(fd, cookie, 'm');
	close(twin);
	REFUSED(from(fd, cookie, 0, &got, 1), EINVAL);
	expect_copy(fd, other, 'm');
	CHECK(pinned() == before + PAGES);
}

/* An owner in a process of its own, with a region of this size, full of 'o'. */
struct owner {
	int64_t cookie;
	pid_t pid;
};

static struct owner *owner_of(size_t size)
{
	struct owner *owner = shared_memory(sizeof(*owner));
	pid_t pid = fork();

	if (!pid) {
		int64_t cookie = region(open_knem(), memory(size, 'o'), size);

		STORE(owner->cookie, cookie);
		for (;;)
			pause();
	}
	owner->pid = pid;
	AWAIT(LOAD(owner->cookie));
	return owner;
}

static void kill_owner(struct owner *owner)
{
	CHECK(!kill(owner->pid, SIGKILL));
	expect_end(owner->pid, SIGKILL);
}

TEST(a_region_goes_with_its_owner)
{
	int64_t before = pinned();
	struct owner *owner = owner_of(SIZE);
	int fd = open_knem();
	char got;

	expect_copy(fd, owner->cookie, 'o');
	kill_owner(owner);
	REFUSED(from(fd, owner->cookie, 0, &got, 1), EINVAL);
	CHECK(pinned() == before);
}

static int unload(void)
{
	return syscall(SYS_delete_module, "knem", O_NONBLOCK);
}

TEST(unloading)
{
	struct owner *owner = owner_of(SIZE);
	int fd = open_knem(), file;

	REFUSED(unload(), EAGAIN);
	close(fd);
	REFUSED(unload(), EAGAIN);
	kill_owner(owner);
	CHECK(!unload(), "%s", strerror(errno));
	REFUSED(open(NODE, O_RDWR), ENOENT);
	file = open(text_argument("MODULE", "knem.ko"), O_RDONLY | O_CLOEXEC);
	CHECK(!syscall(SYS_finit_module, file, "", 0), "%s", strerror(errno));
	close(open_knem());
}
