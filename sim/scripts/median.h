/*
 * The median of many short measurements: what takes the processor away meanwhile lengthens a few
 * of them only.
 */
#ifndef MEDIAN_H
#define MEDIAN_H

#include <stdlib.h>
#include <time.h>

enum { BATCHES = 201 };

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the median of values, which it sorts. */
static inline double median(double *values, int count)
{
	qsort(values, count, sizeof *values, compare);
	return values[count / 2];
}

/* Returns the median of what `count` calls take, each. */
static inline double median_ns(void (*call)(void), int count)
{
	double batch[BATCHES];

	for (int b = 0; b < BATCHES; b++) {
		const double begun = now_ns();

		for (int i = 0; i < count; i++)
			call();
		batch[b] = (now_ns() - begun) / count;
	}
	return median(batch, BATCHES);
}

#endif
