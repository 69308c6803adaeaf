/*
 * Twenty wrong calls of verbs. Each has to fail with the errno that the manual page names; the test
 * `errors` checks the library's message about it.
 */
#include "common.h"

#define ADDRESS ((void *)0x200000000)

/* The call returned null with this errno. */
#define NONE(call, expected) do { \
	errno = 0; \
	CHECK((call) == NULL); \
	EQUAL(errno, expected); \
} while (0)

static struct ibv_qp_init_attr good(struct bench *bench)
{
	return (struct ibv_qp_init_attr){
		.send_cq = bench->send_cq,
		.recv_cq = bench->receive_cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2,
			 .max_inline_data = 16 },
		.qp_type = IBV_QPT_RC,
	};
}

static void create(struct bench *bench)
{
	struct ibv_qp_init_attr attr = good(bench);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 16, .max_sge = 200 } };

	NONE(ibv_create_cq(bench->context, 0, NULL, NULL, 0), EINVAL);
	NONE(ibv_create_cq(bench->context, 16, NULL, NULL, 5000), EINVAL);
	attr.cap.max_send_wr = 1 << 20;
	NONE(ibv_create_qp(bench->pd, &attr), EINVAL);
	attr = good(bench);
	attr.qp_type = IBV_QPT_RAW_PACKET;
	NONE(ibv_create_qp(bench->pd, &attr), EOPNOTSUPP);
	attr = good(bench);
	attr.recv_cq = NULL;
	NONE(ibv_create_qp(bench->pd, &attr), EINVAL);
	NONE(ibv_create_srq(bench->pd, &srq), EINVAL);
}

static void memory(struct bench *bench)
{
	struct ibv_alloc_dm_attr dm = { .length = (size_t)1 << 40 };
	struct ibv_xrcd_init_attr xrcd = { .comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1 };

	NONE(ibv_reg_mr(bench->pd, bench->buffer, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	NONE(ibv_reg_mr(bench->pd, ADDRESS, 64, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	NONE(ibv_reg_mr(bench->pd, bench->buffer, 64, IBV_ACCESS_HUGETLB), EINVAL);
	NONE(ibv_alloc_dm(bench->context, &dm), EINVAL);
	NONE(ibv_open_xrcd(bench->context, &xrcd), EINVAL);
	EQUAL(ibv_dealloc_pd(bench->pd), EBUSY);
}

static void address(struct bench *bench)
{
	struct ibv_ah_attr attr = { .port_num = 1 };

	NONE(ibv_create_ah(bench->pd, &attr), EINVAL);
	attr.is_global = 1;
	attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xff;
	memcpy(attr.grh.dgid.raw + 12, (uint8_t[]){ 192, 0, 2, 99 }, 4);
	attr.grh.sgid_index = GID_INDEX;
	NONE(ibv_create_ah(bench->pd, &attr), EHOSTUNREACH);
}

static void modify_and_post(struct bench *bench)
{
	struct ibv_qp_attr attr = rtr_attr(bench, 1);
	struct ibv_sge list[8] = { { 0 } };
	struct ibv_send_wr *bad, wr = { .sg_list = list, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_receive, receive = { .sg_list = list, .num_sge = 8 };
	struct ibv_mw_bind bind = { .bind_info = { .mw_access_flags = IBV_ACCESS_HUGETLB } };
	struct ibv_mw *window = ibv_alloc_mw(bench->pd, IBV_MW_TYPE_1);

	bench->qp[0] = create_qp(bench);
	NEED(bench->qp[0] && window);
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, RTR_MASK), EINVAL);
	attr = init_attr();
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, INIT_MASK & ~IBV_QP_PORT), EINVAL);
	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), EINVAL);
	EQUAL(ibv_attach_mcast(bench->qp[0], &bench->gid, 0), EINVAL);
	to_rts(bench, bench->qp[0], bench->qp[0]->qp_num);
	EQUAL(ibv_post_recv(bench->qp[0], &receive, &bad_receive), EINVAL);
	EQUAL(ibv_bind_mw(bench->qp[0], window, &bind), EINVAL);
	EQUAL(ibv_dealloc_mw(window), 0);
}

int main(void)
{
	struct bench bench;

	open_bench(&bench);
	create(&bench);
	memory(&bench);
	address(&bench);
	modify_and_post(&bench);
	close_bench(&bench);
	return finish();
}
