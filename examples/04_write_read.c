/*
 * Exercise 4: WRITE and READ, and the keys of memory.
 *
 *   cc -o write_read 04_write_read.c -libverbs
 *   ferroce run -- ./write_read &
 *   ferroce run -- ./write_read 127.0.0.1
 *
 * The client reads the server's memory and writes to it. The server does nothing meanwhile.
 * With -DBROKEN the server does not give the right to write (IBV_ACCESS_REMOTE_WRITE).
 */
#include "course.h"

enum { TEXT = 64, ROUNDS = 1000 };

/* Returns the mean time of a request, from the post to the completion. */
static double time_of(struct side *side, enum ibv_wr_opcode opcode)
{
	double start = now_ns();

	for (int round = 0; round < ROUNDS; round++) {
		post_rdma(side, opcode, TEXT, 8, TEXT);
		wait_one(side);
	}
	return (now_ns() - start) / ROUNDS;
}

static void be_client(struct side *side)
{
	post_rdma(side, IBV_WR_RDMA_READ, 0, TEXT, 0);
	wait_one(side);
	printf("client: READ \"%s\"\n", side->buffer);
	strcpy(side->buffer, "written by the client");
	post_rdma(side, IBV_WR_RDMA_WRITE, 0, TEXT, 0);
	wait_one(side);
	printf("client: a WRITE of 8 bytes takes %.1f ns\n", time_of(side, IBV_WR_RDMA_WRITE));
	printf("client: a READ of 8 bytes takes %.1f ns\n", time_of(side, IBV_WR_RDMA_READ));
}

int main(int argc, char **argv)
{
	struct side side;
	struct wish wish = {
		.tcp_port = 18504,
#ifdef BROKEN
		.rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
#else
		.rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
#endif
	};

	open_side(&side, argc, argv, &wish);
	if (!side.is_client)
		strcpy(side.buffer, "kept by the server");
	meet(&side); /* The memory has its content. */
	if (side.is_client)
		be_client(&side);
	meet(&side); /* The client has finished. */
	if (!side.is_client)
		printf("server: my memory says \"%s\"\n", side.buffer);
	return close_side(&side);
}
