/*
 * One failure between two processes: what the requester sees and when, which counters of both sides
 * move, how many packets were on the wire, and the state of the responder's QP. The test
 * `connectx_failures` compares it with measurements of ConnectX.
 *
 *   failures -p PORT SITUATION TIMEOUT RETRY_CNT            the responder
 *   failures -p PORT SITUATION TIMEOUT RETRY_CNT ADDRESS    the requester
 */
#include "common.h"

enum { REGION = 4096, NAME_MAX_BYTES = 256, COUNTERS_MAX = 128 };

struct counters {
	int count;
	char name[COUNTERS_MAX][NAME_MAX_BYTES];
	long value[COUNTERS_MAX];
};

static char ports[256];

static long read_counter(const char *folder, const char *name)
{
	char path[512];
	long value = -1;
	FILE *file;

	snprintf(path, sizeof path, "%s/%s/%s", ports, folder, name);
	file = fopen(path, "r");
	NEED(file && fscanf(file, "%ld", &value) == 1);
	fclose(file);
	return value;
}

static struct counters hw_counters(void)
{
	static struct counters all;
	char path[512];
	struct dirent *entry;
	DIR *folder;

	all.count = 0;
	snprintf(path, sizeof path, "%s/hw_counters", ports);
	folder = opendir(path);
	NEED(folder);
	while ((entry = readdir(folder)) && all.count < COUNTERS_MAX) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(all.name[all.count], NAME_MAX_BYTES, "%s", entry->d_name);
		all.value[all.count++] = read_counter("hw_counters", entry->d_name);
	}
	closedir(folder);
	return all;
}

/* Prints the counters that have moved. */
static void print_moved(const struct counters *before)
{
	const struct counters after = hw_counters();

	for (int i = 0; i < after.count; i++)
		if (after.value[i] != before->value[i])
			printf("%s +%ld\n", after.name[i], after.value[i] - before->value[i]);
}

/* Both sides send and receive one byte: neither goes on before the other is there. */
static void meet(int socket)
{
	char byte = 0;

	NEED(write(socket, &byte, 1) == 1 && read(socket, &byte, 1) == 1);
}

static int is(const char *situation, const char *name)
{
	return !strcmp(situation, name);
}

static void post(struct bench *bench, enum ibv_wr_opcode opcode, struct ibv_sge piece,
		 const struct peer_address *peer, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { peer->buffer, rkey },
	};

	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
}

/* Posts what fails. */
static void fail(struct bench *bench, const char *situation, const struct peer_address *peer)
{
	struct ibv_sge piece = { (uintptr_t)bench->buffer, 64, bench->mr->lkey };
	enum ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
	uint32_t rkey = peer->rkey;

	if (is(situation, "sge-beyond-region"))
		piece.length = 2 * REGION;
	if (is(situation, "lkey-unknown"))
		piece.lkey ^= 0xff00;
	if (is(situation, "rkey-unknown"))
		rkey ^= 0xff00;
	if (is(situation, "write-across-end")) {
		piece.length = 2 * REGION;
		bench->buffer[0] = bench->buffer[REGION] = 1;
	}
	if (is(situation, "read-without-local-write"))
		opcode = IBV_WR_RDMA_READ;
	if (is(situation, "no-receive"))
		opcode = IBV_WR_SEND;
	if (is(situation, "own-error"))
		EQUAL(to_state(bench->qp[0], IBV_QPS_ERR), 0);
	post(bench, opcode, piece, peer, rkey);
}

static void request(struct bench *bench, int socket, const char *situation,
		    const struct peer_address *peer)
{
	const long packets = read_counter("counters", "port_xmit_packets");
	/* A region that allows only reading cannot take part in a WRITE's success. */
	const int has_valid_request = !is(situation, "no-remote-write") &&
				      !is(situation, "no-receive") && !is(situation, "own-error");
	struct ibv_sge piece = { (uintptr_t)bench->buffer, 64, bench->mr->lkey };
	struct counters before;
	struct ibv_wc wc;
	double begin;

	meet(socket);
	if (has_valid_request) {
		post(bench, IBV_WR_RDMA_WRITE, piece, peer, peer->rkey);
		EQUAL(wait_for(bench->send_cq).status, IBV_WC_SUCCESS);
	}
	meet(socket);
	meet(socket);
	before = hw_counters();
	begin = now_in_ms();
	fail(bench, situation, peer);
	wc = wait_for(bench->send_cq);
	printf("status %d\nvendor_err 0x%02x\n", wc.status, wc.vendor_err);
	printf("after %.3f ms\n", now_in_ms() - begin);
	printf("packets %ld\n", read_counter("counters", "port_xmit_packets") - packets);
	print_moved(&before);
	if (is(situation, "peer-error")) {
		/* A request that comes after the failure. */
		post(bench, IBV_WR_RDMA_WRITE, piece, peer, peer->rkey);
		wc = wait_for(bench->send_cq);
		printf("next status %d\nnext vendor_err 0x%02x\n", wc.status, wc.vendor_err);
	}
	meet(socket);
}

static void respond(struct bench *bench, int socket, const char *situation)
{
	const long packets = read_counter("counters", "port_xmit_packets");
	struct counters before;

	meet(socket);
	meet(socket);
	if (is(situation, "peer-error"))
		EQUAL(to_state(bench->qp[0], IBV_QPS_ERR), 0);
	before = hw_counters();
	meet(socket);
	meet(socket);
	/* The query passes through the device, which has counted its packets then. */
	printf("state %d\n", state_of(bench->qp[0]));
	printf("packets %ld\n", read_counter("counters", "port_xmit_packets") - packets);
	if (is(situation, "write-across-end"))
		printf("written %d\n", bench->buffer[0]);
	print_moved(&before);
}

int main(int argc, char **argv)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	struct bench bench;
	struct peer_address own, peer;
	const char *situation;
	int is_requester, socket;

	NEED(argc >= 6);
	is_requester = argc > 6;
	situation = argv[3];
	open_bench(&bench);
	snprintf(ports, sizeof ports, "/sys/class/infiniband/%s/ports/1",
		 ibv_get_device_name(bench.context->device));
	EQUAL(ibv_dereg_mr(bench.mr), 0);
	if (is_requester && is(situation, "read-without-local-write"))
		access = IBV_ACCESS_REMOTE_READ;
	if (!is_requester && is(situation, "no-remote-write"))
		access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	/* The requester of a WRITE across the end has more to send than the responder's region. */
	bench.mr = ibv_reg_mr(bench.pd, bench.buffer,
			      is_requester && is(situation, "write-across-end") ? 2 * REGION : REGION,
			      access);
	bench.qp[0] = create_qp(&bench);
	NEED(bench.mr && bench.qp[0]);
	socket = connected_socket(atoi(argv[2]), is_requester ? argv[6] : NULL);
	own = (struct peer_address){ bench.gid, bench.qp[0]->qp_num, bench.mr->rkey,
				(uintptr_t)bench.buffer };
	NEED(write(socket, &own, sizeof own) == sizeof own);
	NEED(read(socket, &peer, sizeof peer) == sizeof peer);
	connect_qp(&bench, &peer, atoi(argv[4]), atoi(argv[5]), is(situation, "no-receive") ? 0 : 7);
	if (is_requester)
		request(&bench, socket, situation, &peer);
	else
		respond(&bench, socket, situation);
	close(socket);
	close_bench(&bench);
	return finish();
}
