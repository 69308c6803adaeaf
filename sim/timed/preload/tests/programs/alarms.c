/* Alarms and timers expire at their times, whatever the thread does meanwhile. */
#include "world.h"
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

static volatile sig_atomic_t count;
static volatile uint64_t when, value;

static void handler(int signal)
{
	(void)signal;
	count++;
	when = world->now_ps();
}

static void informed(int signal, siginfo_t *information, void *context)
{
	(void)context;
	handler(signal);
	CHECK(information->si_code == SI_TIMER);
	value = information->si_value.sival_int;
}

int main(void)
{
	join_world();
	uint64_t t = world->now_ps();
	/* During a sleep, which it interrupts. */
	signal(SIGALRM, handler);
	CHECK(alarm(2) == 0);
	CHECK(sleep(5) == 3);
	CHECK(count == 1);
	CHECK_AT(t += 2 * S);
	CHECK(when == t);
	/* One that is cancelled. */
	CHECK(alarm(10) == 0);
	CHECK(alarm(0) == 10);
	CHECK(sleep(20) == 0);
	CHECK_AT(t += 20 * S);
	CHECK(count == 1);
	/* While the thread computes. */
	alarm(1);
	for (int i = 0; i < 1000 && count == 1; i++)
		world->spend_ps(3 * MS);
	CHECK(count == 2);
	CHECK(when == t + 1002 * MS);
	t = when;
	/* While it reads the time and nothing else. */
	alarm(1);
	struct timespec now;
	while (count == 2)
		clock_gettime(CLOCK_MONOTONIC, &now);
	CHECK(when >= t + 1 * S && when < t + 1 * S + 10 * US);
	t = world->now_ps();
	/* Again and again. */
	struct itimerval interval = {{0, 100000}, {0, 250000}};
	CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
	struct timespec left = {1, 0};
	uint64_t due = t + 250 * MS;
	for (int i = 0; i < 3; i++) {
		CHECK(nanosleep(&left, &left) == -1 && errno == EINTR);
		CHECK_AT(due);
		CHECK(count == 4 + i);
		due += 100 * MS;
	}
	CHECK(left.tv_sec == 0 && left.tv_nsec == 550000000);
	CHECK(getitimer(ITIMER_REAL, &interval) == 0);
	CHECK(interval.it_value.tv_usec == 100000);
	memset(&interval, 0, sizeof interval);
	CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
	t = world->now_ps();
	/* Timers of POSIX. */
	struct sigaction action = {.sa_sigaction = informed, .sa_flags = SA_SIGINFO | SA_RESTART};
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
				 .sigev_signo = SIGUSR1,
				 .sigev_value.sival_int = 77};
	timer_t timer;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	struct itimerspec setting = {{0, 0}, {0, 5000}};
	CHECK(timer_settime(timer, 0, &setting, NULL) == 0);
	CHECK(poll(NULL, 0, -1) == -1 && errno == EINTR);
	CHECK_AT(t += 5 * US);
	CHECK(value == 77);
	clock_gettime(CLOCK_REALTIME, &now);
	CHECK(timer_delete(timer) == 0);
	CHECK(timer_create(CLOCK_REALTIME, &event, &timer) == 0);
	setting.it_value = now;
	setting.it_value.tv_sec += 2;
	CHECK(timer_settime(timer, TIMER_ABSTIME, &setting, NULL) == 0);
	CHECK(timer_gettime(timer, &setting) == 0 && setting.it_value.tv_sec == 2);
	CHECK(sleep(100) == 98);
	CHECK_AT(t += 2 * S);
	/* And timers that are read (timerfd). */
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	CHECK(fd >= 0);
	setting = (struct itimerspec){{0, 100000}, {3, 0}};
	CHECK(timerfd_settime(fd, 0, &setting, NULL) == 0);
	uint64_t times;
	CHECK(read(fd, &times, sizeof times) == sizeof times && times == 1);
	CHECK(world->now_ps() >= t + 3 * S && world->now_ps() <= t + 3 * S + 3 * US);
	t = world->now_ps();
	usleep(1000);
	CHECK(read(fd, &times, sizeof times) == sizeof times && times == 10);
	CHECK(close(fd) == 0);
	puts("well");
	return 0;
}
