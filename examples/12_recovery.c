/*
 * Exercise 12: an error, and how a connection works again after it.
 *
 *   cc -o recovery 12_recovery.c -libverbs
 *   ferroce run --capture recovery.pcapng -- ./recovery &
 *   ferroce run --capture recovery.pcapng -- ./recovery 127.0.0.1
 *
 * The client writes with a wrong key. Both queue pairs go to ERR. Both sides bring them back.
 * With -DBROKEN only the client does.
 */
#include "course.h"

enum { BYTES = 64, MORE = 2, NEW_PSN = 1000 };

static const char *state_of(struct ibv_qp *qp)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	check(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	return attr.qp_state <= IBV_QPS_ERR ? names[attr.qp_state] : "?";
}

/* A request that the peer refuses. Afterwards the queue pair only flushes what is posted. */
static void fail_on_purpose(struct side *side)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(side, &sge, 0, BYTES, IBV_WR_RDMA_WRITE), *bad;

	wr.wr.rdma.remote_addr = side->peer.address;
	wr.wr.rdma.rkey = side->peer.rkey ^ 0xffff00;
	check(ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
	printf("client: %s\n", ibv_wc_status_str(wait_any(side).status));
	for (int posted = 0; posted < MORE; posted++) {
		post_rdma(side, IBV_WR_RDMA_WRITE, 0, BYTES, 0);
		printf("client: %s\n", ibv_wc_status_str(wait_any(side).status));
	}
}

/* RESET forgets all requests. The packet numbers start anew, so both sides have to do it. */
static void bring_back(struct side *side)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	check(ibv_modify_qp(side->qp, &attr, IBV_QP_STATE), "ibv_modify_qp to RESET");
	to_init(side, side->qp);
	to_rtr(side->qp, &side->peer, NEW_PSN);
	to_rts(side->qp, NEW_PSN);
}

int main(int argc, char **argv)
{
	struct side side;
	struct wish wish = {
		.tcp_port = 18512,
		.rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	const char *name;

	open_side(&side, argc, argv, &wish);
	name = side.is_client ? "client" : "server";
	if (side.is_client)
		fail_on_purpose(&side);
	meet(&side);
	printf("%s: my queue pair is in %s\n", name, state_of(side.qp));
#ifdef BROKEN
	if (side.is_client)
#endif
		bring_back(&side);
	printf("%s: my queue pair is in %s\n", name, state_of(side.qp));
	meet(&side);
	if (side.is_client) {
		strcpy(side.buffer, "written after the error");
		post_rdma(&side, IBV_WR_RDMA_WRITE, 0, BYTES, 0);
		wait_one(&side);
	}
	meet(&side);
	if (!side.is_client)
		printf("server: my memory says \"%s\"\n", side.buffer);
	return close_side(&side);
}
