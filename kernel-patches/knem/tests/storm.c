// SPDX-License-Identifier: GPL-2.0
/* The stand-in for KNEM while all happens at once: STORM=milliseconds of each test. */
#include "harness.h"
#include "ioctls.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static uint64_t storm_end(void)
{
	return nanoseconds() + argument("STORM", 2000) * 1000000;
}

/* Regions that are destroyed while they are copied: a copy has all of one, or finds none. */
enum { COPIERS = 2 };
static int64_t current;
static int ended, copied;

static void *copies(void *none)
{
	int fd = open_knem();
	char *here = memory(SIZE, 0);

	(void)none;
	while (!LOAD(ended)) {
		int64_t cookie = LOAD(current);

		if (from(fd, cookie, 0, here, SIZE) != KNEM_STATUS_SUCCESS) {
			CHECK(errno == EINVAL, "%s", strerror(errno));
			continue;
		}
		for (int at = 0; at < SIZE; at += PAGE)
			CHECK(here[at] == (char)cookie, "%#x of %#lx", here[at], cookie);
		ADD(copied, 1);
	}
	return NULL;
}

TEST(regions_end_under_copies)
{
	uint64_t end = storm_end();
	pthread_t threads[COPIERS];
	int fd = open_knem();
	char *start = memory(2 * SIZE, 0);
	int64_t before = pinned(), last = 0;

	for (int i = 0; i < COPIERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, copies, NULL));
	for (int turn = 0; nanoseconds() < end || !LOAD(copied); turn = !turn) {
		/* What is copied lies still: of the other half. */
		int64_t cookie = region(fd, start + turn * SIZE, SIZE);

		memset(start + turn * SIZE, (char)cookie, SIZE);
		STORE(current, cookie);
		if (last)
			CHECK(!destroy(fd, last), "%s", strerror(errno));
		/* Pages of a region that has ended stay as they are for who still copies from them. */
		CHECK(mmap(start + !turn * SIZE, SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start + !turn * SIZE);
		last = cookie;
	}
	CHECK(!destroy(fd, last));
	STORE(ended, 1);
	for (int i = 0; i < COPIERS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(pinned() == before, "%ld pages more than %ld", pinned() - before, before);
}

/* Of a region for a single use, one of many has it. */
static void *takes(void *own)
{
	int fd = open_knem(), *taken = own;
	int64_t tried = 0;
	char got;

	while (!LOAD(ended)) {
		int64_t cookie = LOAD(current);

		if (cookie == tried)
			continue;
		tried = cookie;
		if (from(fd, cookie, 0, &got, 1) == KNEM_STATUS_SUCCESS)
			ADD(*taken, 1);
	}
	return NULL;
}

TEST(one_takes_what_is_for_one)
{
	uint64_t end = storm_end();
	pthread_t threads[COPIERS];
	int fd = open_knem(), taken = 0, made = 0;
	char *start = memory(SIZE, 'm');
	int64_t before = pinned();

	for (int i = 0; i < COPIERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, takes, &taken));
	while (nanoseconds() < end) {
		int64_t cookie = create(fd, start, PAGE, READ, KNEM_FLAG_SINGLEUSE);

		CHECK(cookie > 0, "%s", strerror(errno));
		STORE(current, cookie);
		made++;
		AWAIT(LOAD(taken) == made);
	}
	STORE(ended, 1);
	for (int i = 0; i < COPIERS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(taken == made && pinned() == before, "%d of %d", taken, made);
}

/* Processes that copy from and to each other's regions, and are killed in the middle of it. */
enum { FACES = 3 };
static struct face {
	int64_t cookie;
	int copies;
} *faces;

static void face(int own, uint64_t seed)
{
	int fd = open_knem();
	char *start = memory(SIZE, 'f'), *here = memory(SIZE, 'f');

	for (;;) {
		int64_t cookie = region(fd, start, SIZE);

		STORE(faces[own].cookie, cookie);
		for (int i = 0; i < 20; i++) {
			int64_t other = LOAD(faces[random_number(&seed) % FACES].cookie);
			uint64_t offset = random_number(&seed) % SIZE, size = random_number(&seed) % SIZE;
			int status = random_number(&seed) % 2 ? from(fd, other, offset, here, size) :
								into(fd, other, offset, here, size);

			CHECK(status == KNEM_STATUS_SUCCESS || (status == -1 && errno == EINVAL), "%d, %s", status,
			      strerror(errno));
			ADD(faces[own].copies, 1);
		}
		for (int at = 0; at < SIZE; at++)
			CHECK(start[at] == 'f' && here[at] == 'f', "%#x and %#x at %d", start[at], here[at], at);
		if (random_number(&seed) % 2)
			CHECK(!destroy(fd, cookie));
	}
}

TEST(owners_and_copiers_are_killed)
{
	uint64_t end = storm_end(), seed = argument("SEED", 1);
	int64_t before = pinned();
	pid_t pids[FACES] = { 0 };
	int killed = 0;

	faces = shared_memory(FACES * sizeof(*faces));
	while (nanoseconds() < end || killed < 2 * FACES) {
		int victim = random_number(&seed) % FACES;
		int copies = LOAD(faces[victim].copies);

		if (pids[victim]) {
			AWAIT(LOAD(faces[victim].copies) > copies + (int)(random_number(&seed) % 30) ||
			      waitpid(pids[victim], NULL, WNOHANG));
			CHECK(!kill(pids[victim], SIGKILL), "it has failed itself");
			expect_end(pids[victim], SIGKILL);
			killed++;
		}
		pids[victim] = fork();
		if (!pids[victim])
			face(victim, seed + killed);
	}
	for (int i = 0; i < FACES; i++) {
		if (pids[i]) {
			CHECK(!kill(pids[i], SIGKILL));
			expect_end(pids[i], SIGKILL);
		}
	}
	CHECK(pinned() == before, "%ld pages more than %ld", pinned() - before, before);
}
