/*
 * A child uses the device that its parent has opened: the first argument names the first verb that
 * it calls. Each verb fails, and the parent's objects still work afterwards.
 */
#include "common.h"
#include <sys/wait.h>

static struct bench bench;

static int by_alloc_pd(void)
{
	return ibv_alloc_pd(bench.context) ? 0 : errno;
}

static int by_poll(void)
{
	struct ibv_wc wc;

	return ibv_poll_cq(bench.send_cq, 1, &wc) < 0 ? EIO : 0;
}

static int by_post_send(void)
{
	return post_send(&bench, IBV_WR_RDMA_WRITE, 1, sge_of(&bench, 0, 8), 64, bench.mr->rkey);
}

static int by_post_recv(void)
{
	return post_receive(bench.qp[1], 1, sge_of(&bench, 0, 8));
}

static int by_modify(void)
{
	return to_state(bench.qp[0], IBV_QPS_ERR);
}

static const struct {
	const char *name;
	int (*run)(void);
} verbs[] = {
	{ "alloc_pd", by_alloc_pd },
	{ "poll", by_poll },
	{ "post_send", by_post_send },
	{ "post_recv", by_post_recv },
	{ "modify", by_modify },
};

int main(int argc, char **argv)
{
	int status, found = 0;
	pid_t child;

	open_bench(&bench);
	connect_pair(&bench);
	child = fork();
	NEED(child >= 0);
	if (!child) {
		for (size_t i = 0; argc > 1 && i < sizeof verbs / sizeof *verbs; i++)
			if (!strcmp(argv[1], verbs[i].name)) {
				EQUAL(verbs[i].run(), EIO);
				found++;
			}
		EQUAL(found, 1);
		/* Further verbs, which are not reported again. */
		EQUAL(by_alloc_pd(), EIO);
		EQUAL(by_post_send(), EIO);
		fflush(stdout);
		_exit(failures != 0);
	}
	EQUAL(waitpid(child, &status, 0), child);
	EQUAL(status, 0);
	EQUAL(post_send(&bench, IBV_WR_RDMA_WRITE, 7, sge_of(&bench, 0, 8), 64, bench.mr->rkey), 0);
	EXPECT_WC(bench.send_cq, 7, IBV_WC_SUCCESS);
	close_bench(&bench);
	return finish();
}
