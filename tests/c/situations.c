/*
 * A pair in which something happens to one side, the victim: the other side posts one request after
 * the other, and prints what the first one that fails says. The test `situations` injects faults.
 *
 *   situations -p PORT OPERATION TIMEOUT RETRY_CNT RNR_RETRY REQUESTS            the victim
 *   situations -p PORT OPERATION TIMEOUT RETRY_CNT RNR_RETRY REQUESTS ADDRESS    the requester
 *
 * OPERATION is write, read or send. The requester ends after a failure, or after REQUESTS requests,
 * one every millisecond. A victim that loses its address prints what the library says of it, and
 * posts a request itself.
 */
#include "common.h"
#include <fcntl.h>

enum { LENGTH = 64, PERIOD_US = 1000, LISTENS_US = 100, GIDS = 8 };

static void request(struct bench *bench, const struct peer_address *peer, const char *operation, int requests)
{
	const enum ibv_wr_opcode opcode = !strcmp(operation, "write") ? IBV_WR_RDMA_WRITE :
					  !strcmp(operation, "read") ? IBV_WR_RDMA_READ : IBV_WR_SEND;
	struct ibv_sge piece = sge_of(bench, 0, LENGTH);
	double longest = 0;

	for (int number = 0; number < requests; number++) {
		struct ibv_send_wr *bad, wr = {
			.sg_list = &piece,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { peer->buffer, peer->rkey },
		};
		const double begin = now_in_ms();
		struct ibv_wc wc;

		EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
		wc = wait_for(bench->send_cq);
		if (wc.status) {
			printf("status %d\nvendor_err 0x%02x\nafter %.3f ms\n", wc.status,
			       wc.vendor_err, now_in_ms() - begin);
			return;
		}
		if (now_in_ms() - begin > longest)
			longest = now_in_ms() - begin;
		if (number == 0) {
			printf("ready\n");
			fflush(stdout);
		}
		usleep(PERIOD_US);
	}
	printf("status 0\nlongest %.3f ms\n", longest);
}

/* Prints the first line of a file of the port in sysfs, or the error of reading it. */
static void show_file(struct bench *bench, const char *name)
{
	char path[256], text[64];
	FILE *file;

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/%s/%d",
		 ibv_get_device_name(bench->context->device), name, GID_INDEX);
	file = fopen(path, "r");
	NEED(file);
	if (fgets(text, sizeof text, file))
		printf("%s %s", name, text);
	else
		printf("%s error %d\n", name, errno);
	fclose(file);
}

/* Returns the error of a move to RTR from the address. */
static int connect_error(struct bench *bench, const struct peer_address *peer)
{
	struct ibv_qp *qp = create_qp(bench);
	struct ibv_qp_attr attr = init_attr();
	int error;

	NEED(qp);
	EQUAL(ibv_modify_qp(qp, &attr, INIT_MASK), 0);
	attr = rtr_attr(bench, peer->qpn);
	attr.ah_attr.grh.dgid = peer->gid;
	error = ibv_modify_qp(qp, &attr, RTR_MASK);
	EQUAL(ibv_destroy_qp(qp), 0);
	return error;
}

/* Returns the error of an address handle with the address as its source. */
static int handle_error(struct bench *bench, const struct peer_address *peer)
{
	struct ibv_ah_attr attr = rtr_attr(bench, peer->qpn).ah_attr;
	struct ibv_ah *handle;

	attr.grh.dgid = peer->gid;
	handle = ibv_create_ah(bench->pd, &attr);
	if (!handle)
		return errno;
	EQUAL(ibv_destroy_ah(handle), 0);
	return 0;
}

/* Returns true if the address is in the table of GIDs. */
static int is_in_table(struct bench *bench)
{
	struct ibv_gid_entry table[GIDS];
	const ssize_t count = ibv_query_gid_table(bench->context, table, GIDS, 0);
	int found = 0;

	CHECK(count > 0);
	for (ssize_t i = 0; i < count; i++)
		found |= table[i].gid_index == GID_INDEX;
	return found;
}

/* Prints what the library says of the own address. Returns true if it has one. */
static int show_address(struct bench *bench, const struct peer_address *peer)
{
	static const union ibv_gid none;
	struct ibv_gid_entry entry;
	union ibv_gid gid;

	EQUAL(ibv_query_gid(bench->context, 1, GID_INDEX, &gid), 0);
	printf("state at the event %d\n", state_of(bench->qp[0]));
	printf("query_gid_ex %d\n", ibv_query_gid_ex(bench->context, 1, GID_INDEX, &entry, 0));
	printf("query_gid_table %s\n", is_in_table(bench) ? "has it" : "lacks it");
	printf("modify_qp %d\n", connect_error(bench, peer));
	printf("create_ah %d\n", handle_error(bench, peer));
	show_file(bench, "gids");
	show_file(bench, "gid_attrs/types");
	show_file(bench, "gid_attrs/ndevs");
	if (memcmp(&gid, &none, sizeof gid)) {
		printf("the address is back\n");
		return 1;
	}
	printf("the address is gone\n");
	return 0;
}

static void post_own(struct bench *bench, const struct peer_address *peer)
{
	struct ibv_sge piece = sge_of(bench, 0, LENGTH);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { peer->buffer, peer->rkey },
	};

	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
}

static void show_own(const struct ibv_wc *wc)
{
	printf("own status %d\nown vendor_err 0x%02x\n", wc->status, wc->vendor_err);
}

/* Receives until the requester hangs up; prints the first failure, and the longest time for which it has
 * not run. */
static void be_victim(struct bench *bench, const struct peer_address *peer, int socket)
{
	struct ibv_sge piece = sge_of(bench, bench->size / 2, LENGTH);
	struct ibv_async_event event;
	double last = now_in_ms(), pause = 0, posted = 0;
	int has_failed = 0;
	struct ibv_wc wc;
	char byte;

	fcntl(bench->context->async_fd, F_SETFL, O_NONBLOCK);
	while (recv(socket, &byte, 1, MSG_DONTWAIT) < 0) {
		const double now = now_in_ms();

		if (now - last > pause)
			pause = now - last;
		last = now;
		while (ibv_poll_cq(bench->receive_cq, 1, &wc) > 0) {
			if (!wc.status)
				EQUAL(post_receive(bench->qp[0], 0, piece), 0);
			else if (!has_failed++)
				show_own(&wc);
		}
		while (!ibv_get_async_event(bench->context, &event)) {
			printf("event %s\n", ibv_event_type_str(event.event_type));
			if (event.event_type == IBV_EVENT_GID_CHANGE) {
				EQUAL(event.element.port_num, 1);
				/* There is an event for each of the addresses. */
				if (!show_address(bench, peer) && !posted) {
					posted = now_in_ms();
					post_own(bench, peer);
				}
				fflush(stdout);
			}
			ibv_ack_async_event(&event);
		}
		usleep(LISTENS_US);
	}
	printf("state %d\npause %.0f ms\n", state_of(bench->qp[0]), pause);
	if (posted) {
		printf("the event came %.3f ms before the end\n", now_in_ms() - posted);
		wc = wait_for(bench->send_cq);
		show_own(&wc);
		printf("own after %.3f ms\n", now_in_ms() - posted);
	}
}

int main(int argc, char **argv)
{
	struct peer_address own, peer;
	struct bench bench;
	int is_requester, socket;

	NEED(argc >= 8);
	is_requester = argc > 8;
	open_bench(&bench);
	bench.qp[0] = create_qp(&bench);
	NEED(bench.qp[0]);
	socket = connected_socket(atoi(argv[2]), is_requester ? argv[8] : NULL);
	own = (struct peer_address){ bench.gid, bench.qp[0]->qp_num, bench.mr->rkey,
				(uintptr_t)bench.buffer };
	NEED(write(socket, &own, sizeof own) == sizeof own);
	NEED(read(socket, &peer, sizeof peer) == sizeof peer);
	connect_qp(&bench, &peer, atoi(argv[4]), atoi(argv[5]), atoi(argv[6]));
	if (!is_requester)
		for (int i = 0; i < RECEIVE_MAX; i++)
			EQUAL(post_receive(bench.qp[0], 0, sge_of(&bench, bench.size / 2, LENGTH)), 0);
	/* Neither side goes on before the other one can receive. */
	NEED(write(socket, &own, 1) == 1 && read(socket, &own, 1) == 1);
	if (is_requester)
		request(&bench, &peer, argv[3], atoi(argv[7]));
	else
		be_victim(&bench, &peer, socket);
	close(socket);
	close_bench(&bench);
	return finish();
}
