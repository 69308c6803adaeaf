/*
 * Cancels threads in calls of libc that this library replaces, and in functions of the program that
 * these calls call. Method: each thread blocks there, and is then cancelled.
 */
#include "common.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define PORT "/sys/class/infiniband/ferroce0/ports/1"

static char fifo[4096];
static int full, channel[2];

static void sleep_forever(void)
{
	poll(NULL, 0, -1);
}

static int visit(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)path, (void)status, (void)type, (void)place;
	sleep_forever();
	return 0;
}

static int filter(const struct dirent *entry)
{
	(void)entry;
	sleep_forever();
	return 0;
}

static void in_nftw(void)
{
	nftw(PORT, visit, 8, 0);
}

static void in_scandir(void)
{
	struct dirent **entries;

	scandir(PORT, &entries, filter, NULL);
}

static void in_fopen(void)
{
	fopen(fifo, "r");
}

static void in_freopen(void)
{
	freopen(fifo, "r", fopen("/dev/null", "r"));
}

static void in_send(void)
{
	send(full, fifo, sizeof fifo, 0);
}

static void in_sendto(void)
{
	sendto(full, fifo, sizeof fifo, 0, NULL, 0);
}

static void in_sendmsg(void)
{
	struct iovec part = { fifo, sizeof fifo };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	sendmsg(full, &message, 0);
}

static void in_write(void)
{
	if (write(full, fifo, sizeof fifo) < 0)
		perror("write");
}

static atomic_int runner;

static void *run(void *call)
{
	runner = gettid();
	((void (*)(void))call)();
	return NULL;
}

/* Waits until the thread sleeps, according to the kernel. */
static void wait_for_sleep(void)
{
	char path[64], state = 0;

	while (state != 'S') {
		snprintf(path, sizeof path, "/proc/self/task/%d/stat", runner);
		FILE *file = fopen(path, "r");

		if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
			state = 0;
		if (file)
			fclose(file);
	}
}

static void cancel_in(const char *name, void (*call)(void))
{
	pthread_t thread;
	void *result;

	runner = 0;
	NEED(!pthread_create(&thread, NULL, run, (void *)call));
	wait_for_sleep();
	NEED(!pthread_cancel(thread) && !pthread_join(thread, &result));
	if (result == PTHREAD_CANCELED)
		printf("cancelled in %s\n", name);
	else
		failures++;
}

int main(int argc, char **argv)
{
	NEED(argc == 2);
	snprintf(fifo, sizeof fifo, "%s", argv[1]);
	NEED(!mkfifo(fifo, 0600));
	NEED(!socketpair(AF_UNIX, SOCK_STREAM, 0, channel));
	full = channel[0];
	while (send(full, fifo, sizeof fifo, MSG_DONTWAIT) > 0)
		;
	/* The library checks for RDMA netlink from the first such socket on. */
	NEED(socket(AF_NETLINK, SOCK_RAW, 20) >= 0);
	cancel_in("nftw", in_nftw);
	cancel_in("scandir", in_scandir);
	cancel_in("fopen", in_fopen);
	cancel_in("freopen", in_freopen);
	cancel_in("send", in_send);
	cancel_in("sendto", in_sendto);
	cancel_in("sendmsg", in_sendmsg);
	cancel_in("write", in_write);
	printf("%d failures\n", failures);
	return failures != 0;
}
