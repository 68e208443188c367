// SPDX-License-Identifier: GPL-2.0
#include "harness.h"
#include "settings.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

int device = -1;

static const struct test *first_test;
static int count_arguments;
static char **arguments;
/* Where a test leaves its reason; shared with the processes it makes. */
static char *reason;
static struct uintr_info before;
static cpu_set_t given;

#define REASON_SIZE 512

/* The kernel's system calls are used. */
static bool system_calls;
enum {
	REGISTER_HANDLER = 471, UNREGISTER_HANDLER, VECTOR_FD, REGISTER_SENDER, UNREGISTER_SENDER, WAIT, REGISTER_SELF,
	ALT_STACK
};

/* Whether the kernel says so; the calls' numbers may be other calls elsewhere. */
static bool system_calls_announced(void)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	bool found = false;
	char line[8192];

	while (file && !found && fgets(line, sizeof(line), file)) {
		char *word = strncmp(line, "flags", 5) ? NULL : strstr(line, " uintr");

		found = word && (word[6] == ' ' || word[6] == '\n');
	}
	if (file)
		fclose(file);
	return found;
}

int open_device(void)
{
	int fd = open("/dev/uintr", O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && system_calls_announced()) {
		system_calls = true;
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	return fd;
}

/* Constructors run in order, tests in that of their file. */
void add_test(struct test *test)
{
	const struct test **end = &first_test;

	while (*end)
		end = (const struct test **)&(*end)->next;
	*end = test;
}

void fail(const char *format, ...)
{
	va_list rest;

	va_start(rest, format);
	/* The first reason of all processes of a test is the one to tell. */
	if (!reason[0])
		vsnprintf(reason, REASON_SIZE, format, rest);
	va_end(rest);
	_exit(1);
}

const char *text_argument(const char *name, const char *otherwise)
{
	size_t length = strlen(name);

	for (int i = 1; i < count_arguments; i++)
		if (!strncmp(arguments[i], name, length) && arguments[i][length] == '=')
			return arguments[i] + length + 1;
	return otherwise;
}

long argument(const char *name, long otherwise)
{
	const char *text = text_argument(name, NULL);

	return text ? strtol(text, NULL, 0) : otherwise;
}

int register_handler(void *handler, void *stack, size_t size)
{
	struct uintr_handler call = { .handler = (uint64_t)handler, .stack = (uint64_t)stack, .stack_size = size };

	if (!system_calls)
		return ioctl(device, UINTR_IOC_REGISTER_HANDLER, &call);
	if (syscall(REGISTER_HANDLER, handler, 0))
		return -1;
	return stack ? syscall(ALT_STACK, stack, size, 0) : 0;
}

int unregister_handler(void)
{
	return system_calls ? syscall(UNREGISTER_HANDLER, 0) : ioctl(device, UINTR_IOC_UNREGISTER_HANDLER);
}

int set_stack(void *stack, size_t size)
{
	struct uintr_stack call = { .stack = (uint64_t)stack, .stack_size = size };

	return system_calls ? syscall(ALT_STACK, stack, size, 0) : ioctl(device, UINTR_IOC_ALT_STACK, &call);
}

int vector_fd(unsigned int number)
{
	struct uintr_vector call = { .vector = number };

	return system_calls ? syscall(VECTOR_FD, number, 0) : ioctl(device, UINTR_IOC_VECTOR_FD, &call);
}

int register_sender(int fd)
{
	struct uintr_sender call = { .fd = fd };

	return system_calls ? syscall(REGISTER_SENDER, fd, 0) : ioctl(device, UINTR_IOC_REGISTER_SENDER, &call);
}

int register_self(unsigned int number)
{
	struct uintr_vector call = { .vector = number };

	return system_calls ? syscall(REGISTER_SELF, number, 0) : ioctl(device, UINTR_IOC_REGISTER_SELF, &call);
}

int unregister_sender(unsigned int index)
{
	struct uintr_index call = { .index = index };

	return system_calls ? syscall(UNREGISTER_SENDER, index, 0) : ioctl(device, UINTR_IOC_UNREGISTER_SENDER, &call);
}

/* The kernel's own has its counters in a file. */
static struct uintr_info read_counters(void)
{
	FILE *file = fopen("/sys/kernel/debug/uintr", "r");
	struct uintr_info info = { 0 };

	int numbers;

	CHECK(file, "%s", strerror(errno));
	numbers = fscanf(file, "receivers: %llu descriptors: %llu tables: %llu", &info.receivers, &info.upids,
			 &info.tables);
	CHECK(numbers == 3);
	fclose(file);
	return info;
}

struct uintr_info read_info(void)
{
	struct uintr_info info;

	if (system_calls)
		return read_counters();
	CHECK(!ioctl(device, UINTR_IOC_INFO, &info), "%s", strerror(errno));
	return info;
}

struct uintr_stats read_stats(void)
{
	struct uintr_stats stats;

	CHECK(!ioctl(device, UINTR_IOC_STATS, &stats), "%s", strerror(errno));
	return stats;
}

void become_receiver(void *handler)
{
	CHECK(!register_handler(handler, NULL, 0), "%s", strerror(errno));
}

int own_vector(unsigned int number)
{
	int fd = vector_fd(number);

	CHECK(fd >= 0, "vector %u: %s", number, strerror(errno));
	return fd;
}

int sender_of(int fd)
{
	int index = register_sender(fd);

	CHECK(index >= 0, "descriptor %d: %s", fd, strerror(errno));
	return index;
}

int cpus(void)
{
	return CPU_COUNT(&given);
}

int cpu_number(int cpu)
{
	CHECK(cpu < cpus(), "it takes %d CPUs", cpu + 1);
	for (int number = 0;; number++)
		if (CPU_ISSET(number, &given) && cpu-- == 0)
			return number;
}

void pin_thread(pid_t thread, int cpu)
{
	int number = cpu_number(cpu);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number, &set);
	CHECK(!sched_setaffinity(thread, sizeof(set), &set), "CPU %d: %s", number, strerror(errno));
}

void pin(int cpu)
{
	pin_thread(0, cpu);
}

uint64_t nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* xorshift64 */
uint64_t random_number(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

void sched_yield_(void)
{
	sched_yield();
}

void *shared_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	return memory;
}

void expect_end(pid_t child, int status)
{
	int ended;
	pid_t which;

	do
		which = waitpid(child, &ended, 0);
	while (which == -1 && errno == EINTR);
	CHECK(which == child, "%s", strerror(errno));
	CHECK(ended == status, "the child's status is %#x, not %#x", ended, status);
}

static bool no_more_than(struct uintr_info most, struct uintr_info *now)
{
	*now = read_info();
	/* Fewer there may be: what an earlier program has left is freed a little later, too. */
	return now->receivers <= most.receivers && now->upids <= most.upids && now->tables <= most.tables;
}

void expect_counters(struct uintr_info most)
{
	uint64_t limit = nanoseconds() + 60000000000ull;
	struct timespec pause = { .tv_nsec = 10000000 };
	struct uintr_info now;

	while (!no_more_than(most, &now)) {
		CHECK(nanoseconds() < limit,
		      "receivers %llu, upids %llu, tables %llu; at most %llu, %llu, %llu, unless somebody else has come",
		      now.receivers, now.upids, now.tables, most.receivers, most.upids, most.tables);
		nanosleep(&pause, NULL);
	}
}

void expect_counters_back(void)
{
	expect_counters(before);
}

static bool passes(const struct test *test, long limit)
{
	const char *changed;
	int status;
	pid_t child;

	reason[0] = 0;
	fflush(stdout);
	child = fork();
	if (!child) {
		setpgid(0, 0);
		alarm(limit);
		device = open_device();
		/* What the test before has left is freed a little later. */
		if (device >= 0)
			expect_counters_back();
		test->run();
		_exit(0);
	}
	setpgid(child, child);
	waitpid(child, &status, 0);
	/* What it left running; and then all of it has to be taken in. */
	kill(-child, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
	changed = restore_settings();
	if (!reason[0] && WIFSIGNALED(status))
		snprintf(reason, REASON_SIZE, WTERMSIG(status) == SIGALRM ? "hangs (%ld s)" : "killed by signal %ld",
			 WTERMSIG(status) == SIGALRM ? limit : (long)WTERMSIG(status));
	else if (!reason[0] && status)
		snprintf(reason, REASON_SIZE, "ended with status %#x", status);
	else if (!reason[0] && changed)
		snprintf(reason, REASON_SIZE, "cannot restore %s", changed);
	if (reason[0])
		printf("FAILED %s: %s\n", test->name, reason);
	else
		printf("ok %s\n", test->name);
	return !reason[0];
}

static void counters_return_to_zero(void)
{
	expect_counters_back();
}

/* Arguments: NAME=value for the tests, LIMIT=seconds a test, ONLY=part of a test's name. */
int main(int count, char **values)
{
	static const struct test last = { "counters_return", counters_return_to_zero, NULL };
	const char *only;
	int passed = 0, failed = 0;
	long limit;

	count_arguments = count;
	arguments = values;
	reason = shared_memory(REASON_SIZE);
	prepare_settings();
	CHECK(!sched_getaffinity(0, sizeof(given), &given), "%s", strerror(errno));
	if (role && text_argument("ROLE", NULL))
		return role(text_argument("ROLE", NULL));
	limit = argument("LIMIT", 300);
	only = text_argument("ONLY", "");
	/* Grandchildren whose parent has died are taken in here, so that none outlives its test. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	device = open_device();
	if (device >= 0) {
		before = read_info();
		/* Only tests hold it. */
		close(device);
	}
	for (const struct test *test = first_test; test; test = test->next)
		if (strstr(test->name, only))
			*(passes(test, limit) ? &passed : &failed) += 1;
	if (device >= 0)
		*(passes(&last, limit) ? &passed : &failed) += 1;
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0 || !passed;
}
