/* Sleeps of every kind end at once, and take exactly the time that they should. */
#include "world.h"
#include <poll.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>

int main(void)
{
	join_world();
	uint64_t t = world->now_ps();
	CHECK(sleep(3) == 0);
	CHECK_AT(t += 3 * S);
	CHECK(usleep(1500) == 0);
	CHECK_AT(t += 1500 * US);
	struct timespec a = {2, 5};
	CHECK(nanosleep(&a, NULL) == 0);
	CHECK_AT(t += 2 * S + 5000);
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &a, NULL) == 0);
	CHECK_AT(t += 2 * S + 5000);
	clock_gettime(CLOCK_MONOTONIC, &a);
	a.tv_sec += 7;
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &a, NULL) == 0);
	CHECK_AT(t += 7 * S);
	/* That is over already: it takes a system call. */
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &a, NULL) == 0);
	CHECK_AT(t += 100000);
	CHECK(poll(NULL, 0, 250) == 0);
	CHECK_AT(t += 250 * MS);
	struct timeval v = {1, 20};
	CHECK(select(0, NULL, NULL, NULL, &v) == 0);
	CHECK_AT(t += 1 * S + 20 * US);
	a.tv_nsec = 1000000000;
	CHECK(nanosleep(&a, NULL) == -1 && errno == EINVAL);
	CHECK_AT(t);
	CHECK(sleep(3600) == 0);
	CHECK_AT(t += 3600 * S);
	puts("well");
	return 0;
}
