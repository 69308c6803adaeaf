/*
 * Exercise 1: which devices are there, and what can they do?
 *
 *   cc -o devices 01_devices.c -libverbs
 *   ferroce run -- ./devices
 *
 * With -DBROKEN the program counts ports from 0, as many newcomers do.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef BROKEN
enum { PORT = 0 };
#else
enum { PORT = 1 }; /* Ports count from 1. */
#endif

static void fail(const char *what, int error)
{
	fflush(stdout);
	fprintf(stderr, "%s: %s\n", what, strerror(error));
	exit(1);
}

/* A GID is an IPv6 address; an IPv4 address is written as ::ffff:a.b.c.d. */
static const char *kind_of(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (!memcmp(gid->raw, mapped, sizeof mapped))
		return "an IPv4 address";
	return gid->raw[0] == 0xfe ? "a link-local IPv6 address" : "an IPv6 address";
}

static void show_port(struct ibv_context *context)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	int error = ibv_query_port(context, PORT, &port);

	/* Most verbs return an errno; those that return a pointer set errno. The manual says which. */
	if (error)
		fail("ibv_query_port", error);
	printf("  port %d: %s, %s\n", PORT, ibv_port_state_str(port.state),
	       port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet (RoCE)" : "InfiniBand");
	printf("  a packet holds at most %d bytes of a message\n", 128 << port.active_mtu);
	for (int index = 0; index < port.gid_tbl_len; index++) {
		if (ibv_query_gid(context, PORT, index, &gid))
			break;
		if (gid.global.interface_id)
			printf("  GID %d: %s\n", index, kind_of(&gid));
	}
}

int main(void)
{
	struct ibv_device **list;
	int count = 0;

	list = ibv_get_device_list(&count);
	if (!list)
		fail("ibv_get_device_list", errno);
	printf("%d device%s\n", count, count == 1 ? "" : "s");
	for (int index = 0; index < count; index++) {
		struct ibv_context *context = ibv_open_device(list[index]);
		struct ibv_device_attr device;
		int error;

		if (!context)
			fail("ibv_open_device", errno);
		error = ibv_query_device(context, &device);
		if (error)
			fail("ibv_query_device", error);
		printf("%s\n", ibv_get_device_name(list[index]));
		printf("  queue pairs: %d, with up to %d requests each\n", device.max_qp,
		       device.max_qp_wr);
		printf("  completion queues: %d, with up to %d entries each\n", device.max_cq,
		       device.max_cqe);
		printf("  READs and atomics in flight, of one queue pair: %d\n",
		       device.max_qp_rd_atom);
		show_port(context);
		ibv_close_device(context);
	}
	ibv_free_device_list(list);
	return 0;
}
