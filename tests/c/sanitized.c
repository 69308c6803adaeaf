/*
 * Built with -fsanitize=thread: events of CQs, QPs and SRQs are read and acknowledged in one thread
 * while the objects are used in another one. The sanitizer reports errors.
 */
#include "common.h"
#include <pthread.h>

enum { ROUNDS = 50 };

static struct bench bench;

static void *acknowledge(void *unused)
{
	struct ibv_cq *cq;
	void *context;

	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		EQUAL(ibv_get_cq_event(bench.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

/* A message takes the SRQ below its limit; then the QP in error uses no more receives. */
static void of_objects(void)
{
	struct ibv_srq_init_attr wanted = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_srq *srq = ibv_create_srq(bench.pd, &wanted);
	struct ibv_sge sge = sge_of(&bench, 4096, 8);
	struct ibv_recv_wr *bad, receive = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_qp_init_attr attr = {
		.send_cq = bench.send_cq,
		.recv_cq = bench.receive_cq,
		.srq = srq,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *receiver, *kept = bench.qp[0];

	NEED(srq);
	receiver = ibv_create_qp(bench.pd, &attr);
	bench.qp[0] = create_qp(&bench);
	NEED(receiver && bench.qp[0]);
	to_rts(&bench, receiver, bench.qp[0]->qp_num);
	to_rts(&bench, bench.qp[0], receiver->qp_num);
	EQUAL(ibv_post_srq_recv(srq, &receive, &bad), 0);
	EQUAL(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	EQUAL(post_send(&bench, IBV_WR_SEND, 77, sge_of(&bench, 0, 8), 0, 0), 0);
	EXPECT_WC(bench.send_cq, 77, IBV_WC_SUCCESS);
	EQUAL(next_wc(bench.receive_cq).status, IBV_WC_SUCCESS);
	EQUAL(to_state(receiver, IBV_QPS_ERR), 0);
	for (int left = 2; left;) {
		struct ibv_async_event event;

		NEED(!ibv_get_async_event(bench.context, &event));
		left -= event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED ||
			event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED;
		ibv_ack_async_event(&event);
	}
	EQUAL(ibv_destroy_qp(receiver), 0);
	EQUAL(ibv_destroy_qp(bench.qp[0]), 0);
	EQUAL(ibv_destroy_srq(srq), 0);
	bench.qp[0] = kept;
}

int main(void)
{
	pthread_t thread;

	open_bench(&bench);
	connect_pair(&bench);
	EQUAL(ibv_req_notify_cq(bench.send_cq, 0), 0);
	NEED(!pthread_create(&thread, NULL, acknowledge, NULL));
	for (int i = 0; i < ROUNDS; i++) {
		EQUAL(post_send(&bench, IBV_WR_RDMA_WRITE, i, sge_of(&bench, 0, 8), 64, bench.mr->rkey), 0);
		EXPECT_WC(bench.send_cq, i, IBV_WC_SUCCESS);
		EQUAL(ibv_req_notify_cq(bench.send_cq, 0), 0);
	}
	EQUAL(pthread_join(thread, NULL), 0);
	of_objects();
	close_bench(&bench);
	return finish();
}
