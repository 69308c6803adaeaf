/*
 * Prints what a write of one byte to /dev/null and a close of no descriptor take, in ns: the
 * library takes both calls, to find those of /dev/infiniband/rdma_cm. Medians of many short
 * measurements, so that what takes the processor away meanwhile does not count.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 401, CALLS = 1000 };

static int null;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void write_null(void)
{
	if (write(null, "x", 1) != 1)
		exit(1);
}

static void close_none(void)
{
	if (close(-1) != -1 || errno != EBADF)
		exit(1);
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_ns(void (*call)(void))
{
	double batch[BATCHES];

	for (int b = 0; b < BATCHES; b++) {
		const double begun = now_ns();

		for (int i = 0; i < CALLS; i++)
			call();
		batch[b] = (now_ns() - begun) / CALLS;
	}
	qsort(batch, BATCHES, sizeof *batch, compare);
	return batch[BATCHES / 2];
}

int main(void)
{
	null = open("/dev/null", O_WRONLY);
	printf("%.1f %.1f\n", median_ns(write_null), median_ns(close_none));
	return 0;
}
