/* Waiting for descriptors: time-outs, interrupts, and what comes from outside of the world. */
#include "world.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/syscall.h>

#define WAKE_UP (3 * US)

static int event_fd;

static void on_interrupt(void *context, uint64_t vectors)
{
	CHECK(context == &event_fd);
	for (; vectors; vectors &= vectors - 1) {
		uint64_t one = 1;
		CHECK(write(event_fd, &one, sizeof one) == sizeof one);
	}
}

static void *write_later_really(void *pipe)
{
	world->outside(1);
	struct timespec pause = {0, 50000000};
	nanosleep(&pause, NULL);
	CHECK(write(*(int *)pipe, "x", 1) == 1);
	world->outside(0);
	return NULL;
}

int main(void)
{
	join_world();
	uint64_t t = world->now_ps();
	uint64_t count;
	event_fd = eventfd(0, EFD_SEMAPHORE);
	world->set_interrupts(on_interrupt, &event_fd);
	struct pollfd polled = {.fd = event_fd, .events = POLLIN};
	/* Nothing comes. */
	CHECK(poll(&polled, 1, 30) == 0);
	CHECK_AT(t += 30 * MS);
	CHECK(poll(&polled, 1, 0) == 0);
	CHECK(world->now_ps() - t < 1 * US);
	/* A loop of polls without a time-out sees time pass. */
	interrupt_later(1, 40 * US);
	int looks = 0;
	while (poll(&polled, 1, 0) == 0)
		looks++;
	CHECK(looks > 10 && looks < 4000);
	CHECK(read(event_fd, &count, sizeof count) == sizeof count);
	/* An interrupt comes, in every kind of waiting. */
	t = world->now_ps();
	interrupt_later(1, 70 * US);
	CHECK(poll(&polled, 1, -1) == 1);
	CHECK_AT(t += 70 * US + WAKE_UP);
	CHECK(read(event_fd, &count, sizeof count) == sizeof count);
	CHECK_AT(t);
	interrupt_later(3, 10 * US);
	CHECK(read(event_fd, &count, sizeof count) == sizeof count);
	CHECK_AT(t += 10 * US + WAKE_UP);
	/* The second is there already. */
	CHECK(read(event_fd, &count, sizeof count) == sizeof count);
	CHECK_AT(t);
	fd_set set;
	FD_ZERO(&set);
	FD_SET(event_fd, &set);
	struct timeval limit = {1, 0};
	interrupt_later(1, 500 * MS);
	CHECK(select(event_fd + 1, &set, NULL, NULL, &limit) == 1);
	CHECK(FD_ISSET(event_fd, &set));
	CHECK_AT(t += 500 * MS + WAKE_UP);
	CHECK(limit.tv_sec == 0 && limit.tv_usec == 500000 - 3);
	CHECK(read(event_fd, &count, sizeof count) == sizeof count);
	CHECK(select(event_fd + 1, &set, NULL, NULL, &limit) == 0);
	CHECK(!FD_ISSET(event_fd, &set));
	t = world->now_ps();
	int epoll = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 99};
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, event_fd, &event) == 0);
	CHECK(epoll_wait(epoll, &event, 1, 7) == 0);
	CHECK_AT(t += 7 * MS);
	interrupt_later(1, 5 * US);
	event.data.u64 = 0;
	CHECK(epoll_wait(epoll, &event, 1, 7) == 1);
	CHECK(event.data.u64 == 99);
	CHECK_AT(t += 5 * US + WAKE_UP);
	CHECK(read(event_fd, &count, sizeof count) == sizeof count);
	/* Descriptors that do not block. */
	CHECK(fcntl(event_fd, F_SETFL, O_NONBLOCK) == 0);
	CHECK(read(event_fd, &count, sizeof count) == -1 && errno == EAGAIN);
	interrupt_later(1, 5 * US);
	while (read(event_fd, &count, sizeof count) != sizeof count)
		CHECK(errno == EAGAIN);
	CHECK(world->now_ps() - t < 10 * US);
	/* From outside, through a pipe of which the library does not know who has made it. */
	int ends[2];
	CHECK(syscall(SYS_pipe2, ends, 0) == 0);
	pthread_t thread;
	char byte = 0;
	for (int i = 0; i < 2; i++) {
		world->outside(1);
		CHECK(pthread_create(&thread, NULL, write_later_really, &ends[1]) == 0);
		world->outside(0);
		if (i == 1) {
			polled = (struct pollfd){.fd = ends[0], .events = POLLIN};
			CHECK(poll(&polled, 1, 10000) == 1);
		}
		CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
		world->outside(1);
		CHECK(pthread_join(thread, NULL) == 0);
		world->outside(0);
	}
	t = world->now_ps();
	CHECK(poll(&polled, 1, 20) == 0);
	CHECK_AT(t += 20 * MS);
	puts("well");
	return 0;
}
