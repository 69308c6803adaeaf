/*
 * A TCP server or client without knowledge of RDMA: librspreload turns its sockets into rsockets.
 * The client sends a file, and compares the returned data with it.
 *
 *   tcp_copy server PORT COPY       keeps what it gets in the file COPY, and sends it back
 *   tcp_copy client PORT FILE
 */
#include "common.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

enum { CHUNK = 1 << 16, WAIT_MS = 20000, DUPLICATE = 300 };

static char buffer[CHUNK], returned[CHUNK];

static void send_all(int fd, const char *bytes, size_t length)
{
	while (length) {
		ssize_t sent = write(fd, bytes, length);

		NEED(sent > 0);
		bytes += sent;
		length -= sent;
	}
}

static size_t receive(int fd, char *bytes, size_t length)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	ssize_t received;

	NEED(poll(&ready, 1, WAIT_MS) == 1);
	received = recv(fd, bytes, length, 0);
	NEED(received >= 0);
	return received;
}

static void receive_all(int fd, char *bytes, size_t length)
{
	while (length) {
		size_t received = receive(fd, bytes, length);

		NEED(received);
		bytes += received;
		length -= received;
	}
}

static void serve(int fd, const struct sockaddr_in *address, const char *name)
{
	int copy = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	int listener = fd;
	size_t length;

	NEED(copy >= 0);
	NEED(!bind(listener, (const struct sockaddr *)address, sizeof *address));
	NEED(!listen(listener, 1));
	fd = accept(listener, NULL, NULL);
	NEED(fd >= 0);
	/* Like a server that another program has started. */
	EQUAL(dup2(fd, DUPLICATE), DUPLICATE);
	close(fd);
	fd = DUPLICATE;
	while ((length = receive(fd, buffer, sizeof buffer))) {
		send_all(copy, buffer, length);
		send_all(fd, buffer, length);
	}
	/* For a duplicate, librspreload does not return a status. */
	close(fd);
	EQUAL(close(listener), 0);
	EQUAL(close(copy), 0);
}

static void send_file(int fd, const struct sockaddr_in *address, const char *name)
{
	int file = open(name, O_RDONLY), one = 1;
	long sum = 0;
	ssize_t length;

	NEED(file >= 0);
	NEED(!connect(fd, (const struct sockaddr *)address, sizeof *address));
	EQUAL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
	while ((length = read(file, buffer, sizeof buffer)) > 0) {
		send_all(fd, buffer, length);
		receive_all(fd, returned, length);
		NEED(!memcmp(buffer, returned, length));
		sum += length;
	}
	EQUAL(length, 0);
	EQUAL(shutdown(fd, SHUT_RDWR), 0);
	EQUAL(close(fd), 0);
	EQUAL(close(file), 0);
	printf("%ld bytes\n", sum);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd;

	NEED(argc == 4);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons(atoi(argv[2]));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	NEED(fd >= 0);
	if (!strcmp(argv[1], "server"))
		serve(fd, &address, argv[3]);
	else
		send_file(fd, &address, argv[3]);
	return finish();
}
