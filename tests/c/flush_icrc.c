/*
 * A wire between a guest with soft-RoCE and the model that corrects the ICRC of FLUSH packets.
 *
 *   flush_icrc GUEST MODEL AT-GUEST AT-MODEL
 *
 * All are paths of UNIX datagram sockets: frames that come to AT-GUEST go to MODEL, and frames that
 * come to AT-MODEL go to GUEST. soft-RoCE (Linux 6.12) knows no place of the payload of a FLUSH, and
 * takes the start of the packet for it: the headers after UDP enter the CRC twice, the second time
 * with all their bits. No device that follows IBTA accepts such a packet, and soft-RoCE accepts no
 * other. All other bytes, and all other packets, pass as they are.
 */
#include "common.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/un.h>

enum {
	FRAME_MAX = 16384,
	IP = 14,
	UDP = IP + 20,
	BTH = UDP + 8,
	/* BTH, FETH and RETH. */
	HEADERS = 12 + 4 + 16,
	FLUSH_FRAME = BTH + HEADERS + 4,
	RC_FLUSH = 0x1c,
	ROCE_PORT = 4791,
};

static uint32_t crc(uint32_t before, const uint8_t *bytes, size_t length)
{
	uint32_t value = ~before;

	while (length--) {
		value ^= *bytes++;
		for (int bit = 0; bit < 8; bit++)
			value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
	}
	return ~value;
}

static bool is_flush(const uint8_t *frame, ssize_t length)
{
	const bool is_ip_4 = frame[12] == 8 && frame[13] == 0 && frame[IP] == 0x45;

	return length == FLUSH_FRAME && is_ip_4 && frame[IP + 9] == IPPROTO_UDP &&
	       (frame[UDP + 2] << 8 | frame[UDP + 3]) == ROCE_PORT && frame[BTH] == RC_FLUSH;
}

/* IBTA's, or soft-RoCE's. */
static uint32_t icrc(const uint8_t *frame, bool is_soft_roce)
{
	uint8_t bytes[8 + BTH - IP + HEADERS];
	uint8_t *ip = bytes + 8, *udp = ip + 20, *bth = udp + 8;
	uint32_t value;

	memset(bytes, 0xff, 8);
	memcpy(ip, frame + IP, sizeof bytes - 8);
	/* Fields that change on the way: class, hop limit, checksums, resv8a. */
	ip[1] = ip[8] = ip[10] = ip[11] = udp[6] = udp[7] = bth[4] = 0xff;
	value = crc(0, bytes, sizeof bytes);
	return htole32(is_soft_roce ? crc(value, frame + BTH, HEADERS) : value);
}

static int bound(const char *path)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	strncpy(name.sun_path, path, sizeof name.sun_path - 1);
	unlink(path);
	NEED(fd >= 0 && !bind(fd, (struct sockaddr *)&name, sizeof name));
	return fd;
}

/* Passes frames on until it is killed. A frame to a socket that nobody has is lost. */
static void pass_on(int fd, const char *path, bool to_soft_roce)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	static uint8_t frame[FRAME_MAX];

	strncpy(name.sun_path, path, sizeof name.sun_path - 1);
	for (;;) {
		ssize_t length = recv(fd, frame, sizeof frame, 0);
		uint32_t expected, right;

		NEED(length > 0);
		if (is_flush(frame, length)) {
			expected = icrc(frame, !to_soft_roce);
			right = icrc(frame, to_soft_roce);
			if (!memcmp(frame + BTH + HEADERS, &expected, 4))
				memcpy(frame + BTH + HEADERS, &right, 4);
		}
		sendto(fd, frame, length, 0, (struct sockaddr *)&name, sizeof name);
	}
}

int main(int argc, char **argv)
{
	int at_guest, at_model;

	NEED(argc == 5);
	at_guest = bound(argv[3]);
	at_model = bound(argv[4]);
	if (fork()) {
		pass_on(at_guest, argv[2], false);
	} else {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pass_on(at_model, argv[1], true);
	}
}
