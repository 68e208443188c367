// SPDX-License-Identifier: GPL-2.0
/*
 * Suspend to memory and back: the processor loses its registers and CR4. Only for a machine that wakes up by itself, as
 * the emulated one does at once; with one CPU there, for its clocks do not survive with more (CPUs that come back are
 * tested in cpus.c).
 */
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>

static struct {
	uint64_t posted, taken;
	bool stop;
} counters;

static uint64_t runs, last_vector;

HANDLER static void note(frame *at, vector number)
{
	last_vector = number;
	STORE(counters.taken, LOAD(counters.posted));
	STORE(runs, runs + 1);
}

UINTR static void ring(uint64_t index)
{
	_senduipi(index);
}

static void suspend(void)
{
	int file = open("/sys/power/state", O_WRONLY);

	CHECK(file >= 0 && write(file, "mem", 3) == 3, "%s", strerror(errno));
	close(file);
}

/* The thread that suspends is running, its state in the registers that are lost; a ring is pending in them. */
UINTR TEST(the_suspending_thread_keeps_its_state)
{
	int index;

	become_receiver(note);
	index = register_self(9);
	CHECK(index >= 0);
	ring(index);
	suspend();
	CHECK(!_testui() && LOAD(runs) == 0, "the flag was 0");
	_stui();
	AWAIT(LOAD(runs) == 1);
	CHECK(last_vector == 9, "%lu", last_vector);
	suspend();
	CHECK(_testui(), "the flag was 1");
	ring(index);
	AWAIT(LOAD(runs) == 2);
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

/* Others go on where they were, and on every CPU. */
UINTR TEST(rings_go_on)
{
	long rounds = argument("SUSPENDS", 3);
	pthread_t sender;
	int fd;

	become_receiver(note);
	_stui();
	fd = own_vector(0);
	CHECK(!pthread_create(&sender, NULL, send_until_stopped, &fd));
	for (long round = 0; round < rounds; round++) {
		suspend();
		for (int cpu = 0; cpu < cpus(); cpu++) {
			uint64_t taken;

			pin(cpu);
			taken = LOAD(counters.taken);
			AWAIT(LOAD(counters.taken) > taken + 3);
		}
	}
	STORE(counters.stop, true);
	CHECK(!pthread_join(sender, NULL));
}
