/*
 * Uses every service and object that RC does not need, in loopback, and checks the errors that the
 * library itself returns. Run over the drop-in library by client.rs; other tests check the device.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) check((condition), #condition, __LINE__)
/* Checks a call that fails with NULL or -1 and sets errno. */
#define REFUSED(number, failed) (errno = 0, (failed) && errno == (number))

enum { BUFFER_SIZE = 8192, HALF = BUFFER_SIZE / 2, QUEUE = 16, POLLS = 10000000, Q_KEY = 0x1234 };

static int failures;

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char *buffer;
static union ibv_gid gid;

static void check(int condition, const char *text, int line)
{
	if (!condition) {
		printf("line %d: %s (errno %d)\n", line, text, errno);
		failures++;
	}
}

static void open_device(void)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 4 * QUEUE, NULL, NULL, 0);
	buffer = aligned_alloc(4096, BUFFER_SIZE);
	memset(buffer, 7, BUFFER_SIZE);
	mr = ibv_reg_mr(pd, buffer, BUFFER_SIZE, access);
	CHECK(context && pd && cq && mr);
	CHECK(!ibv_query_gid(context, 1, 1, &gid));
}

static struct ibv_sge part(int offset, int length)
{
	return (struct ibv_sge){ (uintptr_t)buffer + offset, length, mr->lkey };
}

static struct ibv_wc completion_of(struct ibv_cq *from)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	for (int i = 0; i < POLLS; i++)
		if (ibv_poll_cq(from, 1, &wc))
			return wc;
	CHECK(!"a completion");
	return wc;
}

/* The completions of a send and its receive, in either order. */
static void both(struct ibv_wc *sent, struct ibv_wc *received)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = completion_of(cq);
		*(wc.opcode & IBV_WC_RECV ? received : sent) = wc;
	}
}

static struct ibv_qp *create_qp(enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { QUEUE, QUEUE, 2, 2, 64 },
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	CHECK(qp && qp->qp_type == type && qp->srq == srq);
	return qp;
}

/* Moves a QP from RESET to RTS with the attributes of its type. */
static void connect(struct ibv_qp *qp, uint32_t other)
{
	const int is_ud = qp->qp_type == IBV_QPT_UD, is_uc = qp->qp_type == IBV_QPT_UC;
	const int rc_rtr = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rc_rts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			   IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = Q_KEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = other,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .port_num = 1, .is_global = 1, .grh = { gid, 0, 1, 64, 0 } },
	};

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						(is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr,
			     is_ud ? IBV_QP_STATE :
				     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					     IBV_QP_RQ_PSN | (is_uc ? 0 : rc_rtr)));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | (is_ud || is_uc ? 0 : rc_rts)));
	CHECK(qp->state == IBV_QPS_RTS);
}

static void receive(struct ibv_qp *qp, int offset, int length)
{
	struct ibv_sge sge = part(offset, length);
	struct ibv_recv_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(qp, &wr, &bad));
}

static void datagrams(void)
{
	struct ibv_ah_attr path = { .port_num = 1, .is_global = 1, .grh = { gid, 0, 1, 64, 0 } };
	struct ibv_qp_init_attr_ex extended = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { QUEUE, QUEUE, 1, 1, 64 },
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM,
	};
	struct ibv_pd *other_pd = ibv_alloc_pd(context);
	struct ibv_ah *ah = ibv_create_ah(pd, &path), *foreign = ibv_create_ah(other_pd, &path);
	struct ibv_qp *plain = create_qp(IBV_QPT_UD, NULL), *own;
	struct ibv_sge sge = part(0, 32);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };
	struct ibv_wc sent, received;
	struct ibv_qp_ex *ex;
	struct ibv_ah *back;

	CHECK(ah && foreign && ibv_dealloc_pd(other_pd) == EBUSY);
	path.is_global = 0;
	CHECK(REFUSED(EINVAL, !ibv_create_ah(pd, &path)));
	extended.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE;
	CHECK(REFUSED(EOPNOTSUPP, !ibv_create_qp_ex(context, &extended)));
	extended.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM;
	own = ibv_create_qp_ex(context, &extended);
	CHECK(own != NULL);
	ex = ibv_qp_to_qp_ex(own);
	connect(plain, 0);
	connect(own, 0);

	receive(own, HALF, 40 + 32);
	wr.wr.ud.remote_qpn = own->qp_num;
	wr.wr.ud.remote_qkey = Q_KEY;
	CHECK(ibv_post_send(plain, &wr, &bad) == EINVAL && bad == &wr);
	wr.wr.ud.ah = foreign;
	CHECK(ibv_post_send(plain, &wr, &bad) == EINVAL);
	wr.wr.ud.ah = ah;
	wr.opcode = IBV_WR_RDMA_WRITE;
	CHECK(ibv_post_send(plain, &wr, &bad) == EINVAL);
	wr.opcode = IBV_WR_SEND;
	CHECK(!ibv_post_send(plain, &wr, &bad));
	both(&sent, &received);
	CHECK(!sent.status && !received.status && received.byte_len == 72);
	CHECK(received.wc_flags == IBV_WC_GRH && received.src_qp == plain->qp_num);
	CHECK(!memcmp(buffer, buffer + HALF + 40, 32));

	/* The reply, by the other API, whose setters may be called in any order. */
	back = ibv_create_ah_from_wc(pd, &received, (struct ibv_grh *)(buffer + HALF), 1);
	CHECK(back != NULL);
	receive(plain, HALF, 40 + 64);
	ibv_wr_start(ex);
	ex->wr_id = 5;
	ex->wr_flags = 0;
	ibv_wr_send_imm(ex, htobe32(77));
	ibv_wr_set_inline_data(ex, "backwards", 9);
	ibv_wr_set_ud_addr(ex, back, plain->qp_num, Q_KEY);
	CHECK(!ibv_wr_complete(ex));
	both(&sent, &received);
	CHECK(sent.wr_id == 5 && received.byte_len == 49 && received.imm_data == htobe32(77));
	CHECK(received.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM));
	CHECK(!memcmp(buffer + HALF + 40, "backwards", 9));
	ibv_wr_start(ex);
	ibv_wr_send_imm(ex, 0);
	ibv_wr_set_ud_addr(ex, foreign, plain->qp_num, Q_KEY);
	CHECK(ibv_wr_complete(ex) == EINVAL);

	CHECK(ibv_attach_mcast(plain, &gid, 0) == EINVAL);
	CHECK(ibv_detach_mcast(plain, &group, 0) == EINVAL);
	CHECK(!ibv_attach_mcast(plain, &group, 0));
	CHECK(!ibv_detach_mcast(plain, &group, 0));
	CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_ah(back) && !ibv_destroy_ah(foreign));
	CHECK(!ibv_dealloc_pd(other_pd));
	CHECK(!ibv_destroy_qp(plain) && !ibv_destroy_qp(own));
}

static void unreliable_connection(void)
{
	struct ibv_qp *qp[2] = { create_qp(IBV_QPT_UC, NULL), create_qp(IBV_QPT_UC, NULL) };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_sge sge = part(0, 32);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ }, *bad;
	struct ibv_qp_init_attr created;
	struct ibv_wc sent, received;

	connect(qp[0], qp[1]->qp_num);
	connect(qp[1], qp[0]->qp_num);
	CHECK(ibv_attach_mcast(qp[0], &gid, 0) == EINVAL);
	CHECK(ibv_post_send(qp[0], &wr, &bad) == EINVAL);
	wr.opcode = IBV_WR_SEND;
	receive(qp[1], HALF, 32);
	CHECK(!ibv_post_send(qp[0], &wr, &bad));
	both(&sent, &received);
	CHECK(!sent.status && !received.status && received.wc_flags == 0);
	/* A failed send stops the send queue only, until the program starts it again. */
	sge.lkey++;
	CHECK(!ibv_post_send(qp[0], &wr, &bad));
	CHECK(completion_of(cq).status == IBV_WC_LOC_PROT_ERR);
	CHECK(!ibv_query_qp(qp[0], &attr, IBV_QP_STATE, &created));
	CHECK(attr.qp_state == IBV_QPS_SQE && qp[0]->state == IBV_QPS_SQE);
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp[0], &attr, IBV_QP_STATE));
	sge.lkey--;
	receive(qp[1], HALF, 32);
	CHECK(!ibv_post_send(qp[0], &wr, &bad));
	both(&sent, &received);
	CHECK(!sent.status && !received.status);
	CHECK(!ibv_destroy_qp(qp[0]) && !ibv_destroy_qp(qp[1]));
}

static void shared_receives(void)
{
	struct ibv_srq_init_attr attr = { .attr = { QUEUE, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);
	struct ibv_qp *target, *own;
	struct ibv_sge sge = part(HALF, 64), sent_sge = part(0, 64);
	struct ibv_recv_wr wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;
	struct ibv_send_wr send = { .sg_list = &sent_sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_send_wr *bad_send;
	struct ibv_srq_attr now;
	struct ibv_async_event event;
	struct ibv_wc sent, received;
	uint32_t number, posted = 0;

	CHECK(srq && attr.attr.max_wr >= QUEUE && attr.attr.max_sge >= 1);
	CHECK(ibv_get_srq_num(srq, &number) == EINVAL);
	now.max_wr = 2 * QUEUE;
	CHECK(ibv_modify_srq(srq, &now, IBV_SRQ_MAX_WR) == EINVAL);
	now.srq_limit = attr.attr.max_wr + 1;
	CHECK(ibv_modify_srq(srq, &now, IBV_SRQ_LIMIT) == EINVAL);
	target = create_qp(IBV_QPT_RC, srq);
	own = create_qp(IBV_QPT_RC, NULL);
	connect(target, own->qp_num);
	connect(own, target->qp_num);
	CHECK(ibv_post_recv(target, &wr, &bad) == EINVAL && bad == &wr);
	CHECK(ibv_destroy_srq(srq) == EBUSY);
	while (posted < 4 * QUEUE && !ibv_post_srq_recv(srq, &wr, &bad))
		posted++;
	CHECK(posted == attr.attr.max_wr && bad == &wr);
	now.srq_limit = posted;
	CHECK(!ibv_modify_srq(srq, &now, IBV_SRQ_LIMIT));
	CHECK(!ibv_post_send(own, &send, &bad_send));
	both(&sent, &received);
	CHECK(received.wr_id == 3 && received.qp_num == target->qp_num);
	CHECK(!ibv_get_async_event(context, &event));
	CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
	ibv_ack_async_event(&event);
	CHECK(!ibv_query_srq(srq, &now) && now.srq_limit == 0 && now.max_wr == posted);
	CHECK(!ibv_destroy_qp(target) && !ibv_destroy_qp(own) && !ibv_destroy_srq(srq));
}

static void extended_connection(void)
{
	struct ibv_xrcd_init_attr open_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = 999,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex srq_attr = {
		.attr = { QUEUE, 1, 0 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
	};
	struct ibv_qp_init_attr_ex target_attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};
	struct ibv_qp_open_attr shared_attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	char name[] = "/tmp/xrc-XXXXXX";
	const int fd = mkstemp(name);
	struct ibv_sge sge = part(HALF, 64), sent_sge = part(0, 64);
	struct ibv_recv_wr wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_send_wr send = { .sg_list = &sent_sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_send_wr *bad_send;
	struct ibv_xrcd *xrcd, *again;
	struct ibv_qp *target, *shared, *own;
	struct ibv_srq *srq;
	struct ibv_wc sent, received;
	uint32_t number;

	CHECK(REFUSED(EBADF, !ibv_open_xrcd(context, &open_attr)));
	open_attr.fd = fd;
	open_attr.oflags = 0;
	CHECK(REFUSED(EAGAIN, !ibv_open_xrcd(context, &open_attr)));
	open_attr.oflags = O_CREAT;
	xrcd = ibv_open_xrcd(context, &open_attr);
	open_attr.oflags = O_CREAT | O_EXCL;
	CHECK(REFUSED(EINVAL, !ibv_open_xrcd(context, &open_attr)));
	open_attr.oflags = 0;
	again = ibv_open_xrcd(context, &open_attr);
	CHECK(xrcd && again && xrcd != again);
	srq_attr.xrcd = target_attr.xrcd = xrcd;
	CHECK(REFUSED(EINVAL, !ibv_create_srq_ex(context, &srq_attr)));
	srq_attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	srq_attr.cq = cq;
	srq = ibv_create_srq_ex(context, &srq_attr);
	CHECK(srq && !ibv_get_srq_num(srq, &number));
	target = ibv_create_qp_ex(context, &target_attr);
	CHECK(target && !target->pd && !target->send_cq);
	own = create_qp(IBV_QPT_XRC_SEND, NULL);
	connect(target, own->qp_num);
	connect(own, target->qp_num);
	shared_attr.xrcd = again;
	shared_attr.qp_num = own->qp_num;
	CHECK(REFUSED(EINVAL, !ibv_open_qp(context, &shared_attr)));
	shared_attr.qp_num = target->qp_num;
	shared = ibv_open_qp(context, &shared_attr);
	CHECK(shared && shared->qp_num == target->qp_num && shared->state == IBV_QPS_RTS);
	/* It stays while it is open. */
	CHECK(!ibv_destroy_qp(target));
	CHECK(ibv_post_send(shared, &send, &bad_send) == EINVAL);
	CHECK(ibv_post_recv(shared, &wr, &bad) == EINVAL);
	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	send.qp_type.xrc.remote_srqn = number;
	CHECK(!ibv_post_send(own, &send, &bad_send));
	both(&sent, &received);
	CHECK(!sent.status && !received.status && received.wr_id == 3);
	CHECK(ibv_close_xrcd(xrcd) == EBUSY && ibv_close_xrcd(again) == EBUSY);
	CHECK(!ibv_destroy_qp(own) && !ibv_destroy_qp(shared) && !ibv_destroy_srq(srq));
	CHECK(REFUSED(EINVAL, !ibv_open_qp(context, &shared_attr)));
	CHECK(!ibv_close_xrcd(xrcd) && !ibv_close_xrcd(again));
	close(fd);
	unlink(name);
}

static void windows_and_atomics(void)
{
	struct ibv_qp *qp[2] = { create_qp(IBV_QPT_RC, NULL), create_qp(IBV_QPT_RC, NULL) };
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info range = { mr, (uintptr_t)buffer + HALF, 64,
					  IBV_ACCESS_REMOTE_WRITE };
	struct ibv_mw_bind bind = { .wr_id = 6, .send_flags = 0, .bind_info = range };
	struct ibv_sge sge = part(0, 64), word = part(64, 8);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .bind_mw = { one, 0, range } }, *bad;
	uint64_t *remote = (uint64_t *)(buffer + HALF + 128), *original = (uint64_t *)(buffer + 64);
	uint32_t old;

	CHECK(one && two && REFUSED(EINVAL, !ibv_alloc_mw(pd, 3)));
	connect(qp[0], qp[1]->qp_num);
	connect(qp[1], qp[0]->qp_num);
	old = one->rkey;
	CHECK(ibv_post_send(qp[1], &wr, &bad) == EINVAL);
	bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	CHECK(ibv_bind_mw(qp[1], one, &bind) == EINVAL && one->rkey == old);
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	CHECK(!ibv_bind_mw(qp[1], one, &bind) && one->rkey == ibv_inc_rkey(old));
	CHECK(completion_of(cq).opcode == IBV_WC_BIND_MW);
	CHECK(ibv_dereg_mr(mr) == EBUSY);
	wr = (struct ibv_send_wr){ .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };
	wr.wr.rdma.remote_addr = range.addr;
	wr.wr.rdma.rkey = one->rkey;
	memset(buffer, 42, 64);
	CHECK(!ibv_post_send(qp[0], &wr, &bad) && !completion_of(cq).status);
	CHECK(buffer[HALF + 63] == 42);
	CHECK(!ibv_dealloc_mw(one));

	wr = (struct ibv_send_wr){ .opcode = IBV_WR_BIND_MW };
	wr.bind_mw.mw = two;
	wr.bind_mw.bind_info = range;
	old = two->rkey;
	wr.bind_mw.rkey = ibv_inc_rkey(old) ^ 0x100; /* only eight bits are used */
	CHECK(!ibv_post_send(qp[1], &wr, &bad) && !completion_of(cq).status);
	CHECK(two->rkey == ibv_inc_rkey(old));
	wr = (struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV };
	wr.invalidate_rkey = two->rkey;
	CHECK(!ibv_post_send(qp[1], &wr, &bad));
	CHECK(completion_of(cq).opcode == IBV_WC_LOCAL_INV);
	CHECK(!ibv_dealloc_mw(two));

	*remote = 40;
	wr = (struct ibv_send_wr){ .sg_list = &word, .num_sge = 1 };
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = (uintptr_t)remote;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 2;
	CHECK(!ibv_post_send(qp[0], &wr, &bad) && !completion_of(cq).status);
	CHECK(*remote == 42 && *original == 40);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 1;
	CHECK(!ibv_post_send(qp[0], &wr, &bad) && completion_of(cq).opcode == IBV_WC_COMP_SWAP);
	CHECK(*remote == 1 && *original == 42);
	CHECK(!ibv_destroy_qp(qp[0]) && !ibv_destroy_qp(qp[1]));
}

static void memory(void)
{
	struct ibv_alloc_dm_attr dm_attr = { .length = 256 };
	struct ibv_parent_domain_init_attr parent_attr = { .pd = pd };
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_pd *parent, *other = ibv_alloc_pd(context);
	struct ibv_device_attr_ex device;
	struct ibv_mr *region, *null;
	struct ibv_dm *dm;
	uint32_t key;
	char text[8] = "";

	region = ibv_reg_mr(pd, buffer, 64, 0);
	key = region->rkey;
	CHECK(ibv_rereg_mr(region, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	CHECK(ibv_rereg_mr(region, 8, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	CHECK(REFUSED(EINVAL, ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 0,
					   0) == IBV_REREG_MR_ERR_INPUT));
	CHECK(!ibv_rereg_mr(region, 7, other, buffer + 64, 128, IBV_ACCESS_LOCAL_WRITE));
	CHECK(region->pd == other && region->addr == buffer + 64 && region->length == 128);
	CHECK(region->rkey == key && ibv_dealloc_pd(other) == EBUSY);
	CHECK(!ibv_dereg_mr(region) && !ibv_dealloc_pd(other));
	null = ibv_alloc_null_mr(pd);
	CHECK(null && !ibv_dereg_mr(null));

	CHECK(!ibv_query_device_ex(context, NULL, &device) && device.max_dm_size >= 256);
	dm = ibv_alloc_dm(context, &dm_attr);
	CHECK(dm && !ibv_memcpy_to_dm(dm, 4, "in", 4));
	CHECK(!ibv_memcpy_from_dm(text, dm, 4, 4) && !strcmp(text, "in"));
	CHECK(ibv_memcpy_to_dm(dm, 2, "in", 4) == EINVAL);
	CHECK(ibv_memcpy_to_dm(dm, 256, "in", 4) == EFAULT);
	CHECK(REFUSED(EINVAL, !ibv_reg_dm_mr(pd, dm, 0, 257, IBV_ACCESS_ZERO_BASED)));
	CHECK(REFUSED(EINVAL, !ibv_reg_dm_mr(pd, dm, 0, 256, 0)));
	region = ibv_reg_dm_mr(pd, dm, 0, 256, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	CHECK(region && ibv_free_dm(dm) == EBUSY);
	CHECK(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) < 0);
	CHECK(!ibv_dereg_mr(region) && !ibv_free_dm(dm));
	dm_attr.length = device.max_dm_size + 1;
	CHECK(REFUSED(EINVAL, !ibv_alloc_dm(context, &dm_attr)));

	parent_attr.td = ibv_alloc_td(context, &td_attr);
	parent_attr.comp_mask = 8;
	CHECK(REFUSED(EOPNOTSUPP, !ibv_alloc_parent_domain(context, &parent_attr)));
	parent_attr.comp_mask = 0;
	parent = ibv_alloc_parent_domain(context, &parent_attr);
	CHECK(parent && ibv_dealloc_td(parent_attr.td) == EBUSY && ibv_dealloc_pd(pd) == EBUSY);
	region = ibv_reg_mr(parent, buffer, 64, 0);
	CHECK(ibv_dealloc_pd(parent) == EBUSY && !ibv_dereg_mr(region));
	CHECK(!ibv_dealloc_pd(parent) && !ibv_dealloc_td(parent_attr.td));
}

static void completion_queues(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = QUEUE,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = pd,
	};
	struct ibv_modify_cq_attr moderation = { IBV_CQ_ATTR_MODERATE, { 4, 16 } };
	struct ibv_poll_cq_attr no_attr = { 0 };
	struct ibv_qp *qp = create_qp(IBV_QPT_RC, NULL);
	struct ibv_ece ece = { 0 };
	struct ibv_cq_ex *timed;
	struct ibv_qp_init_attr created = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_recv_wr wr = { .wr_id = 2 }, *bad;
	struct ibv_qp *flushed;
	uint64_t made_ns;
	int found = ENOENT;

	CHECK(!ibv_query_ece(qp, &ece) && ece.vendor_id && !ece.options);
	CHECK(!ibv_set_ece(qp, &ece));
	ece.comp_mask = 1;
	CHECK(ibv_set_ece(qp, &ece) == EINVAL);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_resize_cq(cq, 8 * QUEUE) && cq->cqe >= 8 * QUEUE);
	CHECK(ibv_resize_cq(cq, 0) == EINVAL);
	CHECK(!ibv_modify_cq(cq, &moderation));
	moderation.attr_mask = 2;
	CHECK(ibv_modify_cq(cq, &moderation) == EINVAL);
	CHECK(REFUSED(EINVAL, !ibv_create_cq_ex(context, &attr)));
	attr.comp_mask = 0;
	attr.wc_flags |= IBV_WC_EX_WITH_FLOW_TAG;
	CHECK(REFUSED(EOPNOTSUPP, !ibv_create_cq_ex(context, &attr)));
	attr.wc_flags &= ~IBV_WC_EX_WITH_FLOW_TAG;
	timed = ibv_create_cq_ex(context, &attr);
	CHECK(timed != NULL);
	created.send_cq = created.recv_cq = ibv_cq_ex_to_cq(timed);
	flushed = ibv_create_qp(pd, &created);
	error.qp_state = IBV_QPS_INIT;
	error.port_num = 1;
	CHECK(!ibv_modify_qp(flushed, &error, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
						      IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_post_recv(flushed, &wr, &bad));
	error.qp_state = IBV_QPS_ERR;
	CHECK(!ibv_modify_qp(flushed, &error, IBV_QP_STATE));
	for (int i = 0; i < POLLS && found == ENOENT; i++)
		found = ibv_start_poll(timed, &no_attr);
	CHECK(found == 0 && timed->status == IBV_WC_WR_FLUSH_ERR && timed->wr_id == 2);
	made_ns = ibv_wc_read_completion_wallclock_ns(timed);
	CHECK(llabs((long long)(made_ns / 1000000000) - (long long)time(NULL)) <= 60);
	ibv_end_poll(timed);
	CHECK(!ibv_destroy_qp(flushed) && !ibv_destroy_cq(ibv_cq_ex_to_cq(timed)));
}

int main(void)
{
	open_device();
	datagrams();
	unreliable_connection();
	shared_receives();
	extended_connection();
	windows_and_atomics();
	memory();
	completion_queues();
	CHECK(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	printf("%d failures\n", failures);
	return failures != 0;
}
