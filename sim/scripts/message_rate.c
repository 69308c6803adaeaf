/*
 * Message rate of RDMA WRITEs from one process, or several, to a peer process that only listens.
 *   message_rate THREADS QPS PROCESSES SIZE SECONDS DEPTH [loopback]
 * Each of PROCESSES has THREADS threads, each with a context, a CQ and QPS QPs that no other thread
 * uses, and one peer process; with `loopback` each QP is connected to itself instead, so that the
 * receiver takes no processor. A QP has DEPTH requests in flight; one in SIGNAL_EVERY of them has a
 * completion, or each if DEPTH is smaller. Threads take turns with the devices, if there are
 * several. Prints millions of messages per second: of all, of the slowest and of the fastest
 * thread. Linked against the distribution's libibverbs, run under `ferroce run`.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "connect.h"

enum {
	THREADS_MAX = 64,
	QPS_MAX = 64,
	PROCESSES_MAX = 16,
	DEPTH_MAX = 128,
	SIGNAL_EVERY = 16,
	POLL_MAX = 16,
	/* Each QP writes to a place of its own. */
	SLOT = 4096,
};

/* What each side tells the other about one QP. */
struct address {
	uint32_t qpn, rkey;
	uint64_t buffer;
	union ibv_gid gid;
};

struct thread {
	pthread_t thread;
	struct ibv_context *context;
	struct ibv_pd *pd;
	char *buffer;
	struct ibv_mr *mr;
	union ibv_gid gid;
	struct ibv_cq *cq;
	struct ibv_qp *qp[QPS_MAX];
	struct address peer[QPS_MAX];
	uint64_t messages;
	double seconds;
};

static int threads, qps, processes;
static uint32_t depth, signal_every;
static bool is_loopback;
static uint32_t size;
static double duration;
static pthread_barrier_t start_line;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static void exchange(int socket, const struct address *own, struct address *other)
{
	if (is_loopback) {
		*other = *own;
		return;
	}
	NEED(write(socket, own, sizeof *own) == sizeof *own);
	NEED(read(socket, other, sizeof *other) == sizeof *other);
}

static void open_device(struct thread *thread, struct ibv_device *device)
{
	const size_t length = (size_t)qps * SLOT;

	thread->buffer = aligned_alloc(SLOT, length);
	NEED(thread->buffer);
	memset(thread->buffer, 1, length);
	thread->context = ibv_open_device(device);
	NEED(thread->context);
	thread->pd = ibv_alloc_pd(thread->context);
	NEED(thread->pd);
	thread->mr = ibv_reg_mr(thread->pd, thread->buffer, length,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	NEED(thread->mr && !ibv_query_gid(thread->context, 1, GID_INDEX, &thread->gid));
	thread->cq = ibv_create_cq(thread->context, depth * qps, NULL, NULL, 0);
	NEED(thread->cq);
}

/* Contexts, QPs, connections; both sides are ready when it returns. */
static struct thread *open_side(int socket)
{
	struct thread *side = calloc(threads, sizeof *side);
	struct address ready = { 0 };
	int devices;
	struct ibv_device **list = ibv_get_device_list(&devices);

	NEED(side && list && devices > 0);
	for (int t = 0; t < threads; t++) {
		struct thread *thread = &side[t];

		open_device(thread, list[t % devices]);
		for (int q = 0; q < qps; q++) {
			struct ibv_qp_init_attr attr = {
				.send_cq = thread->cq,
				.recv_cq = thread->cq,
				.cap = { .max_send_wr = depth, .max_recv_wr = 1,
					 .max_send_sge = 1, .max_recv_sge = 1 },
				.qp_type = IBV_QPT_RC,
			};
			struct address own = {
				.rkey = thread->mr->rkey,
				.buffer = (uintptr_t)thread->buffer + (size_t)q * SLOT,
				.gid = thread->gid,
			};

			thread->qp[q] = ibv_create_qp(thread->pd, &attr);
			NEED(thread->qp[q]);
			own.qpn = thread->qp[q]->qp_num;
			exchange(socket, &own, &thread->peer[q]);
			connect_qp(thread->qp[q], thread->peer[q].qpn, &thread->peer[q].gid);
		}
	}
	exchange(socket, &ready, &ready);
	return side;
}

static struct thread *requester;

/* Keeps all QPs of a thread full for a while. */
static void *post_and_poll(void *argument)
{
	struct thread *thread = argument;
	uint32_t posted[QPS_MAX] = { 0 }, done[QPS_MAX] = { 0 };
	double begin, end;

	pthread_barrier_wait(&start_line);
	begin = now();
	end = begin + duration;
	for (;;) {
		struct ibv_wc wc[POLL_MAX];
		int found;

		for (int q = 0; q < qps; q++) {
			struct ibv_sge sge = {
				(uintptr_t)thread->buffer + (size_t)q * SLOT,
				size, thread->mr->lkey,
			};
			struct ibv_send_wr *bad, wr = {
				.wr_id = q,
				.sg_list = &sge,
				.num_sge = 1,
				.opcode = IBV_WR_RDMA_WRITE,
				.wr.rdma = { thread->peer[q].buffer, thread->peer[q].rkey },
			};

			while (posted[q] - done[q] < depth) {
				wr.send_flags = ++posted[q] % signal_every ? 0 : IBV_SEND_SIGNALED;
				NEED(!ibv_post_send(thread->qp[q], &wr, &bad));
			}
		}
		found = ibv_poll_cq(thread->cq, POLL_MAX, wc);
		NEED(found >= 0);
		for (int i = 0; i < found; i++) {
			NEED(wc[i].status == IBV_WC_SUCCESS);
			done[wc[i].wr_id] += signal_every;
			thread->messages += signal_every;
		}
		if (found && now() > end)
			break;
	}
	thread->seconds = now() - begin;
	return NULL;
}

/* Starts a process that listens until the requester is gone. Returns the socket to it. */
static int start_peer(pid_t *peer)
{
	int sockets[2];
	char byte;

	NEED(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	*peer = fork();
	NEED(*peer >= 0);
	if (!*peer) {
		close(sockets[0]);
		open_side(sockets[1]);
		NEED(read(sockets[1], &byte, 1) == 0);
		_exit(0);
	}
	close(sockets[1]);
	return sockets[0];
}

/* One requester process; tells the rates of its threads through `result`. */
static void request(int result)
{
	pid_t peer = 0;
	int socket = is_loopback ? -1 : start_peer(&peer);

	requester = open_side(socket);
	NEED(!pthread_barrier_init(&start_line, NULL, threads));
	for (int t = 0; t < threads; t++) {
		struct thread *thread = &requester[t];

		NEED(!pthread_create(&thread->thread, NULL, post_and_poll, thread));
	}
	for (int t = 0; t < threads; t++) {
		struct thread *thread = &requester[t];
		double rate;

		pthread_join(thread->thread, NULL);
		rate = thread->messages / thread->seconds;
		NEED(write(result, &rate, sizeof rate) == sizeof rate);
	}
	if (!is_loopback) {
		close(socket);
		waitpid(peer, NULL, 0);
	}
	_exit(0);
}

int main(int count, char **arguments)
{
	double sum = 0, slowest = 1e12, fastest = 0;
	int pipes[2];

	is_loopback = count == 8 && !strcmp(arguments[7], "loopback");
	NEED(count == 7 || is_loopback);
	threads = atoi(arguments[1]);
	qps = atoi(arguments[2]);
	processes = atoi(arguments[3]);
	size = atoi(arguments[4]);
	duration = atof(arguments[5]);
	depth = atoi(arguments[6]);
	NEED(depth > 0 && depth <= DEPTH_MAX);
	signal_every = depth < SIGNAL_EVERY ? 1 : SIGNAL_EVERY;
	NEED(threads > 0 && threads <= THREADS_MAX && qps > 0 && qps <= QPS_MAX);
	NEED(processes > 0 && processes <= PROCESSES_MAX && size <= SLOT && !pipe(pipes));
	for (int p = 0; p < processes; p++) {
		pid_t child = fork();

		NEED(child >= 0);
		if (!child)
			request(pipes[1]);
	}
	/* A requester that fails ends the reading, too. */
	close(pipes[1]);
	for (int i = 0; i < processes * threads; i++) {
		double rate;

		NEED(read(pipes[0], &rate, sizeof rate) == sizeof rate);
		sum += rate;
		slowest = rate < slowest ? rate : slowest;
		fastest = rate > fastest ? rate : fastest;
	}
	for (int p = 0; p < processes; p++) {
		int status;

		NEED(wait(&status) > 0 && WIFEXITED(status) && !WEXITSTATUS(status));
	}
	printf("%.3f %.3f %.3f\n", sum * 1e-6, slowest * 1e-6, fastest * 1e-6);
	return 0;
}
