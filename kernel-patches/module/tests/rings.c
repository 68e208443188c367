// SPDX-License-Identifier: GPL-2.0
/* Nothing posted is lost: counters that both sides keep in memory, rung across CPUs, also while threads migrate. */
#include "harness.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* What sender and receiver share; each in its own cache line. */
struct counters {
	uint64_t posted __attribute__((aligned(64)));
	uint64_t taken __attribute__((aligned(64)));
	uint64_t runs;
	bool stop __attribute__((aligned(64)));
};

static struct counters *counters;

/* The counter protocol: a sender counts what it posts, then rings; the handler takes all that is counted. */
HANDLER static void take(frame *at, vector number)
{
	counters->runs++;
	STORE(counters->taken, LOAD(counters->posted));
}

UINTR static void unmask(void)
{
	_stui();
}

UINTR static void ring(uint64_t index)
{
	_senduipi(index);
}

struct sender {
	int fd, cpu;
	uint64_t items;
	uint64_t burst;	/* posted before the sender waits for them to be taken */
};

/* If a ring is lost the last items of a burst are never taken, and the time limit tells. */
static void *send_items(void *data)
{
	struct sender *sender = data;
	int index;

	if (sender->cpu >= 0)
		pin(sender->cpu);
	index = sender_of(sender->fd);
	for (uint64_t item = 1; item <= sender->items; item++) {
		STORE(counters->posted, item);
		ring(index);
		if (item % sender->burst == 0 || item == sender->items)
			AWAIT(LOAD(counters->taken) == item);
	}
	STORE(counters->stop, true);
	return NULL;
}

static void exchange(struct sender sender, int receiver_cpu)
{
	pthread_t thread;

	counters = shared_memory(sizeof(*counters));
	if (receiver_cpu >= 0)
		pin(receiver_cpu);
	become_receiver(take);
	unmask();
	sender.fd = own_vector(0);
	CHECK(!pthread_create(&thread, NULL, send_items, &sender));
	AWAIT(LOAD(counters->stop));
	CHECK(!pthread_join(thread, NULL));
	CHECK(counters->runs <= sender.items && counters->runs >= 1, "%lu runs", counters->runs);
}

TEST(each_ring_answered)
{
	exchange((struct sender){ .cpu = 1, .items = argument("RINGS", 100000) / 2, .burst = 1 }, 0);
}

TEST(bursts_answered)
{
	exchange((struct sender){ .cpu = 1, .items = argument("RINGS", 100000) / 2, .burst = 64 }, 0);
}

/* Two processes, each receiver and sender: items go to and fro, each taken and answered by a handler. */
static int answer_index;

UINTR __attribute__((interrupt, target("general-regs-only"))) static void answer(frame *at, vector number)
{
	counters->runs++;
	STORE(counters->taken, LOAD(counters->posted));
	_senduipi(answer_index);
}

static uint64_t answers;

HANDLER static void count_answers(frame *at, vector number)
{
	STORE(answers, answers + 1);
}

TEST(handlers_of_two_processes_answer_each_other)
{
	uint64_t items = argument("RINGS", 100000) / 10;
	int mine, its;
	int *shared = shared_memory(4096);
	pid_t child;

	counters = shared_memory(sizeof(*counters));
	become_receiver(count_answers);
	mine = own_vector(1);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		pin(1);
		answer_index = sender_of(mine);
		become_receiver(answer);
		unmask();
		/* The parent takes the descriptor by its number. */
		prctl(PR_SET_PTRACER, getppid(), 0, 0, 0);
		its = own_vector(2);
		STORE(*shared, its + 1);
		AWAIT(LOAD(counters->stop));
		_exit(0);
	}
	pin(0);
	unmask();
	AWAIT(LOAD(*shared));
	its = syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, child, 0), *shared - 1, 0);
	CHECK(its >= 0, "%s", strerror(errno));
	its = sender_of(its);
	for (uint64_t item = 1; item <= items; item++) {
		STORE(counters->posted, item);
		ring(its);
		AWAIT(LOAD(answers) == item);
		CHECK(LOAD(counters->taken) == item);
	}
	STORE(counters->stop, true);
	expect_end(child, 0);
}

/* Moves a thread from CPU to CPU until told to stop. */
static void *move(void *data)
{
	pid_t thread = *(pid_t *)data;
	uint64_t random = 2463534242;

	while (!LOAD(counters->stop))
		pin_thread(thread, random_number(&random) % cpus());
	return NULL;
}

static void *send_until_stopped(void *data)
{
	int index = sender_of(*(int *)data);

	for (uint64_t item = 1; !LOAD(counters->stop); item++) {
		STORE(counters->posted, item);
		ring(index);
		AWAIT(LOAD(counters->taken) >= item);
	}
	return NULL;
}

/* Migrated by force, at any instruction, while rung, one item after the other: a lost one hangs. */
TEST(migrated_a_thousand_times_while_rung)
{
	uint64_t migrations = argument("MIGRATIONS", 1000);
	pthread_t mover, sender;
	pid_t myself = gettid();
	int fd;

	counters = shared_memory(sizeof(*counters));
	become_receiver(take);
	unmask();
	fd = own_vector(0);
	CHECK(!pthread_create(&sender, NULL, send_until_stopped, &fd));
	AWAIT(LOAD(counters->taken) > 10);
	CHECK(!pthread_create(&mover, NULL, move, &myself));
	/* Asking every now and then only, so that most migrations meet the thread in user code. */
	while (read_stats().migrated < migrations) {
		uint64_t taken = LOAD(counters->taken);

		AWAIT(LOAD(counters->taken) > taken + 10);
	}
	STORE(counters->stop, true);
	CHECK(!pthread_join(mover, NULL));
	CHECK(!pthread_join(sender, NULL));
}

/* Moves itself, in step with the rings: exactly this number of migrations. */
TEST(migrates_itself_a_thousand_times_while_rung)
{
	uint64_t moves = argument("MIGRATIONS", 1000);
	pthread_t sender;
	int fd;

	counters = shared_memory(sizeof(*counters));
	pin(0);
	become_receiver(take);
	unmask();
	fd = own_vector(0);
	CHECK(!pthread_create(&sender, NULL, send_until_stopped, &fd));
	for (uint64_t i = 1; i <= moves; i++) {
		uint64_t taken = LOAD(counters->taken);

		pin(i % cpus());
		AWAIT(LOAD(counters->taken) > taken);
	}
	STORE(counters->stop, true);
	CHECK(!pthread_join(sender, NULL));
	CHECK(read_stats().migrated >= moves, "%llu of %lu", read_stats().migrated, moves);
}

/* More threads than CPUs, all unpinned, all ringing all: every thread's items are taken. */
enum { CROWD = 6 };

static struct crowd {
	uint64_t posted[CROWD];	/* by the thread of that number, to everybody */
	uint64_t taken[CROWD][CROWD];	/* by the first, from the second */
	int fds[CROWD][CROWD];	/* given by the first, for the second to ring */
	int ready, done;
} crowd;

static __thread int myself;

HANDLER static void take_from(frame *at, vector number)
{
	crowd.taken[myself][number] = LOAD(crowd.posted[number]);
}

static void *one_of_a_crowd(void *data)
{
	uint64_t items = argument("RINGS", 100000) / 500;
	int index[CROWD];

	myself = (long)data;
	become_receiver(take_from);
	for (int other = 0; other < CROWD; other++)
		if (other != myself)
			crowd.fds[myself][other] = own_vector(other);
	unmask();
	ADD(crowd.ready, 1);
	AWAIT(LOAD(crowd.ready) == CROWD);
	for (int other = 0; other < CROWD; other++)
		if (other != myself)
			index[other] = sender_of(crowd.fds[other][myself]);
	for (uint64_t item = 1; item <= items; item++) {
		STORE(crowd.posted[myself], item);
		for (int other = 0; other < CROWD; other++)
			if (other != myself)
				ring(index[other]);
		for (int other = 0; other < CROWD; other++)
			if (other != myself)
				AWAIT(LOAD(crowd.taken[other][myself]) == item);
	}
	ADD(crowd.done, 1);
	AWAIT(LOAD(crowd.done) == CROWD);
	return NULL;
}

TEST(more_threads_than_cpus)
{
	pthread_t threads[CROWD];

	for (long i = 0; i < CROWD; i++)
		CHECK(!pthread_create(&threads[i], NULL, one_of_a_crowd, (void *)i));
	for (int i = 0; i < CROWD; i++)
		CHECK(!pthread_join(threads[i], NULL));
}
