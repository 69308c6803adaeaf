/*
 * Programs that give up root after they have opened the device, as daemons do. Two processes, each
 * with a device that it opened as root; the first argument has a letter for each:
 *   k  keeps its user
 *   d  drops it when both have the device
 *   e  drops it before the other one opens the device (the first process only)
 *   r  changes its root directory as well
 * With "failing" as the second argument the first process also has a WRITE refused.
 */
#include "common.h"
#include <grp.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { NOBODY = 65534, LENGTH = 100000, HALF = LENGTH };

/* What one process tells the other. */
struct hello {
	uint32_t qp_num, rkey;
	uint64_t address;
};

static struct bench bench;
static int peer;

static void meet(void)
{
	char byte = 0;

	NEED(write(peer, &byte, 1) == 1 && read(peer, &byte, 1) == 1);
}

static void drop_root(char how)
{
	if (how == 'r')
		NEED(!chroot("/proc/self/fdinfo") && !chdir("/"));
	NEED(!setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY));
	NEED(!setresuid(NOBODY, NOBODY, NOBODY));
}

static void move_data(const struct hello *other, int is_first)
{
	struct ibv_sge half = sge_of(&bench, 0, HALF), back = sge_of(&bench, 2 * HALF, HALF);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &half,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { other->address + HALF, other->rkey },
	};

	memset(bench.buffer, is_first ? 5 : 6, HALF);
	EQUAL(ibv_post_send(bench.qp[0], &wr, &bad), 0);
	EQUAL(next_wc(bench.send_cq).status, IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.sg_list = &back;
	EQUAL(ibv_post_send(bench.qp[0], &wr, &bad), 0);
	EQUAL(next_wc(bench.send_cq).status, IBV_WC_SUCCESS);
	CHECK(!memcmp(bench.buffer, bench.buffer + 2 * HALF, HALF));
	wr.opcode = IBV_WR_SEND;
	wr.sg_list = &half;
	EQUAL(ibv_post_send(bench.qp[0], &wr, &bad), 0);
	EQUAL(next_wc(bench.send_cq).status, IBV_WC_SUCCESS);
	EQUAL(next_wc(bench.receive_cq).byte_len, HALF);
	meet();
	for (int i = 0; i < HALF; i++)
		if (bench.buffer[HALF + i] != (is_first ? 6 : 5) || bench.buffer[3 * HALF + i] != (is_first ? 6 : 5)) {
			CHECK(!"the other one's data");
			break;
		}
}

/* A connection to itself, as in a program with a single process. */
static void loop_back(void)
{
	struct ibv_qp *kept = bench.qp[0];

	bench.qp[0] = NULL;
	connect_pair(&bench);
	EQUAL(post_send(&bench, IBV_WR_RDMA_WRITE, 9, sge_of(&bench, 0, 1000), 4 * HALF, bench.mr->rkey), 0);
	EXPECT_WC(bench.send_cq, 9, IBV_WC_SUCCESS);
	for (int i = 0; i < 2; i++) {
		EQUAL(ibv_destroy_qp(bench.qp[i]), 0);
		bench.qp[i] = NULL;
	}
	bench.qp[0] = kept;
}

static void be(char how, int is_first, int fails)
{
	struct ibv_context *early = NULL;
	struct hello mine, other;

	/* Until the first process has reported it. */
	if (!is_first)
		meet();
	early = open_first_device();
	NEED(early);
	if (how == 'e')
		drop_root(how);
	if (is_first)
		meet();
	meet();
	/* Event descriptors are opened through /proc, which does not exist in the new root directory. */
	if (how == 'r')
		open_bench(&bench);
	if (how == 'd' || how == 'r')
		drop_root(how);
	/* Opens the device a second time, with the remaining rights. */
	if (how != 'r')
		open_bench(&bench);
	EQUAL(ibv_close_device(early), 0);
	bench.qp[0] = create_qp(&bench);
	NEED(bench.qp[0]);
	mine = (struct hello){ bench.qp[0]->qp_num, bench.mr->rkey, (uintptr_t)bench.buffer };
	NEED(write(peer, &mine, sizeof mine) == sizeof mine);
	NEED(read(peer, &other, sizeof other) == sizeof other);
	to_rts(&bench, bench.qp[0], other.qp_num);
	EQUAL(post_receive(bench.qp[0], 1, sge_of(&bench, 3 * HALF, HALF)), 0);
	meet();
	move_data(&other, is_first);
	loop_back();
	meet();
	if (fails && is_first) {
		struct ibv_sge sge = sge_of(&bench, 0, 8);
		struct ibv_send_wr *bad, wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { other.address, other.rkey + 0x1000 },
		};

		EQUAL(ibv_post_send(bench.qp[0], &wr, &bad), 0);
		EQUAL(next_wc(bench.send_cq).status, IBV_WC_REM_ACCESS_ERR);
	}
	meet();
	close_bench(&bench);
}

int main(int argc, char **argv)
{
	int sockets[2], status;
	pid_t child;

	NEED(argc > 1 && strlen(argv[1]) == 2);
	NEED(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets));
	child = fork();
	NEED(child >= 0);
	peer = sockets[!child];
	close(sockets[!!child]);
	be(argv[1][!child], !!child, argc > 2);
	if (!child)
		exit(failures != 0);
	EQUAL(waitpid(child, &status, 0), child);
	EQUAL(status, 0);
	return finish();
}
