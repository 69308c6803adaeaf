/*
 * The payload of RDMA WRITE and RDMA READ between two hosts: each side checks that its memory holds
 * the data of the other side, and that no other byte has changed.
 *
 *   payload -p PORT [-d DEVICE] [-u TIMEOUT] [-n ROUNDS] [SERVER]
 *
 * DEVICE is ignored, because the host has one device. TIMEOUT is IBA's, 4.096 us * 2^TIMEOUT.
 */
#include "common.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

enum {
	GUARD = 64,
	LENGTH_MAX = 100003,
	/* Parts of an area: guard, shift, payload, guard. */
	AREA = 1 << 17,
	TARGET = 0,
	SOURCE = AREA,
	LANDING = 2 * AREA,
	UNTOUCHED = 0xee,
	CONNECT_TRIES = 100,
	SOCKET_TIMEOUT_S = 30,
};

static const uint32_t LENGTHS[] = { 1, 3, 63, 64, 65, 255, 1023, 1024, 1025, 4096, 10001, 65536, LENGTH_MAX };
#define LENGTH_COUNT (sizeof LENGTHS / sizeof *LENGTHS)

/* Data about one side that the other side needs. */
struct peer {
	union ibv_gid gid;
	uint64_t address;
	uint32_t qp_num, rkey;
};

struct round {
	uint32_t number, length;
	/* Offset of the payload in its area: all alignments occur. */
	size_t offset;
};

static struct bench bench;
static struct peer peer;
static int socket_fd;

static struct round round_of(uint32_t number)
{
	return (struct round){
		.number = number,
		.length = LENGTHS[number % LENGTH_COUNT],
		.offset = GUARD + number * 7 % 64,
	};
}

static char byte_of(uint32_t round, int is_answer, uint32_t place)
{
	uint32_t value = (2 * round + is_answer + 1) * 2654435761u + place * 40503u;

	return value >> 16;
}

static void fill(char *area, struct round round, int is_answer)
{
	memset(area, UNTOUCHED, AREA);
	for (uint32_t i = 0; i < round.length; i++)
		area[round.offset + i] = byte_of(round.number, is_answer, i);
}

/* Compares a whole area with an area that `fill` has filled. */
static void expect_filled(const char *area, struct round round, int is_answer, const char *what)
{
	static char expected[AREA];

	fill(expected, round, is_answer);
	for (size_t i = 0; i < AREA; i++) {
		if (area[i] == expected[i])
			continue;
		printf("round %u, %u bytes: %s: byte %zd is %#x instead of %#x\n", round.number, round.length, what,
		       (ssize_t)(i - round.offset), (uint8_t)area[i], (uint8_t)expected[i]);
		failures++;
		return;
	}
}

static void post(enum ibv_wr_opcode opcode, struct round round, struct ibv_sge *sges, int count)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = round.number,
		.sg_list = sges,
		.num_sge = count,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(round.number),
		.wr.rdma = { peer.address + TARGET + round.offset, peer.rkey },
	};

	NEED(!ibv_post_send(bench.qp[0], &wr, &bad));
	EXPECT_WC(bench.send_cq, round.number, IBV_WC_SUCCESS);
}

/* Splits an area's payload into the given number of segments at most. Returns their count. */
static int segments(size_t area, struct round round, struct ibv_sge *sges)
{
	const uint32_t first = round.length / 3, second = round.length / 2;

	if (round.length < SGE_MAX) {
		sges[0] = sge_of(&bench, area + round.offset, round.length);
		return 1;
	}
	sges[0] = sge_of(&bench, area + round.offset, first);
	sges[1] = sge_of(&bench, area + round.offset + first, second - first);
	sges[2] = sge_of(&bench, area + round.offset + second, round.length - second);
	return 3;
}

static int has_immediate(struct round round)
{
	return round.number % 2 == 0;
}

/* Writes to the server's memory, then reads the server's data there. */
static void client_round(struct round round)
{
	struct ibv_sge sges[SGE_MAX];
	int count;

	fill(bench.buffer + SOURCE, round, 0);
	memset(bench.buffer + LANDING, UNTOUCHED, AREA);
	count = segments(SOURCE, round, sges);
	expect_word(socket_fd, 'r');
	post(has_immediate(round) ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, round, sges, count);
	send_word(socket_fd, 'w');
	expect_word(socket_fd, 'a');
	count = segments(LANDING, round, sges);
	post(IBV_WR_RDMA_READ, round, sges, count);
	expect_filled(bench.buffer + LANDING, round, 1, "RDMA READ");
	expect_filled(bench.buffer + SOURCE, round, 0, "source of the RDMA WRITE");
	send_word(socket_fd, 'd');
}

static void server_round(struct round round)
{
	const struct ibv_sge none = { 0 };

	memset(bench.buffer + TARGET, UNTOUCHED, AREA);
	if (has_immediate(round))
		NEED(!post_receive(bench.qp[0], round.number, none));
	send_word(socket_fd, 'r');
	expect_word(socket_fd, 'w');
	if (has_immediate(round)) {
		struct ibv_wc wc = next_wc(bench.receive_cq);

		EQUAL(wc.status, IBV_WC_SUCCESS);
		EQUAL(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		EQUAL(ntohl(wc.imm_data), round.number);
		EQUAL(wc.byte_len, round.length);
	}
	expect_filled(bench.buffer + TARGET, round, 0, "RDMA WRITE");
	fill(bench.buffer + TARGET, round, 1);
	send_word(socket_fd, 'a');
	expect_word(socket_fd, 'd');
	expect_filled(bench.buffer + TARGET, round, 1, "source of the RDMA READ");
}

static int listen_on(uint16_t port)
{
	const struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	const int yes = 1, listener = socket(AF_INET6, SOCK_STREAM, 0);
	int accepted;

	NEED(!setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
	NEED(!bind(listener, (const struct sockaddr *)&any, sizeof any) && !listen(listener, 1));
	accepted = accept(listener, NULL, NULL);
	close(listener);
	return accepted;
}

static int connect_to(const char *server, const char *port)
{
	const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int connected = socket(AF_INET, SOCK_STREAM, 0);

	NEED(!getaddrinfo(server, port, &hints, &found));
	for (int tries = 0; connect(connected, found->ai_addr, found->ai_addrlen); tries++) {
		NEED(tries < CONNECT_TRIES);
		usleep(100000);
	}
	freeaddrinfo(found);
	return connected;
}

/* Exchanges the data that each side needs, and connects the QPs. */
static void meet(int timeout)
{
	const struct timeval limit = { .tv_sec = SOCKET_TIMEOUT_S };
	const struct peer self = {
		.gid = bench.gid,
		.address = htobe64((uintptr_t)bench.buffer),
		.qp_num = htonl(bench.qp[0]->qp_num),
		.rkey = htonl(bench.mr->rkey),
	};
	struct ibv_qp_attr attr = init_attr();

	NEED(socket_fd >= 0);
	NEED(!setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
	NEED(send(socket_fd, &self, sizeof self, MSG_NOSIGNAL) == sizeof self);
	NEED(recv(socket_fd, &peer, sizeof peer, MSG_WAITALL) == sizeof peer);
	peer.address = be64toh(peer.address);
	peer.rkey = ntohl(peer.rkey);
	bench.gid = peer.gid;
	EQUAL(ibv_modify_qp(bench.qp[0], &attr, INIT_MASK), 0);
	attr = rtr_attr(&bench, ntohl(peer.qp_num));
	EQUAL(ibv_modify_qp(bench.qp[0], &attr, RTR_MASK), 0);
	attr = rts_attr(&bench);
	attr.timeout = timeout;
	EQUAL(ibv_modify_qp(bench.qp[0], &attr, RTS_MASK), 0);
	/* Neither side sends before the other one is ready. */
	send_word(socket_fd, 'c');
	expect_word(socket_fd, 'c');
}

int main(int argc, char **argv)
{
	const char *port = NULL;
	int option, timeout = 14;
	uint32_t rounds = 2 * LENGTH_COUNT;

	while ((option = getopt(argc, argv, "p:d:u:n:")) != -1) {
		switch (option) {
		case 'p': port = optarg; break;
		case 'd': break;
		case 'u': timeout = atoi(optarg); break;
		case 'n': rounds = atoi(optarg); break;
		default: return 2;
		}
	}
	NEED(port);
	open_bench(&bench);
	bench.qp[0] = create_qp(&bench);
	NEED(bench.qp[0]);
	socket_fd = optind < argc ? connect_to(argv[optind], port) : listen_on(atoi(port));
	meet(timeout);
	for (uint32_t number = 0; number < rounds && !failures; number++)
		(optind < argc ? client_round : server_round)(round_of(number));
	printf("%u rounds of RDMA WRITE and RDMA READ\n", rounds);
	close(socket_fd);
	close_bench(&bench);
	return finish();
}
