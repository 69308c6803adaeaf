/*
 * Exercise 11: RDMA CM, which replaces the TCP socket and the states of exercises 2 and 3.
 *
 *   cc -o connection 11_connection_manager.c -lrdmacm -libverbs
 *   ferroce run -- ./connection &
 *   ferroce run -- ./connection 127.0.0.1
 *
 * With -DBROKEN the server's queue pair has too small a receive.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 64, TIMEOUT_MS = 2000, CM_PORT = 18511 };
#ifdef BROKEN
enum { ROOM = BYTES / 2, SECONDS_MAX = 4 };
#else
enum { ROOM = BYTES, SECONDS_MAX = 60 };
#endif

static void check(int result, const char *what)
{
	if (result) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

/* Waits for the next event, which has to be of this type. */
static struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	printf("event: %s\n", rdma_event_str(event->event));
	if (event->event != type) {
		fprintf(stderr, "not %s: status %d\n", rdma_event_str(type), event->status);
		exit(1);
	}
	id = event->id;
	rdma_ack_cm_event(event); /* rdma_destroy_id waits for this. */
	return id;
}

/* Makes the queue pair; RDMA CM moves it through its states. */
static struct ibv_mr *make_queues(struct rdma_cm_id *id, char *buffer)
{
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_mr *mr;

	check(rdma_create_qp(id, NULL, &init), "rdma_create_qp");
	mr = rdma_reg_msgs(id, buffer, 2 * BYTES);
	check(!mr, "rdma_reg_msgs");
	/* Before the connection, so that no message can come too early. */
	check(rdma_post_recv(id, NULL, buffer + BYTES, ROOM, mr), "rdma_post_recv");
	return mr;
}

static void wait_for(int (*get)(struct rdma_cm_id *, struct ibv_wc *), struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	check(get(id, &wc) < 0, "a completion");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "a completion: %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
}

/* For both sides: what a connection may do. */
static struct rdma_conn_param parameters(void)
{
	return (struct rdma_conn_param){
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 3,
		.rnr_retry_count = 3,
	};
}

static struct rdma_cm_id *accept_one(struct rdma_event_channel *channel, char *buffer,
				     struct ibv_mr **mr)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(CM_PORT) };
	struct rdma_conn_param param = parameters();
	struct rdma_cm_id *listener, *id;

	check(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	check(rdma_bind_addr(listener, (struct sockaddr *)&here), "rdma_bind_addr");
	check(rdma_listen(listener, 1), "rdma_listen");
	printf("listening\n");
	id = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	*mr = make_queues(id, buffer);
	check(rdma_accept(id, &param), "rdma_accept");
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	check(rdma_destroy_id(listener), "rdma_destroy_id");
	return id;
}

static struct rdma_cm_id *connect_to(struct rdma_event_channel *channel, const char *server,
				     char *buffer, struct ibv_mr **mr)
{
	struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = htons(CM_PORT) };
	struct rdma_conn_param param = parameters();
	struct rdma_cm_id *id;

	check(inet_pton(AF_INET, server, &there.sin_addr) != 1, server);
	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	/* The address gives the device, the route the path. */
	check(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, TIMEOUT_MS), "rdma_resolve_addr");
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	check(rdma_resolve_route(id, TIMEOUT_MS), "rdma_resolve_route");
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	*mr = make_queues(id, buffer);
	check(rdma_connect(id, &param), "rdma_connect");
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

int main(int argc, char **argv)
{
	static char buffer[2 * BYTES]; /* What is sent, and what is received. */
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	int is_client = argc > 1;

	check(!channel, "rdma_create_event_channel");
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (is_client)
		id = connect_to(channel, argv[1], buffer, &mr);
	else
		id = accept_one(channel, buffer, &mr);
	alarm(SECONDS_MAX);
	snprintf(buffer, BYTES, "hello from the %s", is_client ? "client" : "server");
	/* The client speaks first. */
	if (!is_client)
		wait_for(rdma_get_recv_comp, id);
	check(rdma_post_send(id, NULL, buffer, BYTES, mr, 0), "rdma_post_send");
	wait_for(rdma_get_send_comp, id);
	if (is_client)
		wait_for(rdma_get_recv_comp, id);
	printf("received \"%s\"\n", buffer + BYTES);
	if (is_client)
		check(rdma_disconnect(id), "rdma_disconnect");
	expect(channel, RDMA_CM_EVENT_DISCONNECTED);

	rdma_destroy_qp(id);
	check(rdma_dereg_mr(mr), "rdma_dereg_mr");
	check(rdma_destroy_id(id), "rdma_destroy_id");
	rdma_destroy_event_channel(channel);
	return 0;
}
