/*
 * An on-demand region whose pages come with the first access, go, and come again. In simulated time
 * the card has page faults: the program prints what they cost.
 *
 *   paging [timed]
 */
#include "common.h"
#include <stdbool.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 64, BYTES = 64 };

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_ON_DEMAND)

static struct ibv_mr *region;
static char *memory;

static char *fresh_memory(char *at)
{
	char *mapped = mmap(at, PAGES * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	NEED(mapped != MAP_FAILED);
	return mapped;
}

/* Executes one request on bytes of the region's page, and returns its status. */
static enum ibv_wc_status request(struct bench *bench, enum ibv_wr_opcode opcode, int page)
{
	struct ibv_sge sge = sge_of(bench, 0, BYTES);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)memory + page * PAGE, region->rkey },
	};

	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
	return next_wc(bench->send_cq).status;
}

/* Writes `byte` to a page, and returns the time of that in us. */
static double write_us(struct bench *bench, int page, char byte)
{
	double begin;

	memset(bench->buffer, byte, BYTES);
	begin = now_in_ms();
	EQUAL(request(bench, IBV_WR_RDMA_WRITE, page), IBV_WC_SUCCESS);
	begin = now_in_ms() - begin;
	EQUAL(memory[page * PAGE + BYTES - 1], byte);
	return begin * 1e3;
}

static char read_byte(struct bench *bench, int page)
{
	memset(bench->buffer, 0x55, BYTES);
	EQUAL(request(bench, IBV_WR_RDMA_READ, page), IBV_WC_SUCCESS);
	EQUAL(bench->buffer[0], bench->buffer[BYTES - 1]);
	return bench->buffer[0];
}

static void prefetch(struct bench *bench, int page, int count)
{
	struct ibv_sge range = { (uintptr_t)memory + page * PAGE, count * PAGE, region->lkey };

	EQUAL(ibv_advise_mr(bench->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			    IBV_ADVISE_MR_FLAG_FLUSH, &range, 1), 0);
}

static void measure(struct bench *bench, bool has_faults)
{
	double first = write_us(bench, 0, 1), again = write_us(bench, 0, 2), early;

	prefetch(bench, 1, 3);
	early = write_us(bench, 2, 3);
	if (has_faults) {
		CHECK(first > 50 * again && early < 2 * again);
		printf("a write takes %.2f us, %.2f with the fault of its page, %.2f after a prefetch\n",
		       again, first, early);
	}
}

/* SEND into the region, READ into it, and payload from it. */
static void use_as_own_memory(struct bench *bench)
{
	struct ibv_mr *pinned = bench->mr;
	char *buffer = bench->buffer;
	struct ibv_sge sge = { (uintptr_t)memory + 10 * PAGE - 8, BYTES, region->lkey };

	EQUAL(post_receive(bench->qp[1], 1, sge), 0);
	memset(buffer, 7, BYTES);
	EQUAL(post_send(bench, IBV_WR_SEND, 1, sge_of(bench, 0, BYTES), 0, 0), 0);
	EQUAL(next_wc(bench->send_cq).status, IBV_WC_SUCCESS);
	EQUAL(next_wc(bench->receive_cq).status, IBV_WC_SUCCESS);
	EQUAL(memory[10 * PAGE - 8], 7);
	EQUAL(memory[10 * PAGE + BYTES - 9], 7);
	/* Payload, and the data of a READ. */
	bench->mr = region;
	bench->buffer = memory + 20 * PAGE;
	write_us(bench, 30, 8);
	bench->buffer = memory + 21 * PAGE;
	EQUAL(read_byte(bench, 30), 8);
	bench->mr = pinned;
	bench->buffer = buffer;
}

/* What is at the address now is what the card reaches. */
static void replace(struct bench *bench)
{
	write_us(bench, 4, 4);
	EQUAL(read_byte(bench, 4), 4);
	EQUAL(munmap(memory, PAGES * PAGE), 0);
	EQUAL(fresh_memory(memory) == memory, 1);
	EQUAL(read_byte(bench, 4), 0);
	memset(memory + 4 * PAGE, 9, BYTES);
	EQUAL(read_byte(bench, 4), 9);
	EQUAL(madvise(memory, PAGES * PAGE, MADV_DONTNEED), 0);
	EQUAL(read_byte(bench, 4), 0);
}

static void fail(struct bench *bench, bool has_faults)
{
	struct ibv_mr *pinned = bench->mr;
	char *buffer = bench->buffer;

	/* Without retries nobody waits for the page. */
	bench->rnr_retry = 0;
	connect_pair(bench);
	EQUAL(request(bench, IBV_WR_RDMA_WRITE, 40),
	      has_faults ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_SUCCESS);
	bench->rnr_retry = 7;
	connect_pair(bench);
	EQUAL(munmap(memory + 50 * PAGE, PAGE), 0);
	EQUAL(request(bench, IBV_WR_RDMA_WRITE, 50), IBV_WC_REM_ACCESS_ERR);
	connect_pair(bench);
	bench->mr = region;
	bench->buffer = memory + 50 * PAGE;
	EQUAL(request(bench, IBV_WR_RDMA_WRITE, 41), IBV_WC_LOC_PROT_ERR);
	bench->mr = pinned;
	bench->buffer = buffer;
	/* The page is there again. */
	fresh_memory(memory);
	connect_pair(bench);
	write_us(bench, 50, 3);
}

int main(int argc, char **argv)
{
	const bool has_faults = argc > 1 && !strcmp(argv[1], "timed");
	struct ibv_device_attr_ex attr = { 0 };
	struct ibv_mr *implicit;
	struct bench bench;

	open_bench(&bench);
	EQUAL(ibv_query_device_ex(bench.context, NULL, &attr), 0);
	EQUAL(attr.odp_caps.general_caps, has_faults ? 1 : 3);
	errno = 0;
	implicit = ibv_reg_mr(bench.pd, NULL, SIZE_MAX, RIGHTS);
	EQUAL(implicit != NULL, !has_faults);
	if (implicit)
		EQUAL(ibv_dereg_mr(implicit), 0);
	else
		EQUAL(errno, EOPNOTSUPP);
	memory = fresh_memory(NULL);
	region = ibv_reg_mr(bench.pd, memory, PAGES * PAGE, RIGHTS);
	NEED(region);
	connect_pair(&bench);
	measure(&bench, has_faults);
	use_as_own_memory(&bench);
	replace(&bench);
	fail(&bench, has_faults);
	EQUAL(ibv_dereg_mr(region), 0);
	close_bench(&bench);
	return finish();
}
