/*
 * Exercise 5: a completion channel, or how a program sleeps until a message comes.
 *
 *   cc -o events 05_events.c -libverbs
 *   ferroce run -- ./events &
 *   ferroce run -- ./events 127.0.0.1
 *
 * The client polls; the server first polls, too, and then sleeps between the messages.
 * With -DBROKEN the server forgets to arm the completion queue, and sleeps for ever.
 */
#include "course.h"

enum { BYTES = 64, ROUNDS = 200 };

/*
 * Sleeps until a message has come. The order matters: arm, poll once more, and only then sleep.
 * An event comes only for a completion after the arming; an earlier one is found by the poll.
 */
static void sleep_for_message(struct side *side)
{
	struct ibv_wc wc;

	for (;;) {
		struct ibv_cq *cq;
		void *context;

#ifndef BROKEN
		check(ibv_req_notify_cq(side->cq, 0), "ibv_req_notify_cq");
#endif
		while (poll_one(side, &wc)) {
			expect_success(&wc);
			if (wc.opcode == IBV_WC_RECV)
				return;
		}
		check(ibv_get_cq_event(side->channel, &cq, &context), "ibv_get_cq_event");
		/* Each event has to be acknowledged: ibv_destroy_cq waits for that. */
		ibv_ack_cq_events(cq, 1);
	}
}

static void play(struct side *side, int server_sleeps)
{
	double start;

	post_receive(side, side->qp, 0, BYTES);
	meet(side);
	start = now_ns();
	for (int round = 0; round < ROUNDS; round++) {
		if (side->is_client)
			post_send(side, side->qp, BYTES, BYTES);
		if (!side->is_client && server_sleeps)
			sleep_for_message(side);
		else
			wait_for_message(side);
		if (round + 1 < ROUNDS)
			post_receive(side, side->qp, 0, BYTES);
		if (!side->is_client)
			post_send(side, side->qp, BYTES, BYTES);
	}
	if (side->is_client)
		printf("the server %s: %.1f ns a round\n", server_sleeps ? "sleeps" : "polls",
		       (now_ns() - start) / ROUNDS);
	meet(side);
}

int main(int argc, char **argv)
{
	struct side side;
	struct wish wish = { .tcp_port = 18505 };

	open_side(&side, argc, argv, &wish);
#ifndef BROKEN
	play(&side, 0);
#endif
	play(&side, 1);
	return close_side(&side);
}
