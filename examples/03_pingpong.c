/*
 * Exercise 3: SEND and RECV between two processes.
 *
 *   cc -o pingpong 03_pingpong.c -libverbs
 *   ferroce run -- ./pingpong &               the server
 *   ferroce run -- ./pingpong 127.0.0.1       the client
 *
 * Before two queue pairs can talk, each has to know the other's number and address. RDMA has no
 * way to say them before the connection exists, so this program, like most, uses a TCP socket.
 * With -DBROKEN the server posts no receives.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 1, GID_INDEX = 1, BYTES = 64, DEPTH = 16, ROUNDS = 1000 };
enum { TCP_PORT = 18503 };
/* A program that waits longer for its peer ends. */
#ifdef BROKEN
enum { SECONDS_MAX = 4 };
#else
enum { SECONDS_MAX = 60 };
#endif

/* What each side has to know of the other. */
struct address {
	union ibv_gid gid;
	uint32_t qpn;
};

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

/* A TCP connection: the server waits for the client. */
static int connect_tcp(int port, const char *server)
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

/* Sends this side's bytes, and receives as many of the other side. */
static void exchange(int socket, const void *mine, void *theirs, size_t bytes)
{
	if (write(socket, mine, bytes) != (ssize_t)bytes ||
	    recv(socket, theirs, bytes, MSG_WAITALL) != (ssize_t)bytes)
		fail("the other side", ECONNRESET);
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error = ibv_modify_qp(qp, attr, mask);

	if (error)
		fail("ibv_modify_qp", error);
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE,
	};

	modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void to_rts(struct ibv_qp *qp, const struct address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, /* "Not ready" asks the peer to wait 0.64 ms. */
		.ah_attr = {
			.is_global = 1,
			.grh = { .dgid = peer->gid, .sgid_index = GID_INDEX, .hop_limit = 64 },
			.port_num = PORT,
		},
	};

	modify(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 3, /* It asks a peer without a receive three more times. */
		.max_rd_atomic = 1,
	};
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void post_receive(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge to = { (uintptr_t)mr->addr, BYTES, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &to, .num_sge = 1 }, *bad;
	int error = ibv_post_recv(qp, &wr, &bad);

	if (error)
		fail("ibv_post_recv", error);
}

static void post_send(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge from = { (uintptr_t)mr->addr, BYTES, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &from,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	int error = ibv_post_send(qp, &wr, &bad);

	if (error)
		fail("ibv_post_send", error);
}

/* Polls until so many SENDs are complete, and so many messages have come, since the start. */
static void wait_until(struct ibv_cq *cq, int sends, int messages)
{
	static int sent, received;
	struct ibv_wc wc;

	while (sent < sends || received < messages) {
		int count = ibv_poll_cq(cq, 1, &wc);

		if (count < 0)
			fail("ibv_poll_cq", EIO);
		if (!count)
			continue;
		if (wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "a completion: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
		if (wc.opcode == IBV_WC_RECV)
			received++;
		else
			sent++;
	}
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void play(struct ibv_qp *qp, struct ibv_mr *mr, int is_client)
{
	double start = now_ns();

	for (int round = 0; round < ROUNDS; round++) {
		if (is_client)
			post_send(qp, mr);
		wait_until(qp->send_cq, is_client ? round + 1 : round, round + 1);
		post_receive(qp, mr); /* For the next message, before the peer may send it. */
		if (!is_client)
			post_send(qp, mr);
	}
	wait_until(qp->send_cq, ROUNDS, ROUNDS);
	if (is_client)
		printf("%d rounds of %d bytes, %.1f ns a round\n", ROUNDS, BYTES,
		       (now_ns() - start) / ROUNDS);
}

int main(int argc, char **argv)
{
	int port = TCP_PORT, socket, is_client;
	struct address mine = { 0 }, peer;
	char here = 0, there;

	if (argc > 2 && !strcmp(argv[1], "-p")) {
		port = atoi(argv[2]);
		argv += 2;
		argc -= 2;
	}
	is_client = argc > 1;

	struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_context *context = need(ibv_open_device(list[0]), "ibv_open_device");
	struct ibv_pd *pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
	char *buffer = need(calloc(1, BYTES), "calloc");
	struct ibv_mr *mr = need(ibv_reg_mr(pd, buffer, BYTES, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	struct ibv_cq *cq = need(ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0), "ibv_create_cq");
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = need(ibv_create_qp(pd, &init), "ibv_create_qp");

	mine.qpn = qp->qp_num;
	if (ibv_query_gid(context, PORT, GID_INDEX, &mine.gid))
		fail("ibv_query_gid", errno);
	socket = connect_tcp(port, is_client ? argv[1] : NULL);
	alarm(SECONDS_MAX);
	exchange(socket, &mine, &peer, sizeof mine);
	to_init(qp);
	to_rts(qp, &peer);
#ifdef BROKEN
	if (is_client)
#endif
		post_receive(qp, mr);
	/* Nothing is sent before both sides are ready to receive. */
	exchange(socket, &here, &there, 1);
	play(qp, mr, is_client);
	exchange(socket, &here, &there, 1);

	close(socket);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
	free(buffer);
	return 0;
}
