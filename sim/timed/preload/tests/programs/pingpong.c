/* Two programs that talk over TCP. A message takes 20 us; both know the arrival times. */
#include "world.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { ROUNDS = 100 };
#define LATENCY (20 * US)

static void server(int port_file)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	CHECK(bind(listener, (void *)&address, length) == 0);
	CHECK(listen(listener, 1) == 0);
	CHECK(getsockname(listener, (void *)&address, &length) == 0);
	int port = ntohs(address.sin_port);
	CHECK(write(port_file, &port, sizeof port) == sizeof port);
	int fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	uint64_t t = world->now_ps();
	for (int i = 0; i < ROUNDS; i++) {
		int number = -1;
		CHECK(read(fd, &number, sizeof number) == sizeof number);
		CHECK(number == i);
		/* The first comes with the end of the client's connect(). */
		if (i == 0)
			t += 2 * LATENCY;
		else
			t += 2 * LATENCY + 7 * US;
		CHECK_AT(t);
		usleep(7);
		CHECK(write(fd, &number, sizeof number) == sizeof number);
	}
	/* In pieces. */
	char text[16] = "";
	CHECK(recv(fd, text, 4, MSG_PEEK) == 4);
	CHECK(memcmp(text, "abcd", 4) == 0);
	CHECK(recv(fd, text, 10, MSG_WAITALL) == 10);
	CHECK(memcmp(text, "abcdefghij", 10) == 0);
	CHECK(read(fd, text, sizeof text) == 0);
	uint64_t end = world->now_ps();
	CHECK(read(fd, text, sizeof text) == 0);
	CHECK_AT(end);
	close(fd);
	close(listener);
	printf("%" PRIu64 "\n", end);
}

static void client(int port_file)
{
	int port;
	CHECK(read(port_file, &port, sizeof port) == sizeof port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				      .sin_port = htons(port)};
	uint64_t t = world->now_ps();
	CHECK(connect(fd, (void *)&address, sizeof address) == 0);
	CHECK_AT(t += 2 * LATENCY);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(send(fd, &i, sizeof i, 0) == sizeof i);
		int number = -1;
		CHECK(recv(fd, &number, sizeof number, 0) == sizeof number);
		CHECK(number == i);
		CHECK_AT(t += 2 * LATENCY + 7 * US);
	}
	char one[] = "abcd", two[] = "efghij";
	CHECK(write(fd, one, 4) == 4);
	sleep(1);
	struct iovec parts[] = {{two, 3}, {two + 3, 3}};
	CHECK(writev(fd, parts, 2) == 6);
	int copy = dup(fd);
	close(copy);
	sleep(1);
	t += 2 * S;
	CHECK_AT(t);
	close(fd);
	printf("%" PRIu64 "\n", t + LATENCY);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	int port_file = atoi(argv[2]);
	join_world();
	if (strcmp(argv[1], "server") == 0)
		server(port_file);
	else
		client(port_file);
	return 0;
}
