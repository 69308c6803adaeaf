/*
 * Contexts of one device on several functions: functions COUNT. One context more than there are
 * functions is opened.
 */
#include "common.h"
#include <fcntl.h>

enum { FUNCTIONS_MAX = 8, BYTES = 3000, WRITE_AT = 4096 };

/* Each function has 65,536 QPNs. */
static uint32_t function_of(const struct bench *bench)
{
	return bench->qp[0]->qp_num >> 16;
}

/* A SEND and a WRITE from one context to another. */
static void talk(struct bench *from, struct bench *to)
{
	struct ibv_sge source = sge_of(from, 0, BYTES);
	struct ibv_send_wr *bad, write = {
		.wr_id = 2,
		.sg_list = &source,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)to->buffer + WRITE_AT, to->mr->rkey },
	};

	for (int i = 0; i < BYTES; i++)
		from->buffer[i] = i % 251;
	memset(to->buffer, 0, WRITE_AT + BYTES);
	EQUAL(post_receive(to->qp[0], 3, sge_of(to, 0, BYTES)), 0);
	EQUAL(post_send(from, IBV_WR_SEND, 1, source, 0, 0), 0);
	EQUAL(ibv_post_send(from->qp[0], &write, &bad), 0);
	EXPECT_WC(from->send_cq, 1, IBV_WC_SUCCESS);
	EXPECT_WC(from->send_cq, 2, IBV_WC_SUCCESS);
	EXPECT_WC(to->receive_cq, 3, IBV_WC_SUCCESS);
	CHECK(!memcmp(to->buffer, from->buffer, BYTES));
	CHECK(!memcmp(to->buffer + WRITE_AT, from->buffer, BYTES));
}

static struct ibv_xrcd *open_domain(struct bench *bench, FILE *file)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fileno(file),
		.oflags = O_CREAT,
	};

	return ibv_open_xrcd(bench->context, &attr);
}

/* Contexts on one function share the XRC domain of a file; others cannot open it. */
static void share_domain(struct bench *first, struct bench *other, int expected)
{
	FILE *file = tmpfile();
	struct ibv_xrcd *domain, *shared;

	NEED(file);
	domain = open_domain(first, file);
	NEED(domain);
	shared = open_domain(other, file);
	EQUAL(shared ? 0 : errno, expected);
	if (shared)
		EQUAL(ibv_close_xrcd(shared), 0);
	EQUAL(ibv_close_xrcd(domain), 0);
	domain = open_domain(other, file);
	NEED(domain);
	EQUAL(ibv_close_xrcd(domain), 0);
	fclose(file);
}

int main(int argument_count, char **arguments)
{
	const int count = argument_count == 2 ? atoi(arguments[1]) : 0;
	struct bench benches[FUNCTIONS_MAX + 1], *last = &benches[count];

	NEED(count >= 1 && count <= FUNCTIONS_MAX);
	for (int i = 0; i <= count; i++) {
		open_bench(&benches[i]);
		benches[i].qp[0] = create_qp(&benches[i]);
		NEED(benches[i].qp[0]);
		for (int other = 0; other < i && i < count; other++)
			CHECK(function_of(&benches[i]) != function_of(&benches[other]));
	}
	EQUAL(function_of(last), function_of(&benches[0]));
	for (int i = 0; i < count; i++) {
		share_domain(&benches[i], last, i ? EOPNOTSUPP : 0);
		to_rts(&benches[i], benches[i].qp[0], last->qp[0]->qp_num);
		to_rts(last, last->qp[0], benches[i].qp[0]->qp_num);
		talk(&benches[i], last);
		talk(last, &benches[i]);
		EQUAL(to_state(last->qp[0], IBV_QPS_RESET), 0);
	}
	for (int i = 0; i <= count; i++)
		close_bench(&benches[i]);
	/* The first function is used again. */
	open_bench(&benches[0]);
	close_bench(&benches[0]);
	return finish();
}
