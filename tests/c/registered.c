/*
 * Registers memory of all kinds, and uses it like programs before, during and after the
 * registration. In simulated time the library shares large private memory with the world while it
 * is registered; with "shared" as the first argument the program requires that.
 */
#include "common.h"
#include "pattern.h"
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096, LARGE = 300000, SMALL = 5000, LENGTH = 4000 };

static bool is_to_be_shared;

static bool is_shared(void)
{
	char line[512];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "r");

	NEED(maps);
	while (fgets(line, sizeof line, maps))
		found |= strstr(line, "ferroce-registered") != NULL;
	fclose(maps);
	return found;
}

static bool is_zero(const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i])
			return false;
	return true;
}

static struct ibv_mr *registered(struct bench *bench, void *start, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(bench->pd, start, length,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				       IBV_ACCESS_REMOTE_READ);

	NEED(mr);
	return mr;
}

/* The card copies, by one RDMA WRITE or READ. */
static void move(struct bench *bench, enum ibv_wr_opcode opcode, char *local, struct ibv_mr *local_mr,
		 char *remote, struct ibv_mr *remote_mr, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)local, length, local_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 5,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)remote, remote_mr->rkey },
	};

	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
	EXPECT_WC(bench->send_cq, 5, IBV_WC_SUCCESS);
}

/* Data moves between memory of every kind. */
static void kinds_of_memory(struct bench *bench)
{
	static char fixed[LARGE];
	char *buffers[4] = { malloc(LARGE), malloc(SMALL), fixed, NULL };
	struct ibv_mr *mrs[4];

	buffers[3] = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 4; i++) {
		NEED(buffers[i] && buffers[i] != MAP_FAILED);
		fill(buffers[i], SMALL, i);
		mrs[i] = registered(bench, buffers[i], i == 1 ? SMALL : LARGE);
		CHECK(is_filled(buffers[i], SMALL, i));
	}
	for (int from = 0; from < 4; from++)
		for (int to = 0; to < 4; to++) {
			if (from == to)
				continue;
			fill(buffers[from], SMALL, from + 10 * to);
			move(bench, IBV_WR_RDMA_WRITE, buffers[from] + 3, mrs[from],
			     buffers[to] + 3, mrs[to], LENGTH);
			CHECK(!memcmp(buffers[to] + 3, buffers[from] + 3, LENGTH));
			fill(buffers[to], SMALL, from + 20 * to);
			move(bench, IBV_WR_RDMA_READ, buffers[from] + 5, mrs[from],
			     buffers[to] + 5, mrs[to], LENGTH);
			CHECK(!memcmp(buffers[to] + 5, buffers[from] + 5, LENGTH));
		}
	for (int i = 0; i < 4; i++)
		EQUAL(ibv_dereg_mr(mrs[i]), 0);
	free(buffers[0]);
	free(buffers[1]);
	EQUAL(munmap(buffers[3], LARGE), 0);
}

/* The same pages are registered several times. */
static void overlapping(struct bench *bench)
{
	char *buffer = malloc(LARGE);
	struct ibv_mr *mrs[4];

	fill(buffer, LARGE, 1);
	mrs[0] = registered(bench, buffer, LARGE / 2);
	mrs[1] = registered(bench, buffer + LARGE / 4, LARGE / 2);
	mrs[2] = registered(bench, buffer + LARGE / 3, 100);
	mrs[3] = registered(bench, buffer, LARGE);
	CHECK(is_filled(buffer, LARGE, 1));
	for (int i = 0; i < 4; i++) {
		char *place = buffer + LARGE / 3;

		fill(place, 100, i);
		move(bench, IBV_WR_RDMA_WRITE, place, mrs[i], bench->buffer, bench->mr, 100);
		CHECK(is_filled(bench->buffer, 100, i));
		fill(bench->buffer, 100, i + 50);
		move(bench, IBV_WR_RDMA_READ, place, mrs[i], bench->buffer, bench->mr, 100);
		CHECK(is_filled(place, 100, i + 50));
		fill(place, 100, 1 + 0);
		EQUAL(ibv_dereg_mr(mrs[i]), 0);
	}
	CHECK(is_filled(buffer, LARGE / 3, 1));
	free(buffer);
}

/* Calls of the C library on registered memory. */
static void after_deregistration(struct bench *bench)
{
	char *buffer = malloc(LARGE), *cleared;

	fill(buffer, LARGE, 2);
	EQUAL(ibv_dereg_mr(registered(bench, buffer, LARGE)), 0);
	CHECK(is_filled(buffer, LARGE, 2));
	buffer = realloc(buffer, 3 * LARGE);
	NEED(buffer);
	CHECK(is_filled(buffer, LARGE, 2));
	fill(buffer, 3 * LARGE, 3);
	EQUAL(ibv_dereg_mr(registered(bench, buffer, 3 * LARGE)), 0);
	CHECK(is_filled(buffer, 3 * LARGE, 3));
	free(buffer);
	cleared = calloc(1, 3 * LARGE);
	NEED(cleared);
	CHECK(is_zero(cleared, 3 * LARGE));
	free(cleared);
}

/* Memory is unmapped without deregistration, and mapped again. */
static void mapped_anew(struct bench *bench)
{
	const int rights = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *start = mmap(NULL, 64 * PAGE, rights, flags, -1, 0);
	struct ibv_mr *mr, *other;

	NEED(start != MAP_FAILED);
	fill(start, 64 * PAGE, 4);
	mr = registered(bench, start, 64 * PAGE);
	NEED(mmap(start, 64 * PAGE, rights, flags | MAP_FIXED, -1, 0) == start);
	other = registered(bench, start, 64 * PAGE);
	CHECK(is_zero(start, 64 * PAGE));
	fill(start, LENGTH, 5);
	move(bench, IBV_WR_RDMA_WRITE, start, other, bench->buffer, bench->mr, LENGTH);
	CHECK(is_filled(bench->buffer, LENGTH, 5));
	EQUAL(ibv_dereg_mr(mr), 0);
	move(bench, IBV_WR_RDMA_READ, start + 32 * PAGE, other, bench->buffer, bench->mr, LENGTH);
	CHECK(is_filled(start + 32 * PAGE, LENGTH, 5));
	EQUAL(ibv_dereg_mr(other), 0);
	CHECK(is_filled(start, LENGTH, 5));
	CHECK(is_filled(start + 32 * PAGE, LENGTH, 5));
	EQUAL(munmap(start, 64 * PAGE), 0);
}

/* A child sees the data of its parent, and its own writes are private. */
static void in_a_child(struct bench *bench)
{
	int status = 0;
	pid_t child;

	fill(bench->buffer, LARGE, 6);
	fflush(stdout);
	child = fork();
	NEED(child >= 0);
	if (child == 0) {
		bool is_there = is_filled(bench->buffer, LARGE, 6);

		memset(bench->buffer, 9, LARGE);
		_exit(is_there ? 17 : 1);
	}
	EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	EQUAL(WEXITSTATUS(status), 17);
	CHECK(is_filled(bench->buffer, LARGE, 6));
}

int main(int argc, char **argv)
{
	struct bench bench;

	is_to_be_shared = argc > 1 && !strcmp(argv[1], "shared");
	open_bench(&bench);
	EQUAL(is_shared(), is_to_be_shared);
	connect_pair(&bench);
	kinds_of_memory(&bench);
	overlapping(&bench);
	after_deregistration(&bench);
	mapped_anew(&bench);
	in_a_child(&bench);
	close_bench(&bench);
	CHECK(!is_shared());
	return finish();
}
