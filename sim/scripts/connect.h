/*
 * Connected QPs for the programs here that use verbs.
 */
#ifndef CONNECT_H
#define CONNECT_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEED(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
		_exit(1); \
	} \
} while (0)

/* Index of the GID that connections use. */
enum { GID_INDEX = 1 };

/* Connects an RC QP, which is in RESET, to the QP `qpn` of the port with this GID. */
static void connect_qp(struct ibv_qp *qp, uint32_t qpn, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
					       IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = { .dgid = *gid, .sgid_index = GID_INDEX, .hop_limit = 64 },
		},
	};
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 18,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC));
}

/* An RC QP that is connected to itself, and a buffer that it may read and write. */
struct loopback {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buffer;
};

/* Returns one on the first device, for `depth` requests in flight. */
static inline struct loopback open_loopback(size_t length, int depth)
{
	struct loopback made = { .buffer = aligned_alloc(4096, length) };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;

	NEED(made.buffer && list && list[0]);
	memset(made.buffer, 1, length);
	context = ibv_open_device(list[0]);
	NEED(context);
	pd = ibv_alloc_pd(context);
	NEED(pd && !ibv_query_gid(context, 1, GID_INDEX, &gid));
	made.mr = ibv_reg_mr(pd, made.buffer, length, IBV_ACCESS_LOCAL_WRITE |
			     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	made.cq = ibv_create_cq(context, depth, NULL, NULL, 0);
	NEED(made.mr && made.cq);
	made.qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){
		.send_cq = made.cq,
		.recv_cq = made.cq,
		.cap = { .max_send_wr = depth, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	});
	NEED(made.qp);
	connect_qp(made.qp, made.qp->qp_num, &gid);
	return made;
}

/* Posts a signaled request from or to `local`; both are offsets in the buffer. */
static inline void post_to_self(const struct loopback *self, enum ibv_wr_opcode opcode,
				size_t local, size_t remote, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)self->buffer + local, length, self->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)self->buffer + remote, self->mr->rkey },
	};

	NEED(!ibv_post_send(self->qp, &wr, &bad));
}

/* Returns how many requests a poll has completed. */
static inline int poll_once(const struct loopback *self)
{
	struct ibv_wc wc[16];
	const int found = ibv_poll_cq(self->cq, 16, wc);

	NEED(found >= 0);
	for (int i = 0; i < found; i++)
		NEED(wc[i].status == IBV_WC_SUCCESS);
	return found;
}

#endif
