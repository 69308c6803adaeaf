/*
 * What exercises 4 to 12 share: the set-up that exercises 2 and 3 explain. Two processes meet by
 * TCP, exchange the addresses of their queue pairs and memory, and connect one RC queue pair.
 *
 *   ./program [-p PORT]               the server
 *   ./program [-p PORT] 127.0.0.1     the client
 */
#ifndef COURSE_H
#define COURSE_H

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

enum {
	PORT = 1,
	GID_INDEX = 1, /* The port's IPv4 address. */
	/* A program that waits longer for its peer ends. */
#ifdef BROKEN
	SECONDS_MAX = 4,
#else
	SECONDS_MAX = 60,
#endif
};

/* What each side has to know of the other. */
struct remote {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t rkey;
	uint64_t address;
};

/* What an exercise wants. Zero means the usual. */
struct wish {
	int tcp_port;
	size_t bytes; /* Size of the buffer. */
	int depth; /* Requests of each queue. */
	int inline_bytes;
	int rights; /* Of the memory region and the queue pair. */
};

/* One process: its objects, its buffer, and its peer. */
struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buffer;
	int depth, inline_bytes, rights;
	int sends_in_flight;
	int socket, is_client;
	union ibv_gid gid;
	struct remote peer;
};

static UNUSED __attribute__((noreturn)) void fail(const char *what, int error)
{
	fprintf(stderr, "%s: %s\n", what, strerror(error));
	exit(1);
}

/* For verbs that return an errno. */
static UNUSED void check(int error, const char *what)
{
	if (error)
		fail(what, error);
}

/* For verbs that return a pointer and set errno. */
static UNUSED void *need(void *object, const char *what)
{
	if (!object)
		fail(what, errno);
	return object;
}

/* In simulated time this is the time of the modelled machine. */
static UNUSED double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static UNUSED int connect_tcp(int port, const char *server)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, connected;

	if (server) {
		if (inet_pton(AF_INET, server, &address.sin_addr) != 1)
			fail(server, EINVAL);
		if (connect(listener, (struct sockaddr *)&address, sizeof address))
			fail("connect", errno);
		return listener;
	}
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1))
		fail("listen", errno);
	connected = accept(listener, NULL, NULL);
	if (connected < 0)
		fail("accept", errno);
	close(listener);
	return connected;
}

static UNUSED void exchange(int socket, const void *mine, void *theirs, size_t bytes)
{
	if (write(socket, mine, bytes) != (ssize_t)bytes ||
	    recv(socket, theirs, bytes, MSG_WAITALL) != (ssize_t)bytes)
		fail("the peer", ECONNRESET);
}

/* Returns when both sides have called it. */
static UNUSED void meet(struct side *side)
{
	char here = 0, there;

	exchange(side->socket, &here, &there, 1);
}

static UNUSED struct ibv_qp *create_qp(struct side *side, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = side->cq,
		.recv_cq = side->cq,
		.srq = srq,
		.cap = {
			.max_send_wr = side->depth,
			.max_recv_wr = side->depth,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = side->inline_bytes,
		},
		.qp_type = IBV_QPT_RC,
	};

	return need(ibv_create_qp(side->pd, &init), "ibv_create_qp");
}

static UNUSED void to_init(struct side *side, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = side->rights,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	check(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to INIT");
}

/* `rq_psn` is the number of the first packet that comes: the peer's sq_psn. */
static UNUSED void to_rtr(struct ibv_qp *qp, const struct remote *peer, uint32_t rq_psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.rq_psn = rq_psn,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.grh = { .dgid = peer->gid, .sgid_index = GID_INDEX, .hop_limit = 64 },
			.port_num = PORT,
		},
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	check(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to RTR");
}

/* Without an answer it sends again after 4.2 ms, three times. */
static UNUSED void to_rts(struct ibv_qp *qp, uint32_t sq_psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = sq_psn,
		.timeout = 10,
		.retry_cnt = 3,
		.rnr_retry = 3,
		.max_rd_atomic = 16,
	};
	int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

	check(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to RTS");
}

static UNUSED void connect_qp(struct side *side, struct ibv_qp *qp, const struct remote *peer)
{
	to_init(side, qp);
	to_rtr(qp, peer, 0);
	to_rts(qp, 0);
}

/* Makes the objects of one process. */
static UNUSED void open_objects(struct side *side, const struct wish *wish)
{
	struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");
	size_t bytes = wish->bytes ? wish->bytes : 4096;

	side->depth = wish->depth ? wish->depth : 16;
	side->inline_bytes = wish->inline_bytes;
	side->rights = wish->rights ? wish->rights : IBV_ACCESS_LOCAL_WRITE;
	side->context = need(ibv_open_device(list[0]), "ibv_open_device");
	ibv_free_device_list(list);
	side->pd = need(ibv_alloc_pd(side->context), "ibv_alloc_pd");
	if (posix_memalign((void **)&side->buffer, 4096, bytes))
		fail("posix_memalign", ENOMEM);
	memset(side->buffer, 0, bytes);
	side->mr = need(ibv_reg_mr(side->pd, side->buffer, bytes, side->rights), "ibv_reg_mr");
	side->channel = need(ibv_create_comp_channel(side->context), "ibv_create_comp_channel");
	side->cq = need(ibv_create_cq(side->context, 8 * side->depth, NULL, side->channel, 0),
			"ibv_create_cq");
	check(ibv_query_gid(side->context, PORT, GID_INDEX, &side->gid), "ibv_query_gid");
}

/* Meets the other process, and connects a queue pair with it. */
static UNUSED void open_side(struct side *side, int argc, char **argv, const struct wish *wish)
{
	int port = wish->tcp_port;
	struct remote mine;

	memset(side, 0, sizeof *side);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 2 && !strcmp(argv[1], "-p")) {
		port = atoi(argv[2]);
		argv += 2;
		argc -= 2;
	}
	side->is_client = argc > 1;
	open_objects(side, wish);
	side->qp = create_qp(side, NULL);
	mine = (struct remote){ side->gid, side->qp->qp_num, side->mr->rkey, (uintptr_t)side->buffer };
	side->socket = connect_tcp(port, side->is_client ? argv[1] : NULL);
	alarm(SECONDS_MAX);
	exchange(side->socket, &mine, &side->peer, sizeof mine);
	connect_qp(side, side->qp, &side->peer);
	meet(side);
}

static UNUSED void close_objects(struct side *side)
{
	check(ibv_destroy_cq(side->cq), "ibv_destroy_cq");
	check(ibv_destroy_comp_channel(side->channel), "ibv_destroy_comp_channel");
	check(ibv_dereg_mr(side->mr), "ibv_dereg_mr");
	check(ibv_dealloc_pd(side->pd), "ibv_dealloc_pd");
	check(ibv_close_device(side->context), "ibv_close_device");
	free(side->buffer);
}

static UNUSED void post_receive(struct side *side, struct ibv_qp *qp, size_t place, size_t bytes)
{
	struct ibv_sge to = { (uintptr_t)side->buffer + place, bytes, side->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = place, .sg_list = &to, .num_sge = 1 }, *bad;

	check(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

/* Returns a request about a part of the buffer, whose description is `sge`. */
static UNUSED struct ibv_send_wr request(struct side *side, struct ibv_sge *sge, size_t place,
					 size_t bytes, enum ibv_wr_opcode opcode)
{
	*sge = (struct ibv_sge){ (uintptr_t)side->buffer + place, bytes, side->mr->lkey };
	return (struct ibv_send_wr){
		.wr_id = place,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};
}

static UNUSED void post_send(struct side *side, struct ibv_qp *qp, size_t place, size_t bytes)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(side, &sge, place, bytes, IBV_WR_SEND), *bad;

	side->sends_in_flight++;
	check(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

/* READ or WRITE, between a part of this side's buffer and a part of the peer's. */
static UNUSED void post_rdma(struct side *side, enum ibv_wr_opcode opcode, size_t place,
			     size_t bytes, size_t remote_place)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(side, &sge, place, bytes, opcode), *bad;

	wr.wr.rdma.remote_addr = side->peer.address + remote_place;
	wr.wr.rdma.rkey = side->peer.rkey;
	check(ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
}

/* Polls once. Returns true if there is a completion, whatever its status. */
static UNUSED int poll_one(struct side *side, struct ibv_wc *wc)
{
	int count = ibv_poll_cq(side->cq, 1, wc);

	if (count < 0)
		fail("ibv_poll_cq", EIO);
	if (count && wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_SEND)
		side->sends_in_flight--;
	return count;
}

static UNUSED struct ibv_wc wait_any(struct side *side)
{
	struct ibv_wc wc;

	while (!poll_one(side, &wc))
		;
	return wc;
}

/* Ends the program if a request has failed. */
static UNUSED void expect_success(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "a completion: %s\n", ibv_wc_status_str(wc->status));
		exit(1);
	}
}

static UNUSED struct ibv_wc wait_one(struct side *side)
{
	struct ibv_wc wc = wait_any(side);

	expect_success(&wc);
	return wc;
}

static UNUSED struct ibv_wc wait_for_message(struct side *side)
{
	struct ibv_wc wc;

	do
		wc = wait_one(side);
	while (wc.opcode != IBV_WC_RECV);
	return wc;
}

/* Waits for the last SENDs and for the peer. Returns the exit status of the program. */
static UNUSED int close_side(struct side *side)
{
	while (side->sends_in_flight)
		wait_one(side);
	meet(side);
	close(side->socket);
	check(ibv_destroy_qp(side->qp), "ibv_destroy_qp");
	close_objects(side);
	return 0;
}

#endif
