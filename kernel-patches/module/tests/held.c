// SPDX-License-Identifier: GPL-2.0
/*
 * Locks whose holder does not run, for a thread of higher priority has its CPU: who waits for them holds up nobody else, and
 * what was waiting comes at the worst moment. As root, on four CPUs, where the kernel's preemption can be chosen.
 */
#include "harness.h"
#include "settings.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

/* What each process of a test reads and sets. */
static struct shared {
	bool hog;			/* the hog is to have its CPU for itself */
	bool start[3], done[3];		/* one each, in each test's own order */
	int tid;
} *shared;

static void prepare(void)
{
	CHECK(cpus() >= 4, "it takes 4 CPUs");
	/* In the kernel, too; and without mercy for what has no priority. */
	change_setting("/sys/kernel/debug/sched/preempt", "full");
	change_setting("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	shared = shared_memory(sizeof(*shared));
}

static void doze(long microseconds)
{
	struct timespec pause = { .tv_nsec = microseconds * 1000 };

	nanosleep(&pause, NULL);
}

static void come_first(void)
{
	struct sched_param first = { .sched_priority = 50 };

	CHECK(!sched_setscheduler(0, SCHED_FIFO, &first), "%s", strerror(errno));
}

/* A process that runs this on a CPU until it is killed. */
static pid_t process(int cpu, void (*run)(void))
{
	pid_t pid = fork();

	if (!pid) {
		pin(cpu);
		run();
		_exit(0);
	}
	CHECK(pid > 0);
	return pid;
}

static void end(pid_t pid)
{
	CHECK(!kill(pid, SIGKILL));
	expect_end(pid, SIGKILL);
}

static void hog(void)
{
	come_first();
	for (;;) {
		while (!LOAD(shared->hog))
			doze(1000);
		while (LOAD(shared->hog))
			__builtin_ia32_pause();
	}
}

/* Whether a thread sleeps in a function of the kernel, sleeping locks themselves not counted. */
static bool sleeps_in(pid_t pid, int tid, const char *function)
{
	char path[64], name[128];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/wchan", pid, tid);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0, "%s", strerror(errno));
	length = read(fd, name, sizeof(name) - 1);
	close(fd);
	if (length < 0)
		return false;
	name[length] = 0;
	return strstr(name, function);
}

/*
 * Whether a process comes to sleep in a function of the kernel before it is done. Not for ever: whoever has lost its CPU may
 * have lost it with another lock in its hands, or in the midst of what RCU waits for, and then the process waits elsewhere.
 */
static bool comes_to_sleep_in(pid_t pid, const char *function, bool *done)
{
	for (int looks = 0; looks < 2000 && !LOAD(*done); looks++) {
		if (sleeps_in(pid, pid, function))
			return true;
		doze(1000);
	}
	return false;
}

/* ---- a CPU that comes up while the module goes ------------------------------------------------------------------ */

enum { UNLOADS, COMES_UP };

/* Holds the lock of all states of hotplug most of the time. */
static void reads_states(void)
{
	static char text[1 << 16];
	/* Once: the way to a file goes through locks that the module wants, too, before it comes to hotplug. */
	int fd = open("/sys/devices/system/cpu/hotplug/states", O_RDONLY);

	for (;;)
		CHECK(fd >= 0 && pread(fd, text, sizeof(text), 0) > 0, "%s", strerror(errno));
}

static void unloads(void)
{
	AWAIT(LOAD(shared->start[UNLOADS]));
	while (syscall(SYS_delete_module, "uintr", O_NONBLOCK))
		CHECK(errno == EAGAIN || errno == EBUSY, "%s", strerror(errno));
	STORE(shared->done[UNLOADS], true);
}

/* As soon as it can: before the one that lets it. */
static void comes_up(void)
{
	come_first();
	while (!LOAD(shared->start[COMES_UP]))
		doze(1000);
	set_online(1, true);
	STORE(shared->done[COMES_UP], true);
}

static void load_again(void)
{
	int file = open(text_argument("MODULE", "uintr.ko"), O_RDONLY | O_CLOEXEC);

	CHECK(!syscall(SYS_finit_module, file, "", 0), "%s", strerror(errno));
	close(file);
}

UINTR static void unmasks(void)
{
	_stui();
}

/* The module holds hotplug up, and waits; the CPU waits for hotplug. Then the first goes on. */
TEST(a_cpu_comes_up_while_the_module_goes)
{
	pid_t hogs, reads;
	bool met = false;

	prepare();
	close(device);
	pin(2);
	hogs = process(3, hog);
	reads = process(3, reads_states);
	set_online(1, false);
	while (!met) {
		pid_t goes, comes;

		memset(shared, 0, sizeof(*shared));
		goes = process(0, unloads);
		comes = process(0, comes_up);
		STORE(shared->hog, true);
		doze(20000);
		STORE(shared->start[UNLOADS], true);
		/* The reader is not in the lock each time. */
		met = comes_to_sleep_in(goes, "cpuhp_remove_state", &shared->done[UNLOADS]);
		STORE(shared->start[COMES_UP], true);
		/* Until it waits, too, for all that we can know. */
		doze(200000);
		CHECK(!met || !LOAD(shared->done[COMES_UP]));
		STORE(shared->hog, false);
		expect_end(goes, 0);
		expect_end(comes, 0);
		load_again();
		expect_end(process(1, unmasks), 0);
		if (!met)
			set_online(1, false);
	}
	end(reads);
	end(hogs);
	device = open_device();
}

/* ---- an address space that cannot change ------------------------------------------------------------------------- */

enum { WAITS, PASSES };

HANDLER static void note(frame *at, vector number)
{
}

/* Holds the lock of its address space most of the time. */
static void *changes(void *unused)
{
	enum { SIZE = 2 << 20 };
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pin(3);
	CHECK(memory != MAP_FAILED && !madvise(memory, SIZE, MADV_NOHUGEPAGE));
	memset(memory, 1, SIZE);
	STORE(shared->tid, gettid());
	for (;;)
		CHECK(!mprotect(memory, SIZE, PROT_READ) && !mprotect(memory, SIZE, PROT_READ | PROT_WRITE));
	return NULL;
}

/* What makes the first table of an address space. */
static void registers(int which)
{
	become_receiver(note);
	AWAIT(LOAD(shared->start[which]));
	CHECK(register_self(0) == 0);
	STORE(shared->done[which], true);
}

static void registers_and_changes(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, changes, NULL));
	registers(WAITS);
}

static void only_registers(void)
{
	registers(PASSES);
}

TEST(who_waits_for_its_own_memory_holds_up_nobody)
{
	bool met = false;
	pid_t hogs;

	prepare();
	pin(2);
	hogs = process(3, hog);
	while (!met) {
		pid_t waits, passes;

		memset(shared, 0, sizeof(*shared));
		waits = process(0, registers_and_changes);
		passes = process(1, only_registers);
		AWAIT(LOAD(shared->tid));
		STORE(shared->hog, true);
		doze(20000);
		STORE(shared->start[WAITS], true);
		/* The other thread is not in the lock each time. */
		met = comes_to_sleep_in(waits, "uintr_table_make", &shared->done[WAITS]);
		STORE(shared->start[PASSES], true);
		AWAIT(LOAD(shared->done[PASSES]));
		CHECK(!met || !LOAD(shared->done[WAITS]));
		STORE(shared->hog, false);
		AWAIT(LOAD(shared->done[WAITS]));
		expect_end(waits, 0);
		expect_end(passes, 0);
	}
	end(hogs);
}
