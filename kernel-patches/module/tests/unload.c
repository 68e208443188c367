// SPDX-License-Identifier: GPL-2.0
/*
 * Unloading: refused by each thing that is in use, possible when nothing is, and complete. MODULE=path of uintr.ko;
 * the module must be loaded, and is loaded again at the end.
 */
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

HANDLER static void note(frame *at, vector number)
{
}

UINTR static void ring(uint64_t index)
{
	_senduipi(index);
}

static int unload(void)
{
	return syscall(SYS_delete_module, "uintr", O_NONBLOCK);
}

static int load(void)
{
	int file = open(text_argument("MODULE", "uintr.ko"), O_RDONLY | O_CLOEXEC);
	int result = syscall(SYS_finit_module, file, "", 0);

	close(file);
	return result;
}

/* When the last user has gone, the rest is freed a little later, and then this succeeds. */
static void unload_soon(void)
{
	uint64_t limit = nanoseconds() + 60000000000ull;
	struct timespec pause = { .tv_nsec = 10000000 };

	while (unload()) {
		CHECK(errno == EAGAIN || errno == EBUSY, "%s", strerror(errno));
		CHECK(nanoseconds() < limit, "still in use");
		nanosleep(&pause, NULL);
	}
}

static void reload(void)
{
	CHECK(!load(), "%s", strerror(errno));
	device = open("/dev/uintr", O_RDWR | O_CLOEXEC);
	CHECK(device >= 0, "%s", strerror(errno));
}

/* Runs in a child what takes hold of the module in one way, then sees that this alone refuses. */
static void refused_by(void (*hold)(void))
{
	int ready[2], end[2];
	char byte;
	pid_t pid;

	CHECK(!pipe(ready) && !pipe(end));
	pid = fork();
	if (!pid) {
		close(end[1]);
		hold();
		CHECK(write(ready[1], "x", 1) == 1);
		/* Until the parent closes its end. */
		CHECK(read(end[0], &byte, 1) == 0);
		_exit(0);
	}
	close(end[0]);
	CHECK(read(ready[0], &byte, 1) == 1);
	/* The harness's own hold. */
	close(device);
	REFUSED(unload(), EAGAIN);
	close(end[1]);
	expect_end(pid, 0);
	close(ready[0]);
	close(ready[1]);
	unload_soon();
	CHECK(open("/dev/uintr", O_RDWR) == -1);
	reload();
}

static void hold_device(void)
{
}

static void hold_receiver(void)
{
	become_receiver(note);
	close(device);
}

static void hold_vector(void)
{
	become_receiver(note);
	own_vector(1);
	CHECK(!unregister_handler());
	close(device);
}

static void hold_table(void)
{
	become_receiver(note);
	CHECK(register_self(1) == 0);
	CHECK(!unregister_handler());
	CHECK(!unregister_sender(0));
	close(device);
}

static void *receives(void *index)
{
	become_receiver(note);
	STORE(*(int *)index, register_self(0));
	for (;;)
		pause();
	return NULL;
}

/* A thread that has only ever sent, of a process whose receiver is another. */
static void hold_by_threads(void)
{
	static int index = -1;
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, receives, &index));
	AWAIT(LOAD(index) >= 0);
	ring(index);
	close(device);
}

TEST(refused_by_an_open_device)
{
	refused_by(hold_device);
}

TEST(refused_by_a_receiver)
{
	refused_by(hold_receiver);
}

TEST(refused_by_a_vector)
{
	refused_by(hold_vector);
}

TEST(refused_by_a_table)
{
	refused_by(hold_table);
}

TEST(refused_by_threads)
{
	refused_by(hold_by_threads);
}

/* Nothing is left in a CPU: CR4.UINTR is clear, so the instructions are undefined on each. */
UINTR TEST(complete)
{
	close(device);
	unload_soon();
	for (int cpu = 0; cpu < cpus(); cpu++) {
		pid_t pid = fork();

		if (!pid) {
			pin(cpu);
			_stui();
			_exit(0);
		}
		expect_end(pid, SIGILL);
	}
	reload();
	for (int cpu = 0; cpu < cpus(); cpu++) {
		pid_t pid = fork();

		if (!pid) {
			pin(cpu);
			_clui();
			_exit(0);
		}
		expect_end(pid, 0);
	}
}

/* Users that end the moment before: what frees their remains must have run to its end before the text goes. */
TEST(right_after_the_last_user)
{
	long rounds = argument("UNLOAD_ROUNDS", 20);

	for (long round = 0; round < rounds; round++) {
		pid_t pids[4];

		for (int i = 0; i < 4; i++) {
			pids[i] = fork();
			if (!pids[i]) {
				become_receiver(note);
				ring(register_self(0));
				_exit(0);
			}
		}
		close(device);
		for (int i = 0; i < 4; i++)
			expect_end(pids[i], 0);
		while (unload())
			CHECK(errno == EAGAIN || errno == EBUSY, "%s", strerror(errno));
		reload();
	}
}
