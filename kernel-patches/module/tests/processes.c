// SPDX-License-Identifier: GPL-2.0
/* Between processes: how the right to ring travels, what fork, exec, vfork, CLONE_VM and death leave. */
#include "harness.h"

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

/* A process killed by a signal, as waitpid tells. */
#define KILLED(signal) (signal)

static uint64_t runs;

HANDLER static void note(frame *at, vector number)
{
	STORE(runs, runs + 1);
}

UINTR static void unmask(void)
{
	_stui();
}

UINTR static void ring(uint64_t index)
{
	_senduipi(index);
}

struct shared {
	int stage;
	int number;
	uint64_t runs;
	uint64_t rings;
	bool stop;
};

static struct shared *share(void)
{
	return shared_memory(sizeof(struct shared));
}

static pid_t child(void (*run)(void *), void *argument)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		run(argument);
		_exit(0);
	}
	return pid;
}

static void rings_inherited(void *fd)
{
	ring(sender_of(*(int *)fd));
}

TEST(descriptor_by_inheritance)
{
	int fd;

	become_receiver(note);
	unmask();
	fd = own_vector(1);
	expect_end(child(rings_inherited, &fd), 0);
	AWAIT(LOAD(runs) == 1);
}

/* Sends or receives one descriptor over a socket. */
static int pass(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec vector = { &byte, 1 };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header;

	if (fd >= 0) {
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof(int));
		CHECK(sendmsg(socket, &message, 0) == 1, "%s", strerror(errno));
		return fd;
	}
	CHECK(recvmsg(socket, &message, 0) == 1, "%s", strerror(errno));
	header = CMSG_FIRSTHDR(&message);
	CHECK(header && header->cmsg_type == SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(header), sizeof(int));
	return fd;
}

static void rings_received(void *socket)
{
	ring(sender_of(pass(*(int *)socket, -1)));
}

TEST(descriptor_by_scm_rights)
{
	int sockets[2];
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	/* Before there is a vector: nothing can be inherited. */
	pid = child(rings_received, &sockets[1]);
	become_receiver(note);
	unmask();
	pass(sockets[0], own_vector(2));
	expect_end(pid, 0);
	AWAIT(LOAD(runs) == 1);
}

static void rings_taken(void *argument)
{
	struct shared *shared = argument;
	int process, fd;

	AWAIT(LOAD(shared->stage) == 1);
	process = syscall(SYS_pidfd_open, getppid(), 0);
	CHECK(process >= 0, "%s", strerror(errno));
	fd = syscall(SYS_pidfd_getfd, process, shared->number, 0);
	CHECK(fd >= 0, "%s", strerror(errno));
	ring(sender_of(fd));
}

TEST(descriptor_by_pidfd_getfd)
{
	struct shared *shared = share();
	pid_t pid = child(rings_taken, shared);

	prctl(PR_SET_PTRACER, pid, 0, 0, 0);
	become_receiver(note);
	unmask();
	shared->number = own_vector(3);
	STORE(shared->stage, 1);
	expect_end(pid, 0);
	AWAIT(LOAD(runs) == 1);
}

/* Without a descriptor: no registering by number, no taking, no ringing by guessed index. */
static void outsider(void *argument)
{
	struct shared *shared = argument;
	int process;

	AWAIT(LOAD(shared->stage) == 1);
	if (!geteuid())
		CHECK(!setgroups(0, NULL) && !setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534));
	CHECK(close(device) == 0);
	device = open("/dev/uintr", O_RDWR);
	CHECK(device >= 0, "everybody may open the device: %s", strerror(errno));
	for (int fd = 0; fd < 64; fd++) {
		if (fd == shared->number)
			REFUSED(register_sender(fd), EBADF);
		else
			CHECK(register_sender(fd) == -1);
	}
	process = syscall(SYS_pidfd_open, getppid(), 0);
	CHECK(process >= 0);
	REFUSED(syscall(SYS_pidfd_getfd, process, shared->number, 0), EPERM);
	STORE(shared->stage, 2);
	for (int index = 0; index < UINTR_SENDERS; index++) {
		pid_t pid = fork();

		if (!pid) {
			ring(index);
			_exit(0);
		}
		/* No table: the instruction is undefined. */
		expect_end(pid, KILLED(SIGILL));
	}
	/* With a table of one's own, the others' indexes still are not in it. */
	become_receiver(note);
	CHECK(register_self(0) == 0);
	for (int index = 1; index < 300; index += 13) {
		pid_t pid = fork();

		if (!pid) {
			become_receiver(note);
			CHECK(register_self(0) == 0);
			ring(index);
			_exit(0);
		}
		expect_end(pid, KILLED(SIGSEGV));
	}
}

TEST(unprivileged_outsiders_cannot_ring)
{
	struct shared *shared = share();
	pid_t pid = child(outsider, shared);

	/* An ordinary user's child cannot become somebody else: it is kept out as from a process that holds secrets. */
	if (geteuid())
		CHECK(!prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
	become_receiver(note);
	unmask();
	/* A number that the child has not open itself. */
	shared->number = fcntl(own_vector(4), F_DUPFD_CLOEXEC, 40);
	CHECK(sender_of(shared->number) == 0);
	STORE(shared->stage, 1);
	expect_end(pid, 0);
	CHECK(LOAD(runs) == 0, "%lu runs", runs);
}

static void has_nothing(void *index)
{
	struct uintr_stats stats;
	pid_t pid;

	REFUSED(unregister_handler(), EINVAL);
	REFUSED(ioctl(device, UINTR_IOC_STATS, &stats), EOPNOTSUPP);
	REFUSED(unregister_sender(*(int *)index), EINVAL);
	pid = fork();
	if (!pid) {
		unmask();
		ring(*(int *)index);
		_exit(0);
	}
	expect_end(pid, KILLED(SIGILL));
}

TEST(fork_gives_nothing)
{
	struct uintr_info info = read_info();
	int index;

	become_receiver(note);
	unmask();
	index = register_self(1);
	CHECK(index >= 0);
	/* One of each, the parent's, before and after. */
	info.receivers++;
	info.upids++;
	info.tables++;
	expect_counters(info);
	for (int i = 0; i < 5; i++)
		expect_end(child(has_nothing, &index), 0);
	expect_counters(info);
	CHECK(LOAD(runs) == 0);
	ring(index);
	AWAIT(LOAD(runs) == 1);
}

/* The new program has no handler: a ring from one who still can is not delivered, and nothing is left of the table.
 * It runs this program again, with a role. */
static void runs_as(const char *role, int fd)
{
	char number[16], own[] = "/proc/self/exe";

	snprintf(number, sizeof(number), "FD=%d", fd);
	execl(own, own, role, number, (char *)NULL);
	fail("exec: %s", strerror(errno));
}

static void ringing_for_ever(void *argument)
{
	struct shared *shared = argument;
	int index = sender_of(shared->number);

	STORE(shared->stage, 1);
	while (!LOAD(shared->stop)) {
		ring(index);
		ADD(shared->rings, 1);
	}
}

static void execs_while_rung(void *argument)
{
	struct shared *shared = argument;
	pid_t pid;

	become_receiver(note);
	unmask();
	CHECK(register_self(9) >= 0);
	shared->number = own_vector(8);
	pid = child(ringing_for_ever, shared);
	AWAIT(LOAD(shared->stage) == 1 && LOAD(runs) > 0);
	runs_as("ROLE=after_exec", pid);
}

/* In the new program: spins unmasked while rung, sends, and registers as if new. */
UINTR static int after_exec(void)
{
	struct uintr_stats stats;
	int status;
	pid_t pid;

	if (_testui())
		return 10;
	_stui();
	for (volatile int i = 0; i < 300000; i++)
		;
	_clui();
	device = open("/dev/uintr", O_RDWR);
	if (ioctl(device, UINTR_IOC_STATS, &stats) != -1 || errno != EOPNOTSUPP)
		return 11;
	if (unregister_sender(0) != -1 || errno != EINVAL)
		return 12;
	pid = fork();
	if (!pid) {
		ring(0);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status != KILLED(SIGILL))
		return 13;
	/* Itself, not in a child: this very thread had a table before. */
	if (signal(SIGILL, SIG_DFL) == SIG_ERR || register_handler(note, NULL, 0))
		return 14;
	if (register_self(5) != 0)
		return 15;
	_stui();
	ring(0);
	AWAIT(LOAD(runs) == 1);
	return 0;
}

TEST(exec_drops_everything)
{
	struct shared *shared = share();

	for (int i = 0; i < 5; i++) {
		pid_t pid;

		memset(shared, 0, sizeof(*shared));
		pid = child(execs_while_rung, shared);
		expect_end(pid, 0);
		CHECK(LOAD(shared->rings) > 0);
		STORE(shared->stop, true);
		AWAIT(waitpid(-1, NULL, WNOHANG) != 0);
	}
}

static void *execs(void *argument)
{
	struct shared *shared = argument;

	become_receiver(note);
	unmask();
	shared->number = own_vector(7);
	runs_as("ROLE=after_exec", child(ringing_for_ever, shared));
	return NULL;
}

static void execs_in_a_thread(void *argument)
{
	pthread_t thread;

	become_receiver(note);
	unmask();
	CHECK(!pthread_create(&thread, NULL, execs, argument));
	for (;;)
		pause();
}

/* The main thread, a receiver, is killed by another thread's exec. */
TEST(exec_by_another_thread)
{
	struct shared *shared = share();
	pid_t pid = child(execs_in_a_thread, shared);

	expect_end(pid, 0);
	STORE(shared->stop, true);
}

/* The table of a shared address space stays when a sharer execs or ends, and the sharer loses its own state. */
static int sharer(void *argument)
{
	struct shared *shared = argument;

	/* The same memory, so the same table: */
	ring(shared->number);
	become_receiver(note);
	CHECK(register_self(20) >= 0);
	if (shared->stage)
		runs_as("ROLE=after_exec", 0);
	return 0;
}

static void share_address_space(int flags, bool exec)
{
	static char stack[65536] __attribute__((aligned(16)));
	struct shared shared = { .stage = exec };
	uint64_t before = LOAD(runs);
	struct uintr_info info;
	pid_t pid;

	shared.number = register_self(1);
	CHECK(shared.number >= 0);
	info = read_info();
	pid = clone(sharer, stack + sizeof(stack), flags | SIGCHLD, &shared);
	CHECK(pid > 0, "%s", strerror(errno));
	expect_end(pid, 0);
	AWAIT(LOAD(runs) == before + 1);
	ring(shared.number);
	AWAIT(LOAD(runs) == before + 2);
	CHECK(!unregister_sender(shared.number));
	/* The sharer's own index is the table's, and so still there. */
	CHECK(!unregister_sender(shared.number + 1), "%s", strerror(errno));
	/* The table of the program that the sharer became goes a little later. */
	expect_counters(info);
}

TEST(clone_vm)
{
	become_receiver(note);
	unmask();
	share_address_space(CLONE_VM | CLONE_FILES, false);
	share_address_space(CLONE_VM | CLONE_FILES, true);
}

TEST(clone_vfork)
{
	become_receiver(note);
	unmask();
	share_address_space(CLONE_VM | CLONE_VFORK, false);
	share_address_space(CLONE_VM | CLONE_VFORK, true);
}

static void receives_until_killed(void *argument)
{
	struct shared *shared = argument;

	become_receiver(note);
	unmask();
	CHECK(pass(shared->number, own_vector(6)) >= 0);
	for (;;)
		STORE(shared->runs, LOAD(runs));
}

/* A dead receiver is rung on and on; a new sender is told. */
TEST(receiver_killed_while_rung)
{
	struct uintr_info info = read_info();

	/* This process's own, for as long as it lives. */
	info.tables++;
	for (int round = 0; round < 20; round++) {
		struct shared *shared = share();
		int sockets[2], fd, index;
		pid_t pid;

		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
		shared->number = sockets[1];
		pid = child(receives_until_killed, shared);
		fd = pass(sockets[0], -1);
		index = sender_of(fd);
		while (LOAD(shared->runs) < 3)
			ring(index);
		CHECK(!kill(pid, SIGKILL));
		while (!waitpid(pid, NULL, WNOHANG))
			ring(index);
		/* The parent may be told before the thread has left its CPU for the last time. */
		AWAIT(register_sender(fd) == -1 && errno == ESHUTDOWN);
		for (int i = 0; i < 1000; i++)
			ring(index);
		/* All registrations made while it was dying, and the first. */
		while (!unregister_sender(index))
			;
		CHECK(errno == EINVAL);
		close(fd);
		close(sockets[0]);
		close(sockets[1]);
		munmap(shared, sizeof(*shared));
	}
	expect_counters(info);
}

TEST(sender_killed_while_ringing)
{
	become_receiver(note);
	unmask();
	for (int round = 0; round < 20; round++) {
		struct shared *shared = share();
		pid_t pid;
		uint64_t seen;

		shared->number = own_vector(round);
		seen = LOAD(runs);
		pid = child(ringing_for_ever, shared);
		AWAIT(LOAD(runs) > seen + 10);
		CHECK(!kill(pid, SIGKILL));
		expect_end(pid, KILLED(SIGKILL));
		munmap(shared, sizeof(*shared));
	}
}

/* Each end goes first; the other still works, and ends. */
static void receives_for_a_while(void *argument)
{
	struct shared *shared = argument;

	become_receiver(note);
	unmask();
	pass(shared->number, own_vector(0));
	AWAIT(LOAD(shared->stop));
}

TEST(ends_in_any_order)
{
	for (int order = 0; order < 4; order++) {
		struct shared *shared = share();
		int sockets[2], fd;
		pid_t receiver, sender;

		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
		shared->number = sockets[1];
		receiver = child(receives_for_a_while, shared);
		fd = pass(sockets[0], -1);
		shared->number = fd;
		sender = child(ringing_for_ever, shared);
		AWAIT(LOAD(shared->stage) == 1);
		if (order & 1)
			close(fd);
		if (order & 2) {
			CHECK(!kill(sender, SIGKILL));
			expect_end(sender, KILLED(SIGKILL));
			STORE(shared->stop, true);
			expect_end(receiver, 0);
		} else {
			CHECK(!kill(receiver, SIGKILL));
			expect_end(receiver, KILLED(SIGKILL));
			STORE(shared->stop, true);
			expect_end(sender, 0);
		}
		if (!(order & 1))
			close(fd);
		expect_counters_back();
		close(sockets[0]);
		close(sockets[1]);
		munmap(shared, sizeof(*shared));
	}
}

/* A receiver's process ends while other threads of it ring it and each other. */
static void *ringing_thread(void *argument)
{
	int index = *(int *)argument;

	become_receiver(note);
	unmask();
	for (;;)
		ring(index);
	return NULL;
}

static void ends_amid_threads(void *unused)
{
	pthread_t thread;
	int index;

	become_receiver(note);
	unmask();
	index = register_self(1);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&thread, NULL, ringing_thread, &index));
	AWAIT(LOAD(runs) > 100);
	_exit(0);
}

TEST(process_ends_amid_its_ringing_threads)
{
	for (int round = 0; round < 10; round++)
		expect_end(child(ends_amid_threads, NULL), 0);
	expect_counters_back();
}

int role(const char *name)
{
	if (!strcmp(name, "after_exec")) {
		int status = after_exec();

		/* The ringer, if there is one, was made before the exec. */
		return status;
	}
	return 2;
}
