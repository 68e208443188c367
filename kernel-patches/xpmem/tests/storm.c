// SPDX-License-Identifier: GPL-2.0
/* The stand-in for XPMEM while all happens at once: STORM=milliseconds of each test. */
#include "harness.h"
#include "ioctls.h"
#include "owner.h"
#include "touch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* Two counters in a page whose owner forks on and on: nothing that either side stores is lost, whichever page it is in. */

struct counters {
	volatile uint64_t owner, attacher;
};

static void count_and_fork(struct order *order)
{
	struct counters *counters = (void *)order->memory;
	uint64_t end = nanoseconds() + argument("STORM", 2000) * 1000000, seen = 0;

	counters->owner = counters->attacher = 0;
	STORE(order->value, 1);
	while (nanoseconds() < end) {
		pid_t child = fork();

		CHECK(child >= 0, "%s", strerror(errno));
		if (!child)
			_exit(0);
		for (int i = 0; i < 100; i++) {
			uint64_t now = counters->attacher;

			CHECK(now >= seen, "%lu after %lu", now, seen);
			seen = now;
			counters->owner++;
		}
		CHECK(waitpid(child, NULL, 0) == child);
	}
	STORE(order->value, 2);
}

TEST(no_store_is_lost_by_forks)
{
	struct order *order = owner_of(PAGE);
	int fd = open_xpmem();
	struct counters *counters = (void *)attach(fd, get(fd, order->segment), 0, PAGE);
	uint64_t seen = 0, stored = 0;

	order->value = 0;
	order->what = count_and_fork;
	ADD(order->number, 1);
	AWAIT(LOAD(order->value));
	while (LOAD(order->value) == 1) {
		uint64_t now = counters->owner;

		CHECK(now >= seen, "%lu after %lu", now, seen);
		seen = now;
		counters->attacher = ++stored;
		now = counters->attacher;
		CHECK(now == stored, "%lu instead of %lu", now, stored);
	}
	CHECK(stored && seen);
}

/*
 * Processes that have attached each other's memory touch it while each maps its own anew, forks, and attaches again. In a
 * page is never anything but its owner's mark, by whomever written.
 */

enum { FACES = 3, TOUCHERS = 2 };
/* Far from where the kernel puts what has no place. */
#define ARENA ((char *)0x100000000000)
static char *arena;
static uint64_t storm_end, mark_of_other;
static int device_file;
static int64_t other_permit;
static int *touched;

static uint64_t mark(int face)
{
	return 0x1111111111111111ull * (face + 1);
}

static void *touches(void *place)
{
	uint64_t random = (uint64_t)place ^ nanoseconds() ^ 0x9e3779b97f4a7c15ull;

	while (nanoseconds() < storm_end) {
		volatile uint64_t *word = place + random_number(&random) % SIZE / 8 * 8;
		bool store = random & 1 << 20;
		int number = sigsetjmp(here, 0);

		if (!number) {
			uint64_t value = *word;

			CHECK(!value || value == mark_of_other, "%#lx where %#lx should be", value, mark_of_other);
			if (store)
				*word = mark_of_other;
			ADD(*touched, 1);
		}
		CHECK(number != SIGSEGV);
	}
	return NULL;
}

static void *attaches(void *unused)
{
	char byte;
	int ends[2];

	CHECK(!pipe(ends));
	while (nanoseconds() < storm_end) {
		char *at = attach_at(device_file, other_permit, (int64_t)ARENA, SIZE, NULL);

		/* Its owner was killed. */
		if (at == MAP_FAILED && errno == ENOENT)
			break;
		CHECK(at != MAP_FAILED, "%s", strerror(errno));
		for (int i = 0; i < PAGES; i += 3)
			if (write(ends[1], at + i * PAGE, 1) == 1)
				CHECK(read(ends[0], &byte, 1) == 1);
		CHECK(!detach(device_file, at), "%s", strerror(errno));
	}
	return NULL;
}

static void *maps_anew(void *face)
{
	uint64_t random = nanoseconds() | 1, *words = (void *)arena;

	while (nanoseconds() < storm_end) {
		size_t first = random_number(&random) % PAGES, pages = 1 + random_number(&random) % (PAGES - first);
		char *at = arena + first * PAGE;

		switch (random_number(&random) % 5) {
		case 0:
			CHECK(!mprotect(at, pages * PAGE, PROT_NONE) && !mprotect(at, pages * PAGE, PROT_READ | PROT_WRITE));
			break;
		case 1:
			CHECK(!madvise(at, pages * PAGE, MADV_DONTNEED));
			break;
		case 2: {
			pid_t child = fork();

			if (!child)
				_exit(0);
			for (size_t i = 0; i < pages; i++)
				words[(first + i) * PAGE / 8] = mark((long)face);
			CHECK(child > 0 && waitpid(child, NULL, 0) == child);
			break;
		}
		case 3:
			/* Nobody else maps anything here meanwhile. */
			CHECK(!munmap(at, pages * PAGE));
			memory(at, pages * PAGE);
			break;
		default:
			memory(at, pages * PAGE);
		}
		for (size_t i = 0; i < pages; i++)
			words[(first + i) * PAGE / 8] = mark((long)face);
	}
	return NULL;
}

struct storm {
	int64_t segments[FACES];
	int made, attached, ended;
	uint64_t end;
	int touched[FACES];
};

static void run_face(struct storm *storm, long face)
{
	pthread_t threads[TOUCHERS + 2];
	int other = (face + 1) % FACES, n = 0;
	char *place;

	catch_signals();
	device_file = open_xpmem();
	arena = memory(ARENA, SIZE);
	/* All that it has, as libraries do it. */
	storm->segments[face] = make(device_file, NULL, -1);
	ADD(storm->made, 1);
	AWAIT(LOAD(storm->made) == FACES);
	other_permit = get(device_file, storm->segments[other]);
	place = attach(device_file, other_permit, (int64_t)ARENA, SIZE);
	mark_of_other = mark(other);
	touched = &storm->touched[face];
	storm_end = storm->end;
	for (int i = 0; i < TOUCHERS; i++)
		CHECK(!pthread_create(&threads[n++], NULL, touches, place));
	CHECK(!pthread_create(&threads[n++], NULL, maps_anew, (void *)face));
	CHECK(!pthread_create(&threads[n++], NULL, attaches, NULL));
	while (n)
		CHECK(!pthread_join(threads[--n], NULL));

	/* Calm again, each sees the other. */
	memory(arena, SIZE);
	*(uint64_t *)arena = mark(face);
	ADD(storm->attached, 1);
	AWAIT(LOAD(storm->attached) == FACES);
	CHECK(*(volatile uint64_t *)place == mark_of_other);
	ADD(storm->ended, 1);
	AWAIT(LOAD(storm->ended) == FACES);
}

TEST(mutual_storm)
{
	struct storm *storm = shared_memory(sizeof(*storm));
	pid_t faces[FACES];

	storm->end = nanoseconds() + argument("STORM", 2000) * 1000000;
	for (long i = 0; i < FACES; i++) {
		faces[i] = fork();
		if (!faces[i]) {
			run_face(storm, i);
			_exit(0);
		}
	}
	for (int i = 0; i < FACES; i++)
		expect_end(faces[i], 0);
	for (int i = 0; i < FACES; i++)
		CHECK(storm->touched[i] > 0);
}

/* Processes that are killed at any time while they touch each other's memory. */
TEST(killed_in_the_storm)
{
	uint64_t end = nanoseconds() + argument("STORM", 2000) * 1000000, random = end | 1;

	for (int round = 0; !round || nanoseconds() < end; round++) {
		struct storm *storm = shared_memory(sizeof(*storm));
		pid_t faces[FACES];

		storm->end = nanoseconds() + 3600000000000ull;
		for (long i = 0; i < FACES; i++) {
			faces[i] = fork();
			if (!faces[i]) {
				run_face(storm, i);
				_exit(0);
			}
		}
		for (int i = 0; i < FACES; i++)
			AWAIT(LOAD(storm->touched[i]) > 0);
		for (int i = 0; i < FACES; i++) {
			usleep(random_number(&random) % 20000);
			kill(faces[i], SIGKILL);
			expect_end(faces[i], SIGKILL);
		}
		munmap(storm, sizeof(*storm));
	}
}
