/*
 * Exercise 6: how many requests in flight, and how many of them report their end.
 *
 *   cc -o signalling 06_signalling.c -libverbs
 *   ferroce run -- ./signalling &
 *   ferroce run -- ./signalling 127.0.0.1
 *
 * The client measures the rate of small WRITEs. With -DBROKEN no WRITE asks for a completion, and
 * the client waits for none.
 */
#include "course.h"

enum { DEPTH = 64, BYTES = 64, WRITES = 6400 };

static void post_write(struct side *side, int is_signaled)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(side, &sge, 0, BYTES, IBV_WR_RDMA_WRITE), *bad;

	wr.wr.rdma.remote_addr = side->peer.address;
	wr.wr.rdma.rkey = side->peer.rkey;
	wr.send_flags = is_signaled ? IBV_SEND_SIGNALED : 0;
	check(ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
}

/*
 * Keeps `depth` WRITEs in flight, of which every `interval`-th is signaled. A completion says that
 * all requests before it are done, too: it frees the places of `interval` requests.
 */
static void measure(struct side *side, int depth, int interval)
{
	double start = now_ns();
	int in_flight = 0;

	for (int posted = 1; posted <= WRITES; posted++) {
		while (in_flight == depth) {
			wait_one(side);
			in_flight -= interval;
		}
		post_write(side, posted % interval == 0);
		in_flight++;
	}
	for (; in_flight; in_flight -= interval)
		wait_one(side);
	printf("%2d in flight, 1 of %2d signaled: %.2f million WRITEs a second\n", depth, interval,
	       WRITES / (now_ns() - start) * 1e3);
}

/* A request without a completion keeps its place in the queue: the device never frees it. */
static UNUSED void fill(struct side *side)
{
	for (int posted = 1; posted <= WRITES; posted++)
		post_write(side, 0);
}

int main(int argc, char **argv)
{
	struct side side;
	struct wish wish = {
		.tcp_port = 18506,
		.depth = DEPTH,
		.rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};

	open_side(&side, argc, argv, &wish);
#ifdef BROKEN
	if (side.is_client)
		fill(&side);
#endif
	if (side.is_client) {
		measure(&side, 1, 1);
		measure(&side, 4, 1);
		measure(&side, 16, 1);
		measure(&side, DEPTH, 1);
		measure(&side, DEPTH, 8);
		measure(&side, DEPTH, 32);
	}
	return close_side(&side);
}
