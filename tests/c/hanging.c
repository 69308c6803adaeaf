/*
 * Programs that hang, or whose packets are dropped without a completion; the argument names the
 * mistake. An alarm ends those that hang. The test `errors` checks what --explain-errors prints.
 */
#include "common.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

enum { SECONDS = 2, SECONDS_OF_A_STALL = 8, Q_KEY = 0x11111111, OTHER_Q_KEY = 0x22222222 };
enum { GRH = 40, LENGTH = 64, HERE = 0x100, ELSEWHERE = 0x500000 };

/* A UD QP in RTS. */
static struct ibv_qp *datagram_qp(struct bench *bench, uint32_t q_key)
{
	struct ibv_qp_init_attr init = {
		.send_cq = bench->send_cq,
		.recv_cq = bench->receive_cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = q_key };
	struct ibv_qp *qp = ibv_create_qp(bench->pd, &init);

	NEED(qp);
	EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_QKEY), 0);
	EQUAL(to_state(qp, IBV_QPS_RTR), 0);
	attr.qp_state = IBV_QPS_RTS;
	EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return qp;
}

/* One datagram from the first QP to the second, whose receive has `room` bytes; 0: none. */
static void send_datagram(struct bench *bench, uint32_t remote_q_key, uint32_t room)
{
	struct ibv_ah_attr path = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = bench->gid, .sgid_index = GID_INDEX, .hop_limit = 64 },
	};
	struct ibv_ah *ah = ibv_create_ah(bench->pd, &path);
	struct ibv_sge sge = sge_of(bench, 0, LENGTH);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	NEED(ah);
	for (int i = 0; i < 2; i++)
		bench->qp[i] = datagram_qp(bench, Q_KEY);
	if (room)
		EQUAL(post_receive(bench->qp[1], 1, sge_of(bench, 4096, room)), 0);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = bench->qp[1]->qp_num;
	wr.wr.ud.remote_qkey = remote_q_key;
	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
	/* The sender learns nothing. */
	NEED(next_wc(bench->send_cq).status == IBV_WC_SUCCESS);
	/* Waits for the datagram until the alarm. */
	wait_for(bench->receive_cq);
	EQUAL(ibv_destroy_ah(ah), 0);
}

/* The first QP sends from `sq_psn`; the second one expects `rq_psn`. */
static void connect_with_psns(struct bench *bench, uint32_t sq_psn, uint32_t rq_psn)
{
	struct ibv_qp_attr attr;

	for (int i = 0; i < 2; i++) {
		bench->qp[i] = create_qp(bench);
		NEED(bench->qp[i]);
	}
	for (int i = 0; i < 2; i++) {
		attr = init_attr();
		EQUAL(ibv_modify_qp(bench->qp[i], &attr, INIT_MASK), 0);
		attr = rtr_attr(bench, bench->qp[1 - i]->qp_num);
		if (i == 1)
			attr.rq_psn = rq_psn;
		EQUAL(ibv_modify_qp(bench->qp[i], &attr, RTR_MASK), 0);
		attr = rts_attr(bench);
		if (i == 0)
			attr.sq_psn = sq_psn;
		attr.timeout = 8;
		EQUAL(ibv_modify_qp(bench->qp[i], &attr, RTS_MASK), 0);
	}
	EQUAL(post_receive(bench->qp[1], 1, sge_of(bench, 4096, LENGTH)), 0);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, LENGTH), 0, 0), 0);
	NEED(next_wc(bench->send_cq).status == IBV_WC_RETRY_EXC_ERR);
}

/* A request to a QP that drops it, from a QP that never sends it again. */
static void send_without_timeout(struct bench *bench)
{
	struct ibv_qp_attr attr;

	for (int i = 0; i < 2; i++) {
		bench->qp[i] = create_qp(bench);
		NEED(bench->qp[i]);
		attr = init_attr();
		EQUAL(ibv_modify_qp(bench->qp[i], &attr, INIT_MASK), 0);
	}
	attr = rtr_attr(bench, bench->qp[1]->qp_num);
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, RTR_MASK), 0);
	attr = rts_attr(bench);
	attr.timeout = 0;
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, RTS_MASK), 0);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, LENGTH), 0, 0), 0);
	wait_for(bench->send_cq);
}

/* `count` WRITEs without IBV_SEND_SIGNALED, 0: as many as fit, and then a wait for a completion. */
static void write_unsignaled(struct bench *bench, uint32_t count)
{
	struct ibv_qp_init_attr created;
	struct ibv_qp_attr attr;
	struct ibv_sge sge = sge_of(bench, 0, LENGTH);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)bench->buffer + 4096, bench->mr->rkey },
	};

	connect_pair(bench);
	EQUAL(ibv_query_qp(bench->qp[0], &attr, IBV_QP_CAP, &created), 0);
	if (!count)
		count = created.cap.max_send_wr;
	for (uint32_t i = 0; i < count; i++)
		EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
	wait_for(bench->send_cq);
}

/* A signaled WRITE, whose completion comes while the CQ is not armed. */
static void write_unarmed(struct bench *bench)
{
	connect_pair(bench);
	EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, 1, sge_of(bench, 0, LENGTH), 4096,
			bench->mr->rkey), 0);
}

static void wait_in_poll(struct bench *bench)
{
	struct pollfd polled = { .fd = bench->channel->fd, .events = POLLIN };

	write_unarmed(bench);
	poll(&polled, 1, -1);
}

static void wait_in_epoll(struct bench *bench)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);

	NEED(epoll >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, bench->channel->fd, &event));
	write_unarmed(bench);
	epoll_wait(epoll, &event, 1, -1);
}

static void wait_in_select(struct bench *bench)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(bench->channel->fd, &set);
	write_unarmed(bench);
	select(bench->channel->fd + 1, &set, NULL, NULL, NULL);
}

static void send_without_receive(struct bench *bench)
{
	connect_pair(bench);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, LENGTH), 0, 0), 0);
	wait_for(bench->send_cq);
}

/* The receive comes late, but it comes. */
static void receive_late(struct bench *bench)
{
	connect_pair(bench);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, LENGTH), 0, 0), 0);
	usleep(50000);
	EQUAL(post_receive(bench->qp[1], 1, sge_of(bench, 4096, LENGTH)), 0);
	NEED(next_wc(bench->send_cq).status == IBV_WC_SUCCESS);
	NEED(next_wc(bench->receive_cq).status == IBV_WC_SUCCESS);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "late";
	struct bench bench;

	open_bench(&bench);
	alarm(strstr(mode, "stall") ? SECONDS_OF_A_STALL : SECONDS);
	if (!strcmp(mode, "qkey"))
		send_datagram(&bench, OTHER_Q_KEY, GRH + LENGTH);
	else if (!strcmp(mode, "unposted"))
		send_datagram(&bench, Q_KEY, 0);
	else if (!strcmp(mode, "grh"))
		send_datagram(&bench, Q_KEY, LENGTH);
	else if (!strcmp(mode, "early"))
		connect_with_psns(&bench, HERE, ELSEWHERE);
	else if (!strcmp(mode, "ahead"))
		connect_with_psns(&bench, HERE + 1, HERE);
	else if (!strcmp(mode, "unsignaled"))
		write_unsignaled(&bench, 0);
	else if (!strcmp(mode, "unsignaled-stall"))
		write_unsignaled(&bench, 1);
	else if (!strcmp(mode, "timeout-stall"))
		send_without_timeout(&bench);
	else if (!strcmp(mode, "poll"))
		wait_in_poll(&bench);
	else if (!strcmp(mode, "epoll"))
		wait_in_epoll(&bench);
	else if (!strcmp(mode, "select"))
		wait_in_select(&bench);
	else if (!strcmp(mode, "rnr"))
		send_without_receive(&bench);
	else
		receive_late(&bench);
	alarm(0);
	close_bench(&bench);
	return finish();
}
