/*
 * The cost of an open device, and the resources that remain when it is closed with live objects.
 */
#include "common.h"
#include <sys/resource.h>

/* A few more than needed; touching a whole table would cause thousands. */
enum { FAULTS_MAX = 4000, RESIDENT_MAX_KB = 20000, TURNS = 5 };

static long resident_kb(void)
{
	char line[200];
	long found = 0;
	FILE *status = fopen("/proc/self/status", "r");

	NEED(status);
	while (!found && fgets(line, sizeof line, status))
		sscanf(line, "VmRSS: %ld", &found);
	fclose(status);
	return found;
}

static void cost_of_opening(void)
{
	struct rusage before, after;
	const long resident = resident_kb();
	struct ibv_context *context;

	getrusage(RUSAGE_SELF, &before);
	context = open_first_device();
	getrusage(RUSAGE_SELF, &after);
	NEED(context);
	if (after.ru_minflt - before.ru_minflt > FAULTS_MAX)
		EQUAL(after.ru_minflt - before.ru_minflt, FAULTS_MAX);
	if (resident_kb() - resident > RESIDENT_MAX_KB)
		EQUAL(resident_kb() - resident, RESIDENT_MAX_KB);
	EQUAL(ibv_close_device(context), 0);
}

/* The objects are never destroyed. */
static void close_with_objects(void)
{
	struct ibv_context *context = open_first_device();
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_pd *pd;

	NEED(context);
	pd = ibv_alloc_pd(context);
	attr.send_cq = attr.recv_cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	NEED(pd && attr.send_cq && ibv_create_qp(pd, &attr));
	EQUAL(ibv_close_device(context), 0);
}

int main(void)
{
	int before;

	cost_of_opening();
	close_with_objects();
	before = descriptors();
	for (int turn = 0; turn < TURNS; turn++)
		close_with_objects();
	EQUAL(descriptors(), before);
	return finish();
}
