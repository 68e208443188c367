// SPDX-License-Identifier: GPL-2.0
/* What an attachment of the stand-in for XPMEM shows while its owner's memory changes, and when it ends. */
#include "harness.h"
#include "ioctls.h"
#include "owner.h"
#include "touch.h"
#include "../xpmem_uapi.h"

#include <fcntl.h>
#include <sys/mman.h>

/* What an owner is told to do. */

static void read_first(struct order *order)
{
	order->value = order->memory[0];
}

static void write_first(struct order *order)
{
	order->memory[0] = order->value;
}

static void unmap(struct order *order)
{
	CHECK(!munmap(order->memory, SIZE));
}

static void map_again(struct order *order)
{
	memory(order->memory, SIZE);
	memset(order->memory, order->value, SIZE);
}

static void map_over(struct order *order)
{
	memory(order->memory, SIZE);
}

static void move_there(struct order *order)
{
	char *other = memory(NULL, SIZE);

	memset(other, order->value, SIZE);
	CHECK(mremap(other, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, order->memory) == order->memory);
}

static void throw_away(struct order *order)
{
	CHECK(!madvise(order->memory, SIZE, MADV_DONTNEED));
}

static void forbid(struct order *order)
{
	CHECK(!mprotect(order->memory, SIZE, PROT_READ));
}

/* The child sleeps on, so that the pages stay shared with it. */
static void fork_and_write(struct order *order)
{
	pid_t child = fork();

	if (!child)
		for (;;)
			pause();
	CHECK(child > 0);
	order->memory[0] = order->value;
}

static void fork_only(struct order *order)
{
	if (!fork())
		for (;;)
			pause();
}

static void remove_it(struct order *order)
{
	CHECK(!remove_segment(order->fd, order->segment), "%s", strerror(errno));
}

static void close_another(struct order *order)
{
	close(dup(order->fd));
}

static void exec_another(struct order *order)
{
	ADD(order->done, 1);
	execl("/proc/self/exe", "attachments", "ROLE=sleep", NULL);
	_exit(3);
}

TEST(both_ways)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem(), ends[2];
	int64_t permit = get(fd, order->segment);
	char *at = attach(fd, permit, 0, SIZE), *wanted = memory(NULL, 3 * PAGE), byte = 'p';

	for (int i = 0; i < PAGES; i++)
		VALUE(at + i * PAGE + i, 'o');
	order->value = 'a';
	tell(order, write_first);
	VALUE(at, 'a');
	at[0] = 'b';
	tell(order, read_first);
	CHECK(order->value == 'b');

	/* Where it is wanted, over what is there, and its size rounded up. */
	CHECK(attach_at(fd, permit, (PAGES - 1) * PAGE, 1, wanted + PAGE) == wanted + PAGE);
	wanted[0] = wanted[2 * PAGE] = 'w';
	VALUE(wanted + 2 * PAGE - 1, 'o');
	wanted[PAGE] = 'c';
	VALUE(at + SIZE - PAGE, 'c');

	/* The kernel touches it, too. */
	CHECK(!pipe(ends) && write(ends[1], &byte, 1) == 1);
	CHECK(read(ends[0], attach(fd, permit, 0, PAGE), 1) == 1);
	tell(order, read_first);
	CHECK(order->value == 'p');
	CHECK(write(ends[1], attach(fd, permit, 0, PAGE), 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'p');
}

TEST(what_the_owner_maps_is_seen)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem();
	char *at = attach(fd, get(fd, order->segment), 0, SIZE), byte = 1;
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	VALUE(at, 'o');
	VALUE(at + PAGE, 'o');
	tell(order, unmap);
	SIGNAL(at, SIGBUS);
	SIGNAL(at + PAGE, SIGBUS);
	REFUSED(read(zero, at, 1), EFAULT);
	order->value = '1';
	tell(order, map_again);
	VALUE(at, '1');
	VALUE(at + SIZE - 1, '1');
	CHECK(!writes(at, '2'));
	tell(order, map_over);
	VALUE(at, 0);
	CHECK(!writes(at, '3'));
	tell(order, read_first);
	CHECK(order->value == '3');
	order->value = '4';
	tell(order, move_there);
	VALUE(at, '4');
	VALUE(at + SIZE - 1, '4');
	tell(order, throw_away);
	VALUE(at, 0);
	CHECK(!writes(at, '5'));
	tell(order, forbid);
	VALUE(at, '5');
	tell(order, read_first);
	CHECK(order->value == '5' && byte == 1);
}

TEST(what_the_owner_writes_after_a_fork_is_seen)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem();
	char *at = attach(fd, get(fd, order->segment), 0, SIZE);

	VALUE(at, 'o');
	order->value = 'f';
	tell(order, fork_and_write);
	VALUE(at, 'f');
	tell(order, fork_only);
	CHECK(!writes(at, 'g'));
	tell(order, read_first);
	CHECK(order->value == 'g');
}

static long anonymous_kilobytes(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128];
	long kilobytes = -1;

	CHECK(file, "%s", strerror(errno));
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "AnonPages: %ld", &kilobytes) == 1)
			break;
	fclose(file);
	return kilobytes;
}

/* Its pages are free at once, whoever has attached them. */
TEST(a_killed_owner)
{
	enum { LARGE = 64 << 20 };
	struct order *order = owner_of(LARGE);
	int fd = open_xpmem();
	int64_t permit = get(fd, order->segment);
	char *at = attach(fd, permit, 0, LARGE);
	uint64_t limit = nanoseconds() + 30000000000ull;
	long before;

	for (int i = 0; i < LARGE; i += 16 * PAGE)
		VALUE(at + i, 'o');
	before = anonymous_kilobytes();
	kill_owner(order);
	for (int i = 0; i < LARGE; i += 256 * PAGE)
		SIGNAL(at + i, SIGBUS);
	SIGNAL(at + PAGE, SIGBUS);
	while (anonymous_kilobytes() > before - LARGE / 1024 * 3 / 4) {
		CHECK(nanoseconds() < limit, "%ld kB before, %ld now", before, anonymous_kilobytes());
		usleep(10000);
	}
	CHECK(!detach(fd, at));
	CHECK(!release(fd, permit));
}

TEST(a_removed_segment)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem();
	char *at = attach(fd, get(fd, order->segment), 0, SIZE);

	VALUE(at, 'o');
	tell(order, remove_it);
	SIGNAL(at, SIGBUS);
	SIGNAL(at + PAGE, SIGBUS);
}

TEST(a_released_permit)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem();
	int64_t permit = get(fd, order->segment);
	char *at = attach(fd, permit, 0, SIZE), *second = attach(fd, permit, 0, PAGE);
	char *other = attach(fd, get(fd, order->segment), 0, PAGE);

	VALUE(at, 'o');
	VALUE(second, 'o');
	CHECK(!release(fd, permit));
	SIGNAL(at, SIGSEGV);
	SIGNAL(second, SIGSEGV);
	VALUE(other, 'o');
}

/* Of either side. */
TEST(a_close_ends_all)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem();
	int64_t permit = get(fd, order->segment);
	char *at = attach(fd, permit, 0, SIZE), *mine = memory(NULL, SIZE);
	int64_t segment = make(fd, mine, SIZE);

	VALUE(at, 'o');
	tell(order, close_another);
	SIGNAL(at, SIGBUS);
	close(dup(fd));
	SIGNAL(at, SIGSEGV);
	REFUSED(release(fd, permit), ENOENT);
	REFUSED(remove_segment(fd, segment), ENOENT);
	REFUSED(make_by(fd, (uint64_t)mine, SIZE, XPMEM_PERMIT_MODE, 0600), ENOENT);
	REFUSED(get_by(fd, order->segment, XPMEM_RDWR, XPMEM_PERMIT_MODE, 0), ENOENT);
	/* A new one begins anew. */
	CHECK(make(open_xpmem(), mine, SIZE) > 0);
}

/* Who inherits the descriptor alone has nothing by it, and its close is nobody's. */
TEST(inherited_by_a_child)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem();
	int64_t permit = get(fd, order->segment);
	char *at = attach(fd, permit, 0, SIZE), *mine = memory(NULL, SIZE);

	VALUE(at, 'o');
	IN_CHILD(
		SIGNAL(at, SIGSEGV);
		REFUSED(make_by(fd, (uint64_t)mine, SIZE, XPMEM_PERMIT_MODE, 0600), ENOENT);
		REFUSED(get_by(fd, order->segment, XPMEM_RDWR, XPMEM_PERMIT_MODE, 0), ENOENT);
		REFUSED((long)attach_at(fd, permit, 0, PAGE, NULL), ENOENT);
		close(fd)
	);
	VALUE(at, 'o');
	VALUE(at + PAGE, 'o');
	CHECK(attach(fd, permit, 0, PAGE));
}

int role(const char *name)
{
	(void)name;
	for (;;)
		pause();
}

TEST(an_owner_that_execs)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem();
	char *at = attach(fd, get(fd, order->segment), 0, SIZE), value;

	VALUE(at, 'o');
	tell(order, exec_another);
	while (!reads(at, &value))
		usleep(1000);
	SIGNAL(at, SIGBUS);
	kill_owner(order);
}

TEST(its_own_memory)
{
	int fd = open_xpmem();
	char *mine = memory(NULL, SIZE), *at = attach(fd, get(fd, make(fd, mine, SIZE)), 0, SIZE);

	catch_signals();
	mine[0] = 'a';
	VALUE(at, 'a');
	at[PAGE] = 'b';
	CHECK(mine[PAGE] == 'b');
	memory(mine, SIZE);
	VALUE(at, 0);
	CHECK(!munmap(mine, SIZE));
	SIGNAL(at, SIGBUS);
}

/* Attachments of all that a process has show what is no attachment. */
TEST(attachments_of_attachments)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem();
	char *at = attach(fd, get(fd, order->segment), 0, SIZE), *there;

	VALUE(at, 'o');
	there = attach(fd, get(fd, make(fd, NULL, -1)), (int64_t)at, SIZE);
	SIGNAL(there, SIGBUS);
	VALUE(at, 'o');
	tell(order, throw_away);
	VALUE(at, 0);
}

TEST(mappings_by_others_are_refused)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem();
	char *at = attach(fd, get(fd, order->segment), 0, SIZE);

	for (uint64_t index = 0; index < 4; index++)
		REFUSED((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, (index << 47) + (uint64_t)order->memory), EACCES);
	REFUSED((long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0), EACCES);
	REFUSED(munmap(at + PAGE, PAGE), EINVAL);
	REFUSED((long)mremap(at, SIZE, 2 * SIZE, MREMAP_MAYMOVE), EFAULT);
	VALUE(at + PAGE, 'o');
	REFUSED((long)mremap(at, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, memory(NULL, SIZE)), EINVAL);
	VALUE(at + PAGE, 'o');
	REFUSED(mprotect(at, SIZE, PROT_READ | PROT_EXEC), EACCES);
	REFUSED(madvise(at, SIZE, MADV_DOFORK), EINVAL);
	tell(order, throw_away);
	VALUE(at + PAGE, 0);
}

TEST(permits_to_read)
{
	struct order *order = owner_of(SIZE);
	int fd = open_xpmem();
	char *at = attach(fd, get_by(fd, order->segment, XPMEM_RDONLY, XPMEM_PERMIT_MODE, 0), 0, SIZE);

	VALUE(at, 'o');
	CHECK(writes(at, 'x') == SIGSEGV);
	REFUSED(mprotect(at, SIZE, PROT_READ | PROT_WRITE), EACCES);
	order->value = 'r';
	tell(order, write_first);
	VALUE(at, 'r');
	tell(order, throw_away);
	VALUE(at, 0);
	tell(order, write_first);
	VALUE(at, 'r');
}
