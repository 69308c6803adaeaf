/*
 * Ten completions in error. The test `errors` checks the messages of the library and the model
 * about them; the details (vendor_err) are values of the contract's `VendorError`.
 */
#include "common.h"

#include <sys/mman.h>

#define ADDRESS ((void *)0x200000000)

/* The next completion of a send has this status and detail. */
static void expect(struct ibv_cq *cq, enum ibv_wc_status status, uint32_t detail)
{
	struct ibv_wc wc = next_wc(cq);

	EQUAL(wc.status, status);
	EQUAL(wc.vendor_err, detail);
}

static void drain(struct bench *bench)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(bench->receive_cq, 1, &wc) > 0)
		;
}

/* One WRITE of the first 64 bytes that is refused; `piece` and `rkey` say why. */
static void fail_write(struct bench *bench, struct ibv_sge piece, size_t offset, uint32_t rkey,
		       enum ibv_wc_status status, uint32_t detail)
{
	connect_pair(bench);
	EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, 1, piece, offset, rkey), 0);
	expect(bench->send_cq, status, detail);
	drain(bench);
}

static void local_memory(struct bench *bench)
{
	struct ibv_sge piece = sge_of(bench, 0, 64);
	struct ibv_pd *pd = ibv_alloc_pd(bench->context);
	struct ibv_mr *other = ibv_reg_mr(pd, bench->buffer, 64, IBV_ACCESS_LOCAL_WRITE);

	NEED(other);
	piece.lkey = 0xdead00;
	fail_write(bench, piece, 0, bench->mr->rkey, IBV_WC_LOC_PROT_ERR, 0x10);
	piece.lkey = other->lkey;
	fail_write(bench, piece, 0, bench->mr->rkey, IBV_WC_LOC_PROT_ERR, 0x11);
	piece = sge_of(bench, bench->size - 32, 64);
	fail_write(bench, piece, 0, bench->mr->rkey, IBV_WC_LOC_PROT_ERR, 0x12);
	EQUAL(ibv_dereg_mr(other), 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
}

static void remote_memory(struct bench *bench)
{
	struct ibv_sge piece = sge_of(bench, 0, 64);
	struct ibv_mr *read_only = ibv_reg_mr(bench->pd, bench->buffer, 64, IBV_ACCESS_REMOTE_READ);

	NEED(read_only);
	fail_write(bench, piece, 0, 0xbeef00, IBV_WC_REM_ACCESS_ERR, 0x51);
	fail_write(bench, piece, bench->size - 16, bench->mr->rkey, IBV_WC_REM_ACCESS_ERR, 0x51);
	fail_write(bench, piece, 0, read_only->rkey, IBV_WC_REM_ACCESS_ERR, 0x51);
	EQUAL(ibv_dereg_mr(read_only), 0);
}

/* An atomic to a QP whose qp_access_flags do not allow it. */
static void qp_rights(struct bench *bench)
{
	connect_pair(bench);
	EQUAL(post_send(bench, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, sge_of(bench, 0, 8), 0,
			bench->mr->rkey), 0);
	expect(bench->send_cq, IBV_WC_REM_INV_REQ_ERR, 0x50);
	drain(bench);
}

static void receives(struct bench *bench)
{
	connect_pair(bench);
	EQUAL(post_receive(bench->qp[1], 2, sge_of(bench, 4096, 16)), 0);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, 64), 0, 0), 0);
	expect(bench->receive_cq, IBV_WC_LOC_LEN_ERR, 0x30);
	expect(bench->send_cq, IBV_WC_REM_INV_REQ_ERR, 0x50);
	drain(bench);
	bench->rnr_retry = 0;
	connect_pair(bench);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, 64), 0, 0), 0);
	expect(bench->send_cq, IBV_WC_RNR_RETRY_EXC_ERR, 0x5a);
}

/* The QP at the other end was destroyed. */
static void no_peer(struct bench *bench)
{
	connect_pair(bench);
	EQUAL(to_state(bench->qp[1], IBV_QPS_RESET), 0);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, 64), 0, 0), 0);
	EQUAL(post_send(bench, IBV_WR_SEND, 2, sge_of(bench, 0, 64), 0, 0), 0);
	expect(bench->send_cq, IBV_WC_RETRY_EXC_ERR, 0x58);
	expect(bench->send_cq, IBV_WC_WR_FLUSH_ERR, 0x60);
}

int main(void)
{
	struct bench bench;

	open_bench(&bench);
	/* At the same address in each run. */
	EQUAL(ibv_dereg_mr(bench.mr), 0);
	free(bench.buffer);
	bench.buffer = mmap(ADDRESS, bench.size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	NEED(bench.buffer == ADDRESS);
	bench.mr = ibv_reg_mr(bench.pd, bench.buffer, bench.size, IBV_ACCESS_LOCAL_WRITE |
			      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	NEED(bench.mr);
	local_memory(&bench);
	remote_memory(&bench);
	qp_rights(&bench);
	receives(&bench);
	no_peer(&bench);
	EQUAL(ibv_dereg_mr(bench.mr), 0);
	munmap(bench.buffer, bench.size);
	bench.buffer = aligned_alloc(4096, 4096);
	bench.mr = ibv_reg_mr(bench.pd, bench.buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
	close_bench(&bench);
	return finish();
}
