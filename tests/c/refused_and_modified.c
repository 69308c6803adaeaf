/* One thread posts refused requests while another modifies and queries the QP. */
#include "common.h"
#include <pthread.h>

enum { ROUNDS = 2000, TOO_MANY_SGES = 40 };

static struct bench bench;
static int modifier_ended;

static void *modify_and_query(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_qp_attr attr = init_attr();

		EQUAL(ibv_modify_qp(bench.qp[0], &attr, INIT_MASK), 0);
		EQUAL(state_of(bench.qp[0]), IBV_QPS_INIT);
		EQUAL(to_state(bench.qp[0], IBV_QPS_RESET), 0);
	}
	__atomic_store_n(&modifier_ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

int main(void)
{
	struct ibv_sge list[TOO_MANY_SGES] = { 0 };
	struct ibv_send_wr *bad_send, send = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_receive;
	struct ibv_recv_wr receive = { .sg_list = list, .num_sge = TOO_MANY_SGES };
	pthread_t modifier;

	open_bench(&bench);
	bench.qp[0] = create_qp(&bench);
	NEED(bench.qp[0]);
	NEED(!pthread_create(&modifier, NULL, modify_and_query, NULL));
	while (!__atomic_load_n(&modifier_ended, __ATOMIC_ACQUIRE)) {
		/* In RESET and INIT, sends are refused at the post. */
		EQUAL(ibv_post_send(bench.qp[0], &send, &bad_send), EINVAL);
		EQUAL(ibv_post_recv(bench.qp[0], &receive, &bad_receive), EINVAL);
	}
	NEED(!pthread_join(modifier, NULL));
	close_bench(&bench);
	return finish();
}
