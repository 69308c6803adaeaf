/*
 * Calls that wait for what the program has to cause. With `unarmed` and `unacknowledged` the program
 * waits until an alarm ends it; with `later` another thread arms the CQ, and with `right` nothing
 * waits without a reason.
 */
#include "common.h"
#include <pthread.h>

enum { TARGET = 64 * 1024, SECONDS = 2 };

static void *take_event(void *argument)
{
	struct bench *bench = argument;
	struct ibv_cq *cq;
	void *context;

	NEED(!ibv_get_cq_event(bench->channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void write_armed(struct bench *bench)
{
	EQUAL(ibv_req_notify_cq(bench->send_cq, 0), 0);
	EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, 1, sge_of(bench, 0, 64), TARGET, bench->mr->rkey), 0);
	NEED(next_wc(bench->send_cq).status == IBV_WC_SUCCESS);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "right";
	struct bench bench;
	struct ibv_cq *cq;
	pthread_t thread;
	void *context;

	open_bench(&bench);
	connect_pair(&bench);
	if (!strcmp(mode, "unarmed")) {
		alarm(SECONDS);
		take_event(&bench);
	} else if (!strcmp(mode, "unacknowledged")) {
		write_armed(&bench);
		NEED(!ibv_get_cq_event(bench.channel, &cq, &context));
		alarm(SECONDS);
	} else if (!strcmp(mode, "later")) {
		NEED(!pthread_create(&thread, NULL, take_event, &bench));
		usleep(100000);
		write_armed(&bench);
		NEED(!pthread_join(thread, NULL));
	} else {
		write_armed(&bench);
		take_event(&bench);
	}
	close_bench(&bench);
	return finish();
}
