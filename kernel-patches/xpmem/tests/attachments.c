// SPDX-License-Identifier: GPL-2.0
/*
 * The stand-in for XPMEM: its calls, what they refuse, and what an attachment shows while its owner's memory changes.
 * As root. MODULE=path of xpmem.ko, which must be loaded; STORM=milliseconds.
 */
#include "harness.h"
#include "../xpmem_uapi.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum { PAGE = 4096, PAGES = 16, SIZE = PAGES * PAGE };
#define NODE "/dev/xpmem"

/* Calls. */

static int open_xpmem(void)
{
	int fd = open(NODE, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0, "%s: %s", NODE, strerror(errno));
	return fd;
}

static int64_t make_by(int fd, uint64_t start, uint64_t size, int type, uint64_t mode)
{
	struct xpmem_cmd_make call = { .vaddr = start, .size = size, .permit_type = type, .permit_value = mode };

	return ioctl(fd, XPMEM_CMD_MAKE, &call) ? -1 : call.segid;
}

static int64_t make(int fd, void *start, uint64_t size)
{
	int64_t id = make_by(fd, (uint64_t)start, size, XPMEM_PERMIT_MODE, 0600);

	CHECK(id > 0, "%s", strerror(errno));
	return id;
}

static int remove_segment(int fd, int64_t id)
{
	struct xpmem_cmd_remove call = { .segid = id };

	return ioctl(fd, XPMEM_CMD_REMOVE, &call);
}

static int64_t get_by(int fd, int64_t segment, int flags, int type, uint64_t value)
{
	struct xpmem_cmd_get call = { .segid = segment, .flags = flags, .permit_type = type, .permit_value = value };

	return ioctl(fd, XPMEM_CMD_GET, &call) ? -1 : call.apid;
}

static int64_t get(int fd, int64_t segment)
{
	int64_t id = get_by(fd, segment, XPMEM_RDWR, XPMEM_PERMIT_MODE, 0);

	CHECK(id > 0, "%s", strerror(errno));
	return id;
}

static int release(int fd, int64_t id)
{
	struct xpmem_cmd_release call = { .apid = id };

	return ioctl(fd, XPMEM_CMD_RELEASE, &call);
}

static void *attach_at(int fd, int64_t permit, int64_t offset, uint64_t size, void *at)
{
	struct xpmem_cmd_attach call = {
		.apid = permit, .offset = offset, .size = size, .vaddr = (uint64_t)at, .fd = -1
	};

	return ioctl(fd, XPMEM_CMD_ATTACH, &call) ? MAP_FAILED : (void *)call.vaddr;
}

static char *attach(int fd, int64_t permit, int64_t offset, uint64_t size)
{
	void *at = attach_at(fd, permit, offset, size, NULL);

	CHECK(at != MAP_FAILED, "%s", strerror(errno));
	return at;
}

static int detach(int fd, void *at)
{
	struct xpmem_cmd_detach call = { .vaddr = (uint64_t)at };

	return ioctl(fd, XPMEM_CMD_DETACH, &call);
}

static char *memory(void *at, size_t size)
{
	char *start = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	return start;
}

/* What a touch ends with: 0 or its signal. */

static __thread sigjmp_buf here;

static void leave(int number)
{
	siglongjmp(here, number);
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = leave, .sa_flags = SA_NODEFER };

	CHECK(!sigaction(SIGBUS, &action, NULL) && !sigaction(SIGSEGV, &action, NULL));
}

static int reads(const char *at, char *value)
{
	int number = sigsetjmp(here, 0);

	if (!number)
		*value = *(volatile const char *)at;
	return number;
}

static int writes(char *at, char value)
{
	int number = sigsetjmp(here, 0);

	if (!number)
		*(volatile char *)at = value;
	return number;
}

static void expect_value(const char *at, char value, int line)
{
	char found = 0;
	int number = reads(at, &found);

	CHECK(!number && found == value, "from line %d: signal %d, %#x instead of %#x", line, number, found, value);
}
#define VALUE(at, value) expect_value(at, value, __LINE__)

static void expect_signal(char *at, int signal, int line)
{
	char value;
	int read = reads(at, &value), written = writes(at, 1);

	CHECK(read == signal && written == signal, "from line %d: %d when read, %d when written", line, read, written);
}
#define SIGNAL(at, signal) expect_signal(at, signal, __LINE__)

/* An owner in a process of its own, which does what it is told. */

struct order {
	int done;
	int number;
	void (*what)(struct order *order);
	char *memory;
	int fd;
	int64_t segment;
	char value;
	pid_t pid;
};

static struct order *owner_of(size_t size)
{
	struct order *order = shared_memory(sizeof(*order));
	pid_t pid = fork();

	if (!pid) {
		int number = 0;

		order->fd = open_xpmem();
		order->memory = memory(NULL, size);
		memset(order->memory, 'o', size);
		order->segment = make(order->fd, order->memory, size);
		STORE(order->done, 1);
		for (;;) {
			AWAIT(LOAD(order->number) != number);
			number = order->number;
			order->what(order);
			ADD(order->done, 1);
		}
	}
	order->pid = pid;
	catch_signals();
	AWAIT(LOAD(order->done));
	return order;
}

static void tell(struct order *order, void (*what)(struct order *))
{
	int done = order->done;

	order->what = what;
	ADD(order->number, 1);
	AWAIT(LOAD(order->done) != done);
}

static void kill_owner(struct order *order)
{
	CHECK(!kill(order->pid, SIGKILL));
	expect_end(order->pid, SIGKILL);
}

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

/* For what a call does in another process: its child's. */
#define IN_CHILD(statements) \
	do { \
		pid_t pid_ = fork(); \
		if (!pid_) { \
			statements; \
			_exit(0); \
		} \
		expect_end(pid_, 0); \
	} while (0)

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

/* Two counters in a page whose owner forks on and on: nothing that either side stores is lost, whichever page it is in. */

struct counters {
	volatile uint64_t owner, attacher;
};

static void count_and_fork(struct order *order)
{
	struct counters *counters = (void *)order->memory;
	uint64_t end = nanoseconds() + argument("STORM", 2000) * 1000000, seen = 0;

	counters->owner = counters->attacher = 0;
	STORE(order->value, 1);
	while (nanoseconds() < end) {
		pid_t child = fork();

		CHECK(child >= 0, "%s", strerror(errno));
		if (!child)
			_exit(0);
		for (int i = 0; i < 100; i++) {
			uint64_t now = counters->attacher;

			CHECK(now >= seen, "%lu after %lu", now, seen);
			seen = now;
			counters->owner++;
		}
		CHECK(waitpid(child, NULL, 0) == child);
	}
	STORE(order->value, 2);
}

TEST(no_store_is_lost_by_forks)
{
	struct order *order = owner_of(PAGE);
	int fd = open_xpmem();
	struct counters *counters = (void *)attach(fd, get(fd, order->segment), 0, PAGE);
	uint64_t seen = 0, stored = 0;

	order->value = 0;
	order->what = count_and_fork;
	ADD(order->number, 1);
	AWAIT(LOAD(order->value));
	while (LOAD(order->value) == 1) {
		uint64_t now = counters->owner;

		CHECK(now >= seen, "%lu after %lu", now, seen);
		seen = now;
		counters->attacher = ++stored;
		now = counters->attacher;
		CHECK(now == stored, "%lu instead of %lu", now, stored);
	}
	CHECK(stored && seen);
}

/*
 * Processes that have attached each other's memory touch it while each maps its own anew, forks, and attaches again. In a
 * page is never anything but its owner's mark, by whomever written.
 */

enum { FACES = 3, TOUCHERS = 2 };
/* Far from where the kernel puts what has no place. */
#define ARENA ((char *)0x100000000000)
static char *arena;
static uint64_t storm_end, mark_of_other;
static int device_file;
static int64_t other_permit;
static int *touched;

static uint64_t mark(int face)
{
	return 0x1111111111111111ull * (face + 1);
}

static void *touches(void *place)
{
	uint64_t random = (uint64_t)place ^ nanoseconds() ^ 0x9e3779b97f4a7c15ull;

	while (nanoseconds() < storm_end) {
		volatile uint64_t *word = place + random_number(&random) % SIZE / 8 * 8;
		bool store = random & 1 << 20;
		int number = sigsetjmp(here, 0);

		if (!number) {
			uint64_t value = *word;

			CHECK(!value || value == mark_of_other, "%#lx where %#lx should be", value, mark_of_other);
			if (store)
				*word = mark_of_other;
			ADD(*touched, 1);
		}
		CHECK(number != SIGSEGV);
	}
	return NULL;
}

static void *attaches(void *unused)
{
	char byte;
	int ends[2];

	CHECK(!pipe(ends));
	while (nanoseconds() < storm_end) {
		char *at = attach_at(device_file, other_permit, (int64_t)ARENA, SIZE, NULL);

		/* Its owner was killed. */
		if (at == MAP_FAILED && errno == ENOENT)
			break;
		CHECK(at != MAP_FAILED, "%s", strerror(errno));
		for (int i = 0; i < PAGES; i += 3)
			if (write(ends[1], at + i * PAGE, 1) == 1)
				CHECK(read(ends[0], &byte, 1) == 1);
		CHECK(!detach(device_file, at), "%s", strerror(errno));
	}
	return NULL;
}

static void *maps_anew(void *face)
{
	uint64_t random = nanoseconds() | 1, *words = (void *)arena;

	while (nanoseconds() < storm_end) {
		size_t first = random_number(&random) % PAGES, pages = 1 + random_number(&random) % (PAGES - first);
		char *at = arena + first * PAGE;

		switch (random_number(&random) % 5) {
		case 0:
			CHECK(!mprotect(at, pages * PAGE, PROT_NONE) && !mprotect(at, pages * PAGE, PROT_READ | PROT_WRITE));
			break;
		case 1:
			CHECK(!madvise(at, pages * PAGE, MADV_DONTNEED));
			break;
		case 2: {
			pid_t child = fork();

			if (!child)
				_exit(0);
			for (size_t i = 0; i < pages; i++)
				words[(first + i) * PAGE / 8] = mark((long)face);
			CHECK(child > 0 && waitpid(child, NULL, 0) == child);
			break;
		}
		case 3:
			/* Nobody else maps anything here meanwhile. */
			CHECK(!munmap(at, pages * PAGE));
			memory(at, pages * PAGE);
			break;
		default:
			memory(at, pages * PAGE);
		}
		for (size_t i = 0; i < pages; i++)
			words[(first + i) * PAGE / 8] = mark((long)face);
	}
	return NULL;
}

struct storm {
	int64_t segments[FACES];
	int made, attached, ended;
	uint64_t end;
	int touched[FACES];
};

static void run_face(struct storm *storm, long face)
{
	pthread_t threads[TOUCHERS + 2];
	int other = (face + 1) % FACES, n = 0;
	char *place;

	catch_signals();
	device_file = open_xpmem();
	arena = memory(ARENA, SIZE);
	/* All that it has, as libraries do it. */
	storm->segments[face] = make(device_file, NULL, -1);
	ADD(storm->made, 1);
	AWAIT(LOAD(storm->made) == FACES);
	other_permit = get(device_file, storm->segments[other]);
	place = attach(device_file, other_permit, (int64_t)ARENA, SIZE);
	mark_of_other = mark(other);
	touched = &storm->touched[face];
	storm_end = storm->end;
	for (int i = 0; i < TOUCHERS; i++)
		CHECK(!pthread_create(&threads[n++], NULL, touches, place));
	CHECK(!pthread_create(&threads[n++], NULL, maps_anew, (void *)face));
	CHECK(!pthread_create(&threads[n++], NULL, attaches, NULL));
	while (n)
		CHECK(!pthread_join(threads[--n], NULL));

	/* Calm again, each sees the other. */
	memory(arena, SIZE);
	*(uint64_t *)arena = mark(face);
	ADD(storm->attached, 1);
	AWAIT(LOAD(storm->attached) == FACES);
	CHECK(*(volatile uint64_t *)place == mark_of_other);
	ADD(storm->ended, 1);
	AWAIT(LOAD(storm->ended) == FACES);
}

TEST(mutual_storm)
{
	struct storm *storm = shared_memory(sizeof(*storm));
	pid_t faces[FACES];

	storm->end = nanoseconds() + argument("STORM", 2000) * 1000000;
	for (long i = 0; i < FACES; i++) {
		faces[i] = fork();
		if (!faces[i]) {
			run_face(storm, i);
			_exit(0);
		}
	}
	for (int i = 0; i < FACES; i++)
		expect_end(faces[i], 0);
	for (int i = 0; i < FACES; i++)
		CHECK(storm->touched[i] > 0);
}

/* Processes that are killed at any time while they touch each other's memory. */
TEST(killed_in_the_storm)
{
	uint64_t end = nanoseconds() + argument("STORM", 2000) * 1000000, random = end | 1;

	for (int round = 0; !round || nanoseconds() < end; round++) {
		struct storm *storm = shared_memory(sizeof(*storm));
		pid_t faces[FACES];

		storm->end = nanoseconds() + 3600000000000ull;
		for (long i = 0; i < FACES; i++) {
			faces[i] = fork();
			if (!faces[i]) {
				run_face(storm, i);
				_exit(0);
			}
		}
		for (int i = 0; i < FACES; i++)
			AWAIT(LOAD(storm->touched[i]) > 0);
		for (int i = 0; i < FACES; i++) {
			usleep(random_number(&random) % 20000);
			kill(faces[i], SIGKILL);
			expect_end(faces[i], SIGKILL);
		}
		munmap(storm, sizeof(*storm));
	}
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
