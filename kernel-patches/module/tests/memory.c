// SPDX-License-Identifier: GPL-2.0
/* What a program has the kernel hold for it is charged to its memory cgroup. As root. */
#include "harness.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* Address spaces, each of which takes a table: a page of entries and one slot for each of them. */
enum { SPACES = 256, TABLE = UINTR_SENDERS * (16 + 24) };
/* A CPU keeps this much that is charged and not used, and may have more or less of it at the second look: in bytes. */
enum { SLACK = 64 * 4096 };

/* How many processes have come so far, and what they wait for the end of: nobody spins. */
static int *ready;
static int go[2][2];

static char group[64];

static bool group_file(const char *name, char *text, size_t size, bool writes)
{
	char path[128];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	fd = open(path, writes ? O_WRONLY : O_RDONLY);
	if (fd < 0)
		return false;
	length = writes ? write(fd, text, size) : read(fd, text, size - 1);
	close(fd);
	if (length >= 0 && !writes)
		text[length] = 0;
	return length >= 0;
}

static void make_group(const char *root)
{
	snprintf(group, sizeof(group), "%s/tocsin-test-%d", root, getpid());
	CHECK(!mkdir(group, 0755), "%s: %s", group, strerror(errno));
}

/* Version 2 where memory is under it, else version 1. The name of the file that tells what is charged. */
static const char *find_group(void)
{
	static const char *const roots[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/tmp/cgroup" };
	char enable[] = "+memory";

	mkdir("/tmp/cgroup", 0755);
	mount("cgroup2", "/tmp/cgroup", "cgroup2", 0, NULL);
	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		snprintf(group, sizeof(group), "%s", roots[i]);
		if (group_file("cgroup.subtree_control", enable, sizeof(enable) - 1, true)) {
			make_group(roots[i]);
			return "memory.current";
		}
	}
	umount("/tmp/cgroup");
	if (mount("cgroup", "/tmp/cgroup", "cgroup", 0, "memory") && errno == EBUSY)
		CHECK(!access("/sys/fs/cgroup/memory/tasks", W_OK), "no memory cgroups: %s", strerror(errno));
	make_group(access("/tmp/cgroup/tasks", W_OK) ? "/sys/fs/cgroup/memory" : "/tmp/cgroup");
	return "memory.usage_in_bytes";
}

static long charged(const char *file)
{
	char text[32];

	CHECK(group_file(file, text, sizeof(text), false), "%s: %s", file, strerror(errno));
	return strtol(text, NULL, 10);
}

HANDLER static void note(frame *at, vector number)
{
}

static void come_to(int stage)
{
	char byte;

	ADD(ready[stage], 1);
	CHECK(read(go[stage][0], &byte, 1) == 0, "%s", strerror(errno));
}

static void one_space(void)
{
	/* All but the table is there before the first look, the pages that a call writes to included. */
	become_receiver(note);
	REFUSED(register_self(UINTR_VECTORS), ENOSPC);
	come_to(0);
	CHECK(register_self(0) == 0);
	come_to(1);
}

TEST(tables_are_charged)
{
	const char *file = find_group();
	char self[16];
	pid_t pids[SPACES];
	long before, after;

	ready = shared_memory(2 * sizeof(*ready));
	CHECK(!pipe(go[0]) && !pipe(go[1]));
	/* One CPU, one slack. */
	pin(0);
	for (int i = 0; i < SPACES; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			close(go[0][1]);
			close(go[1][1]);
			snprintf(self, sizeof(self), "%d", getpid());
			CHECK(group_file("cgroup.procs", self, strlen(self), true), "%s", strerror(errno));
			one_space();
			_exit(0);
		}
	}
	AWAIT(LOAD(ready[0]) == SPACES);
	before = charged(file);
	close(go[0][1]);
	AWAIT(LOAD(ready[1]) == SPACES);
	after = charged(file);
	close(go[1][1]);
	for (int i = 0; i < SPACES; i++)
		expect_end(pids[i], 0);
	CHECK(after - before >= (long)SPACES * TABLE - SLACK, "%ld bytes for %d tables of %d", after - before, SPACES, TABLE);
	rmdir(group);
	umount("/tmp/cgroup");
}
