// SPDX-License-Identifier: GPL-2.0
/* CPUs that go and come while threads on them receive and send. */
#include "harness.h"
#include "settings.h"

#include <pthread.h>

struct counters {
	uint64_t posted, taken;
	bool stop;
};

static struct counters counters;

HANDLER static void take(frame *at, vector number)
{
	STORE(counters.taken, LOAD(counters.posted));
}

UINTR static void unmask(void)
{
	_stui();
}

UINTR static void ring(uint64_t index)
{
	_senduipi(index);
}

static void *send_until_stopped(void *data)
{
	int index = sender_of(*(int *)data);

	for (uint64_t item = 1; !LOAD(counters.stop); item++) {
		STORE(counters.posted, item);
		ring(index);
		AWAIT(LOAD(counters.taken) >= item);
	}
	return NULL;
}

/* Unpinned threads move when their CPU goes, and may move there when it is back: it must be able to send, take
 * notifications and know of no earlier state. */
TEST(cpus_off_and_on_while_rung)
{
	long rounds = argument("CPU_ROUNDS", 10);
	pthread_t sender;
	int fd;

	become_receiver(take);
	unmask();
	fd = own_vector(0);
	CHECK(!pthread_create(&sender, NULL, send_until_stopped, &fd));
	for (long round = 0; round < rounds; round++) {
		int cpu = 1 + round % (cpus() > 2 ? cpus() - 1 : 1);
		uint64_t taken;

		/* Both kinds: the receiver on the CPU that goes, or elsewhere. */
		pin(round % 2 ? cpu : 0);
		taken = LOAD(counters.taken);
		set_online(cpu, false);
		AWAIT(LOAD(counters.taken) > taken + 3);
		set_online(cpu, true);
		pin(cpu);
		taken = LOAD(counters.taken);
		AWAIT(LOAD(counters.taken) > taken + 3);
	}
	STORE(counters.stop, true);
	CHECK(!pthread_join(sender, NULL));
}

static bool ready;

static void *sends_from(void *data)
{
	int index;

	pin(1);
	index = sender_of(*(int *)data);
	STORE(ready, true);
	for (uint64_t item = 1; !LOAD(counters.stop); item++) {
		STORE(counters.posted, item);
		ring(index);
		AWAIT(LOAD(counters.taken) >= item);
	}
	return NULL;
}

/* The sender is on the CPU that goes: its instruction stays valid to the last. */
TEST(cpu_off_under_a_sender)
{
	long rounds = argument("CPU_ROUNDS", 10);

	pin(0);
	become_receiver(take);
	unmask();
	for (long round = 0; round < rounds; round++) {
		pthread_t sender;
		uint64_t taken;
		int fd = own_vector(0);

		counters = (struct counters){ 0 };
		ready = false;
		CHECK(!pthread_create(&sender, NULL, sends_from, &fd));
		AWAIT(LOAD(ready));
		set_online(1, false);
		taken = LOAD(counters.taken);
		AWAIT(LOAD(counters.taken) > taken + 3);
		set_online(1, true);
		STORE(counters.stop, true);
		CHECK(!pthread_join(sender, NULL));
		close(fd);
	}
}
