/* Completion channels, cancellation, fork, and the library as plug-ins load it. */
#include "common.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

enum { TARGET = 64 * 1024, WAIT_MS = 10000, ROUNDS = 200 };

static void *wait_for_event(void *argument)
{
	struct bench *bench = argument;
	struct ibv_cq *cq;
	void *context;

	ibv_get_cq_event(bench->channel, &cq, &context);
	return NULL;
}

static void *wait_for_async_event(void *argument)
{
	struct bench *bench = argument;
	struct ibv_async_event event;

	ibv_get_async_event(bench->context, &event);
	return NULL;
}

/* It waits in a system call, or will soon; both are cancellation points. */
static void check_cancel(struct bench *bench, void *(*wait)(void *))
{
	pthread_t thread;
	void *result = NULL;
	struct timespec deadline;

	NEED(!pthread_create(&thread, NULL, wait, bench));
	EQUAL(pthread_cancel(thread), 0);
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += WAIT_MS / 1000;
	NEED(!pthread_timedjoin_np(thread, &result, &deadline));
	CHECK(result == PTHREAD_CANCELED);
}

static void check_nonblocking_channel(struct bench *bench)
{
	struct pollfd ready = { .fd = bench->channel->fd, .events = POLLIN };
	const int flags = fcntl(bench->channel->fd, F_GETFL);
	struct ibv_cq *cq = NULL;
	void *context;

	connect_pair(bench);
	NEED(!fcntl(bench->channel->fd, F_SETFL, flags | O_NONBLOCK));
	errno = 0;
	EQUAL(ibv_get_cq_event(bench->channel, &cq, &context), -1);
	EQUAL(errno, EAGAIN);
	for (int i = 0; i < ROUNDS; i++) {
		EQUAL(poll(&ready, 1, 0), 0);
		EQUAL(ibv_req_notify_cq(bench->send_cq, 0), 0);
		EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, i, sge_of(bench, 0, 64), TARGET,
				bench->mr->rkey), 0);
		NEED(poll(&ready, 1, WAIT_MS) == 1);
		NEED(!ibv_get_cq_event(bench->channel, &cq, &context));
		CHECK(cq == bench->send_cq);
		ibv_ack_cq_events(cq, 1);
		EXPECT_WC(bench->send_cq, i, IBV_WC_SUCCESS);
	}
	/* One event per request, whatever the number of completions. */
	EQUAL(ibv_req_notify_cq(bench->send_cq, 0), 0);
	for (int i = 0; i < 3; i++)
		EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, i, sge_of(bench, 0, 64), TARGET,
				bench->mr->rkey), 0);
	NEED(poll(&ready, 1, WAIT_MS) == 1);
	NEED(!ibv_get_cq_event(bench->channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	for (int i = 0; i < 3; i++)
		EXPECT_WC(bench->send_cq, i, IBV_WC_SUCCESS);
	EQUAL(poll(&ready, 1, 0), 0);
	NEED(!fcntl(bench->channel->fd, F_SETFL, flags));
}

/* Only the receiver of a solicited message gets an event. */
static void check_solicited(struct bench *bench)
{
	struct ibv_sge sge = sge_of(bench, 0, 8);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct pollfd ready = { .fd = bench->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	connect_pair(bench);
	EQUAL(ibv_req_notify_cq(bench->receive_cq, 1), 0);
	for (int i = 0; i < 2; i++) {
		EQUAL(post_receive(bench->qp[1], i, sge_of(bench, TARGET, 8)), 0);
		wr.send_flags = IBV_SEND_SIGNALED | (i ? IBV_SEND_SOLICITED : 0);
		EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
		EXPECT_WC(bench->send_cq, 0, IBV_WC_SUCCESS);
		EXPECT_WC(bench->receive_cq, i, IBV_WC_SUCCESS);
		EQUAL(poll(&ready, 1, i ? WAIT_MS : 0), i);
	}
	NEED(!ibv_get_cq_event(bench->channel, &cq, &context));
	CHECK(cq == bench->receive_cq);
	ibv_ack_cq_events(cq, 1);
}

/* A child has its own device, and the parent's device continues to work. */
static int in_child(void)
{
	struct bench own;

	failures = 0;
	open_bench(&own);
	connect_pair(&own);
	strcpy(own.buffer, "child");
	EQUAL(post_send(&own, IBV_WR_RDMA_WRITE, 1, sge_of(&own, 0, 6), TARGET, own.mr->rkey), 0);
	EXPECT_WC(own.send_cq, 1, IBV_WC_SUCCESS);
	CHECK(!strcmp(own.buffer + TARGET, "child"));
	close_bench(&own);
	fflush(stdout);
	return failures != 0;
}

static void check_fork(struct bench *bench)
{
	int status = -1;
	pid_t child;

	connect_pair(bench);
	fflush(stdout);
	child = fork();
	if (!child)
		_exit(in_child());
	for (int i = 0; i < ROUNDS; i++) {
		EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, i, sge_of(bench, 0, 64), TARGET,
				bench->mr->rkey), 0);
		EXPECT_WC(bench->send_cq, i, IBV_WC_SUCCESS);
	}
	NEED(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void check_library(void)
{
	typedef const char *status_text(enum ibv_wc_status);
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	status_text *text;
	Dl_info own = { 0 }, linked = { 0 };

	NEED(library);
	text = (status_text *)dlvsym(library, "ibv_wc_status_str", "IBVERBS_1.1");
	NEED(text);
	CHECK(!strcmp(text(IBV_WC_SUCCESS), "success"));
	CHECK(dlvsym(library, "ibv_open_device", "IBVERBS_1.1") != NULL);
	CHECK(dlvsym(library, "ibv_open_device", "IBVERBS_9.9") == NULL);
	/* The loader finds our library for every caller. */
	CHECK(dladdr((void *)text, &own) && dladdr((void *)ibv_get_device_name, &linked));
	CHECK(own.dli_fname && linked.dli_fname && !strcmp(own.dli_fname, linked.dli_fname));
	EQUAL(dlclose(library), 0);
}

/* Events of a QP arrive on the file descriptor of the context. */
static void check_async_event(struct bench *bench)
{
	struct pollfd ready = { .fd = bench->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	connect_pair(bench);
	EQUAL(post_send(bench, IBV_WR_RDMA_WRITE, 1, sge_of(bench, 0, 64), TARGET,
			bench->mr->rkey ^ 0x5a5a5a), 0);
	EXPECT_WC(bench->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	NEED(poll(&ready, 1, WAIT_MS) == 1);
	NEED(!ibv_get_async_event(bench->context, &event));
	EQUAL(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	CHECK(event.element.qp == bench->qp[1]);
	ibv_ack_async_event(&event);
}

int main(void)
{
	struct bench bench;

	EQUAL(ibv_fork_init(), 0);
	check_library();
	open_bench(&bench);
	check_cancel(&bench, wait_for_event);
	check_cancel(&bench, wait_for_async_event);
	check_nonblocking_channel(&bench);
	check_solicited(&bench);
	check_fork(&bench);
	check_async_event(&bench);
	close_bench(&bench);
	return finish();
}
