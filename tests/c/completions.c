/* Work requests that are refused at the post, and the completion status of others. */
#include "common.h"

enum { LENGTH = 3000, SOURCE = 0, TARGET = 64 * 1024 };

static void expect_nothing(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int i = 0; i < 1000; i++)
		EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
}

/* No receives are posted, so no request leaves the queue. */
static void check_full_queues(struct bench *bench)
{
	struct ibv_sge sge[2] = { sge_of(bench, 0, 8), sge_of(bench, 8, 8) };
	struct ibv_send_wr *bad_send = NULL, send[2];
	struct ibv_recv_wr *bad_receive = NULL, receive[2];
	struct ibv_qp_init_attr created;
	struct ibv_qp_attr attr;

	connect_pair(bench);
	EQUAL(ibv_query_qp(bench->qp[0], &attr, IBV_QP_CAP, &created), 0);
	memset(send, 0, sizeof send);
	memset(receive, 0, sizeof receive);
	for (int i = 0; i < 2; i++) {
		send[i].wr_id = receive[i].wr_id = i;
		send[i].sg_list = receive[i].sg_list = &sge[i];
		send[i].num_sge = receive[i].num_sge = 1;
		send[i].opcode = IBV_WR_SEND;
		send[i].send_flags = IBV_SEND_SIGNALED;
	}
	for (unsigned i = 1; i < created.cap.max_send_wr; i++)
		EQUAL(ibv_post_send(bench->qp[0], send, &bad_send), 0);
	for (unsigned i = 1; i < created.cap.max_recv_wr; i++)
		EQUAL(ibv_post_recv(bench->qp[0], receive, &bad_receive), 0);
	/* There is room for one of two: the first is posted, the second is bad. */
	send[0].next = &send[1];
	receive[0].next = &receive[1];
	EQUAL(ibv_post_send(bench->qp[0], send, &bad_send), ENOMEM);
	CHECK(bad_send == &send[1]);
	EQUAL(ibv_post_recv(bench->qp[0], receive, &bad_receive), ENOMEM);
	CHECK(bad_receive == &receive[1]);
	/* All complete when the peer receives. */
	for (unsigned i = 0; i < created.cap.max_send_wr; i++) {
		EQUAL(post_receive(bench->qp[1], 100 + i, sge_of(bench, TARGET, 8)), 0);
		EXPECT_WC(bench->send_cq, 0, IBV_WC_SUCCESS);
		EXPECT_WC(bench->receive_cq, 100 + i, IBV_WC_SUCCESS);
	}
	/* Now there is room again. */
	EQUAL(post_receive(bench->qp[1], 1, sge_of(bench, TARGET, 8)), 0);
	send[0].next = NULL;
	EQUAL(ibv_post_send(bench->qp[0], send, &bad_send), 0);
	EXPECT_WC(bench->send_cq, 0, IBV_WC_SUCCESS);
	EXPECT_WC(bench->receive_cq, 1, IBV_WC_SUCCESS);
}

static void check_refused_posts(struct bench *bench)
{
	enum { TOO_MANY = 17 };
	struct ibv_sge sge[TOO_MANY];
	struct ibv_send_wr *bad_send = NULL, send = {
		.sg_list = sge,
		.num_sge = TOO_MANY,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_recv_wr *bad_receive = NULL, receive = { .sg_list = sge, .num_sge = TOO_MANY };

	connect_pair(bench);
	for (int i = 0; i < TOO_MANY; i++)
		sge[i] = sge_of(bench, 8 * i, 8);
	EQUAL(ibv_post_send(bench->qp[0], &send, &bad_send), EINVAL);
	CHECK(bad_send == &send);
	EQUAL(ibv_post_recv(bench->qp[0], &receive, &bad_receive), EINVAL);
	CHECK(bad_receive == &receive);
	send.num_sge = 1;
	send.send_flags |= IBV_SEND_INLINE;
	sge[0].length = 1 << 16;
	EQUAL(ibv_post_send(bench->qp[0], &send, &bad_send), EINVAL);
	expect_nothing(bench->send_cq);
	/* The QP still works. */
	EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, 5, sge_of(bench, 0, 8), TARGET, bench->mr->rkey), 0);
	EXPECT_WC(bench->send_cq, 5, IBV_WC_SUCCESS);
}

/* Posted, not executed, and then the QP goes to ERR: all flushed, in the order of posting. */
static void check_flush(struct bench *bench)
{
	connect_pair(bench);
	for (int i = 0; i < 3; i++) {
		EQUAL(post_send(bench, IBV_WR_SEND, 10 + i, sge_of(bench, 0, 8), 0, 0), 0);
		EQUAL(post_receive(bench->qp[0], 20 + i, sge_of(bench, 64, 8)), 0);
	}
	EQUAL(to_state(bench->qp[0], IBV_QPS_ERR), 0);
	for (int i = 0; i < 3; i++) {
		EXPECT_WC(bench->send_cq, 10 + i, IBV_WC_WR_FLUSH_ERR);
		EXPECT_WC(bench->receive_cq, 20 + i, IBV_WC_WR_FLUSH_ERR);
	}
	/* Later requests are flushed as well. */
	EQUAL(post_send(bench, IBV_WR_SEND, 13, sge_of(bench, 0, 8), 0, 0), 0);
	EXPECT_WC(bench->send_cq, 13, IBV_WC_WR_FLUSH_ERR);
	EQUAL(post_receive(bench->qp[0], 23, sge_of(bench, 64, 8)), 0);
	EXPECT_WC(bench->receive_cq, 23, IBV_WC_WR_FLUSH_ERR);
	expect_nothing(bench->send_cq);
	expect_nothing(bench->receive_cq);
	/* RESET removes unpolled completions. */
	EQUAL(to_state(bench->qp[0], IBV_QPS_RESET), 0);
}

/* The failing request has its status, the next one is flushed, and the QP is in ERR. */
static void expect_failure(struct bench *bench, enum ibv_wc_status status)
{
	EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, 2, sge_of(bench, 0, 8), TARGET, bench->mr->rkey), 0);
	EXPECT_WC(bench->send_cq, 1, status);
	EXPECT_WC(bench->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	EQUAL(state_of(bench->qp[0]), IBV_QPS_ERR);
	EQUAL(post_send(bench, IBV_WR_SEND, 3, sge_of(bench, 0, 8), 0, 0), 0);
	EXPECT_WC(bench->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
}

static void check_local_protection(struct bench *bench)
{
	struct ibv_sge wrong_key = sge_of(bench, 0, 64), too_long = sge_of(bench, 0, 64);

	wrong_key.lkey ^= 0x5a5a5a;
	connect_pair(bench);
	EQUAL(post_receive(bench->qp[1], 1, sge_of(bench, TARGET, 64)), 0);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, wrong_key, 0, 0), 0);
	expect_failure(bench, IBV_WC_LOC_PROT_ERR);

	too_long.addr += bench->size - 32;
	connect_pair(bench);
	EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, 1, too_long, TARGET, bench->mr->rkey), 0);
	expect_failure(bench, IBV_WC_LOC_PROT_ERR);
	/* The target of a READ is checked as well. */
	connect_pair(bench);
	EQUAL(post_send(bench, IBV_WR_RDMA_READ, 1, wrong_key, TARGET, bench->mr->rkey), 0);
	expect_failure(bench, IBV_WC_LOC_PROT_ERR);
}

static void check_remote_access(struct bench *bench)
{
	static const enum ibv_wr_opcode operations[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	struct ibv_mr *local;

	for (int i = 0; i < 2; i++) {
		/* An R_Key that does not exist, then an address beyond the end. */
		connect_pair(bench);
		EQUAL(post_send(bench, operations[i], 1, sge_of(bench, 0, LENGTH), TARGET,
				bench->mr->rkey ^ 0x5a5a5a), 0);
		expect_failure(bench, IBV_WC_REM_ACCESS_ERR);
		connect_pair(bench);
		EQUAL(post_send(bench, operations[i], 1, sge_of(bench, 0, LENGTH),
				bench->size - LENGTH + 1, bench->mr->rkey), 0);
		expect_failure(bench, IBV_WC_REM_ACCESS_ERR);
		/* Memory without remote rights. */
		connect_pair(bench);
		local = ibv_reg_mr(bench->pd, bench->buffer, bench->size, IBV_ACCESS_LOCAL_WRITE);
		NEED(local);
		EQUAL(post_send(bench, operations[i], 1, sge_of(bench, 0, LENGTH), TARGET,
				local->rkey), 0);
		expect_failure(bench, IBV_WC_REM_ACCESS_ERR);
		EQUAL(ibv_dereg_mr(local), 0);
	}
	/* A key that is no longer valid. */
	connect_pair(bench);
	local = ibv_reg_mr(bench->pd, bench->buffer, bench->size,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	NEED(local);
	EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, 1, sge_of(bench, 0, 8), TARGET, local->rkey), 0);
	EXPECT_WC(bench->send_cq, 1, IBV_WC_SUCCESS);
	uint32_t rkey = local->rkey;
	EQUAL(ibv_dereg_mr(local), 0);
	EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, 1, sge_of(bench, 0, 8), TARGET, rkey), 0);
	expect_failure(bench, IBV_WC_REM_ACCESS_ERR);
}

/* A message longer than the buffer that was posted for it. */
static void check_short_receive(struct bench *bench)
{
	connect_pair(bench);
	EQUAL(post_receive(bench->qp[1], 9, sge_of(bench, TARGET, 100)), 0);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, 101), 0, 0), 0);
	expect_failure(bench, IBV_WC_REM_INV_REQ_ERR);
	EXPECT_WC(bench->receive_cq, 9, IBV_WC_LOC_LEN_ERR);
}

static void check_receiver_not_ready(struct bench *bench)
{
	bench->rnr_retry = 2;
	connect_pair(bench);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, 8), 0, 0), 0);
	expect_failure(bench, IBV_WC_RNR_RETRY_EXC_ERR);
	bench->rnr_retry = 7;
}

/* A QP number that does not exist. */
static void check_unknown_qp(struct bench *bench)
{
	struct ibv_qp_attr attr;

	connect_pair(bench);
	EQUAL(to_state(bench->qp[0], IBV_QPS_RESET), 0);
	attr = init_attr();
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, INIT_MASK), 0);
	attr = rtr_attr(bench, 0xfffff0);
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, RTR_MASK), 0);
	attr = rts_attr(bench);
	attr.timeout = 8;
	attr.retry_cnt = 2;
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, RTS_MASK), 0);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, 8), 0, 0), 0);
	expect_failure(bench, IBV_WC_RETRY_EXC_ERR);
}

/* Without data neither key nor address is checked (IBTA vol 1, 9.7.4.1.5). */
static void check_zero_length(struct bench *bench)
{
	struct ibv_wc wc;

	connect_pair(bench);
	EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, 1, sge_of(bench, 0, 0), 0, 0xdeadbeef), 0);
	EXPECT_WC(bench->send_cq, 1, IBV_WC_SUCCESS);
	EQUAL(post_send(bench, IBV_WR_RDMA_READ, 2, sge_of(bench, 0, 0), 0, 0xdeadbeef), 0);
	EXPECT_WC(bench->send_cq, 2, IBV_WC_SUCCESS);
	EQUAL(post_receive(bench->qp[1], 3, sge_of(bench, 0, 0)), 0);
	EQUAL(post_send(bench, IBV_WR_SEND, 4, sge_of(bench, 0, 0), 0, 0), 0);
	EXPECT_WC(bench->send_cq, 4, IBV_WC_SUCCESS);
	wc = next_wc(bench->receive_cq);
	EQUAL(wc.wr_id, 3);
	EQUAL(wc.status, IBV_WC_SUCCESS);
	EQUAL(wc.byte_len, 0);
	EQUAL(wc.opcode, IBV_WC_RECV);
}

/* Every byte arrives at its place, for each length. */
static void check_data(struct bench *bench)
{
	static const uint32_t lengths[] = { 1, 3, 1023, 1024, 1025, 4096, 4097, 100001 };
	const size_t source = SOURCE, target = 256 * 1024;

	connect_pair(bench);
	for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		const uint32_t length = lengths[i];

		for (uint32_t at = 0; at < length; at++)
			bench->buffer[source + at] = at * 7 + i;
		memset(bench->buffer + target, 0, length + 1);
		EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, i, sge_of(bench, source, length), target,
				bench->mr->rkey), 0);
		EXPECT_WC(bench->send_cq, i, IBV_WC_SUCCESS);
		CHECK(!memcmp(bench->buffer + source, bench->buffer + target, length));
		EQUAL(bench->buffer[target + length], 0);
		memset(bench->buffer + target, 0, length + 1);
		EQUAL(post_send(bench, IBV_WR_RDMA_READ, i, sge_of(bench, target, length), source,
				bench->mr->rkey), 0);
		EXPECT_WC(bench->send_cq, i, IBV_WC_SUCCESS);
		CHECK(!memcmp(bench->buffer + source, bench->buffer + target, length));
		EQUAL(bench->buffer[target + length], 0);
	}
}

/* An unsignaled work request completes with the next signaled one, or alone if it fails. */
static void check_unsignaled(struct bench *bench)
{
	struct ibv_sge sge = sge_of(bench, 0, 8);
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)bench->buffer + TARGET, bench->mr->rkey },
	};

	connect_pair(bench);
	for (int i = 0; i < SEND_MAX - 1; i++)
		EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
	wr.wr_id = 2;
	wr.send_flags = IBV_SEND_SIGNALED;
	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
	EXPECT_WC(bench->send_cq, 2, IBV_WC_SUCCESS);
	expect_nothing(bench->send_cq);
	wr.wr_id = 1;
	wr.send_flags = 0;
	wr.wr.rdma.rkey ^= 0x5a5a5a;
	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
	expect_failure(bench, IBV_WC_REM_ACCESS_ERR);
}

int main(void)
{
	struct bench bench;

	open_bench(&bench);
	check_full_queues(&bench);
	check_refused_posts(&bench);
	check_flush(&bench);
	check_local_protection(&bench);
	check_remote_access(&bench);
	check_short_receive(&bench);
	check_receiver_not_ready(&bench);
	check_unknown_qp(&bench);
	check_zero_length(&bench);
	check_data(&bench);
	check_unsignaled(&bench);
	close_bench(&bench);
	return finish();
}
