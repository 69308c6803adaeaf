/*
 * A log in persistent memory of another host: the client appends entries one after the other, each
 * with its head, and counts those that are acknowledged, until the server's host loses its power.
 *
 *   persistent_log -p PORT [-d DEVICE] -f FILE -m METHOD [SERVER]
 *
 * DEVICE is ignored, because the host has one device. FILE is the persistent memory of the server's
 * host; the server says what it finds there, and waits until the last head arrives. After each write
 * METHOD makes it persistent: flush (FLUSH PERSISTENT), visible (FLUSH GLOBAL), read (a READ of its
 * last bytes), or none. The method head has an error: it flushes the head only, and not the entry.
 */
#include "flush.h"

#include <fcntl.h>
#include <sys/mman.h>

enum { FILE_SIZE = 1 << 20, SLOT = 4096, ENTRY = 3000, ENTRIES_MAX = FILE_SIZE / SLOT - 1 };
/* Work requests of an entry: it, its head, and what makes each of the two persistent. */
enum { WRITE_ENTRY, PERSIST_ENTRY, WRITE_HEAD, PERSIST_HEAD, STEPS };

static struct bench bench;
static struct peer_address peer;
static const char *method = "none";

static char byte_of(uint64_t number, uint32_t place)
{
	return (number * 2654435761u + place * 40503u) >> 16 | 1;
}

/* Maps the file, and says which entries are there. */
static char *map_log(const char *file)
{
	int descriptor = open(file, O_RDWR);
	char *log = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	uint64_t head, whole = 0;

	NEED(descriptor >= 0 && log != MAP_FAILED);
	close(descriptor);
	memcpy(&head, log, sizeof head);
	for (uint64_t number = 1; number <= ENTRIES_MAX; number++) {
		uint32_t place = 0;

		while (place < ENTRY && log[number * SLOT + place] == byte_of(number, place))
			place++;
		whole += place == ENTRY;
	}
	printf("found a head of %lu and %lu entries\n", head, whole);
	fflush(stdout);
	return log;
}

/* Registers the log; what is not all in persistent memory is refused. */
static struct ibv_mr *register_log(char *log)
{
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | ACCESS_FLUSH_GLOBAL | ACCESS_FLUSH_PERSISTENT;
	struct ibv_device_attr_ex attr = { 0 };
	struct ibv_mr *mr;

	EQUAL(ibv_query_device_ex(bench.context, NULL, &attr), 0);
	EQUAL(attr.device_cap_flags_ex >> 38 & 7, 7);
	errno = 0;
	CHECK(!ibv_reg_mr(bench.pd, bench.buffer, bench.size, rights));
	EQUAL(errno, EINVAL);
	mr = ibv_reg_mr(bench.pd, log + 100, SLOT, rights);
	NEED(mr);
	EQUAL(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(bench.pd, log, FILE_SIZE, rights);
	NEED(mr);
	return mr;
}

static void meet(int socket_fd, const struct peer_address *self)
{
	struct ibv_qp_attr attr = init_attr();

	NEED(send(socket_fd, self, sizeof *self, MSG_NOSIGNAL) == sizeof *self);
	NEED(recv(socket_fd, &peer, sizeof peer, MSG_WAITALL) == sizeof peer);
	attr.qp_access_flags |= ACCESS_FLUSH_GLOBAL | ACCESS_FLUSH_PERSISTENT;
	EQUAL(ibv_modify_qp(bench.qp[0], &attr, INIT_MASK), 0);
	attr = rtr_attr(&bench, peer.qpn);
	attr.ah_attr.grh.dgid = peer.gid;
	EQUAL(ibv_modify_qp(bench.qp[0], &attr, RTR_MASK), 0);
	attr = rts_attr(&bench);
	attr.timeout = 8;
	EQUAL(ibv_modify_qp(bench.qp[0], &attr, RTS_MASK), 0);
	send_word(socket_fd, 'c');
	expect_word(socket_fd, 'c');
}

/* Makes a written range persistent. Returns how many work requests that takes. */
static int persist(struct ibv_qp_ex *qp, int step, uint64_t offset, uint32_t length)
{
	const uint64_t address = peer.buffer + offset;

	if (!strcmp(method, "none") || (!strcmp(method, "head") && step == PERSIST_ENTRY))
		return 0;
	begin(qp, step);
	if (!strcmp(method, "read")) {
		ibv_wr_rdma_read(qp, peer.rkey, address + length - 8);
		ibv_wr_set_sge(qp, bench.mr->lkey, (uintptr_t)bench.buffer + SLOT, 8);
		return 1;
	}
	wr_flush(qp, peer.rkey, address, length, strcmp(method, "visible") ? PERSISTENT : GLOBAL, RANGE);
	return 1;
}

/* Appends an entry. Returns whether it was acknowledged. */
static int append(struct ibv_qp_ex *qp, uint64_t number)
{
	int left = 2, is_good = 1;

	for (uint32_t place = 0; place < ENTRY; place++)
		bench.buffer[place] = byte_of(number, place);
	ibv_wr_start(qp);
	begin(qp, WRITE_ENTRY);
	ibv_wr_rdma_write(qp, peer.rkey, peer.buffer + number * SLOT);
	ibv_wr_set_sge(qp, bench.mr->lkey, (uintptr_t)bench.buffer, ENTRY);
	left += persist(qp, PERSIST_ENTRY, number * SLOT, ENTRY);
	begin(qp, WRITE_HEAD);
	ibv_wr_atomic_write(qp, peer.rkey, peer.buffer, &number);
	left += persist(qp, PERSIST_HEAD, 0, sizeof number);
	EQUAL(ibv_wr_complete(qp), 0);
	while (left--)
		is_good &= wait_for(bench.send_cq).status == IBV_WC_SUCCESS;
	return is_good;
}

int main(int argc, char **argv)
{
	struct peer_address self = { 0 };
	const char *file = NULL;
	struct ibv_mr *mr = NULL;
	int option, port = 0, socket_fd;
	char word;

	while ((option = getopt(argc, argv, "p:d:f:m:")) != -1) {
		switch (option) {
		case 'p': port = atoi(optarg); break;
		case 'd': break;
		case 'f': file = optarg; break;
		case 'm': method = optarg; break;
		default: return 2;
		}
	}
	NEED(port && file);
	open_bench(&bench);
	if (optind == argc) {
		self.buffer = (uintptr_t)map_log(file);
		mr = register_log((char *)self.buffer);
		self.rkey = mr->rkey;
	}
	bench.qp[0] = create_flush_qp(&bench);
	NEED(bench.qp[0]);
	self.gid = bench.gid;
	self.qpn = bench.qp[0]->qp_num;
	socket_fd = connected_socket(port, optind < argc ? argv[optind] : NULL);
	meet(socket_fd, &self);
	if (optind < argc) {
		struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(bench.qp[0]);
		uint64_t acknowledged = 0;

		while (acknowledged < ENTRIES_MAX && append(qp, acknowledged + 1))
			acknowledged++;
		printf("acknowledged %lu entries\n", acknowledged);
	} else {
		volatile uint64_t *head = (volatile uint64_t *)self.buffer;

		/* Until the power fails, or the log is full and the client has gone. */
		while (*head != ENTRIES_MAX)
			;
		EQUAL(recv(socket_fd, &word, 1, 0), 0);
		EQUAL(ibv_dereg_mr(mr), 0);
	}
	close(socket_fd);
	close_bench(&bench);
	return finish();
}
