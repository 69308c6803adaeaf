/* A server that waits for many things at a time, and clients that do not block. */
#include "world.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { CLIENTS = 2, ROUNDS = 20 };
#define LATENCY (20 * US)

static int listen_at(int port)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0), yes = 1;
	struct sockaddr_in6 address = {
		.sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = htons(port)};
	CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
	CHECK(bind(fd, (void *)&address, sizeof address) == 0);
	CHECK(listen(fd, 8) == 0);
	return fd;
}

/* Returns how many bytes it has sent back. */
static int echo(int fd, int *has_ended)
{
	int total = 0;
	for (;;) {
		char text[64];
		ssize_t count = recv(fd, text, sizeof text, MSG_DONTWAIT);
		if (count == 0) {
			*has_ended = 1;
			return total;
		}
		if (count < 0) {
			CHECK(errno == EAGAIN);
			return total;
		}
		CHECK(send(fd, text, count, MSG_NOSIGNAL) == count);
		total += count;
	}
}

static void server_by_poll(int listener)
{
	struct pollfd polled[1 + CLIENTS] = {{.fd = listener, .events = POLLIN}};
	int known = 1, ended = 0, total = 0;
	while (ended < CLIENTS) {
		CHECK(poll(polled, known, -1) > 0);
		for (int i = 1; i < known; i++) {
			if (polled[i].revents & POLLIN) {
				int has_ended = 0;
				total += echo(polled[i].fd, &has_ended);
				if (has_ended) {
					close(polled[i].fd);
					polled[i].fd = -1;
					ended++;
				}
			}
		}
		if (polled[0].revents & POLLIN) {
			int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
			CHECK(fd >= 0);
			polled[known++] = (struct pollfd){.fd = fd, .events = POLLIN};
			CHECK(accept(listener, NULL, NULL) < 0 && errno == EAGAIN);
		}
	}
	CHECK(total == CLIENTS * ROUNDS * 7);
}

static void server_by_epoll(int listener)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), ended = 0, total = 0;
	struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == 0);
	while (ended < CLIENTS) {
		struct epoll_event events[4];
		int found = epoll_wait(epoll, events, 4, -1);
		CHECK(found > 0);
		for (int i = 0; i < found; i++) {
			int fd = events[i].data.fd, has_ended = 0;
			if (fd == listener) {
				fd = accept(listener, NULL, NULL);
				CHECK(fd >= 0);
				event = (struct epoll_event){.events = EPOLLIN | EPOLLET, .data.fd = fd};
				CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
				continue;
			}
			total += echo(fd, &has_ended);
			if (has_ended) {
				close(fd);
				ended++;
			}
		}
	}
	CHECK(total == CLIENTS * ROUNDS * 7);
}

static void client(int port, int number)
{
	usleep(100 * (number + 1));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				      .sin_port = htons(port)};
	int result = connect(fd, (void *)&address, sizeof address);
	CHECK(result == 0 || errno == EINPROGRESS);
	struct pollfd polled = {.fd = fd, .events = POLLOUT};
	CHECK(poll(&polled, 1, 1000) == 1);
	int error = -1;
	socklen_t length = sizeof error;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
	polled.events = POLLIN;
	for (int i = 0; i < ROUNDS; i++) {
		char text[8] = "";
		CHECK(send(fd, "seven b", 7, 0) == 7);
		CHECK(recv(fd, text, 7, 0) == -1 && errno == EAGAIN);
		CHECK(poll(&polled, 1, -1) == 1);
		CHECK(recv(fd, text, 7, 0) == 7);
		CHECK(memcmp(text, "seven b", 7) == 0);
	}
	/* Nothing comes any more. */
	uint64_t t = world->now_ps();
	CHECK(poll(&polled, 1, 3) == 0);
	CHECK_AT(t + 3 * MS);
	CHECK(shutdown(fd, SHUT_WR) == 0);
	CHECK(poll(&polled, 1, -1) == 1 && polled.revents & POLLIN);
	char byte;
	CHECK(recv(fd, &byte, 1, 0) == 0);
	close(fd);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	int port = atoi(argv[2]);
	join_world();
	if (strcmp(argv[1], "poll") == 0)
		server_by_poll(listen_at(port));
	else if (strcmp(argv[1], "epoll") == 0)
		server_by_epoll(listen_at(port));
	else
		client(port, atoi(argv[1]));
	printf("%" PRIu64 "\n", world->now_ps());
	return 0;
}
