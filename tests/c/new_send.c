/* The new send API, mixed with ibv_post_send on the same QP. */
#include "common.h"

enum { TARGET = 64 * 1024 };

static struct ibv_qp_ex *create_qp_ex(struct bench *bench, struct ibv_qp **qp)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = bench->send_cq,
		.recv_cq = bench->receive_cq,
		.cap = { SEND_MAX, RECEIVE_MAX, SGE_MAX, SGE_MAX, INLINE_MAX },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = bench->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				  IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
	};

	*qp = ibv_create_qp_ex(bench->context, &attr);
	NEED(*qp);
	return ibv_qp_to_qp_ex(*qp);
}

static void begin(struct ibv_qp_ex *qp, uint64_t wr_id)
{
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
}

static void check_batch(struct bench *bench, struct ibv_qp_ex *qp)
{
	const uint64_t address = (uintptr_t)bench->buffer;
	const uint32_t lkey = bench->mr->lkey, rkey = bench->mr->rkey;
	struct ibv_sge parts[2] = { sge_of(bench, 0, 5), sge_of(bench, 5, 6) };
	struct ibv_data_buf buffers[2] = {
		{ bench->buffer, 4 },
		{ bench->buffer + 4, 7 },
	};
	struct ibv_wc wc;

	strcpy(bench->buffer, "0123456789");
	for (int i = 0; i < 3; i++)
		EQUAL(post_receive(bench->qp[1], 50 + i, sge_of(bench, TARGET + 100 * i, 64)), 0);
	ibv_wr_start(qp);
	begin(qp, 1);
	ibv_wr_rdma_write(qp, rkey, address + TARGET + 1000);
	ibv_wr_set_sge(qp, lkey, address, 11);
	begin(qp, 2);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, bench->buffer, 11);
	begin(qp, 3);
	ibv_wr_send_imm(qp, 0x11223344);
	ibv_wr_set_sge_list(qp, 2, parts);
	begin(qp, 4);
	ibv_wr_rdma_write_imm(qp, rkey, address + TARGET + 2000, 0x55667788);
	ibv_wr_set_inline_data_list(qp, 2, buffers);
	begin(qp, 5);
	ibv_wr_rdma_read(qp, rkey, address);
	ibv_wr_set_sge(qp, lkey, address + TARGET + 3000, 11);
	EQUAL(ibv_wr_complete(qp), 0);
	/* The old call after it. */
	EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, 6, sge_of(bench, 0, 11), TARGET + 4000, rkey), 0);
	for (int i = 1; i <= 6; i++)
		EXPECT_WC(bench->send_cq, i, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++) {
		wc = next_wc(bench->receive_cq);
		EQUAL(wc.wr_id, 50 + i);
		EQUAL(wc.status, IBV_WC_SUCCESS);
		EQUAL(wc.byte_len, 11);
		EQUAL(wc.opcode, i == 2 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
		EQUAL(!!(wc.wc_flags & IBV_WC_WITH_IMM), i > 0);
		if (i > 0)
			EQUAL(wc.imm_data, i == 1 ? 0x11223344 : 0x55667788);
	}
	CHECK(!strcmp(bench->buffer + TARGET, "0123456789"));
	CHECK(!strcmp(bench->buffer + TARGET + 100, "0123456789"));
	for (int i = 1; i <= 4; i++)
		CHECK(!strcmp(bench->buffer + TARGET + 1000 * i, "0123456789"));
}

/* An aborted batch, and one that does not fit, change nothing. */
static void check_abort(struct bench *bench, struct ibv_qp_ex *qp)
{
	struct ibv_wc wc;

	ibv_wr_start(qp);
	begin(qp, 7);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, bench->buffer, 8);
	ibv_wr_abort(qp);

	ibv_wr_start(qp);
	for (int i = 0; i < 100 * SEND_MAX; i++) {
		begin(qp, 8);
		ibv_wr_rdma_write(qp, bench->mr->rkey, (uintptr_t)bench->buffer + TARGET);
		ibv_wr_set_sge(qp, bench->mr->lkey, (uintptr_t)bench->buffer, 8);
	}
	EQUAL(ibv_wr_complete(qp), ENOMEM);
	for (int i = 0; i < 1000; i++)
		EQUAL(ibv_poll_cq(bench->send_cq, 1, &wc), 0);

	ibv_wr_start(qp);
	begin(qp, 9);
	ibv_wr_rdma_write(qp, bench->mr->rkey, (uintptr_t)bench->buffer + TARGET);
	ibv_wr_set_sge(qp, bench->mr->lkey, (uintptr_t)bench->buffer, 8);
	EQUAL(ibv_wr_complete(qp), 0);
	EXPECT_WC(bench->send_cq, 9, IBV_WC_SUCCESS);
}

/* librpma calls whatever entry is there. */
static void check_entries(const struct ibv_qp_ex *qp)
{
	CHECK(qp->wr_send && qp->wr_send_imm && qp->wr_rdma_write && qp->wr_rdma_read);
	CHECK(!qp->wr_send_inv && !qp->wr_local_inv && !qp->wr_bind_mw);
	CHECK(!qp->wr_atomic_cmp_swp && !qp->wr_atomic_fetch_add && !qp->wr_atomic_write);
}

int main(void)
{
	struct bench bench;
	struct ibv_qp_ex *qp;

	open_bench(&bench);
	qp = create_qp_ex(&bench, &bench.qp[0]);
	create_qp_ex(&bench, &bench.qp[1]);
	check_entries(qp);
	to_rts(&bench, bench.qp[0], bench.qp[1]->qp_num);
	to_rts(&bench, bench.qp[1], bench.qp[0]->qp_num);
	check_batch(&bench, qp);
	check_abort(&bench, qp);
	close_bench(&bench);
	return finish();
}
