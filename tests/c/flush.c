/* FLUSH and ATOMIC WRITE: what completes, what is refused, and by whom. */
#include "flush.h"

enum { TARGET = 64 * 1024 };

/* Two new connected QPs whose peers have these rights. */
static struct ibv_qp_ex *pair(struct bench *bench, int rights)
{
	for (int i = 0; i < 2; i++) {
		if (bench->qp[i])
			EQUAL(ibv_destroy_qp(bench->qp[i]), 0);
		bench->qp[i] = create_flush_qp(bench);
		NEED(bench->qp[i]);
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = init_attr();

		attr.qp_access_flags |= rights;
		EQUAL(ibv_modify_qp(bench->qp[i], &attr, INIT_MASK), 0);
		attr = rtr_attr(bench, bench->qp[1 - i]->qp_num);
		EQUAL(ibv_modify_qp(bench->qp[i], &attr, RTR_MASK), 0);
		attr = rts_attr(bench);
		EQUAL(ibv_modify_qp(bench->qp[i], &attr, RTS_MASK), 0);
	}
	return ibv_qp_to_qp_ex(bench->qp[0]);
}

/* A log entry, a FLUSH of it, and the pointer to it: what libraries for persistent memory post. */
static void check_log(struct bench *bench)
{
	struct ibv_qp_ex *qp = pair(bench, ACCESS_FLUSH_GLOBAL);
	uint64_t target = (uintptr_t)bench->buffer + TARGET, head = 0x1122334455667788;

	strcpy(bench->buffer, "entry");
	ibv_wr_start(qp);
	begin(qp, 1);
	ibv_wr_rdma_write(qp, bench->mr->rkey, target);
	ibv_wr_set_sge(qp, bench->mr->lkey, (uintptr_t)bench->buffer, 6);
	begin(qp, 2);
	wr_flush(qp, bench->mr->rkey, target, 6, GLOBAL, RANGE);
	begin(qp, 3);
	ibv_wr_atomic_write(qp, bench->mr->rkey, target + 64, &head);
	begin(qp, 4);
	wr_flush(qp, bench->mr->rkey, 0, 0, GLOBAL, REGION);
	EQUAL(ibv_wr_complete(qp), 0);
	expect_send(bench, 1, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	expect_send(bench, 2, IBV_WC_SUCCESS, WC_FLUSH);
	expect_send(bench, 3, IBV_WC_SUCCESS, WC_ATOMIC_WRITE);
	expect_send(bench, 4, IBV_WC_SUCCESS, WC_FLUSH);
	CHECK(!strcmp(bench->buffer + TARGET, "entry"));
	CHECK(!memcmp(bench->buffer + TARGET + 64, &head, 8));
}

/* What the library refuses when it is posted. */
static void check_arguments(struct bench *bench)
{
	struct ibv_qp_ex *qp = pair(bench, ACCESS_FLUSH_GLOBAL);
	const struct { int type, level; size_t length; int error; } calls[] = {
		{ 0, RANGE, 8, EINVAL },
		{ 4, RANGE, 8, EINVAL },
		{ GLOBAL, 2, 8, EINVAL },
		{ GLOBAL, RANGE, 1ULL << 32, EINVAL },
	};

	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		ibv_wr_start(qp);
		begin(qp, 5);
		wr_flush(qp, bench->mr->rkey, (uintptr_t)bench->buffer, calls[i].length,
			 calls[i].type, calls[i].level);
		EQUAL(ibv_wr_complete(qp), calls[i].error);
	}
	ibv_wr_start(qp);
	begin(qp, 6);
	ibv_wr_atomic_write(qp, bench->mr->rkey, (uintptr_t)bench->buffer, NULL);
	EQUAL(ibv_wr_complete(qp), EINVAL);
	/* The old call has no place for the arguments of a FLUSH. */
	EQUAL(post_send(bench, (enum ibv_wr_opcode)FLUSH_OPCODE, 7, sge_of(bench, 0, 0), 0,
			bench->mr->rkey), EOPNOTSUPP);
	errno = 0;
	CHECK(!ibv_reg_mr(bench->pd, bench->buffer, 4096,
			  IBV_ACCESS_LOCAL_WRITE | ACCESS_FLUSH_PERSISTENT));
	EQUAL(errno, EOPNOTSUPP);
}

/* What the peer refuses. */
static void check_refusals(struct bench *bench, struct ibv_mr *without)
{
	uint64_t target = (uintptr_t)bench->buffer + TARGET, value = 1;
	struct ibv_qp_ex *qp = pair(bench, 0);

	ibv_wr_start(qp);
	begin(qp, 10);
	wr_flush(qp, bench->mr->rkey, target, 8, GLOBAL, RANGE);
	EQUAL(ibv_wr_complete(qp), 0);
	expect_send(bench, 10, IBV_WC_REM_INV_REQ_ERR, 0);

	qp = pair(bench, ACCESS_FLUSH_GLOBAL | ACCESS_FLUSH_PERSISTENT);
	ibv_wr_start(qp);
	begin(qp, 11);
	wr_flush(qp, bench->mr->rkey, target, 8, PERSISTENT, RANGE);
	EQUAL(ibv_wr_complete(qp), 0);
	expect_send(bench, 11, IBV_WC_REM_ACCESS_ERR, 0);

	qp = pair(bench, ACCESS_FLUSH_GLOBAL);
	ibv_wr_start(qp);
	begin(qp, 12);
	wr_flush(qp, without->rkey, target, 8, GLOBAL, RANGE);
	EQUAL(ibv_wr_complete(qp), 0);
	expect_send(bench, 12, IBV_WC_REM_ACCESS_ERR, 0);

	/* A FLUSH of no bytes is checked, too. */
	qp = pair(bench, ACCESS_FLUSH_GLOBAL);
	ibv_wr_start(qp);
	begin(qp, 14);
	wr_flush(qp, bench->mr->rkey, target, 0, GLOBAL, RANGE);
	begin(qp, 15);
	wr_flush(qp, bench->mr->rkey ^ 1, target, 0, GLOBAL, RANGE);
	EQUAL(ibv_wr_complete(qp), 0);
	expect_send(bench, 14, IBV_WC_SUCCESS, WC_FLUSH);
	expect_send(bench, 15, IBV_WC_REM_ACCESS_ERR, 0);

	qp = pair(bench, ACCESS_FLUSH_GLOBAL);
	ibv_wr_start(qp);
	begin(qp, 13);
	ibv_wr_atomic_write(qp, bench->mr->rkey, target + 4, &value);
	EQUAL(ibv_wr_complete(qp), 0);
	expect_send(bench, 13, IBV_WC_REM_INV_REQ_ERR, 0);
}

int main(void)
{
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_device_attr_ex attr = { 0 };
	struct ibv_mr *without, *on_demand;
	struct bench bench;

	open_bench(&bench);
	EQUAL(ibv_query_device_ex(bench.context, NULL, &attr), 0);
	EQUAL(attr.device_cap_flags_ex >> 38 & 7, 5);
	without = bench.mr;
	if (attr.odp_caps.per_transport_caps.rc_odp_caps >> 6 == 3) {
		on_demand = ibv_reg_mr(bench.pd, bench.buffer, bench.size,
				       rights | ACCESS_FLUSH_GLOBAL | IBV_ACCESS_ON_DEMAND);
		NEED(on_demand);
		bench.mr = on_demand;
		check_log(&bench);
		memset(bench.buffer, 0, bench.size);
		EQUAL(ibv_dereg_mr(on_demand), 0);
	}
	bench.mr = ibv_reg_mr(bench.pd, bench.buffer, bench.size, rights | ACCESS_FLUSH_GLOBAL);
	NEED(bench.mr);
	check_log(&bench);
	check_arguments(&bench);
	check_refusals(&bench, without);
	EQUAL(ibv_dereg_mr(without), 0);
	close_bench(&bench);
	return finish();
}
