/*
 * A program for debuggers and sanitizers: an RDMA WRITE between two QPs, posted by one thread and polled
 * by another, and with an argument one error of its own.
 *   (none)            no error
 *   leak              forgets memory that it has allocated
 *   use-after-free    reads memory that it has freed
 *   race              two threads write a variable without a lock
 */
#include "common.h"
#include <pthread.h>

enum { ROUNDS = 20, LENGTH = 5000, TARGET = 1 << 19 };

static struct bench bench;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long locked, unlocked;
static int races;

static void count(void)
{
	pthread_mutex_lock(&lock);
	locked++;
	pthread_mutex_unlock(&lock);
	if (races)
		unlocked++;
}

static void *poll_all(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		EXPECT_WC(bench.send_cq, i, IBV_WC_SUCCESS);
		count();
	}
	return NULL;
}

/* The function at which the debugger stops. */
__attribute__((noinline)) void send_round(int round)
{
	EQUAL(post_send(&bench, IBV_WR_RDMA_WRITE, round, sge_of(&bench, 0, LENGTH), TARGET,
			bench.mr->rkey), 0);
}

static void write_and_poll(void)
{
	pthread_t poller;

	memset(bench.buffer, 7, LENGTH);
	NEED(!pthread_create(&poller, NULL, poll_all, NULL));
	for (int i = 0; i < ROUNDS; i++) {
		/* Not more than fit into the queue. */
		long done;

		do {
			pthread_mutex_lock(&lock);
			done = locked;
			pthread_mutex_unlock(&lock);
		} while (i - done >= SEND_MAX / 2);
		send_round(i);
		if (races)
			unlocked++;
	}
	NEED(!pthread_join(poller, NULL));
	EQUAL(locked, ROUNDS);
	EQUAL(bench.buffer[TARGET + LENGTH - 1], 7);
}

static void use_after_free(void)
{
	volatile char *bytes = malloc(100);

	bytes[1] = 1;
	free((void *)bytes);
	printf("%d\n", bytes[1]);
}

/* Not inlined, so that no copy of the pointer remains. */
static __attribute__((noinline)) void leak(void)
{
	char *volatile lost = malloc(321);

	NEED(lost);
	lost = NULL;
}

int main(int argc, char **argv)
{
	const char *error = argc > 1 ? argv[1] : "";

	races = !strcmp(error, "race");
	open_bench(&bench);
	connect_pair(&bench);
	write_and_poll();
	if (!strcmp(error, "use-after-free"))
		use_after_free();
	if (!strcmp(error, "leak"))
		leak();
	close_bench(&bench);
	return finish();
}
