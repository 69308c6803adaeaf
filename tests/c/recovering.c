/*
 * A client that survives failures of its connection. It writes to the memory of a server, round after
 * round. In each third round the server's side fails: its QP goes to ERR, or its region is gone. The
 * client learns it by a completion in error. Then both reset their QPs, exchange their numbers over a
 * socket, connect again, and the client repeats what has failed.
 *
 *   recovering -p PORT            the server
 *   recovering -p PORT ADDRESS    the client
 */
#include "common.h"

enum { ROUNDS = 9, REGION = 4096 };

/* Resets the QP and connects it to the peer's. Both sides call it at the same point. */
static void reconnect(struct bench *bench, int socket, struct peer_address *peer)
{
	struct peer_address own = { bench->gid, bench->qp[0]->qp_num, bench->mr->rkey,
			       (uintptr_t)bench->buffer };
	struct ibv_qp_attr attr = init_attr();
	struct ibv_wc wc;

	EQUAL(to_state(bench->qp[0], IBV_QPS_RESET), 0);
	/* Old completions would be taken for those of new requests. */
	while (ibv_poll_cq(bench->send_cq, 1, &wc) > 0)
		;
	NEED(write(socket, &own, sizeof own) == sizeof own);
	NEED(read(socket, peer, sizeof *peer) == sizeof *peer);
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, INIT_MASK), 0);
	attr = rtr_attr(bench, peer->qpn);
	attr.ah_attr.grh.dgid = peer->gid;
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, RTR_MASK), 0);
	attr = rts_attr(bench);
	EQUAL(ibv_modify_qp(bench->qp[0], &attr, RTS_MASK), 0);
	/* A request that arrives before the peer is in RTR would wait for a time-out. */
	NEED(write(socket, "", 1) == 1 && read(socket, &own, 1) == 1);
}

static struct ibv_wc write_once(struct bench *bench, const struct peer_address *peer)
{
	struct ibv_sge piece = { (uintptr_t)bench->buffer, 64, bench->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { peer->buffer, peer->rkey },
	};

	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
	return wait_for(bench->send_cq);
}

static double elapsed_ms(const struct timespec *begin)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - begin->tv_sec) * 1e3 + (now.tv_nsec - begin->tv_nsec) / 1e6;
}

static void be_client(struct bench *bench, int socket, struct peer_address *peer)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct timespec posted, failed;
		struct ibv_wc wc;
		char answer;

		NEED(write(socket, &round, sizeof round) == sizeof round);
		NEED(read(socket, &answer, 1) == 1);
		clock_gettime(CLOCK_MONOTONIC, &posted);
		wc = write_once(bench, peer);
		if (wc.status == IBV_WC_SUCCESS) {
			NEED(write(socket, "o", 1) == 1);
			continue;
		}
		printf("round %d: %s, vendor_err 0x%02x, after %.2f ms", round,
		       ibv_wc_status_str(wc.status), wc.vendor_err, elapsed_ms(&posted));
		clock_gettime(CLOCK_MONOTONIC, &failed);
		NEED(write(socket, "r", 1) == 1);
		reconnect(bench, socket, peer);
		EQUAL(write_once(bench, peer).status, IBV_WC_SUCCESS);
		printf("; recovered in %.2f ms\n", elapsed_ms(&failed));
	}
}

static void be_server(struct bench *bench, int socket, struct peer_address *peer)
{
	int round;
	char answer;

	while (read(socket, &round, sizeof round) == sizeof round) {
		if (round % 3 == 1)
			EQUAL(to_state(bench->qp[0], IBV_QPS_ERR), 0);
		if (round % 3 == 2) {
			EQUAL(ibv_dereg_mr(bench->mr), 0);
			bench->mr = ibv_reg_mr(bench->pd, bench->buffer, REGION,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
			NEED(bench->mr);
		}
		NEED(write(socket, "", 1) == 1 && read(socket, &answer, 1) == 1);
		if (answer == 'r')
			reconnect(bench, socket, peer);
	}
}

int main(int argc, char **argv)
{
	struct bench bench;
	struct peer_address peer;
	int socket;

	NEED(argc >= 3);
	open_bench(&bench);
	bench.qp[0] = create_qp(&bench);
	NEED(bench.qp[0]);
	socket = connected_socket(atoi(argv[2]), argc > 3 ? argv[3] : NULL);
	reconnect(&bench, socket, &peer);
	if (argc > 3)
		be_client(&bench, socket, &peer);
	else
		be_server(&bench, socket, &peer);
	close(socket);
	close_bench(&bench);
	return finish();
}
