/*
 * Exercise 9: atomics: a counter and a lock in the memory of another machine.
 *
 *   cc -o atomics 09_atomics.c -libverbs
 *   ferroce run -- ./atomics &
 *   ferroce run -- ./atomics 127.0.0.1
 *
 * With -DBROKEN the counter is at an address that is no multiple of 8.
 */
#include "course.h"

#ifdef BROKEN
enum { COUNTER = 4 };
#else
enum { COUNTER = 0 };
#endif
enum { LOCK = 64, DATA = 128, RESULT = 8, ROUNDS = 500, DEPTH = 16 };

/* Atomics work on 8 bytes of the peer, and bring what was there before. */
static void post_atomic(struct side *side, enum ibv_wr_opcode opcode, size_t place,
			uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(side, &sge, RESULT, 8, opcode), *bad;

	wr.wr.atomic.remote_addr = side->peer.address + place;
	wr.wr.atomic.rkey = side->peer.rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	check(ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
}

static uint64_t result(struct side *side)
{
	uint64_t value;

	wait_one(side);
	memcpy(&value, side->buffer + RESULT, sizeof value);
	return value;
}

static void measure(struct side *side, int depth)
{
	double start = now_ns();
	int in_flight = 0;

	for (int posted = 0; posted < ROUNDS; posted++) {
		if (in_flight == depth) {
			wait_one(side);
			in_flight--;
		}
		post_atomic(side, IBV_WR_ATOMIC_FETCH_AND_ADD, COUNTER, 1, 0);
		in_flight++;
	}
	for (; in_flight; in_flight--)
		wait_one(side);
	printf("client: fetch-and-add, %2d in flight: %.1f ns each\n", depth,
	       (now_ns() - start) / ROUNDS);
}

/* 0 is free, 1 is taken. */
static void use_lock(struct side *side)
{
	do
		post_atomic(side, IBV_WR_ATOMIC_CMP_AND_SWP, LOCK, 0, 1);
	while (result(side) != 0);
	printf("client: I have the lock\n");
	post_atomic(side, IBV_WR_ATOMIC_CMP_AND_SWP, LOCK, 0, 1);
	printf("client: a second try finds %d\n", (int)result(side));
	/* One WRITE gives it back. It comes after the requests that were posted before it. */
	memset(side->buffer + DATA, 0, 8);
	post_rdma(side, IBV_WR_RDMA_WRITE, DATA, 8, LOCK);
	wait_one(side);
}

int main(int argc, char **argv)
{
	struct side side;
	struct wish wish = {
		.tcp_port = 18509,
		.depth = DEPTH,
		.rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	};
	uint64_t counter;

	open_side(&side, argc, argv, &wish);
	if (side.is_client) {
		measure(&side, 1);
		measure(&side, DEPTH);
		use_lock(&side);
	}
	meet(&side);
	memcpy(&counter, side.buffer + COUNTER, sizeof counter);
	if (!side.is_client)
		printf("server: the counter is %d\n", (int)counter);
	return close_side(&side);
}
