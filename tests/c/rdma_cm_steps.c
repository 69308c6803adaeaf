/*
 * A server or a client of RDMA CM that can be halted between its steps: it prints "at STEP" and
 * continues on SIGUSR1. It prints each event; a client ends after the last event, unless it has
 * disconnected itself.
 *
 *   rdma_cm_steps server|client ADDRESS PORT HALT COUNT
 *
 * HALT is a step, or "-"; with "stay" a client never disconnects. COUNT is the number of
 * connections, one after the other.
 */
#include "common.h"
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <signal.h>

/* Connections before the first count of descriptors and memory, which grow until then. */
enum { WARM_UP = 200, TIMEOUT_MS = 10000, GROWTH_MAX_KIB = 2048 };

static const char *halt;
static struct rdma_event_channel *channel;

static void step(const char *name)
{
	sigset_t set;
	int number;

	if (strcmp(name, halt))
		return;
	printf("at %s\n", name);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	NEED(!sigwait(&set, &number));
}

static long memory_kib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	long kib = -1;

	NEED(file);
	while (kib < 0 && fgets(line, sizeof line, file))
		if (sscanf(line, "VmRSS: %ld", &kib) != 1)
			kib = -1;
	fclose(file);
	return kib;
}

/* Compares the resources of the process after WARM_UP connections and at the end. */
static void look(int connection, int count)
{
	static int descriptors_before;
	static long kib_before;

	if (connection == WARM_UP) {
		descriptors_before = descriptors();
		kib_before = memory_kib();
	}
	if (connection == count && count > WARM_UP) {
		long growth = memory_kib() - kib_before;

		printf("%ld KiB more\n", growth);
		EQUAL(descriptors(), descriptors_before);
		CHECK(growth < GROWTH_MAX_KIB);
	}
}

static void create_queue_pair(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	NEED(!rdma_create_qp(id, NULL, &attr));
}

static void destroy(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	EQUAL(rdma_destroy_id(id), 0);
}

/* Takes the next event and prints it. */
static enum rdma_cm_event_type next_event(struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	NEED(!rdma_get_cm_event(channel, &event));
	type = event->event;
	*id = event->id;
	printf("%s %d\n", rdma_event_str(type), event->status);
	EQUAL(rdma_ack_cm_event(event), 0);
	return type;
}

/* Serves one event; returns 1 if a connection has ended with it. */
static int serve_event(void)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_cm_id *id;

	switch (next_event(&id)) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		step("requested");
		create_queue_pair(id);
		if (rdma_accept(id, &param)) {
			printf("accept: errno %d\n", errno);
			destroy(id);
			return 1;
		}
		step("accepted");
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		step("connected");
		return 0;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return 0;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* For a connection and for the listener, which ends with the program. */
		exit(4);
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_disconnect(id);
		/* fall through */
	default:
		destroy(id);
		return 1;
	}
}

static void serve(struct sockaddr *address, int count)
{
	struct rdma_cm_id *listener;
	int ended = 0;

	NEED(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	if (rdma_bind_addr(listener, address)) {
		printf("bind: errno %d\n", errno);
		exit(2);
	}
	step("bound");
	NEED(!rdma_listen(listener, 16));
	step("listening");
	while (ended < count)
		if (serve_event())
			look(++ended, count);
	EQUAL(rdma_destroy_id(listener), 0);
}

/* Ends the program if the next event is another one. */
static void expect(struct rdma_cm_id *id, enum rdma_cm_event_type expected)
{
	struct rdma_cm_id *other;

	if (next_event(&other) != expected) {
		destroy(id);
		exit(3);
	}
}

static void connect_once(struct sockaddr *address)
{
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
	};
	struct rdma_cm_id *id;

	NEED(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	NEED(!rdma_resolve_addr(id, NULL, address, TIMEOUT_MS));
	expect(id, RDMA_CM_EVENT_ADDR_RESOLVED);
	step("resolved");
	NEED(!rdma_resolve_route(id, TIMEOUT_MS));
	expect(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	step("routed");
	create_queue_pair(id);
	NEED(!rdma_connect(id, &param));
	step("connecting");
	expect(id, RDMA_CM_EVENT_ESTABLISHED);
	step("connected");
	if (strcmp(halt, "stay")) {
		NEED(!rdma_disconnect(id));
		step("disconnecting");
	}
	expect(id, RDMA_CM_EVENT_DISCONNECTED);
	destroy(id);
}

int main(int argc, char **argv)
{
	struct addrinfo *address;
	sigset_t set;
	int count;

	NEED(argc == 6);
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	NEED(!sigprocmask(SIG_BLOCK, &set, NULL));
	NEED(!getaddrinfo(argv[2], argv[3], NULL, &address));
	halt = argv[4];
	count = atoi(argv[5]);
	channel = rdma_create_event_channel();
	NEED(channel);
	if (!strcmp(argv[1], "server"))
		serve(address->ai_addr, count);
	else
		for (int i = 1; i <= count; i++) {
			connect_once(address->ai_addr);
			look(i, count);
		}
	rdma_destroy_event_channel(channel);
	freeaddrinfo(address);
	return finish();
}
