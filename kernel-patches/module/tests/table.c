// SPDX-License-Identifier: GPL-2.0
/* The table of senders: full, duplicates, and entries that come and go while other threads ring them. */
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <signal.h>
#include <sys/wait.h>

static uint64_t runs, runs_of[UINTR_VECTORS];

HANDLER static void note(frame *at, vector number)
{
	runs_of[number]++;
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

TEST(duplicates_share_an_index)
{
	int fd, same, copy, other, index;

	become_receiver(note);
	unmask();
	fd = own_vector(5);
	same = own_vector(5);
	copy = dup(fd);
	other = own_vector(6);
	index = sender_of(fd);
	CHECK(sender_of(fd) == index && sender_of(same) == index && sender_of(copy) == index);
	CHECK(register_self(5) == index);
	CHECK(sender_of(other) != index);
	/* The numbers do not matter, nor whether they are still open. */
	close(fd);
	close(same);
	CHECK(dup2(other, copy) == copy);
	for (int count = 5; count > 0; count--) {
		uint64_t before = LOAD(runs);

		ring(index);
		AWAIT(LOAD(runs) == before + 1);
		CHECK(!unregister_sender(index), "registration %d: %s", count, strerror(errno));
	}
	REFUSED(unregister_sender(index), EINVAL);
	CHECK(runs_of[5] == 5 && runs_of[6] == 0);
}

/* Ends like a SENDUIPI of an index that is not there. */
static void expect_no_index(int index)
{
	pid_t pid = fork();

	if (!pid) {
		/* A table of the child's own, with one entry, of another receiver. */
		become_receiver(note);
		CHECK(register_self(0) == 0);
		ring(index);
		_exit(0);
	}
	expect_end(pid, SIGSEGV);
}

static volatile sig_atomic_t faults;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;

	faults++;
	/* SENDUIPI of a register without REX prefix is 4 bytes; with it, 5. */
	interrupted->uc_mcontext.gregs[REG_RIP] += ((unsigned char *)interrupted->uc_mcontext.gregs[REG_RIP])[1] == 0x0f ? 4 : 5;
}

static void catch_faults(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	CHECK(!sigaction(SIGSEGV, &action, NULL));
}

TEST(indexes_that_are_not_there)
{
	int index;

	become_receiver(note);
	unmask();
	index = register_self(1);
	expect_no_index(1);
	expect_no_index(UINTR_SENDERS - 1);
	expect_no_index(UINTR_SENDERS);
	expect_no_index(-1);
	catch_faults();
	ring(index);
	AWAIT(LOAD(runs) == 1);
	CHECK(!unregister_sender(index));
	ring(index);
	CHECK(faults == 1, "%d faults", faults);
	ring(1ul << 40);
	CHECK(faults == 2, "%d faults", faults);
	CHECK(LOAD(runs) == 1);
}

struct thread_argument {
	int base;
	int fds[UINTR_VECTORS];
	bool ready, done;
};

static void *sixty_four_vectors(void *data)
{
	struct thread_argument *argument = data;

	become_receiver(note);
	unmask();
	for (int i = 0; i < UINTR_VECTORS; i++)
		argument->fds[i] = own_vector(i);
	STORE(argument->ready, true);
	AWAIT(LOAD(argument->done));
	return NULL;
}

TEST(full)
{
	static struct thread_argument arguments[4];
	pthread_t threads[4];
	int fd, index;

	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, sixty_four_vectors, &arguments[i]));
	for (int i = 0; i < 4; i++) {
		AWAIT(LOAD(arguments[i].ready));
		for (int j = 0; j < UINTR_VECTORS; j++) {
			index = sender_of(arguments[i].fds[j]);
			CHECK(index == i * UINTR_VECTORS + j, "%d", index);
		}
	}
	become_receiver(note);
	unmask();
	fd = own_vector(9);
	REFUSED(register_sender(fd), ENOSPC);
	REFUSED(register_self(9), ENOSPC);
	/* A duplicate needs no room. */
	CHECK(sender_of(arguments[2].fds[7]) == 2 * UINTR_VECTORS + 7);
	for (int i = 0; i < UINTR_SENDERS; i++)
		ring(i);
	/* Four threads count with one plain variable: only that all indexes are valid is of interest here. */
	CHECK(!unregister_sender(100));
	index = sender_of(fd);
	CHECK(index == 100, "%d", index);
	REFUSED(register_self(10), ENOSPC);
	runs = 0;
	ring(100);
	AWAIT(LOAD(runs) >= 1);
	for (int i = 0; i < 4; i++)
		STORE(arguments[i].done, true);
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static bool stop;
static uint64_t rings;

static void *rings_all(void *data)
{
	while (!LOAD(stop)) {
		for (int i = 0; i < 8; i++)
			ring(i);
		ADD(rings, 1);
	}
	return NULL;
}

/* Threads ring eight indexes that come and go under them, with receivers that come and go, too: every ring meets a
 * live entry, or none; none meets what is freed (where the receivers' memory is poisoned, as in the guests, a ring into it would be told). */
TEST(entries_come_and_go_while_rung)
{
	long rounds = argument("ROUNDS", 300);
	uint64_t random = 88172645463325252ull;
	int held[8] = { 0 };
	pthread_t thread[2];

	catch_faults();
	become_receiver(note);
	unmask();
	for (int i = 0; i < 8; i++) {
		CHECK(register_self(i) == i);
		held[i] = 1;
	}
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&thread[i], NULL, rings_all, NULL));
	for (long round = 0; round < rounds; round++) {
		int i = random_number(&random) % 8;

		if (round % 50 == 49) {
			CHECK(!unregister_handler());
			become_receiver(note);
			unmask();
		}
		if (held[i]) {
			CHECK(!unregister_sender(i), "%d: %s", i, strerror(errno));
			held[i] = 0;
		} else {
			int index = register_self(i);

			CHECK(index >= 0 && index < 8, "%d", index);
			/* Vector i of this receiver has another index already: counted twice, so taken back once. */
			if (held[index])
				CHECK(!unregister_sender(index));
			held[index] = 1;
		}
	}
	AWAIT(LOAD(rings) > 10);
	STORE(stop, true);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(thread[i], NULL));
	CHECK(runs > 0);
}

static void *registers(void *data)
{
	int *index = data;

	become_receiver(note);
	for (int i = 0; i < 50; i++) {
		*index = register_self(3);
		CHECK(*index >= 0);
		CHECK(!unregister_sender(*index));
	}
	*index = register_self(3);
	AWAIT(LOAD(stop));
	return NULL;
}

/* Threads that make the first table, and entries in it, at the same time. */
TEST(registered_at_the_same_time)
{
	pthread_t threads[6];
	int index[6] = { -1, -1, -1, -1, -1, -1 };
	struct uintr_info info = read_info();

	for (int i = 0; i < 6; i++)
		CHECK(!pthread_create(&threads[i], NULL, registers, &index[i]));
	for (int i = 0; i < 6; i++) {
		struct timespec pause = { .tv_nsec = 1000000 };

		/* Ends when all six hold one index each, all different. */
		for (int j = 0; j < 6; j++)
			if (LOAD(index[j]) < 0 || (j < i && LOAD(index[i]) == LOAD(index[j])))
				j = -1, nanosleep(&pause, NULL);
	}
	info.receivers += 6;
	info.upids += 6;
	info.tables++;
	expect_counters(info);
	STORE(stop, true);
	for (int i = 0; i < 6; i++)
		CHECK(!pthread_join(threads[i], NULL));
}
