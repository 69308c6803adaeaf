/*
 * Exercise 10: a key-value store in two designs.
 *
 *   cc -o key_value 10_key_value.c -libverbs
 *   ferroce run --timed cx5-100g -- ./key_value &
 *   ferroce run --timed cx5-100g -- ./key_value 127.0.0.1
 *
 * One-sided: the client READs a slot of the server's index, and then the value to which the slot
 * points. The server's processor does nothing. Two-sided: the client SENDs the key; the server
 * looks it up and SENDs the value.
 * With -DBROKEN the client takes the place of a value in the buffer for its address.
 */
#include "course.h"

enum { KEYS = 1024, VALUE = 256, GETS = 512, BATCH = 16 };

struct slot {
	uint64_t key;
	uint64_t place; /* Of the value in the server's buffer. */
};

/* The parts of the buffer of both sides. */
enum {
	VALUES = KEYS * sizeof(struct slot),
	SLOTS = VALUES + KEYS * VALUE, /* Copies of slots, or the keys of questions. */
	COPIES = SLOTS + BATCH * sizeof(struct slot), /* Copies of values. */
	BYTES = COPIES + BATCH * VALUE,
};

static size_t slot_place(int at)
{
	return SLOTS + at * sizeof(struct slot);
}

static struct slot *slot_copy(struct side *side, int at)
{
	return (struct slot *)(side->buffer + slot_place(at));
}

/* The keys that the client asks for: any of them, the same on each run. */
static uint64_t key_of(int number)
{
	return (uint64_t)number * 7919 % KEYS;
}

static void fill(struct side *side)
{
	struct slot *index = (struct slot *)side->buffer;

	for (uint64_t key = 0; key < KEYS; key++) {
		index[key] = (struct slot){ key, VALUES + key * 31 % KEYS * VALUE };
		snprintf(side->buffer + index[key].place, VALUE, "value of key %d", (int)key);
	}
}

static void expect(struct side *side, int at, uint64_t key)
{
	char right[VALUE];

	snprintf(right, sizeof right, "value of key %d", (int)key);
	if (strcmp(side->buffer + COPIES + at * VALUE, right))
		fail("a wrong value", EILSEQ);
}

static void read_value(struct side *side, int at)
{
	size_t place = slot_copy(side, at)->place;

#ifdef BROKEN
	place -= side->peer.address;
#endif
	post_rdma(side, IBV_WR_RDMA_READ, COPIES + at * VALUE, VALUE, place);
}

/* GETs `batch` keys by READs: all slots, then all values. */
static void get_one_sided(struct side *side, int first, int batch)
{
	for (int at = 0; at < batch; at++)
		post_rdma(side, IBV_WR_RDMA_READ, slot_place(at), sizeof(struct slot),
			  key_of(first + at) * sizeof(struct slot));
	for (int at = 0; at < batch; at++)
		wait_one(side);
	for (int at = 0; at < batch; at++)
		read_value(side, at);
	for (int at = 0; at < batch; at++)
		wait_one(side);
	for (int at = 0; at < batch; at++)
		expect(side, at, key_of(first + at));
}

/* GETs `batch` keys by questions and answers. */
static void get_two_sided(struct side *side, int first, int batch)
{
	for (int at = 0; at < batch; at++) {
		post_receive(side, side->qp, COPIES + at * VALUE, VALUE);
		slot_copy(side, at)->key = key_of(first + at);
		post_send(side, side->qp, slot_place(at), sizeof(struct slot));
	}
	/* A completion for each SEND, and one for each answer. */
	for (int at = 0; at < 2 * batch; at++)
		wait_one(side);
	for (int at = 0; at < batch; at++)
		expect(side, at, key_of(first + at));
}

/* Answers questions, in the order in which they come. */
static void serve(struct side *side, int questions)
{
	const struct slot *index = (const struct slot *)side->buffer;

	for (int number = 0; number < questions; number++) {
		size_t place = wait_for_message(side).wr_id;
		uint64_t key = ((struct slot *)(side->buffer + place))->key;

		post_receive(side, side->qp, place, sizeof(struct slot));
		post_send(side, side->qp, index[key].place, VALUE);
	}
}

static void measure(struct side *side, const char *name, int batch,
		    void (*get)(struct side *, int, int))
{
	double start = now_ns();

	for (int first = 0; first < GETS; first += batch)
		get(side, first, batch);
	printf("%s, %2d at a time: %7.1f ns a GET\n", name, batch, (now_ns() - start) / GETS);
}

int main(int argc, char **argv)
{
	struct side side;
	struct wish wish = {
		.tcp_port = 18510,
		.bytes = BYTES,
		.depth = 2 * BATCH,
		.rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	open_side(&side, argc, argv, &wish);
	if (!side.is_client) {
		fill(&side);
		for (int at = 0; at < BATCH; at++)
			post_receive(&side, side.qp, slot_place(at), sizeof(struct slot));
	}
	meet(&side);
	if (side.is_client) {
		measure(&side, "two READs    ", 1, get_one_sided);
		measure(&side, "SEND and RECV", 1, get_two_sided);
		measure(&side, "two READs    ", BATCH, get_one_sided);
		measure(&side, "SEND and RECV", BATCH, get_two_sided);
	} else {
		serve(&side, 2 * GETS);
	}
	return close_side(&side);
}
