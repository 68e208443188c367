// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What examples/heat.rs does, by MPI, point by point and message by message: run as `heat SIZE STEPS SKEW first|turns`. It
// prints the same time, residual and checksum; compiled without fused multiply-adds, the last two are equal to the last bit.

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UP = 1, DOWN = 2 };

static size_t size;

static double *row(double *rows, size_t i)
{
	return rows + i * size;
}

// Computes a row of `new` from `old`, and gives the largest change of a point.
static double relax(const double *old, double *new, size_t i)
{
	const double *above = old + (i - 1) * size, *at = above + size, *below = at + size;
	double *restrict out = row(new, i);
	double largest = 0;
	for (size_t j = 1; j < size - 1; j++) {
		out[j] = 0.25 * (above[j] + below[j] + at[j - 1] + at[j + 1]);
		double change = fabs(out[j] - at[j]);
		if (change > largest)
			largest = change;
	}
	return largest;
}

static double larger(double a, double b)
{
	return b > a ? b : a;
}

int main(int count, char **words)
{
	int rank, ranks;
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	size = count == 5 ? strtoull(words[1], NULL, 10) : 0;
	if (size < 3 || size < (size_t)ranks) {
		fprintf(stderr, "usage: heat SIZE STEPS SKEW first|turns, with a row for each rank\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	int steps = atoi(words[2]), turns = strcmp(words[4], "turns") == 0;
	int above = (rank + ranks - 1) % ranks, below = (rank + 1) % ranks;
	size_t first = size * rank / ranks, last = size * (rank + 1) / ranks - first, again = strtod(words[3], NULL) * last;
	double *old = calloc((last + 2) * size, sizeof *old), *new = calloc((last + 2) * size, sizeof *new);
	double *line = calloc(4 * size, sizeof *line), *up = line, *down = row(line, 1);
	if (!old || !new || !line)
		MPI_Abort(MPI_COMM_WORLD, 3);
	for (size_t r = first; r < first + last; r++)
		for (size_t c = 0; c < size; c++)
			row(old, r - first + 1)[c] = (r * r + 3 * c) % 101;
	memcpy(new, old, (last + 2) * size * sizeof *new);

	MPI_Request rows[4], reduction = MPI_REQUEST_NULL;
	MPI_Status statuses[4];
	double change[2], largest[2] = { INFINITY, INFINITY }, *from = old;
	double begun = 0;
	for (int step = -1; step < steps; step++) {
		// Step -1 only sends what the first step needs.
		double most = 0;
		if (step >= 0) {
			MPI_Waitall(4, rows, statuses);
			memcpy(row(old, 0), row(line, 2), size * sizeof *line);
			memcpy(row(old, last + 1), row(line, 3), size * sizeof *line);
			most = larger(relax(old, new, 1), relax(old, new, last));
			from = new;
		}
		memcpy(up, row(from, 1), size * sizeof *line);
		memcpy(down, row(from, last), size * sizeof *line);
		MPI_Irecv(row(line, 2), size, MPI_DOUBLE, above, DOWN, MPI_COMM_WORLD, &rows[0]);
		MPI_Irecv(row(line, 3), size, MPI_DOUBLE, below, UP, MPI_COMM_WORLD, &rows[1]);
		MPI_Isend(up, size, MPI_DOUBLE, above, UP, MPI_COMM_WORLD, &rows[2]);
		MPI_Isend(down, size, MPI_DOUBLE, below, DOWN, MPI_COMM_WORLD, &rows[3]);
		if (step < 0) {
			MPI_Barrier(MPI_COMM_WORLD);
			begun = MPI_Wtime();
			continue;
		}
		for (size_t i = 2; i < last; i++)
			most = larger(most, relax(old, new, i));
		if (rank == (turns ? step % ranks : 0))
			for (size_t i = 0; i < again; i++)
				most = larger(most, relax(old, new, 1 + i % last));
		// Two are under way at once: this step's, and the last one's, which is waited for.
		MPI_Request next;
		change[step % 2] = most;
		MPI_Iallreduce(&change[step % 2], &largest[step % 2], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &next);
		MPI_Wait(&reduction, MPI_STATUS_IGNORE);
		reduction = next;
		double *swap = old;
		old = new;
		new = swap;
	}
	MPI_Waitall(4, rows, statuses);
	MPI_Wait(&reduction, MPI_STATUS_IGNORE);
	double time = MPI_Wtime() - begun;

	uint64_t mine = 0, checksum, bits;
	for (size_t at = 0; at < last * size; at++) {
		memcpy(&bits, row(old, 1) + at, sizeof bits);
		mine += bits * (2 * (first * size + at) + 1);
	}
	MPI_Reduce(&mine, &checksum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("time_s %.6f\nresidual %.9e\nchecksum %016llx\n", time, largest[(steps + 1) % 2],
		       (unsigned long long)checksum);
	MPI_Finalize();
	return 0;
}
