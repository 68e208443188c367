// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What `tocsin bench coll` does, by MPI: run as `coll alone OP SIZE...` or `coll late OP LATE_US SIZE...`; prints one JSON object
// per line. Contents, places of blocks, barrier, clock, number of operations and statistics are those of tocsin's. A size is that of the
// whole buffer of ibcast, ireduce, iallreduce, iscan, iexscan and (the input, divided among the ranks) ireduce_scatter, else that of the
// block of one rank; a multiple of 8.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "measure.h"

enum { OPERATIONS = 51, FEW_OPERATIONS = 21, LEAST_OPERATIONS = 5, WARM_UP = 2, BATCHES = 11, LEAST_BATCHES = 3, BUDGET_US = 1000000 };
enum { LATE_ROUNDS = 11, AFTER_FLAG_NS = 200000, MOST_RANKS = 64 };

enum op {
	IBARRIER, IBCAST, ISCATTER, ISCATTERV, IGATHER, IGATHERV, IALLGATHER, IALLGATHERV, IALLTOALL, IALLTOALLV, IALLTOALLW,
	IREDUCE, IALLREDUCE, IREDUCE_SCATTER, IREDUCE_SCATTER_BLOCK, ISCAN, IEXSCAN, OPS
};
static const char *const names[OPS] = {
	"ibarrier", "ibcast", "iscatter", "iscatterv", "igather", "igatherv", "iallgather", "iallgatherv", "ialltoall",
	"ialltoallv", "ialltoallw", "ireduce", "iallreduce", "ireduce_scatter", "ireduce_scatter_block", "iscan", "iexscan"
};
enum { ROOT = 0, GAP = 64 };

// What the ranks share outside of MPI; each word that is waited for has a cache line of its own.
struct shared {
	_Alignas(64) uint64_t arrived;
	_Alignas(64) uint64_t generation;
	_Alignas(64) uint64_t flag;
	_Alignas(64) uint64_t batches;
	_Alignas(64) uint64_t operations;
	_Alignas(64) struct span {
		uint64_t start, end;
	} spans[MOST_RANKS][OPERATIONS];
};

static struct shared *shared;
static int rank, ranks;
static char *out, *in;
static uint64_t seed;
// How often a rank in a barrier looks before it yields: where ranks are more than cores, who has left an operation and looked for long
// would keep the core from who has not.
static unsigned looks;

static void fail(const char *what)
{
	fprintf(stderr, "rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void share(void)
{
	looks = ranks > sysconf(_SC_NPROCESSORS_ONLN) ? 1 : 200;
	char path[64] = "";
	int fd = -1;
	if (rank == 0) {
		fd = memfd_create("peers", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, sizeof *shared) != 0)
			fail("no shared memory");
		snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
	}
	MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
	if (rank > 0)
		fd = open(path, O_RDWR | O_CLOEXEC);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || shared == MAP_FAILED)
		fail("cannot open the shared memory");
	MPI_Barrier(MPI_COMM_WORLD);
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void sleep_while(uint64_t *word, uint64_t seen)
{
	struct timespec second = { 1, 0 };
	syscall(SYS_futex, word, FUTEX_WAIT, (uint32_t)seen, &second);
}

static void wake_sleepers(uint64_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX);
}

static void meet(int asleep)
{
	uint64_t now = load(&shared->generation);
	if (__atomic_add_fetch(&shared->arrived, 1, __ATOMIC_ACQ_REL) == (uint64_t)ranks) {
		__atomic_store_n(&shared->arrived, 0, __ATOMIC_RELAXED);
		store(&shared->generation, now + 1);
		if (asleep)
			wake_sleepers(&shared->generation);
		return;
	}
	for (unsigned spins = 1; load(&shared->generation) == now; spins++) {
		if (spins < looks)
			__builtin_ia32_pause();
		else if (asleep && spins > looks + 50)
			sleep_while(&shared->generation, now);
		else
			sched_yield();
	}
}

// First asleep, so that who is late costs the others no processor time; then, when all are awake, by polling.
static void barrier(void)
{
	meet(1);
	meet(0);
}

static int64_t addend(uint64_t from, uint64_t at)
{
	return (int64_t)(seed % 1000 * 1000000 + (from + 1) * 1000 + at % 997);
}

static unsigned char exchanged(uint64_t from, uint64_t to, uint64_t at)
{
	return (unsigned char)(seed * 31 + from * 131 + to * 17 + at + (at >> 8));
}

static uint64_t pattern(uint64_t of, uint64_t at)
{
	return (of << 32 | at) * 0x9e3779b97f4a7c15u;
}

// Blocks that stand where an array says have a gap after each.
static size_t stride(enum op op, size_t bytes)
{
	int displaced = op == ISCATTERV || op == IGATHERV || op == IALLGATHERV || op == IALLTOALLV || op == IALLTOALLW;
	return bytes + (displaced ? GAP : 0);
}

static size_t extent(enum op op, size_t bytes)
{
	return (ranks - 1) * stride(op, bytes) + bytes;
}

// A vector of so many elements divided among the ranks: how many has one, and which is its first.
static size_t part(size_t elements, int of)
{
	return elements / ranks + ((size_t)of < elements % ranks);
}

static size_t first_of(size_t elements, int of)
{
	size_t first = 0;
	for (int before = 0; before < of; before++)
		first += part(elements, before);
	return first;
}

static size_t sent(enum op op, size_t bytes)
{
	switch (op) {
	case IBARRIER:
	case IBCAST:
		return 0;
	case ISCATTER:
	case ISCATTERV:
		return rank == ROOT ? extent(op, bytes) : 0;
	case IALLTOALL:
	case IALLTOALLV:
	case IALLTOALLW:
	case IREDUCE_SCATTER_BLOCK:
		return extent(op, bytes);
	default:
		return bytes;
	}
}

static size_t received(enum op op, size_t bytes)
{
	switch (op) {
	case IBARRIER:
		return 0;
	case IGATHER:
	case IGATHERV:
		return rank == ROOT ? extent(op, bytes) : 0;
	case IALLGATHER:
	case IALLGATHERV:
	case IALLTOALL:
	case IALLTOALLV:
	case IALLTOALLW:
		return extent(op, bytes);
	case IREDUCE_SCATTER:
		return part(bytes / 8, rank) * 8;
	default:
		return bytes;
	}
}

static void exchange(char *block, size_t bytes, int to)
{
	for (size_t at = 0; at < bytes; at++)
		block[at] = exchanged(rank, to, at);
}

// Rewrites the buffers: what is received into first.
static void fill(enum op op, size_t bytes)
{
	memset(in, 0xff, received(op, bytes));
	switch (op) {
	case IBARRIER:
		break;
	case IBCAST:
		for (size_t at = 0; at < bytes / 8; at++)
			((uint64_t *)in)[at] = pattern(rank == ROOT ? seed : ~seed, at);
		break;
	case IGATHER:
	case IGATHERV:
		exchange(out, bytes, ROOT);
		break;
	case IALLGATHER:
	case IALLGATHERV:
		exchange(out, bytes, 0);
		break;
	case ISCATTER:
	case ISCATTERV:
	case IALLTOALL:
	case IALLTOALLV:
	case IALLTOALLW:
		for (int to = 0; to < ranks && sent(op, bytes) > 0; to++)
			exchange(out + to * stride(op, bytes), bytes, to);
		break;
	default:
		for (size_t at = 0; at < sent(op, bytes) / 8; at++)
			((int64_t *)out)[at] = addend(rank, at);
	}
}

// Set before the operations of a size: how many bytes or elements each rank's part has, and where it stands.
static int counts[MOST_RANKS], places[MOST_RANKS], shares[MOST_RANKS];
static MPI_Datatype kinds[MOST_RANKS];

static void lay_out(enum op op, size_t bytes)
{
	for (int of = 0; of < ranks; of++) {
		counts[of] = bytes;
		places[of] = of * stride(op, bytes);
		shares[of] = part(bytes / 8, of);
		kinds[of] = MPI_BYTE;
	}
}

static MPI_Request post(enum op op, size_t bytes)
{
	MPI_Request request = MPI_REQUEST_NULL;
	MPI_Comm world = MPI_COMM_WORLD;
	int length = bytes, elements = bytes / 8;
	switch (op) {
	case IBARRIER:
		MPI_Ibarrier(world, &request);
		break;
	case IBCAST:
		MPI_Ibcast(in, length, MPI_BYTE, ROOT, world, &request);
		break;
	case ISCATTER:
		MPI_Iscatter(out, length, MPI_BYTE, in, length, MPI_BYTE, ROOT, world, &request);
		break;
	case ISCATTERV:
		MPI_Iscatterv(out, counts, places, MPI_BYTE, in, length, MPI_BYTE, ROOT, world, &request);
		break;
	case IGATHER:
		MPI_Igather(out, length, MPI_BYTE, in, length, MPI_BYTE, ROOT, world, &request);
		break;
	case IGATHERV:
		MPI_Igatherv(out, length, MPI_BYTE, in, counts, places, MPI_BYTE, ROOT, world, &request);
		break;
	case IALLGATHER:
		MPI_Iallgather(out, length, MPI_BYTE, in, length, MPI_BYTE, world, &request);
		break;
	case IALLGATHERV:
		MPI_Iallgatherv(out, length, MPI_BYTE, in, counts, places, MPI_BYTE, world, &request);
		break;
	case IALLTOALL:
		MPI_Ialltoall(out, length, MPI_BYTE, in, length, MPI_BYTE, world, &request);
		break;
	case IALLTOALLV:
		MPI_Ialltoallv(out, counts, places, MPI_BYTE, in, counts, places, MPI_BYTE, world, &request);
		break;
	case IALLTOALLW:
		MPI_Ialltoallw(out, counts, places, kinds, in, counts, places, kinds, world, &request);
		break;
	case IREDUCE:
		MPI_Ireduce(out, in, elements, MPI_INT64_T, MPI_SUM, ROOT, world, &request);
		break;
	case IALLREDUCE:
		MPI_Iallreduce(out, in, elements, MPI_INT64_T, MPI_SUM, world, &request);
		break;
	case IREDUCE_SCATTER:
		MPI_Ireduce_scatter(out, in, shares, MPI_INT64_T, MPI_SUM, world, &request);
		break;
	case IREDUCE_SCATTER_BLOCK:
		MPI_Ireduce_scatter_block(out, in, elements, MPI_INT64_T, MPI_SUM, world, &request);
		break;
	case ISCAN:
		MPI_Iscan(out, in, elements, MPI_INT64_T, MPI_SUM, world, &request);
		break;
	case IEXSCAN:
		MPI_Iexscan(out, in, elements, MPI_INT64_T, MPI_SUM, world, &request);
		break;
	case OPS:
		break;
	}
	return request;
}

// How many bytes of a block are not what a rank sends to another.
static size_t unlike(const char *block, size_t bytes, int from, int to)
{
	size_t wrong = 0;
	for (size_t at = 0; at < bytes; at++)
		wrong += (unsigned char)block[at] != exchanged(from, to, at);
	return wrong;
}

// How many elements are not the sums over the first ranks, from an element on.
static size_t other_sums(size_t elements, int of, size_t first)
{
	size_t wrong = 0;
	for (size_t at = 0; at < elements; at++) {
		int64_t sum = 0;
		for (int from = 0; from < of; from++)
			sum += addend(from, first + at);
		wrong += ((int64_t *)in)[at] != sum;
	}
	return wrong;
}

// All of what was received.
static void check(enum op op, size_t bytes)
{
	size_t wrong = 0;
	switch (op) {
	case IBARRIER:
		break;
	case IBCAST:
		for (size_t at = 0; at < bytes / 8; at++)
			wrong += ((uint64_t *)in)[at] != pattern(seed, at);
		break;
	case ISCATTER:
	case ISCATTERV:
		wrong = unlike(in, bytes, ROOT, rank);
		break;
	case IGATHER:
	case IGATHERV:
		for (int from = 0; from < ranks && rank == ROOT; from++)
			wrong += unlike(in + from * stride(op, bytes), bytes, from, ROOT);
		break;
	case IALLGATHER:
	case IALLGATHERV:
		for (int from = 0; from < ranks; from++)
			wrong += unlike(in + from * stride(op, bytes), bytes, from, 0);
		break;
	case IALLTOALL:
	case IALLTOALLV:
	case IALLTOALLW:
		for (int from = 0; from < ranks; from++)
			wrong += unlike(in + from * stride(op, bytes), bytes, from, rank);
		break;
	case IREDUCE:
		wrong = rank == ROOT ? other_sums(bytes / 8, ranks, 0) : 0;
		break;
	case IREDUCE_SCATTER:
		wrong = other_sums(shares[rank], ranks, first_of(bytes / 8, rank));
		break;
	case IREDUCE_SCATTER_BLOCK:
		wrong = other_sums(bytes / 8, ranks, rank * (bytes / 8));
		break;
	case ISCAN:
		wrong = other_sums(bytes / 8, rank + 1, 0);
		break;
	case IEXSCAN:
		// The first rank's is undefined.
		wrong = rank > 0 ? other_sums(bytes / 8, rank, 0) : 0;
		break;
	default:
		wrong = other_sums(bytes / 8, ranks, 0);
	}
	if (wrong > 0)
		fail("wrong data");
}

// One operation, with nothing between post and wait.
static struct span operation(enum op op, size_t bytes)
{
	seed++;
	fill(op, bytes);
	barrier();
	uint64_t start = now_ns();
	MPI_Request request = post(op, bytes);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	uint64_t end = now_ns();
	// Where ranks share cores, who checks what came would keep a core from who is not done.
	barrier();
	check(op, bytes);
	return (struct span){ start, end };
}

// The median of a batch, of whose operations each lasts as long as its slowest rank. Nobody may leave a barrier before all came.
static double batch(enum op op, size_t bytes, int count)
{
	double slowest[OPERATIONS];
	for (int at = 0; at < count; at++)
		shared->spans[rank][at] = operation(op, bytes);
	barrier();
	for (int at = 0; at < count; at++) {
		uint64_t most = 0, last_start = 0, first_end = UINT64_MAX;
		for (int of = 0; of < ranks; of++) {
			struct span s = shared->spans[of][at];
			most = s.end - s.start > most ? s.end - s.start : most;
			last_start = s.start > last_start ? s.start : last_start;
			first_end = s.end < first_end ? s.end : first_end;
		}
		if (op == IBARRIER && first_end < last_start)
			fail("a rank left a barrier before all had come");
		slowest[at] = most * 1e-3;
	}
	barrier();
	return median(slowest, count);
}

// As many with the same content, nobody waiting for anything else between: the time of all of them, the slowest rank's, divided by their number.
static double in_a_row(enum op op, size_t bytes, int count)
{
	seed++;
	fill(op, bytes);
	barrier();
	uint64_t start = now_ns();
	for (int at = 0; at < count; at++) {
		MPI_Request request = post(op, bytes);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	shared->spans[rank][0] = (struct span){ start, now_ns() };
	barrier();
	check(op, bytes);
	uint64_t most = 0;
	for (int of = 0; of < ranks; of++) {
		struct span s = shared->spans[of][0];
		most = s.end - s.start > most ? s.end - s.start : most;
	}
	barrier();
	return most * 1e-3 / count;
}

static void alone(enum op op, size_t bytes)
{
	double t_comm[BATCHES], row[BATCHES];
	int batches = BATCHES, operations = LEAST_OPERATIONS, most = bytes > 65536 ? FEW_OPERATIONS : OPERATIONS;
	for (int at = -WARM_UP; at < batches; at++) {
		double start = now_us();
		double of_batch = batch(op, bytes, operations), of_row = in_a_row(op, bytes, operations);
		if (at >= 0) {
			t_comm[at] = of_batch;
			row[at] = of_row;
		}
		// Ranks that never give their core up, where there are more of them than cores, take a time slice per message.
		if (at == -WARM_UP) {
			double fit = BUDGET_US / LEAST_BATCHES / ((now_us() - start) / operations);
			if (rank == 0)
				store(&shared->operations, fit > most ? most : fit < LEAST_OPERATIONS ? LEAST_OPERATIONS : fit);
			barrier();
			operations = load(&shared->operations);
		}
		if (at == -1) {
			double fit = BUDGET_US / (now_us() - start);
			if (rank == 0)
				store(&shared->batches, fit > BATCHES ? BATCHES : fit < LEAST_BATCHES ? LEAST_BATCHES : fit);
			barrier();
			batches = load(&shared->batches);
		}
	}
	if (rank == 0)
		printf("{\"bench\":\"coll\",\"mode\":\"alone\",\"ranks\":%d,\"op\":\"%s\",\"size_bytes\":%zu,\"rounds\":%d,"
		       "\"operations\":%d,\"t_comm_us\":%.4f,\"in_a_row_us\":%.4f}\n",
		       ranks, names[op], bytes, batches, operations, median(t_comm, batches), median(row, batches));
}

static void sleep_until_ns(uint64_t ns)
{
	struct timespec at = { ns / 1000000000u, ns % 1000000000u };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

// The late rank posts, raises the flag, computes; the others post 200 us after the flag. How long the others take.
static double late_round(enum op op, size_t bytes, int late, uint64_t work)
{
	MPI_Request request;
	uint64_t posted;
	seed++;
	fill(op, bytes);
	barrier();
	if (rank == late) {
		posted = now_ns();
		request = post(op, bytes);
		store(&shared->flag, now_ns());
		wake_sleepers(&shared->flag);
		compute(work, seed);
	} else {
		while (load(&shared->flag) == 0)
			sleep_while(&shared->flag, 0);
		sleep_until_ns(load(&shared->flag) + AFTER_FLAG_NS);
		posted = now_ns();
		request = post(op, bytes);
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	shared->spans[rank][0] = (struct span){ posted, now_ns() };
	// As in `operation`.
	barrier();
	check(op, bytes);
	barrier();
	uint64_t last_post = 0, last_end = 0;
	for (int of = 0; of < ranks; of++) {
		struct span s = shared->spans[of][0];
		if (of != late) {
			last_post = s.start > last_post ? s.start : last_post;
			last_end = s.end > last_end ? s.end : last_end;
		}
	}
	if (rank == 0)
		store(&shared->flag, 0);
	barrier();
	return (last_end - last_post) * 1e-3;
}

static void late(enum op op, size_t bytes, double late_us)
{
	for (int who = 0; who < ranks; who++) {
		double others[LATE_ROUNDS];
		for (int at = -WARM_UP; at < LATE_ROUNDS; at++) {
			double took = late_round(op, bytes, who, late_us * work_per_us);
			if (at >= 0)
				others[at] = took;
		}
		if (rank == 0)
			printf("{\"bench\":\"coll\",\"mode\":\"late\",\"ranks\":%d,\"op\":\"%s\",\"size_bytes\":%zu,"
			       "\"late_rank\":%d,\"others_done_us\":%.3f}\n",
			       ranks, names[op], bytes, who, median(others, LATE_ROUNDS));
	}
}

int main(int count, char **words)
{
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	int is_late = count > 1 && strcmp(words[1], "late") == 0, first = is_late ? 4 : 3;
	enum op op = IBARRIER;
	while (count > first && op < OPS && strcmp(words[2], names[op]) != 0)
		op++;
	if (count <= first || op == OPS || ranks > MOST_RANKS) {
		fprintf(stderr, "usage: coll alone OP SIZE... or coll late OP LATE_US SIZE..., on at most %d ranks\n",
			MOST_RANKS);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	share();
	barrier();
	if (rank == 0)
		calibrate();
	MPI_Bcast(&work_per_us, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	for (int i = first; i < count; i++) {
		size_t bytes = op == IBARRIER ? 0 : strtoull(words[i], NULL, 10);
		out = malloc(extent(op, bytes) + 1);
		in = malloc(extent(op, bytes) + 1);
		if (!out || !in)
			fail("no memory");
		lay_out(op, bytes);
		if (is_late)
			late(op, bytes, atof(words[3]));
		else
			alone(op, bytes);
		fflush(stdout);
		free(out);
		free(in);
	}
	MPI_Finalize();
	return 0;
}
