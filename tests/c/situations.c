/*
 * A pair in which something happens to one side, the victim: the other side posts one request after
 * the other, and prints what the first one that fails says. The test `situations` injects faults.
 *
 *   situations -p PORT OPERATION TIMEOUT RETRY_CNT RNR_RETRY REQUESTS            the victim
 *   situations -p PORT OPERATION TIMEOUT RETRY_CNT RNR_RETRY REQUESTS ADDRESS    the requester
 *
 * OPERATION is write, read or send. The requester ends after a failure, or after REQUESTS requests,
 * one every millisecond.
 */
#include "common.h"
#include <fcntl.h>

enum { LENGTH = 64, PERIOD_US = 1000, LISTENS_US = 100 };

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

/* Receives until the requester hangs up; prints the first failure, and the longest time for which it has
 * not run. */
static void be_victim(struct bench *bench, int socket)
{
	struct ibv_sge piece = sge_of(bench, bench->size / 2, LENGTH);
	struct ibv_async_event event;
	double last = now_in_ms(), pause = 0;
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
				printf("own status %d\nown vendor_err 0x%02x\n", wc.status, wc.vendor_err);
		}
		while (!ibv_get_async_event(bench->context, &event)) {
			printf("event %s\n", ibv_event_type_str(event.event_type));
			ibv_ack_async_event(&event);
		}
		usleep(LISTENS_US);
	}
	printf("state %d\npause %.0f ms\n", state_of(bench->qp[0]), pause);
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
		be_victim(&bench, socket);
	close(socket);
	close_bench(&bench);
	return finish();
}
