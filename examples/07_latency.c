/*
 * Exercise 7: inline data, doorbells, latency and bandwidth.
 *
 *   cc -o latency 07_latency.c -libverbs
 *   ferroce run --timed cx5-100g -- ./latency &
 *   ferroce run --timed cx5-100g -- ./latency 127.0.0.1
 *
 * With -DBROKEN it posts more bytes inline than the queue pair has room for.
 */
#include "course.h"

enum { INLINE = 128, DEPTH = 64, ROUNDS = 500, WRITES = 6400, LONG = 65536, LONG_WRITES = 640 };
#ifdef BROKEN
enum { SMALL = 4 * INLINE };
#else
enum { SMALL = 64 };
#endif

static struct ibv_send_wr write_of(struct side *side, struct ibv_sge *sge, size_t bytes, int flags)
{
	struct ibv_send_wr wr = request(side, sge, 0, bytes, IBV_WR_RDMA_WRITE);

	wr.wr.rdma.remote_addr = side->peer.address + LONG;
	wr.wr.rdma.rkey = side->peer.rkey;
	wr.send_flags = flags;
	return wr;
}

/*
 * Half of a round trip: each side waits until the last byte of the peer's WRITE is in memory. The
 * data of an inline WRITE is in the request; otherwise the device has to fetch it from memory.
 */
static void measure_latency(struct side *side, int flags, const char *name)
{
	volatile char *come = side->buffer + LONG + SMALL - 1;
	double start;
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_of(side, &sge, SMALL, flags | IBV_SEND_SIGNALED), *bad;

	*come = 0;
	meet(side);
	start = now_ns();
	for (int round = 1; round <= ROUNDS; round++) {
		char number = round % 100 + 1;

		while (!side->is_client && *come != number)
			;
		side->buffer[SMALL - 1] = number;
		check(ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
		while (side->is_client && *come != number)
			;
		wait_one(side);
	}
	if (side->is_client)
		printf("latency of %d bytes, %-14s %8.1f ns\n", SMALL, name,
		       (now_ns() - start) / ROUNDS / 2);
	meet(side);
}

/* Posts lists of `chain` WRITEs: one call, and one doorbell, for the whole list. */
static void measure_rate(struct side *side, int chain)
{
	struct ibv_sge sge;
	struct ibv_send_wr list[16], *bad;
	double start = now_ns();
	int in_flight = 0;

	for (int at = 0; at < chain; at++) {
		list[at] = write_of(side, &sge, SMALL, IBV_SEND_INLINE);
		list[at].next = at + 1 < chain ? &list[at + 1] : NULL;
	}
	for (int posted = 0; posted < WRITES; posted += 16) {
		while (in_flight == DEPTH) {
			wait_one(side);
			in_flight -= 16;
		}
		for (int at = 0; at < 16; at += chain) {
			/* One completion for each 16 WRITEs. */
			list[chain - 1].send_flags = IBV_SEND_INLINE | (at + chain == 16 ? IBV_SEND_SIGNALED : 0);
			check(ibv_post_send(side->qp, list, &bad), "ibv_post_send");
		}
		in_flight += 16;
	}
	for (; in_flight; in_flight -= 16)
		wait_one(side);
	printf("rate of %d bytes, %2d a doorbell: %9.2f million a second\n", SMALL, chain,
	       WRITES / (now_ns() - start) * 1e3);
}

static void measure_bandwidth(struct side *side)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_of(side, &sge, LONG, IBV_SEND_SIGNALED), *bad;
	double start = now_ns();
	int in_flight = 0;

	for (int posted = 0; posted < LONG_WRITES; posted++) {
		if (in_flight == DEPTH) {
			wait_one(side);
			in_flight--;
		}
		check(ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
		in_flight++;
	}
	for (; in_flight; in_flight--)
		wait_one(side);
	printf("bandwidth of %d bytes: %15.2f Gbit/s\n", LONG,
	       8.0 * LONG * LONG_WRITES / (now_ns() - start));
}

int main(int argc, char **argv)
{
	struct side side;
	struct wish wish = {
		.tcp_port = 18507,
		.bytes = 2 * LONG,
		.depth = DEPTH,
		.inline_bytes = INLINE,
		.rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};

	open_side(&side, argc, argv, &wish);
	measure_latency(&side, IBV_SEND_INLINE, "inline:");
	measure_latency(&side, 0, "not inline:");
	if (side.is_client) {
		measure_rate(&side, 1);
		measure_rate(&side, 4);
		measure_rate(&side, 16);
		measure_bandwidth(&side);
	}
	return close_side(&side);
}
