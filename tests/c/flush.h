/* FLUSH and ATOMIC WRITE for C programs, also with headers that lack them. */
#ifndef FLUSH_H
#define FLUSH_H

#include "common.h"

enum { FLUSH_OPCODE = 14, WC_FLUSH = 8, WC_ATOMIC_WRITE = 9 };

#define ACCESS_FLUSH_GLOBAL (1 << 8)
#define ACCESS_FLUSH_PERSISTENT (1 << 9)
#define QP_EX_WITH_FLUSH (1 << 11)
#define QP_EX_WITH_ATOMIC_WRITE (1 << 12)

enum { GLOBAL = 1, PERSISTENT = 2, RANGE = 0, REGION = 1 };

static UNUSED void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, size_t length,
			    uint8_t type, uint8_t level)
{
	/* Headers before rdma-core 45 end before the call. */
	size_t end = offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *);
	void (*call)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);

	memcpy(&call, (char *)qp + end, sizeof call);
	call(qp, rkey, address, length, type, level);
}

static UNUSED struct ibv_qp *create_flush_qp(struct bench *bench)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = bench->send_cq,
		.recv_cq = bench->receive_cq,
		/* No inline data: an ATOMIC WRITE has its own place. */
		.cap = { SEND_MAX, RECEIVE_MAX, SGE_MAX, SGE_MAX, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = bench->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
				  QP_EX_WITH_FLUSH | QP_EX_WITH_ATOMIC_WRITE,
	};

	return ibv_create_qp_ex(bench->context, &attr);
}

static UNUSED void begin(struct ibv_qp_ex *qp, uint64_t wr_id)
{
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
}

static UNUSED void expect_send(struct bench *bench, uint64_t id, int status, int opcode)
{
	struct ibv_wc wc = next_wc(bench->send_cq);

	EQUAL(wc.wr_id, id);
	EQUAL(wc.status, status);
	if (!status)
		EQUAL(wc.opcode, opcode);
}

#endif
