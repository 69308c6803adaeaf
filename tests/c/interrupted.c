/*
 * A signal ends a wait for an event with EINTR, unless its handler has SA_RESTART. Method: a timer
 * signals twice; the handler of the first signal lets the second one end calls.
 */
#include "common.h"

#include <signal.h>
#include <sys/time.h>

enum { PERIOD_US = 2000 };

static volatile sig_atomic_t signals;

static void on_signal(int signal)
{
	static const struct sigaction ending = { .sa_handler = on_signal };

	signals++;
	sigaction(signal, &ending, NULL);
}

/* Begins with a signal that does not end calls. */
static void set_timer(void)
{
	static const struct sigaction restarting = { .sa_handler = on_signal,
						     .sa_flags = SA_RESTART };
	const struct itimerval period = { .it_interval = { .tv_usec = PERIOD_US },
					  .it_value = { .tv_usec = PERIOD_US } };

	signals = 0;
	NEED(!sigaction(SIGALRM, &restarting, NULL) && !setitimer(ITIMER_REAL, &period, NULL));
}

static void stop_timer(void)
{
	const struct itimerval never = { 0 };

	NEED(!setitimer(ITIMER_REAL, &never, NULL));
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	NEED(list && list[0]);
	struct ibv_context *context = ibv_open_device(list[0]);
	NEED(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	NEED(channel);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, channel, 0), *found;
	NEED(cq && !ibv_req_notify_cq(cq, 0));
	struct ibv_async_event event;
	void *user;

	set_timer();
	int result = ibv_get_cq_event(channel, &found, &user), error = errno;
	stop_timer();
	EQUAL(result, -1);
	EQUAL(error, EINTR);
	CHECK(signals >= 2);

	set_timer();
	result = ibv_get_async_event(context, &event);
	error = errno;
	stop_timer();
	EQUAL(result, -1);
	EQUAL(error, EINTR);
	CHECK(signals >= 2);
	printf("%d failures\n", failures);
	return failures != 0;
}
