/*
 * A log in the memory of another host: the client appends entries with WRITE, FLUSH and ATOMIC
 * WRITE, and the server checks that each entry is there before its head, and that no request was
 * executed twice.
 *
 *   remote_log -p PORT [-d DEVICE] [-u TIMEOUT] [-n ENTRIES] [-w WINDOW] [-a | -f] [-r]
 *              [SERVER]
 *
 * DEVICE is ignored, because the host has one device. TIMEOUT is IBA's, 4.096 us * 2^TIMEOUT.
 * WINDOW is how many entries are under way. -a is without FLUSH, -f without ATOMIC WRITE: each FLUSH
 * is of the whole region, and heads are written by WRITE. With -r there are requests that the server
 * refuses, too: only on a wire that loses nothing, because a NAK comes once.
 */
#include "flush.h"

enum {
	/* A slot of the log: head, entry, bytes that nobody writes. */
	SLOT = 2560,
	ENTRY = 8,
	ENTRY_MAX = 2500,
	ENTRIES_MAX = 400,
	/* Of three requests each; the send queue has room for so many. */
	WINDOW_MAX = 2,
	UNTOUCHED = 0xee,
	SOCKET_TIMEOUT_S = 30,
};

/* The region that a case of `refusals` is about. */
enum key { FLUSHABLE, WITHOUT_RIGHT };

struct hello {
	struct peer_address address;
	uint32_t key_without_right;
};

static struct bench bench;
static struct hello peer;
static struct ibv_mr *without_right;
static int socket_fd, timeout = 14, has_flush = 1, has_atomic_write = 1, has_refusals;
static uint32_t window = WINDOW_MAX;

static uint32_t length_of(uint32_t number)
{
	return 1 + number * 797 % ENTRY_MAX;
}

static char byte_of(uint32_t number, uint32_t place)
{
	return (number * 2654435761u + place * 40503u) >> 16;
}

/* Connects a new QP with the other side's; the peer has these rights at this end. */
static struct ibv_qp_ex *meet(int rights)
{
	struct ibv_qp_attr attr = init_attr();
	struct hello self = {
		.address = { .gid = bench.gid, .rkey = bench.mr->rkey, .buffer = (uintptr_t)bench.buffer },
		.key_without_right = without_right->rkey,
	};

	if (bench.qp[0])
		EQUAL(ibv_destroy_qp(bench.qp[0]), 0);
	bench.qp[0] = create_flush_qp(&bench);
	NEED(bench.qp[0]);
	self.address.qpn = bench.qp[0]->qp_num;
	NEED(send(socket_fd, &self, sizeof self, MSG_NOSIGNAL) == sizeof self);
	NEED(recv(socket_fd, &peer, sizeof peer, MSG_WAITALL) == sizeof peer);
	attr.qp_access_flags |= rights;
	EQUAL(ibv_modify_qp(bench.qp[0], &attr, INIT_MASK), 0);
	attr = rtr_attr(&bench, peer.address.qpn);
	attr.ah_attr.grh.dgid = peer.address.gid;
	EQUAL(ibv_modify_qp(bench.qp[0], &attr, RTR_MASK), 0);
	attr = rts_attr(&bench);
	attr.timeout = timeout;
	EQUAL(ibv_modify_qp(bench.qp[0], &attr, RTS_MASK), 0);
	/* Neither side sends before the other one is ready. */
	send_word(socket_fd, 'c');
	expect_word(socket_fd, 'c');
	return ibv_qp_to_qp_ex(bench.qp[0]);
}

static void post_write(struct ibv_qp_ex *qp, size_t offset, uint32_t length)
{
	ibv_wr_rdma_write(qp, peer.address.rkey, peer.address.buffer + offset);
	ibv_wr_set_sge(qp, bench.mr->lkey, (uintptr_t)bench.buffer + offset, length);
}

/* Posts an entry, a FLUSH of it, and its head: what libraries for persistent memory post. */
static void append(struct ibv_qp_ex *qp, uint32_t number)
{
	const uint32_t rkey = peer.address.rkey, length = length_of(number);
	const size_t slot = number * SLOT;
	const uint64_t head = number + 1;

	for (uint32_t i = 0; i < length; i++)
		bench.buffer[slot + ENTRY + i] = byte_of(number, i);
	memcpy(bench.buffer + slot, &head, sizeof head);
	ibv_wr_start(qp);
	begin(qp, 3 * number);
	post_write(qp, slot + ENTRY, length);
	begin(qp, 3 * number + 1);
	if (has_flush && has_atomic_write && number % 2)
		wr_flush(qp, rkey, peer.address.buffer + slot + ENTRY, length, GLOBAL, RANGE);
	else if (has_flush)
		wr_flush(qp, rkey, 0, 0, GLOBAL, REGION);
	begin(qp, 3 * number + 2);
	if (has_atomic_write)
		ibv_wr_atomic_write(qp, rkey, peer.address.buffer + slot, &head);
	else
		post_write(qp, slot, sizeof head);
	EQUAL(ibv_wr_complete(qp), 0);
}

static void expect_appended(uint32_t number)
{
	const int head_opcode = has_atomic_write ? WC_ATOMIC_WRITE : IBV_WC_RDMA_WRITE;

	expect_send(&bench, 3 * number, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	if (has_flush)
		expect_send(&bench, 3 * number + 1, IBV_WC_SUCCESS, WC_FLUSH);
	expect_send(&bench, 3 * number + 2, IBV_WC_SUCCESS, head_opcode);
}

static void client_log(uint32_t entries)
{
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;

	expect_word(socket_fd, 'r');
	qp = meet(0);
	for (uint32_t number = 0; number < entries + window && !failures; number++) {
		if (number >= window)
			expect_appended(number - window);
		if (number < entries)
			append(qp, number);
	}
	send_word(socket_fd, 'd');
	expect_word(socket_fd, 'd');
	EQUAL(ibv_poll_cq(bench.send_cq, 1, &wc), 0);
}

/* Checks the slot of an entry. */
static void check_slot(uint32_t number, uint64_t head, const char *when)
{
	const char *slot = bench.buffer + number * SLOT;

	CHECK(!memcmp(slot, &head, sizeof head));
	for (uint32_t i = 0; i < SLOT - ENTRY; i++) {
		char expected = i < length_of(number) ? byte_of(number, i) : (char)UNTOUCHED;

		if (slot[ENTRY + i] == expected)
			continue;
		printf("entry %u of %u bytes, %s: byte %u is %#x instead of %#x\n", number, length_of(number), when,
		       i, (uint8_t)slot[ENTRY + i], (uint8_t)expected);
		failures++;
		return;
	}
}

/* Sees each head arrive and replaces it: a head that is written again would show at the end. */
static void server_log(uint32_t entries)
{
	const int64_t deadline = now_ms() + 1000 * SOCKET_TIMEOUT_S;

	memset(bench.buffer, UNTOUCHED, bench.size);
	for (uint32_t number = 0; number < entries; number++)
		memset(bench.buffer + number * SLOT, 0, ENTRY);
	send_word(socket_fd, 'r');
	meet(ACCESS_FLUSH_GLOBAL);
	for (uint32_t number = 0; number < entries && !failures; number++) {
		volatile uint64_t *head = (volatile uint64_t *)(bench.buffer + number * SLOT);
		uint64_t found;

		while (!(found = *head))
			NEED(now_ms() < deadline);
		EQUAL(found, number + 1);
		check_slot(number, found, "when its head came");
		*head = ~found;
	}
	expect_word(socket_fd, 'd');
	for (uint32_t number = 0; number < entries && !failures; number++)
		check_slot(number, ~(uint64_t)(number + 1), "at the end");
	send_word(socket_fd, 'd');
}

/* What the server refuses, each on a new connection. */
static const struct refusal {
	int rights, type, level;
	enum key key;
	/* Of the access; 0 is an ATOMIC WRITE. */
	uint64_t offset;
	size_t length;
	int status;
} refusals[] = {
	{ 0, GLOBAL, RANGE, FLUSHABLE, 0, 8, IBV_WC_REM_INV_REQ_ERR },
	{ ACCESS_FLUSH_GLOBAL, GLOBAL, RANGE, WITHOUT_RIGHT, 0, 8, IBV_WC_REM_ACCESS_ERR },
	{ ACCESS_FLUSH_GLOBAL, GLOBAL, REGION, WITHOUT_RIGHT, 0, 8, IBV_WC_REM_ACCESS_ERR },
	{ ACCESS_FLUSH_GLOBAL, GLOBAL, RANGE, FLUSHABLE, 1 << 20, 8, IBV_WC_REM_ACCESS_ERR },
	{ ACCESS_FLUSH_GLOBAL, PERSISTENT, RANGE, FLUSHABLE, 0, 8, IBV_WC_REM_INV_REQ_ERR },
	{ ACCESS_FLUSH_PERSISTENT, PERSISTENT, RANGE, FLUSHABLE, 0, 8, IBV_WC_REM_ACCESS_ERR },
	{ 0, 0, 0, FLUSHABLE, 4, 0, IBV_WC_REM_INV_REQ_ERR },
	{ 0, 0, 0, FLUSHABLE, 1 << 20, 0, IBV_WC_REM_ACCESS_ERR },
};

static void client_refusals(void)
{
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		const struct refusal *it = &refusals[i];
		struct ibv_qp_ex *qp = meet(0);
		const uint32_t rkey = it->key == FLUSHABLE ? peer.address.rkey : peer.key_without_right;
		const uint64_t value = 1, address = peer.address.buffer + it->offset;

		ibv_wr_start(qp);
		begin(qp, i);
		if (it->length)
			wr_flush(qp, rkey, address, it->length, it->type, it->level);
		else
			ibv_wr_atomic_write(qp, rkey, address, &value);
		EQUAL(ibv_wr_complete(qp), 0);
		expect_send(&bench, i, it->status, 0);
		send_word(socket_fd, 'n');
	}
}

static void server_refusals(void)
{
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		meet(refusals[i].rights);
		expect_word(socket_fd, 'n');
	}
}

static void open_memory(void)
{
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_device_attr_ex attr = { 0 };

	open_bench(&bench);
	EQUAL(ibv_query_device_ex(bench.context, NULL, &attr), 0);
	/* FLUSH that makes visible, and ATOMIC WRITE. */
	EQUAL(attr.device_cap_flags_ex >> 38 & 5, 5);
	without_right = bench.mr;
	bench.mr = ibv_reg_mr(bench.pd, bench.buffer, bench.size, rights | ACCESS_FLUSH_GLOBAL);
	NEED(bench.mr);
}

int main(int argc, char **argv)
{
	const struct timeval limit = { .tv_sec = SOCKET_TIMEOUT_S };
	uint32_t entries = ENTRIES_MAX;
	int option, port = 0;

	while ((option = getopt(argc, argv, "p:d:u:n:w:afr")) != -1) {
		switch (option) {
		case 'p': port = atoi(optarg); break;
		case 'd': break;
		case 'u': timeout = atoi(optarg); break;
		case 'n': entries = atoi(optarg); break;
		case 'w': window = atoi(optarg); break;
		case 'a': has_flush = 0; break;
		case 'f': has_atomic_write = 0; break;
		case 'r': has_refusals = 1; break;
		default: return 2;
		}
	}
	NEED(port && entries <= ENTRIES_MAX && window <= WINDOW_MAX);
	open_memory();
	socket_fd = connected_socket(port, optind < argc ? argv[optind] : NULL);
	NEED(!setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
	(optind < argc ? client_log : server_log)(entries);
	if (has_refusals && !failures)
		(optind < argc ? client_refusals : server_refusals)();
	printf("%u rounds of WRITE%s%s\n", entries, has_flush ? ", FLUSH" : "",
	       has_atomic_write ? ", ATOMIC WRITE" : ", WRITE");
	close(socket_fd);
	EQUAL(ibv_dereg_mr(without_right), 0);
	close_bench(&bench);
	return finish();
}
