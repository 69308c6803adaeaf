/*
 * Prints how long a thread waits for a flag that another thread sets: the median of many, in us.
 *   handoff read    the thread posts an RDMA READ of 1 MiB and waits; the other one polls the CQ,
 *                   and sets the flag when it finds the completion
 *   handoff flag    the other one only answers: what the two threads take without verbs
 * The QP is connected to itself. Linked against the distribution's libibverbs, run under `ferroce
 * run`; `handoff flag` needs no device.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "connect.h"
#include "median.h"

enum {
	LENGTH = 1 << 20,
	LINE = 64,
};

/* Each in a cache line that holds nothing else. */
static struct {
	_Alignas(2 * LINE) _Atomic uint32_t asked;
	_Alignas(2 * LINE) _Atomic uint32_t answered;
	_Alignas(2 * LINE) atomic_bool is_over;
} shared;

static struct loopback self;

static void *poll_and_answer(void *unused)
{
	while (!atomic_load(&shared.is_over)) {
		const int found = poll_once(&self);

		if (found)
			atomic_fetch_add(&shared.answered, found);
	}
	return unused;
}

static void *answer(void *unused)
{
	while (!atomic_load(&shared.is_over)) {
		const uint32_t asked = atomic_load(&shared.asked);

		if (asked != atomic_load_explicit(&shared.answered, memory_order_relaxed))
			atomic_store(&shared.answered, asked);
	}
	return unused;
}

static void ask_and_wait(void)
{
	const uint32_t asked = atomic_fetch_add(&shared.asked, 1) + 1;

	while (atomic_load(&shared.answered) != asked)
		;
}

static void read_and_wait(void)
{
	post_to_self(&self, IBV_WR_RDMA_READ, 0, LENGTH, LENGTH);
	ask_and_wait();
}

int main(int count, char **arguments)
{
	const char *name = count == 2 ? arguments[1] : "";
	const bool is_read = !strcmp(name, "read");
	pthread_t other;
	double ns;

	NEED(is_read || !strcmp(name, "flag"));
	if (is_read)
		self = open_loopback(2 * LENGTH, 1);
	NEED(!pthread_create(&other, NULL, is_read ? poll_and_answer : answer, NULL));
	ns = median_ns(is_read ? read_and_wait : ask_and_wait, 1);
	atomic_store(&shared.is_over, true);
	NEED(!pthread_join(other, NULL));
	printf("%.3f\n", ns / 1000);
	return 0;
}
