// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What `tocsin bench pingpong`, `ring`, `exchange`, `rate` and `overlap` do, by MPI: run as `peers pingpong|ring|exchange|rate|overlap|overlap-10ms SIZE...`; prints
// one JSON object per line. Overlap is between two ranks; of a ping-pong of more, two play and the others wait in MPI_Recv.

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "measure.h"

enum { TAG = 7, OVER = 8, ALL_SENT = 9, ANSWER = 10, WINDOW = 64, WINDOWS = 100, BATCHES = 40, LAPS = 50, BUDGET_US = 3000000, LEAST_BATCHES = 3, ROUNDS = 200, LONG_ROUNDS = 30, PILOT_ROUNDS = 20 };

static int rank, ranks;

static double most(double mine)
{
	double all;
	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

static void touch(char *buffer, size_t bytes, char value)
{
	for (size_t at = 0; at < bytes; at += 64)
		((volatile char *)buffer)[at] = value;
}

static void check(const char *in, size_t bytes, char value)
{
	if (bytes > 0 && in[bytes - 1 & ~(size_t)63] != value) {
		fprintf(stderr, "wrong bytes\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

// Where ranks from 2 on wait; rank 0 ends it.
static void others_wait(void)
{
	char nothing;
	if (rank == 0)
		for (int other = 2; other < ranks; other++)
			MPI_Send(&nothing, 0, MPI_BYTE, other, OVER, MPI_COMM_WORLD);
	else if (rank > 1)
		MPI_Recv(&nothing, 0, MPI_BYTE, 0, OVER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// A buffer from malloc, or from the library.
static char *buffer_of(size_t bytes, int allocated)
{
	char *buffer = NULL;
	if (allocated)
		MPI_Alloc_mem(bytes, MPI_INFO_NULL, &buffer);
	else
		buffer = malloc(bytes);
	return buffer;
}

static void free_buffer(char *buffer, int allocated)
{
	if (allocated)
		MPI_Free_mem(buffer);
	else
		free(buffer);
}

static void pingpong(size_t bytes, int allocated)
{
	char *out = buffer_of(bytes + 1, allocated), *in = buffer_of(bytes + 1, allocated);
	int trips = bytes > 65536 ? 20 : 500;
	double halves[BATCHES];
	memset(in, 0, bytes + 1);
	for (int batch = -2; batch < BATCHES; batch++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double start = now_us();
		for (int trip = 0; trip < trips && rank < 2; trip++) {
			if (rank == 1)
				MPI_Recv(in, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			touch(out, bytes, (char)trip);
			MPI_Send(out, bytes, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD);
			if (rank == 0)
				MPI_Recv(in, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			check(in, bytes, (char)trip);
		}
		if (batch >= 0)
			halves[batch] = (now_us() - start) / trips / 2;
		others_wait();
	}
	if (rank == 0)
		printf("{\"bench\":\"pingpong\",\"ranks\":%d,\"size_bytes\":%zu,\"half_rtt_us_p50\":%.4f}\n", ranks, bytes,
		       median(halves, BATCHES));
	free_buffer(out, allocated);
	free_buffer(in, allocated);
}

// A message goes round all ranks, each of which rewrites its own before it sends that on.
static void ring(size_t bytes)
{
	char *out = malloc(bytes + 1), *in = malloc(bytes + 1);
	int before = (rank + ranks - 1) % ranks, after = (rank + 1) % ranks;
	double hops[BATCHES];
	int batches = BATCHES;
	memset(in, 0, bytes + 1);
	for (int batch = -2; batch < batches; batch++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double start = now_us();
		for (int lap = 0; lap < LAPS; lap++) {
			if (rank != 0)
				MPI_Recv(in, bytes, MPI_BYTE, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			touch(out, bytes, (char)lap);
			MPI_Send(out, bytes, MPI_BYTE, after, TAG, MPI_COMM_WORLD);
			if (rank == 0)
				MPI_Recv(in, bytes, MPI_BYTE, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			check(in, bytes, (char)lap);
		}
		double took = now_us() - start;
		if (batch >= 0)
			hops[batch] = took / LAPS / ranks;
		// Ranks that never give their core up, where there are more of them than cores, take a time slice per hop.
		if (batch == -1) {
			double fit = BUDGET_US / took;
			batches = fit > BATCHES ? BATCHES : fit < LEAST_BATCHES ? LEAST_BATCHES : (int)fit;
			MPI_Bcast(&batches, 1, MPI_INT, 0, MPI_COMM_WORLD);
		}
	}
	if (rank == 0)
		printf("{\"bench\":\"ring\",\"ranks\":%d,\"size_bytes\":%zu,\"hop_us_p50\":%.4f}\n", ranks, bytes,
		       median(hops, batches));
	free(out);
	free(in);
}

// Every rank sends to the next and receives from the one before at once, `by` one call or by posts and waits.
static void exchange(size_t bytes, const char *by)
{
	char *out = malloc(bytes + 1), *in = malloc(bytes + 1);
	int before = (rank + ranks - 1) % ranks, after = (rank + 1) % ranks, trips = bytes > 65536 ? 20 : 500;
	int posts = strcmp(by, "posts") == 0;
	double each[BATCHES];
	MPI_Request requests[2];
	memset(in, 0, bytes + 1);
	for (int batch = -2; batch < BATCHES; batch++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double start = now_us();
		for (int trip = 0; trip < trips; trip++) {
			touch(out, bytes, (char)trip);
			if (posts) {
				MPI_Irecv(in, bytes, MPI_BYTE, before, TAG, MPI_COMM_WORLD, &requests[0]);
				MPI_Isend(out, bytes, MPI_BYTE, after, TAG, MPI_COMM_WORLD, &requests[1]);
				MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
				MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
			} else {
				MPI_Sendrecv(out, bytes, MPI_BYTE, after, TAG, in, bytes, MPI_BYTE, before, TAG, MPI_COMM_WORLD,
					     MPI_STATUS_IGNORE);
			}
			check(in, bytes, (char)trip);
		}
		double took = most(now_us() - start);
		if (batch >= 0)
			each[batch] = took / trips;
	}
	if (rank == 0)
		printf("{\"bench\":\"exchange\",\"ranks\":%d,\"size_bytes\":%zu,\"waits\":\"%s\",\"exchange_us_p50\":%.4f}\n",
		       ranks, bytes, by, median(each, BATCHES));
	free(out);
	free(in);
}

static char stamp(int at, int number)
{
	return (char)((at + 7 * number) % 127 + 1);
}

static void post_window(char *in, size_t bytes, MPI_Request *requests)
{
	for (int at = 0; at < WINDOW; at++)
		MPI_Irecv(in + at * bytes, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[at]);
}

// Windows of messages from rank 0 to rank 1, each answered when all have come. Receives are posted before the first of their
// window is sent (while the window before is under way), or, late, when all have been.
static void rate(size_t bytes, int late)
{
	char *out = malloc(WINDOW * bytes + 1), *in = malloc(2 * WINDOW * bytes + 1), nothing;
	MPI_Request requests[2][WINDOW];
	double each[BATCHES];
	memset(in, 0, 2 * WINDOW * bytes + 1);
	for (int batch = -2; batch < BATCHES; batch++) {
		if (rank == 1 && !late)
			post_window(in, bytes, requests[0]);
		MPI_Barrier(MPI_COMM_WORLD);
		double start = now_us();
		for (int number = 0; number < WINDOWS; number++) {
			if (rank == 0) {
				for (int at = 0; at < WINDOW; at++) {
					touch(out + at * bytes, bytes, stamp(at, number));
					MPI_Isend(out + at * bytes, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[0][at]);
				}
				if (late)
					MPI_Send(&nothing, 0, MPI_BYTE, 1, ALL_SENT, MPI_COMM_WORLD);
				MPI_Waitall(WINDOW, requests[0], MPI_STATUSES_IGNORE);
				MPI_Recv(&nothing, 0, MPI_BYTE, 1, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			} else {
				int mine = late ? 0 : number % 2;
				if (late) {
					MPI_Recv(&nothing, 0, MPI_BYTE, 0, ALL_SENT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
					post_window(in, bytes, requests[0]);
				} else if (number + 1 < WINDOWS) {
					post_window(in + (1 - mine) * WINDOW * bytes, bytes, requests[1 - mine]);
				}
				MPI_Waitall(WINDOW, requests[mine], MPI_STATUSES_IGNORE);
				for (int at = 0; at < WINDOW; at++)
					check(in + (mine * WINDOW + at) * bytes, bytes, stamp(at, number));
				MPI_Send(&nothing, 0, MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
			}
		}
		if (batch >= 0)
			each[batch] = (now_us() - start) * 1000 / WINDOWS / WINDOW;
	}
	if (rank == 0)
		printf("{\"bench\":\"rate\",\"ranks\":2,\"size_bytes\":%zu,\"receives\":\"%s\",\"message_ns_p50\":%.3f}\n", bytes,
		       late ? "late" : "early", median(each, BATCHES));
	free(out);
	free(in);
}

// How long it took, and how much of that in the library.
struct message {
	double time, waited;
};

// One message from rank 0 to rank 1, with computing between post and wait.
static struct message message(char *buffer, size_t bytes, uint64_t work)
{
	MPI_Request request;
	memset(buffer, rank, bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	double start = now_us();
	if (rank == 0)
		MPI_Isend(buffer, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
	else
		MPI_Irecv(buffer, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
	double posted = now_us();
	if (work > 0)
		compute(work, start);
	double waiting = now_us();
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	double end = now_us();
	if (rank == 1 && (buffer[0] != 0 || buffer[bytes - 1] != 0)) {
		fprintf(stderr, "wrong bytes\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return (struct message){ end - start, posted - start + end - waiting };
}

static double computing(uint64_t work)
{
	MPI_Barrier(MPI_COMM_WORLD);
	double start = now_us();
	if (work > 0)
		compute(work, start);
	return now_us() - start;
}

// Computing takes so long, or else four times as long as the message.
static void overlap(size_t bytes, const char *who, double computing_us)
{
	static double comm[ROUNDS], ratio[ROUNDS], null_ratio[ROUNDS], blocked[ROUNDS];
	char *buffer = malloc(bytes);
	int both = strcmp(who, "both") == 0;
	int mine = both || rank == (strcmp(who, "recv") == 0);
	for (int i = -2; i < PILOT_ROUNDS; i++) {
		double time = most(message(buffer, bytes, 0).time);
		if (i >= 0)
			comm[i] = time;
	}
	double time = computing_us > 0 ? computing_us : 4 * median(comm, PILOT_ROUNDS);
	int rounds = computing_us > 0 ? LONG_ROUNDS : ROUNDS;
	uint64_t work = mine ? time * work_per_us : 0;
	for (int i = 0; i < rounds; i++) {
		double t_comm = most(message(buffer, bytes, 0).time);
		double t_comp = most(computing(work)), again = most(computing(work));
		struct message m = message(buffer, bytes, work);
		double t_ovrl = most(m.time), least = t_comm < t_comp ? t_comm : t_comp;
		comm[i] = t_comm;
		ratio[i] = (t_ovrl - (t_comm > t_comp ? t_comm : t_comp)) / least;
		null_ratio[i] = (again - t_comp) / least;
		blocked[i] = most(both || !mine ? m.waited : 0);
	}
	if (rank == 0)
		printf("{\"bench\":\"overlap\",\"ranks\":2,\"case\":\"%s\",\"size_bytes\":%zu,\"t_comm_us\":%.3f,\"ratio\":%.4f,"
		       "\"null_ratio\":%.4f,\"peer_blocked_us\":%.3f}\n",
		       who, bytes, median(comm, rounds), median(ratio, rounds), median(null_ratio, rounds),
		       median(blocked, rounds));
	free(buffer);
}

int main(int count, char **words)
{
	static const char *const cases[] = { "recv", "send", "both" };
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (count < 3) {
		fprintf(stderr, "usage: peers pingpong|pingpong-allocated|ring|exchange|rate|overlap|overlap-10ms SIZE...\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	calibrate();
	for (int i = 2; i < count; i++) {
		size_t bytes = strtoull(words[i], NULL, 10);
		if (strncmp(words[1], "pingpong", 8) == 0)
			pingpong(bytes, strcmp(words[1], "pingpong") != 0);
		else if (strcmp(words[1], "ring") == 0)
			ring(bytes);
		else if (strcmp(words[1], "exchange") == 0) {
			exchange(bytes, "sendrecv");
			exchange(bytes, "posts");
		} else if (strcmp(words[1], "rate") == 0)
			for (int late = 0; late < 2; late++)
				rate(bytes, late);
		else
			for (int c = 0; c < 3; c++)
				overlap(bytes, cases[c], strcmp(words[1], "overlap") == 0 ? 0 : 10000);
		fflush(stdout);
	}
	MPI_Finalize();
	return 0;
}
