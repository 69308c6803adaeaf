/*
 * Reads the counters of its device in sysfs, in the ways in which programs open files, before and
 * after messages between two of its QPs. With an argument, it then prints that it is ready, and
 * waits until the test ends it.
 */
#include "common.h"

#include <fcntl.h>

#define PORT "/sys/class/infiniband/ferroce0/ports/1"

enum { MESSAGES = 7, MESSAGE = 4096, PACKETS = MESSAGES * (MESSAGE / 1024) };

static long by_stream(const char *path)
{
	FILE *file = fopen(path, "r");
	long value = -1;

	NEED(file);
	EQUAL(fscanf(file, "%ld\n", &value), 1);
	fclose(file);
	return value;
}

static long by_descriptor(int fd)
{
	char text[32] = "";

	NEED(fd >= 0);
	CHECK(read(fd, text, sizeof text - 1) > 0);
	CHECK(strchr(text, '\n'));
	close(fd);
	return atol(text);
}

static long in_directory(const char *name)
{
	int directory = open(PORT "/hw_counters", O_RDONLY | O_DIRECTORY);
	int fd;

	NEED(directory >= 0);
	fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
	close(directory);
	return by_descriptor(fd);
}

static void write_messages(struct bench *bench)
{
	for (int i = 0; i < MESSAGES; i++) {
		NEED(!post_send(bench, IBV_WR_RDMA_WRITE, i, sge_of(bench, 0, MESSAGE), 0,
				bench->mr->rkey));
		EQUAL(next_wc(bench->send_cq).status, IBV_WC_SUCCESS);
	}
}

int main(int argc, char **argv)
{
	struct bench bench = { 0 };
	long frames, words;

	open_bench(&bench);
	connect_pair(&bench);
	frames = by_descriptor(open(PORT "/hw_counters/sent_pkts", O_RDONLY));
	words = by_stream(PORT "/counters/port_xmit_data");
	write_messages(&bench);
	frames = in_directory("sent_pkts") - frames;
	words = by_stream(PORT "/counters/port_xmit_data") - words;
	printf("%ld frames, %ld words\n", frames, words);
	/* ACKs are frames, too. */
	CHECK(frames >= PACKETS);
	CHECK(words > MESSAGES * MESSAGE / 4 && words < MESSAGES * MESSAGE / 2);
	EQUAL(in_directory("out_of_sequence"), 0);
	EQUAL(open(PORT "/counters/port_xmit_data", O_RDWR), -1);
	EQUAL(errno, EACCES);
	CHECK(!fopen(PORT "/counters/port_xmit_data", "w"));
	EQUAL(errno, EACCES);
	EQUAL(access(PORT "/counters/port_rcv_data", R_OK), 0);
	EQUAL(open(PORT "/counters/symbol_error", O_RDONLY), -1);
	EQUAL(errno, ENOENT);
	if (argc > 1) {
		FILE *ready = fopen(argv[1], "w");

		NEED(ready);
		fclose(ready);
		pause();
	}
	close_bench(&bench);
	/* A closed device keeps its counters. */
	CHECK(by_stream(PORT "/counters/port_xmit_data") >= words);
	return finish();
}
