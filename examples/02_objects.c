/*
 * Exercise 2: the objects that every RDMA program makes, and the states of a queue pair.
 *
 *   cc -o objects 02_objects.c -libverbs
 *   ferroce run -- ./objects
 *
 * The queue pair is connected to itself, so one process is enough: it sends a message to itself.
 * With -DBROKEN it goes from INIT to RTS at once, without RTR.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where in the table the port's IPv4 address is; exercise 1 lists the table. */
enum { PORT = 1, GID_INDEX = 1, BYTES = 4096 };

static void fail(const char *what, int error)
{
	fflush(stdout);
	fprintf(stderr, "%s: %s\n", what, strerror(error));
	exit(1);
}

static void *need(void *object, const char *what)
{
	if (!object)
		fail(what, errno);
	return object;
}

static void show_state(struct ibv_qp *qp)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS" };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int error = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);

	if (error)
		fail("ibv_query_qp", error);
	printf("the queue pair is in %s\n", attr.qp_state <= IBV_QPS_RTS ? names[attr.qp_state] : "?");
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error = ibv_modify_qp(qp, attr, mask);

	if (error)
		fail("ibv_modify_qp", error);
	show_state(qp);
}

/* INIT: the queue pair has a port and rights. It takes receives, but no packets. */
static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE,
	};

	modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* RTR, "ready to receive": it knows its peer, here itself. */
static void to_rtr(struct ibv_qp *qp, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.rq_psn = 0, /* The number of the first packet that comes: the peer's sq_psn. */
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1, /* RoCE always has a global address. */
			.grh = { .dgid = *gid, .sgid_index = GID_INDEX, .hop_limit = 64 },
			.port_num = PORT,
		},
	};

	modify(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/* RTS, "ready to send". */
static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0,
		.timeout = 14, /* 4.096 us * 2^14: 67 ms without an answer, then it sends again, */
		.retry_cnt = 7, /* seven times. */
		.rnr_retry = 7, /* 7: for ever, while the peer has no receive. */
		.max_rd_atomic = 1,
	};

	modify(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Sends the first half of the buffer to the second half. */
static void send_to_itself(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr)
{
	char *buffer = mr->addr;
	struct ibv_sge from = { (uintptr_t)buffer, BYTES / 2, mr->lkey };
	struct ibv_sge to = { (uintptr_t)buffer + BYTES / 2, BYTES / 2, mr->lkey };
	struct ibv_recv_wr receive = { .wr_id = 1, .sg_list = &to, .num_sge = 1 }, *bad_receive;
	struct ibv_send_wr send = {
		.wr_id = 2,
		.sg_list = &from,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad_send;
	struct ibv_wc wc;
	int error;

	strcpy(buffer, "hello");
	error = ibv_post_recv(qp, &receive, &bad_receive);
	if (error)
		fail("ibv_post_recv", error);
	error = ibv_post_send(qp, &send, &bad_send);
	if (error)
		fail("ibv_post_send", error);
	for (int done = 0; done < 2;) {
		int count = ibv_poll_cq(cq, 1, &wc);

		if (count < 0 || (count == 1 && wc.status != IBV_WC_SUCCESS))
			fail("a completion", EIO);
		done += count;
	}
	printf("received \"%s\"\n", buffer + BYTES / 2);
}

int main(void)
{
	struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_context *context = need(ibv_open_device(list[0]), "ibv_open_device");
	/* A protection domain: only objects of the same one work together. */
	struct ibv_pd *pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
	char *buffer = need(calloc(1, BYTES), "calloc");
	/* A memory region: the device reaches only registered memory, by the region's keys. */
	struct ibv_mr *mr = need(ibv_reg_mr(pd, buffer, BYTES, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	/* A completion queue: here the device reports which requests are done. */
	struct ibv_cq *cq = need(ibv_create_cq(context, 100, NULL, NULL, 0), "ibv_create_cq");
	/* A queue pair: a queue for requests to send, and one for buffers to receive. */
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 10, .max_recv_wr = 10, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = need(ibv_create_qp(pd, &init), "ibv_create_qp");
	union ibv_gid gid;

	printf("asked for 100 completions, got room for %d\n", cq->cqe);
	printf("asked for 10 sends, got room for %u\n", init.cap.max_send_wr);
	show_state(qp);
	if (ibv_query_gid(context, PORT, GID_INDEX, &gid))
		fail("ibv_query_gid", errno);
	to_init(qp);
#ifndef BROKEN
	to_rtr(qp, &gid);
#else
	(void)to_rtr;
#endif
	to_rts(qp);
	send_to_itself(qp, cq, mr);

	/* In the reverse order: an object that is in use cannot be destroyed. */
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
	free(buffer);
	return 0;
}
