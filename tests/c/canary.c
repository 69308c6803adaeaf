/*
 * A receiver that looks at the last byte of a message in memory instead of its completion.
 * Argument: `strict` or `relaxed` (the order of its region), or `correct`, which waits for the
 * completion.
 * The last line has the number of messages that were not complete.
 */
#include "common.h"
#include <pthread.h>
#include <stdatomic.h>

enum { TARGET = 64 * 1024, LENGTH = 4096, ROUNDS = 200 };

static atomic_int round_done;
static volatile int ends;

/* Drives the device while the receiver only reads memory. */
static void *poller(void *argument)
{
	struct bench *bench = argument;
	struct ibv_wc wc;

	while (!ends) {
		int found = ibv_poll_cq(bench->send_cq, 1, &wc);

		NEED(found >= 0);
		if (found) {
			EQUAL(wc.status, IBV_WC_SUCCESS);
			atomic_fetch_add(&round_done, 1);
		}
	}
	return NULL;
}

static int is_complete(const volatile char *message, char value)
{
	for (int i = 0; i < LENGTH; i++)
		if (message[i] != value)
			return 0;
	return 1;
}

/* A message without a completion on either side. */
static void post_message(struct bench *bench, uint32_t rkey)
{
	struct ibv_sge sge = sge_of(bench, 0, LENGTH);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)bench->buffer + TARGET, rkey },
	};

	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
}

int main(int count, char **arguments)
{
	const char *mode = count > 1 ? arguments[1] : "strict";
	int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, incomplete = 0;
	int waits = !strcmp(mode, "correct");
	volatile char *message;
	struct bench bench;
	pthread_t thread;
	struct ibv_mr *mr;

	open_bench(&bench);
	connect_pair(&bench);
	message = bench.buffer + TARGET;
	if (strcmp(mode, "strict"))
		rights |= IBV_ACCESS_RELAXED_ORDERING;
	mr = ibv_reg_mr(bench.pd, (char *)message, LENGTH, rights);
	NEED(mr);
	NEED(!pthread_create(&thread, NULL, poller, &bench));
	for (int round = 1; round <= ROUNDS; round++) {
		char value = round % 100 + 1;
		int64_t deadline = now_ms() + POLL_TIMEOUT_MS;

		memset(bench.buffer, value, LENGTH);
		EQUAL(post_receive(bench.qp[1], round, sge_of(&bench, 0, 0)), 0);
		post_message(&bench, mr->rkey);
		if (!waits) {
			while (message[LENGTH - 1] != value && now_ms() < deadline)
				;
			incomplete += !is_complete(message, value);
		}
		/* Completes a receive after the message. */
		EQUAL(post_send(&bench, IBV_WR_RDMA_WRITE_WITH_IMM, round, sge_of(&bench, 0, 0),
				TARGET, mr->rkey), 0);
		NEED(next_wc(bench.receive_cq).status == IBV_WC_SUCCESS);
		incomplete += waits && !is_complete(message, value);
		CHECK(is_complete(message, value));
		while (atomic_load(&round_done) < round)
			;
	}
	ends = 1;
	pthread_join(thread, NULL);
	EQUAL(ibv_dereg_mr(mr), 0);
	close_bench(&bench);
	printf("%d incomplete, %d failures\n", incomplete, failures);
	return failures > 0;
}
