// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What examples/cg.rs does, by MPI, sum by sum and message by message: run as `cg SIZE STEPS SKEW first|turns|RANK`. It
// prints the same time, residual and checksum; compiled without fused multiply-adds, the last two are equal to the last bit.

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The example's own choice, where it is not told otherwise.
enum { UNKNOWNS = 12, SYSTEMS = 160, WIDTH = UNKNOWNS * SYSTEMS };
enum { UP = 1, DOWN = 2 };

static const double COARSE = 0x1p30, FINE = 0x1p80;

static int rank, ranks;
static double block[UNKNOWNS][UNKNOWNS], inverse[UNKNOWNS][UNKNOWNS];

static double *row(double *field, size_t i)
{
	return field + i * WIDTH;
}

static double *field(size_t rows)
{
	double *numbers = calloc(rows * WIDTH, sizeof *numbers);
	if (!numbers)
		MPI_Abort(MPI_COMM_WORLD, 3);
	return numbers;
}

// The dense matrix for the unknowns of an element, and its inverse.
static void prepare(void)
{
	double left[UNKNOWNS][UNKNOWNS];
	for (int i = 0; i < UNKNOWNS; i++)
		for (int j = 0; j < UNKNOWNS; j++) {
			double distance = abs(i - j);
			block[i][j] = left[i][j] = 1.0 / (1.0 + distance * distance) + (i == j ? 2.001 : 0.0);
			inverse[i][j] = i == j;
		}
	for (int pivot = 0; pivot < UNKNOWNS; pivot++) {
		double scale = 1.0 / left[pivot][pivot];
		for (int j = 0; j < UNKNOWNS; j++) {
			left[pivot][j] *= scale;
			inverse[pivot][j] *= scale;
		}
		for (int i = 0; i < UNKNOWNS; i++) {
			double factor = left[i][pivot];
			for (int j = 0; i != pivot && j < UNKNOWNS; j++) {
				left[i][j] -= factor * left[pivot][j];
				inverse[i][j] -= factor * inverse[pivot][j];
			}
		}
	}
}

// A dense matrix times the numbers of an element.
static void times(const double matrix[UNKNOWNS][UNKNOWNS], const double *restrict x, double *restrict out)
{
	// So many systems at a time as have their sums in registers.
	enum { TOGETHER = 8 };
	_Static_assert(SYSTEMS % TOGETHER == 0, "no rest");
	for (size_t c = 0; c < UNKNOWNS; c++, out += SYSTEMS)
		for (size_t at = 0; at < SYSTEMS; at += TOGETHER) {
			double sums[TOGETHER] = { 0 };
			for (size_t from = 0; from < UNKNOWNS; from++)
				for (size_t k = 0; k < TOGETHER; k++)
					sums[k] += matrix[c][from] * x[from * SYSTEMS + at + k];
			memcpy(out + at, sums, sizeof sums);
		}
}

// The matrix times `z`, for element `i`.
static void product(const double *z, double *w, size_t i)
{
	const double *x = z + i * WIDTH, *before = x - WIDTH, *after = x + WIDTH;
	double *restrict out = w + i * WIDTH;
	times(block, x, out);
	for (size_t n = 0; n < WIDTH; n++)
		out[n] -= before[n] + after[n];
}

// Adds the products of an element's numbers to the sums.
static void add(int64_t *sums, const double *a, const double *b)
{
	double products[SYSTEMS] = { 0 };
	for (size_t c = 0; c < UNKNOWNS; c++)
		for (size_t k = 0; k < SYSTEMS; k++)
			products[k] += a[c * SYSTEMS + k] * b[c * SYSTEMS + k];
	for (size_t k = 0; k < SYSTEMS; k++) {
		int64_t coarse = (int64_t)(products[k] * COARSE);
		sums[2 * k] += coarse;
		sums[2 * k + 1] += (int64_t)((products[k] - (double)coarse / COARSE) * FINE);
	}
}

static void reduce(const int64_t *mine, int64_t *all, MPI_Request *request)
{
	MPI_Iallreduce(mine, all, 2 * SYSTEMS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, request);
}

// Waits for sums; this rank's begin anew.
static void finish(MPI_Request *request, int64_t *mine, const int64_t *all, double *sums)
{
	MPI_Wait(request, MPI_STATUS_IGNORE);
	memset(mine, 0, 2 * SYSTEMS * sizeof *mine);
	for (size_t k = 0; k < SYSTEMS; k++)
		sums[k] = (double)all[2 * k] / COARSE + (double)all[2 * k + 1] / FINE;
}

static void quotients(double *out, const double *a, const double *b)
{
	for (size_t k = 0; k < SYSTEMS; k++)
		out[k] = b[k] > 0 ? a[k] / b[k] : 0;
}

static void add_times(double *restrict y, const double *restrict by, const double *restrict x)
{
	for (size_t c = 0; c < WIDTH; c += SYSTEMS)
		for (size_t k = 0; k < SYSTEMS; k++)
			y[c + k] += by[k] * x[c + k];
}

static void take_times(double *restrict y, const double *restrict by, const double *restrict x)
{
	for (size_t c = 0; c < WIDTH; c += SYSTEMS)
		for (size_t k = 0; k < SYSTEMS; k++)
			y[c + k] -= by[k] * x[c + k];
}

static void times_plus(double *restrict y, const double *restrict by, const double *restrict x)
{
	for (size_t c = 0; c < WIDTH; c += SYSTEMS)
		for (size_t k = 0; k < SYSTEMS; k++)
			y[c + k] = x[c + k] + by[k] * y[c + k];
}

// Begins to send rows 1 and `last` of `z`, from `sent`, which may not change before they have arrived.
static void exchange(double *z, double *sent, size_t last, MPI_Request *requests)
{
	int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
	memcpy(sent, row(z, 1), WIDTH * sizeof *z);
	memcpy(row(sent, 1), row(z, last), WIDTH * sizeof *z);
	MPI_Irecv(row(z, 0), WIDTH, MPI_DOUBLE, above, DOWN, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(sent, WIDTH, MPI_DOUBLE, above, UP, MPI_COMM_WORLD, &requests[1]);
	MPI_Irecv(row(z, last + 1), WIDTH, MPI_DOUBLE, below, UP, MPI_COMM_WORLD, &requests[2]);
	MPI_Isend(row(sent, 1), WIDTH, MPI_DOUBLE, below, DOWN, MPI_COMM_WORLD, &requests[3]);
}

int main(int count, char **words)
{
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	size_t size = count == 5 ? strtoull(words[1], NULL, 10) : 0;
	if (size < (size_t)ranks) {
		fprintf(stderr, "usage: cg SIZE STEPS SKEW first|turns|RANK, with an element for each rank\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	int steps = atoi(words[2]), turns = strcmp(words[4], "turns") == 0, skewed = atoi(words[4]);
	double skew = strtod(words[3], NULL);
	size_t first = size * rank / ranks, last = size * (rank + 1) / ranks - first;
	prepare();

	double *x = field(last + 2), *r = field(last + 2), *z = field(last + 2), *q = field(last + 2);
	double *w = field(last + 2), *p = field(last + 2), *s = field(last + 2), *sent = field(2);
	static double gamma[SYSTEMS], next[SYSTEMS], delta[SYSTEMS], factor[SYSTEMS], at_first[SYSTEMS];
	static int64_t gammas[2 * SYSTEMS], deltas[2 * SYSTEMS], all[2 * SYSTEMS];
	MPI_Request rows[4], sum;
	MPI_Status statuses[4];
	for (size_t i = 1; i <= last; i++) {
		size_t at = first + i - 1;
		for (size_t n = 0; n < WIDTH; n++)
			row(r, i)[n] = (double)((at * at + 3 * (n / SYSTEMS) + 7 * (n % SYSTEMS) * (at + 1)) % 101) / 101.0 - 0.5;
		times(inverse, row(r, i), row(z, i));
	}
	exchange(z, sent, last, rows);
	MPI_Waitall(4, rows, statuses);
	for (size_t i = 1; i <= last; i++) {
		product(z, w, i);
		add(gammas, row(r, i), row(z, i));
		add(deltas, row(z, i), row(w, i));
	}
	memcpy(p, z, (last + 2) * WIDTH * sizeof *p);
	memcpy(s, w, (last + 2) * WIDTH * sizeof *s);
	reduce(gammas, all, &sum);
	finish(&sum, gammas, all, gamma);
	memcpy(at_first, gamma, sizeof gamma);

	double residual = 1;
	MPI_Barrier(MPI_COMM_WORLD);
	double begun = MPI_Wtime();
	for (int step = 0; step < steps; step++) {
		double again = rank == (turns ? step % ranks : skewed) ? skew : 0;
		// The preconditioner, while delta is added up.
		reduce(deltas, all, &sum);
		for (size_t i = 1; i <= last; i++)
			times(inverse, row(s, i), row(q, i));
		for (size_t i = 0, n = again * last; i < n; i++)
			times(inverse, row(s, 1 + i % last), row(q, 1 + i % last));
		finish(&sum, deltas, all, delta);
		quotients(factor, gamma, delta);
		// What the neighbours wait for.
		take_times(row(z, 1), factor, row(q, 1));
		if (last > 1)
			take_times(row(z, last), factor, row(q, last));
		exchange(z, sent, last, rows);
		for (size_t i = 1; i <= last; i++) {
			if (i != 1 && i != last)
				take_times(row(z, i), factor, row(q, i));
			add_times(row(x, i), factor, row(p, i));
			take_times(row(r, i), factor, row(s, i));
			add(gammas, row(r, i), row(z, i));
		}
		// The product, while that travels and gamma is added up.
		reduce(gammas, all, &sum);
		for (size_t i = 2; i < last; i++)
			product(z, w, i);
		if (last > 2)
			for (size_t i = 0, n = again * (last - 2); i < n; i++)
				product(z, w, 2 + i % (last - 2));
		MPI_Waitall(4, rows, statuses);
		product(z, w, 1);
		if (last > 1)
			product(z, w, last);
		finish(&sum, gammas, all, next);
		quotients(factor, next, gamma);
		memcpy(gamma, next, sizeof gamma);
		double largest = 0;
		for (size_t i = 1; i <= last; i++) {
			times_plus(row(p, i), factor, row(z, i));
			times_plus(row(s, i), factor, row(w, i));
			add(deltas, row(p, i), row(s, i));
		}
		for (size_t k = 0; k < SYSTEMS; k++)
			if (at_first[k] > 0 && gamma[k] / at_first[k] > largest)
				largest = gamma[k] / at_first[k];
		residual = sqrt(largest);
	}
	double time = MPI_Wtime() - begun;

	uint64_t mine = 0, checksum, bits;
	for (size_t at = 0; at < last * WIDTH; at++) {
		memcpy(&bits, row(x, 1) + at, sizeof bits);
		mine += bits * (2 * (first * WIDTH + at) + 1);
	}
	MPI_Reduce(&mine, &checksum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("time_s %.6f\nresidual %.9e\nchecksum %016llx\n", time, residual, (unsigned long long)checksum);
	MPI_Finalize();
	return 0;
}
