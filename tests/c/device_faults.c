/*
 * A program that tests faults of its device: `device_faults FERROCE PID CASE [FAULT]`. It runs
 * `ferroce inject` for process PID; 0 means this process, which contains the device.
 */
#define GID_INDEX 0
#include "common.h"
#include <poll.h>
#include <pthread.h>

/* Longer than the driver's limits, such as 10 s for a command, on a busy machine. */
enum { LIMIT_MS = 60000, ROUNDS = 20, LENGTH = 4096 };

static const char *ferroce;
static int device_pid;

static int try_inject(const char *fault, int count)
{
	char command[1000];

	snprintf(command, sizeof command, "%s inject %s --count %d --pid %d >/dev/null 2>&1",
		 ferroce, fault, count, device_pid ? device_pid : getpid());
	return system(command);
}

static void inject(const char *fault, int count)
{
	NEED(!try_inject(fault, count));
}

static int write_once(struct bench *bench, uint64_t wr_id)
{
	return post_send(bench, IBV_WR_RDMA_WRITE, wr_id, sge_of(bench, 0, LENGTH), bench->size / 2,
			 bench->mr->rkey);
}

static void expect_traffic(struct bench *bench)
{
	connect_pair(bench);
	memset(bench->buffer, 7, LENGTH);
	memset(bench->buffer + bench->size / 2, 0, LENGTH);
	EQUAL(write_once(bench, 1), 0);
	EXPECT_WC(bench->send_cq, 1, IBV_WC_SUCCESS);
	EQUAL(memcmp(bench->buffer, bench->buffer + bench->size / 2, LENGTH), 0);
}

/* Waits until the descriptor is readable, and fails if it is not in time. */
static void await(int fd)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };

	NEED(poll(&readable, 1, LIMIT_MS) == 1);
}

static void expect_async_event(struct bench *bench, enum ibv_event_type expected)
{
	struct ibv_async_event event;

	await(bench->context->async_fd);
	EQUAL(ibv_get_async_event(bench->context, &event), 0);
	EQUAL(event.event_type, expected);
	ibv_ack_async_event(&event);
}

static void expect_cq_event(struct bench *bench)
{
	struct ibv_cq *cq;
	void *context;

	await(bench->channel->fd);
	EQUAL(ibv_get_cq_event(bench->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
}

/* A DMA read fails: one work request has an error, the next is flushed, the device still works. */
static void a_read_fails(const char *fault)
{
	struct bench bench;

	open_bench(&bench);
	expect_traffic(&bench);
	inject(fault, 1);
	EQUAL(write_once(&bench, 2), 0);
	EXPECT_WC(bench.send_cq, 2, IBV_WC_LOC_QP_OP_ERR);
	EQUAL(write_once(&bench, 3), 0);
	EXPECT_WC(bench.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	EQUAL(state_of(bench.qp[0]), IBV_QPS_ERR);
	expect_traffic(&bench);
	close_bench(&bench);
}

/* A thread that sleeps until the CQ of the receives has an event. */
static void *sleep_for_event(void *argument)
{
	expect_cq_event(argument);
	return NULL;
}

/* Expects that one work request is flushed, and that no other completion comes. */
static void expect_flushed(struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_wc wc;

	EXPECT_WC(cq, wr_id, IBV_WC_WR_FLUSH_ERR);
	EQUAL(ibv_poll_cq(cq, 1, &wc), -EIO);
}

static void expect_dead(struct bench *bench, int takes_doorbells)
{
	CHECK(!ibv_create_cq(bench->context, 1, NULL, NULL, 0));
	EQUAL(errno, EIO);
	EQUAL(to_state(bench->qp[0], IBV_QPS_ERR), EIO);
	EQUAL(ibv_req_notify_cq(bench->send_cq, 0), EIO);
	/* Later requests are flushed, too, unless the device still executes them. */
	EQUAL(write_once(bench, 6), 0);
	if (!takes_doorbells)
		expect_flushed(bench->send_cq, 6);
}

/*
 * The device has failed: sleeping threads wake up, all work requests are flushed, all calls return,
 * and all objects can be destroyed.
 */
static void the_device_dies(const char *fault)
{
	const int is_hang = !strcmp(fault, "command-hang");
	struct bench bench;
	pthread_t sleeper;

	open_bench(&bench);
	expect_traffic(&bench);
	EQUAL(post_receive(bench.qp[1], 4, sge_of(&bench, 0, LENGTH)), 0);
	EQUAL(ibv_req_notify_cq(bench.receive_cq, 0), 0);
	NEED(!pthread_create(&sleeper, NULL, sleep_for_event, &bench));
	inject(fault, 255);
	if (is_hang)
		EQUAL(to_state(bench.qp[0], IBV_QPS_ERR), ETIMEDOUT);
	else
		write_once(&bench, 5);
	expect_async_event(&bench, IBV_EVENT_DEVICE_FATAL);
	EQUAL(pthread_join(sleeper, NULL), 0);
	if (!is_hang)
		expect_flushed(bench.send_cq, 5);
	expect_flushed(bench.receive_cq, 4);
	expect_dead(&bench, is_hang);
	close_bench(&bench);
}

static void a_new_device_works(void)
{
	struct bench bench;

	open_bench(&bench);
	expect_traffic(&bench);
	close_bench(&bench);
}

/* Plugs the device in again. Hotplug is asynchronous, so waits until the device works. */
static void plug_in(void)
{
	const int64_t deadline = now_ms() + POLL_TIMEOUT_MS;
	struct ibv_context *context;

	inject("insertion", 1);
	while (!(context = open_first_device()) && now_ms() < deadline)
		usleep(1000);
	NEED(context);
	EQUAL(ibv_close_device(context), 0);
}

static void dies_and_works_again(const char *fault)
{
	the_device_dies(fault);
	if (device_pid && !strcmp(fault, "surprise-removal")) {
		CHECK(!open_first_device());
		plug_in();
	}
	a_new_device_works();
}

/* An interrupt or a doorbell is lost: the program waits longer, and continues. */
static void a_message_is_lost(const char *fault)
{
	struct bench bench;

	open_bench(&bench);
	expect_traffic(&bench);
	EQUAL(ibv_req_notify_cq(bench.send_cq, 0), 0);
	inject(fault, 1);
	EQUAL(write_once(&bench, 6), 0);
	expect_cq_event(&bench);
	EXPECT_WC(bench.send_cq, 6, IBV_WC_SUCCESS);
	/* The doorbell that arms the CQ, or the next interrupt. */
	inject(fault, 1);
	EQUAL(ibv_req_notify_cq(bench.send_cq, 0), 0);
	EQUAL(write_once(&bench, 7), 0);
	expect_cq_event(&bench);
	EXPECT_WC(bench.send_cq, 7, IBV_WC_SUCCESS);
	/* The doorbell of a receive. */
	inject(fault, 1);
	EQUAL(post_receive(bench.qp[1], 8, sge_of(&bench, 0, LENGTH)), 0);
	EQUAL(post_send(&bench, IBV_WR_SEND, 9, sge_of(&bench, 0, LENGTH), 0, 0), 0);
	EXPECT_WC(bench.receive_cq, 8, IBV_WC_SUCCESS);
	EXPECT_WC(bench.send_cq, 9, IBV_WC_SUCCESS);
	close_bench(&bench);
}

/* Pulls the device out and plugs it in again, several times, with all objects open. */
static void rounds_of_removal(void)
{
	int before = 0;

	for (int round = 0; round < ROUNDS; round++) {
		the_device_dies("surprise-removal");
		if (device_pid)
			plug_in();
		if (round == 0)
			before = descriptors();
	}
	a_new_device_works();
	EQUAL(descriptors(), before);
}

int main(int count, char **words)
{
	NEED(count >= 4);
	ferroce = words[1];
	device_pid = atoi(words[2]);
	if (!strcmp(words[3], "read"))
		a_read_fails(words[4]);
	else if (!strcmp(words[3], "dies"))
		dies_and_works_again(words[4]);
	else if (!strcmp(words[3], "loses"))
		a_message_is_lost(words[4]);
	else if (!strcmp(words[3], "rounds"))
		rounds_of_removal();
	else
		NEED(!"a case");
	return finish();
}
