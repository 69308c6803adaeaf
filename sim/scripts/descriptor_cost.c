/*
 * Prints what a write of one byte to /dev/null and a close of no descriptor take, in ns: the
 * library takes both calls, to find those of /dev/infiniband/rdma_cm. Medians of many short
 * measurements, so that what takes the processor away meanwhile does not count.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "median.h"

enum { CALLS = 1000 };

static int null;

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

int main(void)
{
	null = open("/dev/null", O_WRONLY);
	printf("%.1f %.1f\n", median_ns(write_null, CALLS),
	       median_ns(close_none, CALLS));
	return 0;
}
