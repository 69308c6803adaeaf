/*
 * Exercise 8: a shared receive queue.
 *
 *   cc -o srq 08_srq.c -libverbs
 *   ferroce run -- ./srq
 *
 * Four senders and four receivers in one process. The receivers take their buffers from one shared
 * queue, so a busy one can use more of them than an idle one. An event says when few are left.
 * With -DBROKEN the program posts the buffers to a queue pair instead of the shared queue.
 */
#include "course.h"
#include <poll.h>

enum { PAIRS = 4, RECEIVES = 16, LIMIT = 4, BYTES = 64 };

static struct side side;
static struct ibv_srq *srq;
static struct ibv_qp *senders[PAIRS], *receivers[PAIRS];

static void connect_pair(struct ibv_qp *one, struct ibv_qp *other)
{
	struct remote to_other = { .gid = side.gid, .qpn = other->qp_num };
	struct remote to_one = { .gid = side.gid, .qpn = one->qp_num };

	connect_qp(&side, one, &to_other);
	connect_qp(&side, other, &to_one);
}

static void post_shared(size_t place)
{
	struct ibv_sge to = { (uintptr_t)side.buffer + place, BYTES, side.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = place, .sg_list = &to, .num_sge = 1 }, *bad;

#ifdef BROKEN
	check(ibv_post_recv(receivers[0], &wr, &bad), "ibv_post_recv");
#else
	check(ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
#endif
}

static int receiver_of(uint32_t qpn)
{
	for (int index = 0; index < PAIRS; index++)
		if (receivers[index]->qp_num == qpn)
			return index;
	fail("a completion of an unknown queue pair", EINVAL);
}

/* Returns true if the device reports that few receives are left. */
static int is_reported(void)
{
	struct pollfd async = { .fd = side.context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	int is_limit;

	if (poll(&async, 1, 50) != 1)
		return 0;
	check(ibv_get_async_event(side.context, &event), "ibv_get_async_event");
	is_limit = event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED;
	ibv_ack_async_event(&event);
	return is_limit;
}

static void send_all(void)
{
	int came[PAIRS] = { 0 };

	for (int number = 1; number <= RECEIVES; number++) {
		/* Sender 0 is busy, the others send one message each. */
		int pair = number % 4 ? 0 : number / 4 % PAIRS;

		post_send(&side, senders[pair], 0, BYTES);
		came[receiver_of(wait_for_message(&side).qp_num)]++;
		if (is_reported())
			printf("after message %d: fewer than %d receives are left\n", number, LIMIT);
	}
	for (int index = 0; index < PAIRS; index++)
		printf("receiver %d took %2d of %d receives\n", index, came[index], RECEIVES);
}

int main(void)
{
	struct wish wish = { .depth = 16 };
	struct ibv_srq_init_attr init = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = LIMIT };

	alarm(SECONDS_MAX);
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_objects(&side, &wish);
	srq = need(ibv_create_srq(side.pd, &init), "ibv_create_srq");
	for (int index = 0; index < PAIRS; index++) {
		senders[index] = create_qp(&side, NULL);
		receivers[index] = create_qp(&side, srq);
		connect_pair(senders[index], receivers[index]);
	}
	for (int index = 1; index <= RECEIVES; index++)
		post_shared(BYTES * index);
	/* The event comes once. Then the program posts more, and arms it again. */
	check(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), "ibv_modify_srq");
	send_all();

	for (int index = 0; index < PAIRS; index++) {
		check(ibv_destroy_qp(senders[index]), "ibv_destroy_qp");
		check(ibv_destroy_qp(receivers[index]), "ibv_destroy_qp");
	}
	check(ibv_destroy_srq(srq), "ibv_destroy_srq");
	close_objects(&side);
	return 0;
}
