/*
 * The descriptor of /dev/infiniband/rdma_cm as programs use it: duplicates, waiting, fork,
 * cancelled threads, and fstat. The argument is a free port.
 */
#include "common.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

enum { WAIT_MS = 10000, MISC_MAJOR = 10, DESTROY_ID = 1, THREADS = 8, OPENINGS = 50, FORKS = 50 };

static struct sockaddr_in address;

static struct rdma_event_channel *open_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	NEED(channel);
	return channel;
}

/* Causes an event, by resolving an address. Returns the id of the event. */
static struct rdma_cm_id *raise_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	NEED(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	NEED(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, WAIT_MS));
	return id;
}

static void take_event(struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	struct rdma_cm_event *event;

	NEED(!rdma_get_cm_event(channel, &event));
	EQUAL(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(event->id == id);
	EQUAL(rdma_ack_cm_event(event), 0);
}

static int is_readable(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, 0);
}

/*
 * A command without effect: destroys an id that does not exist. The layout is copied from
 * <rdma/rdma_user_cm.h>, which cannot be included together with <rdma/rdma_cma.h>.
 */
static int command(int fd)
{
	uint32_t events_reported[1];
	struct {
		uint32_t number;
		uint16_t in, out;
		uint64_t response;
		uint32_t id, reserved;
	} command = { DESTROY_ID, 16, 4, (uintptr_t)events_reported, 0x7ffffff0, 0 };

	return write(fd, &command, sizeof command) < 0 ? errno : 0;
}

/* The kernel serves other netlink sockets; our RDMA netlink refuses to name the device file. */
static void check_netlink(void)
{
	enum { RDMA = 20 };
	int route = socket(AF_NETLINK, SOCK_RAW, 0);

	CHECK(route >= 0);
	EQUAL(close(route), 0);

	/* RDMA_NLDEV_CMD_GET_CHARDEV: a message's header, then the refusal. */
	struct nlmsghdr request = { sizeof request, (5 << 10) + 15, NLM_F_REQUEST, 1, 0 };
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} reply = { 0 };
	int rdma = socket(AF_NETLINK, SOCK_RAW, RDMA);

	CHECK(rdma >= 0);
	EQUAL(send(rdma, &request, sizeof request, 0), sizeof request);
	CHECK(recv(rdma, &reply, sizeof reply, 0) >= (ssize_t)sizeof reply);
	EQUAL(reply.header.nlmsg_type, NLMSG_ERROR);
	EQUAL(reply.error.error, -EOPNOTSUPP);
	EQUAL(close(rdma), 0);
}

static void check_status(void)
{
	struct rdma_event_channel *channel = open_channel();
	const int fd = channel->fd, null = open("/dev/null", O_RDWR);
	struct stat status, again;

	EQUAL(fstat(channel->fd, &status), 0);
	CHECK(S_ISCHR(status.st_mode));
	EQUAL(major(status.st_rdev), MISC_MAJOR);
	EQUAL(fcntl(channel->fd, F_GETFD) & ~FD_CLOEXEC, 0);
	EQUAL(command(channel->fd), ENOENT);
	/* Another file with the same descriptor number works normally. */
	rdma_destroy_event_channel(channel);
	EQUAL(fstat(fd, &again), -1);
	EQUAL(dup2(null, fd), fd);
	EQUAL(close(null), 0);
	EQUAL(write(fd, "x", 1), 1);
	EQUAL(fstat(fd, &again), 0);
	CHECK(again.st_rdev != status.st_rdev);
	EQUAL(close(fd), 0);
}

static void check_duplicates(void)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id;
	int null = open("/dev/null", O_RDWR);
	int copies[] = {
		dup(channel->fd),
		dup2(channel->fd, null),
		dup3(channel->fd, 900, O_CLOEXEC),
		fcntl(channel->fd, F_DUPFD, 700),
		fcntl(channel->fd, F_DUPFD_CLOEXEC, 800),
	};

	EQUAL(copies[1], null);
	EQUAL(copies[2], 900);
	EQUAL(dup2(channel->fd, channel->fd), channel->fd);
	id = raise_event(channel);
	for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
		EQUAL(is_readable(copies[i]), 1);
		EQUAL(command(copies[i]), ENOENT);
	}
	take_event(channel, id);
	for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
		EQUAL(is_readable(copies[i]), 0);
	/* A duplicate that is replaced by another file is no longer a channel. */
	int null_again = open("/dev/null", O_RDWR);
	EQUAL(dup2(null_again, copies[0]), copies[0]);
	EQUAL(write(copies[0], "x", 1), 1);
	EQUAL(close(null_again), 0);
	EQUAL(rdma_destroy_id(id), 0);
	/* The channel lives as long as its last descriptor. */
	rdma_destroy_event_channel(channel);
	EQUAL(command(copies[1]), ENOENT);
	for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
		EQUAL(close(copies[i]), 0);
	EQUAL(close(copies[1]), -1);
	EQUAL(errno, EBADF);
}

static void check_waiting(void)
{
	struct rdma_event_channel *channel = open_channel();
	const int flags = fcntl(channel->fd, F_GETFL);
	struct epoll_event wanted = { .events = EPOLLIN }, found;
	struct timeval none = { 0 };
	struct rdma_cm_event *event;
	struct rdma_cm_id *ids[3];
	fd_set set;
	int epoll = epoll_create1(0);

	NEED(!fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK));
	EQUAL(rdma_get_cm_event(channel, &event), -1);
	EQUAL(errno, EAGAIN);
	EQUAL(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &wanted), 0);
	EQUAL(epoll_wait(epoll, &found, 1, 0), 0);
	for (int i = 0; i < 3; i++)
		ids[i] = raise_event(channel);
	/* Readable while events are pending, whichever call checks. */
	for (int i = 0; i < 3; i++) {
		EQUAL(is_readable(channel->fd), 1);
		EQUAL(epoll_wait(epoll, &found, 1, 0), 1);
		FD_ZERO(&set);
		FD_SET(channel->fd, &set);
		EQUAL(select(channel->fd + 1, &set, NULL, NULL, &none), 1);
		take_event(channel, ids[i]);
	}
	EQUAL(is_readable(channel->fd), 0);
	EQUAL(epoll_wait(epoll, &found, 1, 0), 0);
	EQUAL(rdma_get_cm_event(channel, &event), -1);
	EQUAL(errno, EAGAIN);
	for (int i = 0; i < 3; i++)
		EQUAL(rdma_destroy_id(ids[i]), 0);
	close(epoll);
	rdma_destroy_event_channel(channel);
}

static void *wait_for_event(void *argument)
{
	struct rdma_event_channel *channel = argument;
	struct rdma_cm_event *event;
	static int result;

	result = rdma_get_cm_event(channel, &event);
	return &result;
}

static void *join(pthread_t thread)
{
	struct timespec deadline;
	void *result = NULL;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += WAIT_MS / 1000;
	NEED(!pthread_timedjoin_np(thread, &result, &deadline));
	return result;
}

/* It waits in the device file, or will soon; both are cancellation points. */
static void check_cancel(void)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id;
	pthread_t thread;

	for (int i = 0; i < 20; i++) {
		NEED(!pthread_create(&thread, NULL, wait_for_event, channel));
		/* Not the same place each time. */
		usleep(i * 100);
		EQUAL(pthread_cancel(thread), 0);
		CHECK(join(thread) == PTHREAD_CANCELED);
	}
	/* The channel is unchanged. */
	id = raise_event(channel);
	take_event(channel, id);
	EQUAL(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* As in Linux the thread continues to wait; the channel ends with it. */
static void check_close_while_waiting(void)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_event_channel kept = *channel;
	struct rdma_cm_id *id;
	pthread_t thread;

	NEED(!pthread_create(&thread, NULL, wait_for_event, &kept));
	usleep(10000);
	rdma_destroy_event_channel(channel);
	EQUAL(command(kept.fd), EBADF);
	/* Others are not disturbed. */
	channel = open_channel();
	id = raise_event(channel);
	take_event(channel, id);
	EQUAL(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	EQUAL(pthread_cancel(thread), 0);
	join(thread);
}

static atomic_int reader;

/* Reads an event, which may never come, or come and be dropped. */
static void *read_event(void *argument)
{
	struct rdma_cm_event *event;

	reader = gettid();
	if (rdma_get_cm_event(argument, &event))
		return strerror(errno);
	rdma_ack_cm_event(event);
	return NULL;
}

/* Returns when the thread of `read_event` sleeps. */
static void await_sleep(void)
{
	char path[64], stat[64];
	FILE *file;

	for (char state = 0; state != 'S'; usleep(100)) {
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", reader);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(stat, sizeof(stat), file) && strrchr(stat, ')'))
			state = strrchr(stat, ')')[2];
		fclose(file);
	}
}

static atomic_int signals;

static void count_signal(int number)
{
	(void)number;
	signals++;
}

/* Starts a thread that waits for an event, with a handler for SIGUSR1. */
static pthread_t read_with_handler(struct rdma_event_channel *channel, int flags)
{
	struct sigaction action = { .sa_handler = count_signal, .sa_flags = flags };
	pthread_t thread;

	NEED(!sigaction(SIGUSR1, &action, NULL));
	reader = 0;
	NEED(!pthread_create(&thread, NULL, read_event, channel));
	return thread;
}

/* A signal ends the wait unless its handler has SA_RESTART, as it does in Linux. */
static void check_signals(void)
{
	struct rdma_event_channel *channel = open_channel();
	pthread_t thread = read_with_handler(channel, SA_RESTART);
	struct rdma_cm_id *id;
	void *result;

	for (int sent = 1; sent <= 5; sent++) {
		await_sleep();
		EQUAL(pthread_kill(thread, SIGUSR1), 0);
		while (signals < sent)
			usleep(100);
	}
	id = raise_event(channel);
	CHECK(!join(thread));
	thread = read_with_handler(channel, 0);
	/* A signal before the wait does not end it. */
	while (pthread_tryjoin_np(thread, &result)) {
		pthread_kill(thread, SIGUSR1);
		usleep(1000);
	}
	CHECK(result && !strcmp(result, strerror(EINTR)));
	EQUAL(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* The event wakes the thread, and may be gone with its id, and the channel with it, before it is
 * read: the end of rping. Then the thread goes on waiting. */
static void check_close_when_woken(void)
{
	for (int i = 0; i < 100; i++) {
		struct rdma_event_channel *channel = open_channel();
		struct rdma_event_channel kept = *channel;
		struct rdma_cm_id *id;
		pthread_t thread;
		void *result;

		reader = 0;
		NEED(!pthread_create(&thread, NULL, read_event, &kept));
		await_sleep();
		id = raise_event(channel);
		EQUAL(rdma_destroy_id(id), 0);
		rdma_destroy_event_channel(channel);
		pthread_cancel(thread);
		result = join(thread);
		if (result != PTHREAD_CANCELED && result)
			printf("%s\n", (char *)result);
		CHECK(result == PTHREAD_CANCELED || !result);
	}
}

static int listen_at(struct rdma_event_channel *channel, struct rdma_cm_id **id)
{
	NEED(!rdma_create_id(channel, id, NULL, RDMA_PS_TCP));
	if (rdma_bind_addr(*id, (struct sockaddr *)&address))
		return errno;
	return rdma_listen(*id, 1) ? errno : 0;
}

/* Listeners of both families can share a port, but not with one on all addresses (iSER's tgtd). */
static void check_families(void)
{
	struct rdma_event_channel *channel = open_channel();
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = address.sin_port };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = address.sin_port };
	struct sockaddr *addresses[2] = { (struct sockaddr *)&v4, (struct sockaddr *)&v6 };
	struct rdma_cm_id *ids[2], *third;

	for (int i = 0, only = 1; i < 2; i++) {
		NEED(!rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP));
		EQUAL(rdma_set_option(ids[i], RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only), 0);
		EQUAL(rdma_bind_addr(ids[i], addresses[i]), 0);
		EQUAL(rdma_listen(ids[i], 1), 0);
	}
	EQUAL(listen_at(channel, &third), EADDRNOTAVAIL);
	EQUAL(rdma_destroy_id(third), 0);
	for (int i = 0; i < 2; i++)
		EQUAL(rdma_destroy_id(ids[i]), 0);
	rdma_destroy_event_channel(channel);
}

/* The child's channel is dead, and closing it does not affect the parent; it may open its own. */
static int in_child(struct rdma_event_channel *channel)
{
	struct rdma_event_channel *own;
	struct rdma_cm_id *id;

	failures = 0;
	EQUAL(command(channel->fd), EIO);
	EQUAL(close(channel->fd), 0);
	own = open_channel();
	EQUAL(listen_at(own, &id), EADDRINUSE);
	EQUAL(rdma_destroy_id(id), 0);
	id = raise_event(own);
	take_event(own, id);
	EQUAL(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(own);
	fflush(stdout);
	return failures != 0;
}

/* Forks a child; returns true if it succeeds. */
static int child_ends_well(struct rdma_event_channel *channel)
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child)
		_exit(in_child(channel));
	NEED(waitpid(child, &status, 0) == child);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void check_one_fork(void)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *listener, *id;

	EQUAL(listen_at(channel, &listener), 0);
	CHECK(child_ends_well(channel));
	/* The parent still has its port and its channel. */
	EQUAL(listen_at(channel, &id), EADDRINUSE);
	EQUAL(rdma_destroy_id(id), 0);
	id = raise_event(channel);
	take_event(channel, id);
	EQUAL(rdma_destroy_id(id), 0);
	EQUAL(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* Opening the first channel has just started a thread, which may hold any lock in the moment of the
 * fork. */
static void check_fork(void)
{
	for (int i = 0; i < FORKS; i++)
		check_one_fork();
}

/* Closing the descriptor without further commands frees the ports. */
static void check_ports(void)
{
	for (int i = 0; i < 3; i++) {
		struct rdma_event_channel *channel = open_channel();
		struct rdma_cm_id *listener;

		EQUAL(listen_at(channel, &listener), 0);
		rdma_destroy_event_channel(channel);
	}
}

static void *open_and_close(void *unused)
{
	for (int i = 0; i < OPENINGS; i++)
		rdma_destroy_event_channel(open_channel());
	return unused;
}

/* The first and the last channel of a process, of several threads at the same time. */
static void check_threads(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		NEED(!pthread_create(&threads[i], NULL, open_and_close, NULL));
	for (int i = 0; i < THREADS; i++)
		join(threads[i]);
}

int main(int argc, char **argv)
{
	NEED(argc == 2);
	address.sin_family = AF_INET;
	address.sin_port = htons(atoi(argv[1]));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	check_netlink();
	check_status();
	check_duplicates();
	check_waiting();
	check_cancel();
	check_signals();
	check_threads();
	check_ports();
	check_families();
	check_fork();
	check_ports();
	check_close_while_waiting();
	check_close_when_woken();
	return finish();
}
