/*
 * A key-value store with one-sided READs: a GET reads a slot of the server's table, and then the
 * value to which the slot points. Both are anywhere in the table.
 *
 *   key_value -p PORT [--odp] [SERVER]
 *
 * With --odp the table is an on-demand region.
 *
 * The client prints the mean time of a GET.
 */
#include "common.h"
#include <sys/mman.h>

enum { TABLE = 256 << 20, SLOT = 64, VALUE = 1024, GETS = 2000, GETS_ON_DEMAND = 100 };

static double passed_ns(const struct timespec *begin, const struct timespec *end)
{
	return (end->tv_sec - begin->tv_sec) * 1e9 + (end->tv_nsec - begin->tv_nsec);
}

/* Returns the place of an object of a power of two bytes in the table; the same on every run. */
static uint64_t place_of(uint32_t number, uint32_t bytes)
{
	uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15ull;

	mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93ull;
	return (mixed ^ mixed >> 32) % TABLE / bytes * bytes;
}

static void read_at(struct bench *bench, const struct peer_address *peer, uint64_t place,
		    uint32_t length)
{
	struct ibv_sge sge = sge_of(bench, 0, length);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { peer->buffer + place, peer->rkey },
	};

	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
	NEED(next_wc(bench->send_cq).status == IBV_WC_SUCCESS);
}

static void be_client(struct bench *bench, const struct peer_address *peer, uint32_t gets)
{
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (uint32_t number = 0; number < gets; number++) {
		read_at(bench, peer, place_of(2 * number, SLOT), SLOT);
		read_at(bench, peer, place_of(2 * number + 1, VALUE), VALUE);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.1f ns a GET\n", passed_ns(&begin, &end) / gets);
}

int main(int argc, char **argv)
{
	struct bench bench;
	struct peer_address peer, self;
	struct ibv_mr *table;
	char *memory;
	int socket, port, next = 3, rights = IBV_ACCESS_REMOTE_READ;
	const char *server;

	NEED(argc >= 3);
	port = atoi(argv[2]);
	if (argc > 3 && !strcmp(argv[3], "--odp")) {
		rights |= IBV_ACCESS_ON_DEMAND;
		next++;
	}
	server = argc > next ? argv[next] : NULL;
	open_bench(&bench);
	bench.qp[0] = create_qp(&bench);
	NEED(bench.qp[0]);
	memory = mmap(NULL, TABLE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	NEED(memory != MAP_FAILED);
	table = ibv_reg_mr(bench.pd, memory, TABLE, rights);
	NEED(table);
	self = (struct peer_address){ bench.gid, bench.qp[0]->qp_num, table->rkey, (uintptr_t)memory };
	socket = connected_socket(port, server);
	NEED(send(socket, &self, sizeof self, MSG_NOSIGNAL) == sizeof self);
	NEED(recv(socket, &peer, sizeof peer, MSG_WAITALL) == sizeof peer);
	connect_qp(&bench, &peer, 14, 7, 7);
	send_word(socket, 'c');
	expect_word(socket, 'c');
	if (server)
		be_client(&bench, &peer, next > 3 ? GETS_ON_DEMAND : GETS);
	/* The server serves until the client is done. */
	send_word(socket, 'd');
	expect_word(socket, 'd');
	close(socket);
	EQUAL(ibv_dereg_mr(table), 0);
	EQUAL(munmap(memory, TABLE), 0);
	close_bench(&bench);
	return finish();
}
