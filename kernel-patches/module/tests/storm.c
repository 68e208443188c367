// SPDX-License-Identifier: GPL-2.0
/*
 * Storms: rounds of processes that receive, send, fork, exec, end and are killed at random moments, and ring each other
 * all the while. Nothing is asserted but that no process meets what it should not (a signal of its own making), that
 * each round ends, and that all counters return; a debug kernel sees the rest.
 * ROUNDS, PROCESSES, SEED, and RINGS of a process in one life.
 */
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Where processes leave descriptors for each other, at fixed numbers that survive exec. */
enum { PUT = 100, TAKE = 101, PARENT = 102 };

static uint64_t seed;
static uint64_t runs;
static int indexes[4], count_indexes;

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

static uint64_t chance(uint64_t of)
{
	return random_number(&seed) % of;
}

/* Leaves a descriptor; a full box is no failure. */
static void put(int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec vector = { &byte, 1 };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	if (sendmsg(PUT, &message, MSG_DONTWAIT) != 1)
		CHECK(errno == EAGAIN || errno == ETOOMANYREFS, "%s", strerror(errno));
}

static int take(void)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec vector = { &byte, 1 };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int fd = -1;

	if (recvmsg(TAKE, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == 1 && message.msg_controllen)
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return fd;
}

static void connect_to(int fd)
{
	int index;

	if (count_indexes == 4)
		return;
	index = register_sender(fd);
	CHECK(index >= 0 || errno == ESHUTDOWN, "%s", strerror(errno));
	if (index >= 0)
		indexes[count_indexes++] = index;
}

static void ring_some(uint64_t rings)
{
	for (uint64_t i = 0; i < rings; i++)
		for (int j = 0; j < count_indexes; j++)
			ring(indexes[j]);
}

static void *ringing_thread(void *rings)
{
	if (chance(2)) {
		become_receiver(note);
		unmask();
		put(own_vector(chance(UINTR_VECTORS)));
	}
	ring_some((uint64_t)rings);
	return NULL;
}

static void again(void)
{
	char own[] = "/proc/self/exe", text[32];

	snprintf(text, sizeof(text), "SEED=%lu", chance(1ul << 40));
	execl(own, own, "ROLE=life", text, (char *)NULL);
	_exit(3);
}

/* One life of a process; at its end it may start another. */
static void life(void)
{
	uint64_t rings = argument("RINGS", 100);
	pthread_t thread;
	bool threads = false;
	int fd, status;
	pid_t child;

	if (chance(4)) {
		become_receiver(note);
		if (chance(8))
			unmask();
		for (uint64_t i = chance(4); i > 0; i--) {
			fd = own_vector(chance(UINTR_VECTORS));
			put(fd);
			if (chance(2))
				close(fd);
		}
	}
	if (chance(4))
		connect_to(PARENT);
	for (int i = 0; i < 3; i++) {
		fd = take();
		if (fd < 0)
			continue;
		connect_to(fd);
		close(fd);
	}
	for (uint64_t i = chance(3); i > 0; i--) {
		threads = true;
		CHECK(!pthread_create(&thread, NULL, ringing_thread, (void *)rings));
		if (chance(2))
			CHECK(!pthread_join(thread, NULL));
	}
	ring_some(rings);
	if (count_indexes && chance(2)) {
		int index = indexes[--count_indexes];

		/* Threads may be ringing it. */
		if (!threads)
			CHECK(!unregister_sender(index), "%s", strerror(errno));
	}
	if (chance(4) == 0 && unregister_handler())
		CHECK(errno == EINVAL, "%s", strerror(errno));
	switch (chance(6)) {
	case 0:
		child = fork();
		if (!child) {
			count_indexes = 0;
			connect_to(PARENT);
			ring_some(rings);
			_exit(0);
		}
		if (chance(2))
			CHECK(waitpid(child, &status, 0) == child && !status, "status %#x", status);
		break;
	case 1:
		child = vfork();
		if (!child)
			again();
		break;
	case 2:
	case 3:
		again();
		break;
	case 4:
		raise(SIGKILL);
		break;
	default:
		break;
	}
	ring_some(chance(rings + 1));
	_exit(0);
}

int role(const char *name)
{
	device = open_device();
	if (strcmp(name, "life") || device < 0)
		return 3;
	seed = argument("SEED", 1) + 0x9e3779b97f4a7c15;
	life();
	return 3;
}

TEST(storm)
{
	long rounds = argument("ROUNDS", 100), processes = argument("PROCESSES", 10);
	pid_t pids[processes];

	seed = argument("SEED", 1) + 0x9e3779b97f4a7c15;
	become_receiver(note);
	unmask();
	/* Not close-on-exec: lives after exec ring it, too. */
	CHECK(dup2(own_vector(1), PARENT) == PARENT);
	for (long round = 0; round < rounds; round++) {
		int box[2];

		CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, box));
		CHECK(dup2(box[0], PUT) == PUT && dup2(box[1], TAKE) == TAKE);
		close(box[0]);
		close(box[1]);
		for (long i = 0; i < processes; i++) {
			chance(2);
			pids[i] = fork();
			CHECK(pids[i] >= 0, "%s", strerror(errno));
			if (!pids[i]) {
				seed += i * 0x9e3779b97f4a7c15;
				runs = 0;
				life();
			}
		}
		/* Half of them do not reach their end. */
		for (long i = 0; i < processes; i += 2) {
			for (uint64_t spin = chance(20000); spin > 0; spin--)
				__builtin_ia32_pause();
			kill(pids[i], SIGKILL);
		}
		/* Those made by them, too, whom the harness's process would take in otherwise. */
		for (long i = 0; i < processes; i++) {
			int status;

			CHECK(waitpid(pids[i], &status, 0) == pids[i], "%s", strerror(errno));
			CHECK(!status || status == SIGKILL, "round %ld, process %ld: status %#x", round, i, status);
		}
		close(PUT);
		close(TAKE);
	}
	CHECK(LOAD(runs) > 0);
}
