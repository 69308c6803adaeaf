/* Transitions of an RC QP, and the posts that are allowed and refused in each state. */
#include "common.h"

static int modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
	return ibv_modify_qp(qp, &attr, mask);
}

/* A work request without data on QP 0. */
static int post(struct bench *bench)
{
	return post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, 0), 0, 0);
}

static void check_walk(struct bench *bench)
{
	struct ibv_qp *qp = bench->qp[0] = create_qp(bench);
	const struct ibv_sge nothing = sge_of(bench, 0, 0);

	NEED(qp);
	EQUAL(state_of(qp), IBV_QPS_RESET);
	EQUAL(post(bench), EINVAL);
	EQUAL(post_receive(qp, 1, nothing), EINVAL);
	/* From RESET only INIT can be reached directly. */
	EQUAL(modify(qp, rtr_attr(bench, qp->qp_num), RTR_MASK), EINVAL);
	EQUAL(modify(qp, rts_attr(bench), RTS_MASK), EINVAL);
	EQUAL(state_of(qp), IBV_QPS_RESET);
	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1)
		if (INIT_MASK & bit & ~IBV_QP_STATE)
			EQUAL(modify(qp, init_attr(), INIT_MASK & ~bit), EINVAL);
	EQUAL(modify(qp, init_attr(), INIT_MASK | IBV_QP_QKEY), EINVAL);
	EQUAL(modify(qp, init_attr(), INIT_MASK | IBV_QP_TIMEOUT), EINVAL);
	EQUAL(state_of(qp), IBV_QPS_RESET);

	EQUAL(modify(qp, init_attr(), INIT_MASK), 0);
	EQUAL(state_of(qp), IBV_QPS_INIT);
	EQUAL(post(bench), EINVAL);
	EQUAL(post_receive(qp, 1, nothing), 0);
	EQUAL(modify(qp, rts_attr(bench), RTS_MASK), EINVAL);
	EQUAL(to_state(qp, IBV_QPS_SQD), EINVAL);
	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1)
		if (RTR_MASK & bit & ~IBV_QP_STATE)
			EQUAL(modify(qp, rtr_attr(bench, qp->qp_num), RTR_MASK & ~bit), EINVAL);
	EQUAL(state_of(qp), IBV_QPS_INIT);

	EQUAL(modify(qp, rtr_attr(bench, qp->qp_num), RTR_MASK), 0);
	EQUAL(state_of(qp), IBV_QPS_RTR);
	EQUAL(post(bench), EINVAL);
	EQUAL(modify(qp, init_attr(), INIT_MASK), EINVAL);
	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1)
		if (RTS_MASK & bit & ~IBV_QP_STATE)
			EQUAL(modify(qp, rts_attr(bench), RTS_MASK & ~bit), EINVAL);
	EQUAL(state_of(qp), IBV_QPS_RTR);

	EQUAL(modify(qp, rts_attr(bench), RTS_MASK), 0);
	EQUAL(state_of(qp), IBV_QPS_RTS);
	EQUAL(modify(qp, init_attr(), INIT_MASK), EINVAL);
	EQUAL(to_state(qp, IBV_QPS_SQD), 0);
	EQUAL(state_of(qp), IBV_QPS_SQD);
	EQUAL(to_state(qp, IBV_QPS_RTS), 0);
	EQUAL(state_of(qp), IBV_QPS_RTS);

	EQUAL(to_state(qp, IBV_QPS_ERR), 0);
	EQUAL(state_of(qp), IBV_QPS_ERR);
	EQUAL(to_state(qp, IBV_QPS_RTS), EINVAL);
	EXPECT_WC(bench->receive_cq, 1, IBV_WC_WR_FLUSH_ERR);
	EQUAL(to_state(qp, IBV_QPS_RESET), 0);
	EQUAL(state_of(qp), IBV_QPS_RESET);
	/* Once more from the start. */
	to_rts(bench, qp, qp->qp_num);
	EQUAL(state_of(qp), IBV_QPS_RTS);
	EQUAL(ibv_destroy_qp(qp), 0);
	bench->qp[0] = NULL;
}

/* A query returns what was set. */
static void check_query(struct bench *bench)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr created;

	connect_pair(bench);
	memset(&attr, 0, sizeof attr);
	EQUAL(ibv_query_qp(bench->qp[0], &attr, RTR_MASK | RTS_MASK | IBV_QP_CAP, &created), 0);
	EQUAL(attr.qp_state, IBV_QPS_RTS);
	EQUAL(attr.cur_qp_state, IBV_QPS_RTS);
	EQUAL(attr.path_mtu, IBV_MTU_1024);
	EQUAL(attr.dest_qp_num, bench->qp[1]->qp_num);
	EQUAL(attr.timeout, 14);
	EQUAL(attr.retry_cnt, 7);
	EQUAL(attr.rnr_retry, 7);
	EQUAL(attr.min_rnr_timer, 1);
	EQUAL(attr.max_rd_atomic, 4);
	EQUAL(attr.max_dest_rd_atomic, 4);
	EQUAL(attr.port_num, 1);
	EQUAL(attr.ah_attr.is_global, 1);
	EQUAL(attr.ah_attr.grh.sgid_index, 1);
	EQUAL(attr.ah_attr.grh.hop_limit, 64);
	CHECK(!memcmp(&attr.ah_attr.grh.dgid, &bench->gid, sizeof bench->gid));
	CHECK(created.cap.max_send_wr >= SEND_MAX && created.cap.max_recv_wr >= RECEIVE_MAX);
	CHECK(created.cap.max_send_sge >= SGE_MAX && created.cap.max_recv_sge >= SGE_MAX);
	CHECK(created.cap.max_inline_data >= INLINE_MAX);
	CHECK(created.send_cq == bench->send_cq && created.recv_cq == bench->receive_cq);
	EQUAL(created.qp_type, IBV_QPT_RC);
}

/* A QP in SQD accepts work requests but does not execute them until it is in RTS again. */
static void check_drained(struct bench *bench)
{
	struct ibv_wc wc;

	connect_pair(bench);
	EQUAL(post_receive(bench->qp[1], 7, sge_of(bench, 0, 64)), 0);
	EQUAL(to_state(bench->qp[0], IBV_QPS_SQD), 0);
	EQUAL(post(bench), 0);
	for (int i = 0; i < 10000; i++)
		EQUAL(ibv_poll_cq(bench->send_cq, 1, &wc), 0);
	EQUAL(to_state(bench->qp[0], IBV_QPS_RTS), 0);
	EXPECT_WC(bench->send_cq, 1, IBV_WC_SUCCESS);
	EXPECT_WC(bench->receive_cq, 7, IBV_WC_SUCCESS);
}

static void check_objects_in_use(struct bench *bench)
{
	EQUAL(ibv_destroy_cq(bench->send_cq), EBUSY);
	EQUAL(ibv_destroy_cq(bench->receive_cq), EBUSY);
	EQUAL(ibv_dealloc_pd(bench->pd), EBUSY);
	EQUAL(ibv_destroy_comp_channel(bench->channel), EBUSY);
	for (int i = 0; i < 2; i++) {
		EQUAL(ibv_destroy_qp(bench->qp[i]), 0);
		bench->qp[i] = NULL;
	}
	/* The memory region remains. */
	EQUAL(ibv_dealloc_pd(bench->pd), EBUSY);
}

/* Unsupported services are refused, without a crash. */
static void check_unsupported(struct bench *bench)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = bench->send_cq,
		.recv_cq = bench->receive_cq,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_RAW_PACKET,
	};

	errno = 0;
	CHECK(!ibv_create_qp(bench->pd, &attr));
	EQUAL(errno, EOPNOTSUPP);
}

int main(void)
{
	struct bench bench;

	open_bench(&bench);
	check_walk(&bench);
	check_query(&bench);
	check_drained(&bench);
	check_objects_in_use(&bench);
	check_unsupported(&bench);
	close_bench(&bench);
	return finish();
}
