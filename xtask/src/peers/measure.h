// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The clock, the computing and the statistics of tocsin's benches, in C.

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static double work_per_us;

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double now_us(void)
{
	return now_ns() * 1e-3;
}

// A fixed amount of work, the same as tocsin's.
static uint64_t compute(uint64_t work, uint64_t seed)
{
	volatile uint64_t in = seed, count = work, out;
	uint64_t x = in;
	for (uint64_t i = count; i > 0; i--) {
		x = x * 0x9e3779b97f4a7c15u + 1;
		x = x << 29 | x >> 35;
		__asm__ volatile("" : "+r"(x));
	}
	out = x;
	return out;
}

static void calibrate(void)
{
	const uint64_t slice = 200000;
	double best = 1e18;
	for (int i = 0; i < 40; i++) {
		double start = now_us();
		compute(slice, i);
		double took = now_us() - start;
		best = took < best ? took : best;
	}
	work_per_us = slice / best;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, int count)
{
	qsort(values, count, sizeof *values, ascending);
	return values[count / 2];
}
