/*
 * Prints when RDMA WRITEs arrive that a program posts one by one and does not poll for: the first
 * of ten and the last, each in us after its post, as medians of many series. Before each series the
 * program polls for some WRITEs, as programs do that set up; then it watches memory only. It looks
 * for the first when all are posted. The QP is connected to itself. Linked against the
 * distribution's libibverbs, run under `ferroce run`.
 */
#define _GNU_SOURCE
#include "connect.h"
#include "median.h"

enum {
	SERIES = 201,
	POLLED = 20,
	WRITES = 10,
	/* Words of the buffer: those that a series writes, its source, one for polled WRITEs. */
	SOURCE = WRITES,
	OTHER,
};

/* Posts a WRITE of a word. */
static void write_word(const struct loopback *self, int to)
{
	post_to_self(self, IBV_WR_RDMA_WRITE, SOURCE * sizeof(uint64_t), to * sizeof(uint64_t),
		     sizeof(uint64_t));
}

static void poll_for(const struct loopback *self, int count)
{
	while (count > 0)
		count -= poll_once(self);
}

/* Posts a series; notes when its first and its last WRITE arrive, in ns after their posts. */
static void write_series(const struct loopback *self, uint64_t value, double *first, double *last)
{
	volatile uint64_t *words = (volatile uint64_t *)self->buffer;
	double posted[WRITES];

	words[SOURCE] = value;
	for (int i = 0; i < WRITES; i++) {
		posted[i] = now_ns();
		write_word(self, i);
	}
	while (words[0] != value)
		;
	*first = now_ns() - posted[0];
	while (words[WRITES - 1] != value)
		;
	*last = now_ns() - posted[WRITES - 1];
}

int main(void)
{
	static double first[SERIES], last[SERIES];
	const struct loopback self = open_loopback(4096, WRITES);

	for (int s = 0; s < SERIES; s++) {
		for (int i = 0; i < POLLED; i++) {
			write_word(&self, OTHER);
			poll_for(&self, 1);
		}
		/* No series writes what an earlier one has written. */
		write_series(&self, s + 1, &first[s], &last[s]);
		poll_for(&self, WRITES);
	}
	printf("%.3f %.3f\n", median(first, SERIES) / 1000, median(last, SERIES) / 1000);
	return 0;
}
