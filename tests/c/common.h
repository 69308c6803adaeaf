/*
 * Code that the C programs of the tests share. They are linked against the distribution's
 * libibverbs and run under `ferroce run`. Two QPs of one process send to each other.
 */
#ifndef COMMON_H
#define COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* GID index of the bench's address; a function of `ferroce serve` has only the first GID. */
#ifndef GID_INDEX
#define GID_INDEX 1
#endif
#define UNUSED __attribute__((unused))
#define CHECK(condition) check(!!(condition), #condition, __FILE__, __LINE__)
/* Compares numbers and shows both. */
#define EQUAL(actual, expected) equal((actual), (expected), #actual, __FILE__, __LINE__)
/* Ends the program if the condition is false. */
#define NEED(condition) need(!!(condition), #condition, __FILE__, __LINE__)

enum { POLL_TIMEOUT_MS = 10000, SEND_MAX = 8, RECEIVE_MAX = 4, SGE_MAX = 3, INLINE_MAX = 64 };

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
		  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)

static int failures;

static UNUSED void check(int condition, const char *text, const char *file, int line)
{
	if (!condition) {
		printf("%s:%d: %s (errno %d)\n", file, line, text, errno);
		failures++;
	}
}

static UNUSED void equal(long actual, long expected, const char *text, const char *file, int line)
{
	if (actual != expected) {
		printf("%s:%d: %s is %ld instead of %ld\n", file, line, text, actual, expected);
		failures++;
	}
}

static UNUSED void need(int condition, const char *text, const char *file, int line)
{
	check(condition, text, file, line);
	if (!condition)
		exit(1);
}

/* Counts the open descriptors of this process. */
static UNUSED int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	NEED(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static UNUSED int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static UNUSED double now_in_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* A device and the objects that two QPs need. */
struct bench {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	/* Depth of send and receive queue. */
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	char *buffer;
	size_t size;
	union ibv_gid gid;
	/* For the next QPs that are connected. */
	int rnr_retry;
};

static UNUSED struct ibv_context *open_first_device(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context;

	NEED(list && count == 1);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	return context;
}

static UNUSED struct ibv_qp *create_qp(struct bench *bench)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = bench->send_cq,
		.recv_cq = bench->receive_cq,
		.cap = {
			.max_send_wr = SEND_MAX,
			.max_recv_wr = RECEIVE_MAX,
			.max_send_sge = SGE_MAX,
			.max_recv_sge = SGE_MAX,
			.max_inline_data = INLINE_MAX,
		},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(bench->pd, &attr);
}

static UNUSED void open_bench(struct bench *bench)
{
	memset(bench, 0, sizeof *bench);
	bench->rnr_retry = 7;
	bench->size = 1 << 20;
	bench->context = open_first_device();
	NEED(bench->context);
	bench->pd = ibv_alloc_pd(bench->context);
	bench->channel = ibv_create_comp_channel(bench->context);
	bench->send_cq = ibv_create_cq(bench->context, 64, NULL, bench->channel, 0);
	bench->receive_cq = ibv_create_cq(bench->context, 64, NULL, bench->channel, 0);
	bench->buffer = aligned_alloc(4096, bench->size);
	NEED(bench->pd && bench->send_cq && bench->receive_cq && bench->buffer);
	memset(bench->buffer, 0, bench->size);
	bench->mr = ibv_reg_mr(bench->pd, bench->buffer, bench->size,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			       IBV_ACCESS_REMOTE_READ);
	NEED(bench->mr);
	NEED(!ibv_query_gid(bench->context, 1, GID_INDEX, &bench->gid));
}

static UNUSED void close_bench(struct bench *bench)
{
	for (int i = 0; i < 2; i++)
		if (bench->qp[i])
			EQUAL(ibv_destroy_qp(bench->qp[i]), 0);
	EQUAL(ibv_dereg_mr(bench->mr), 0);
	EQUAL(ibv_destroy_cq(bench->send_cq), 0);
	EQUAL(ibv_destroy_cq(bench->receive_cq), 0);
	EQUAL(ibv_destroy_comp_channel(bench->channel), 0);
	EQUAL(ibv_dealloc_pd(bench->pd), 0);
	EQUAL(ibv_close_device(bench->context), 0);
	free(bench->buffer);
}

static UNUSED struct ibv_qp_attr init_attr(void)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ,
	};
}

static UNUSED struct ibv_qp_attr rtr_attr(struct bench *bench, uint32_t dest_qp_num)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qp_num,
		.rq_psn = 0xfffffe,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = { .dgid = bench->gid, .sgid_index = GID_INDEX, .hop_limit = 64 },
		},
	};
}

static UNUSED struct ibv_qp_attr rts_attr(struct bench *bench)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0xfffffe,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = bench->rnr_retry,
		.max_rd_atomic = 4,
	};
}

static UNUSED void to_rts(struct bench *bench, struct ibv_qp *qp, uint32_t dest_qp_num)
{
	struct ibv_qp_attr attr = init_attr();

	EQUAL(ibv_modify_qp(qp, &attr, INIT_MASK), 0);
	attr = rtr_attr(bench, dest_qp_num);
	EQUAL(ibv_modify_qp(qp, &attr, RTR_MASK), 0);
	attr = rts_attr(bench);
	EQUAL(ibv_modify_qp(qp, &attr, RTS_MASK), 0);
}

static UNUSED int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static UNUSED enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = -1 };
	struct ibv_qp_init_attr created;

	EQUAL(ibv_query_qp(qp, &attr, IBV_QP_STATE, &created), 0);
	return attr.qp_state;
}

/* Two new QPs, each connected to the other. */
static UNUSED void connect_pair(struct bench *bench)
{
	for (int i = 0; i < 2; i++) {
		if (bench->qp[i])
			EQUAL(ibv_destroy_qp(bench->qp[i]), 0);
		bench->qp[i] = create_qp(bench);
		NEED(bench->qp[i]);
	}
	to_rts(bench, bench->qp[0], bench->qp[1]->qp_num);
	to_rts(bench, bench->qp[1], bench->qp[0]->qp_num);
}

static UNUSED struct ibv_sge sge_of(struct bench *bench, size_t offset, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)bench->buffer + offset, length, bench->mr->lkey };
}

/* One signaled work request with at most one data segment. */
static UNUSED int post_send(struct bench *bench, enum ibv_wr_opcode opcode, uint64_t wr_id,
			    struct ibv_sge sge, size_t remote_offset, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = sge.length ? 1 : 0,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)bench->buffer + remote_offset, rkey },
	};

	return ibv_post_send(bench->qp[0], &wr, &bad);
}

static UNUSED int post_receive(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge sge)
{
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = sge.length ? 1 : 0,
	};

	return ibv_post_recv(qp, &wr, &bad);
}

/* Returns the next completion; ends the program if there is none in time. */
static UNUSED struct ibv_wc next_wc(struct ibv_cq *cq)
{
	const int64_t deadline = now_ms() + POLL_TIMEOUT_MS;
	struct ibv_wc wc = { .status = -1 };
	int found;

	while (!(found = ibv_poll_cq(cq, 1, &wc)) && now_ms() < deadline)
		;
	NEED(found == 1);
	return wc;
}

/* Without a look at the clock: so the simulation knows that the loop waits for the card only. */
static UNUSED struct ibv_wc wait_for(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int found;

	while (!(found = ibv_poll_cq(cq, 1, &wc)))
		;
	NEED(found == 1);
	return wc;
}

#define EXPECT_WC(cq, id, expected_status) do { \
	struct ibv_wc found = next_wc(cq); \
	EQUAL(found.wr_id, id); \
	EQUAL(found.status, expected_status); \
} while (0)

/* What the peer needs to reach this side. */
struct peer_address {
	union ibv_gid gid;
	uint32_t qpn, rkey;
	uint64_t buffer;
};

/* Connects to a server, or without an address waits for a client. */
static UNUSED int connected_socket(int port, const char *address)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(port) };
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), peer;

	NEED(listener >= 0);
	if (address) {
		NEED(inet_pton(AF_INET, address, &name.sin_addr) == 1);
		NEED(!connect(listener, (struct sockaddr *)&name, sizeof name));
		return listener;
	}
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	NEED(!bind(listener, (struct sockaddr *)&name, sizeof name) && !listen(listener, 1));
	peer = accept(listener, NULL, NULL);
	NEED(peer >= 0);
	close(listener);
	return peer;
}

/* Tells the peer of a socket where this side is. */
static UNUSED void send_word(int socket, char word)
{
	NEED(send(socket, &word, 1, MSG_NOSIGNAL) == 1);
}

/* Waits until the peer is there. */
static UNUSED void expect_word(int socket, char word)
{
	char found = 0;

	NEED(recv(socket, &found, 1, MSG_WAITALL) == 1);
	EQUAL(found, word);
}

/* Connects the first QP with a peer. */
static UNUSED void connect_qp(struct bench *bench, const struct peer_address *peer, int timeout,
			      int retry_cnt, int rnr_retry)
{
	struct ibv_qp_attr attr = init_attr();

	EQUAL(ibv_modify_qp(bench->qp[0], &attr, INIT_MASK), 0);
	attr = rtr_attr(bench, peer->qpn);
	attr.ah_attr.grh.dgid = peer->gid;
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, RTR_MASK), 0);
	attr = rts_attr(bench);
	attr.timeout = timeout;
	attr.retry_cnt = retry_cnt;
	attr.rnr_retry = rnr_retry;
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, RTS_MASK), 0);
}

static UNUSED int finish(void)
{
	printf("%d failures\n", failures);
	return failures != 0;
}

#endif
