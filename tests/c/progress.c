/*
 * Loops of progress engines: they wait for another thread of the program, or count. The
 * first argument selects a loop; the program prints its duration by the clock, in nanoseconds.
 */
#include "common.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <threads.h>
#include <time.h>

/* When the other thread acts. */
enum { DELAY_NS = 1000000, POLLS = 10000, SHORT_POLLS = 1000 };

static struct ibv_cq *cq;
static volatile int flag;
static volatile long counter;
static atomic_int word;
static pthread_spinlock_t spin;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static mtx_t mtx;
static int event;
static int notice;

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void delay(void)
{
	struct timespec time = { 0, DELAY_NS };

	EQUAL(nanosleep(&time, NULL), 0);
}

static void poll_once(void)
{
	struct ibv_wc wc[16];

	EQUAL(ibv_poll_cq(cq, 16, wc), 0);
}

/* The other thread, which holds all locks from the beginning. */
static void *release(void *argument)
{
	delay();
	flag = 1;
	atomic_store(&word, 0);
	EQUAL(pthread_spin_unlock(&spin), 0);
	EQUAL(sem_post(&semaphore), 0);
	EQUAL(write(notice, &(uint64_t){ 1 }, 8), 8);
	return argument;
}

/* A further thread, which holds the locks that only their owner may release. */
static atomic_int owns;

static void *own(void *argument)
{
	EQUAL(pthread_mutex_lock(&mutex), 0);
	EQUAL(pthread_rwlock_wrlock(&rwlock), 0);
	EQUAL(mtx_lock(&mtx), thrd_success);
	atomic_store(&owns, 1);
	delay();
	EQUAL(mtx_unlock(&mtx), thrd_success);
	EQUAL(pthread_rwlock_unlock(&rwlock), 0);
	EQUAL(pthread_mutex_unlock(&mutex), 0);
	return argument;
}

/* Polls under a lock that another thread also takes. */
static void *poll_under_lock(void *argument)
{
	for (int i = 0; i < SHORT_POLLS; i++) {
		EQUAL(pthread_spin_lock(&spin), 0);
		poll_once();
		EQUAL(pthread_spin_unlock(&spin), 0);
	}
	return argument;
}

/* A separate function, so that the count is not in the stack frame that polls. */
static void __attribute__((noinline)) progress(void)
{
	poll_once();
}

static void loop(const char *name)
{
	struct epoll_event ready = { .events = EPOLLIN };
	int epoll = epoll_create1(0);
	int expected;

#define IS(text) (!strcmp(name, text))
	NEED(epoll >= 0);
	EQUAL(epoll_ctl(epoll, EPOLL_CTL_ADD, event, &ready), 0);
	if (IS("sched_yield"))
		while (!flag)
			sched_yield();
	else if (IS("thrd_yield"))
		while (!flag)
			thrd_yield();
	else if (IS("usleep"))
		while (!flag)
			usleep(0);
	else if (IS("exchange"))
		while (atomic_exchange(&word, 1))
			;
	else if (IS("exchange-yield"))
		while (atomic_exchange(&word, 1))
			sched_yield();
	else if (IS("compare"))
		do {
			expected = 0;
		} while (!atomic_compare_exchange_strong(&word, &expected, 1));
	else if (IS("spin-lock"))
		EQUAL(pthread_spin_lock(&spin), 0);
	else if (IS("spin-trylock"))
		while (pthread_spin_trylock(&spin))
			;
	else if (IS("mutex-trylock"))
		while (pthread_mutex_trylock(&mutex))
			;
	else if (IS("rwlock-trylock"))
		while (pthread_rwlock_tryrdlock(&rwlock))
			;
	else if (IS("mtx-trylock"))
		while (mtx_trylock(&mtx) != thrd_success)
			;
	else if (IS("sem-trywait"))
		while (sem_trywait(&semaphore))
			;
	else if (IS("epoll"))
		while (!flag)
			EQUAL(epoll_wait(epoll, &ready, 1, -1), 1);
	else if (IS("write"))
		while (!flag)
			EQUAL(write(event, &(uint64_t){ 1 }, 8), 8);
	else if (IS("notice-epoll")) {
		struct epoll_event wanted = { .events = EPOLLIN };

		EQUAL(epoll_ctl(epoll, EPOLL_CTL_DEL, event, NULL), 0);
		EQUAL(epoll_ctl(epoll, EPOLL_CTL_ADD, notice, &wanted), 0);
		EQUAL(epoll_wait(epoll, &wanted, 1, -1), 1);
	} else if (IS("notice-poll"))
		EQUAL(poll(&(struct pollfd){ .fd = notice, .events = POLLIN }, 1, -1), 1);
	else if (IS("notice-read"))
		EQUAL(read(notice, &(uint64_t){ 0 }, 8), 8);
	else if (IS("poll-flag"))
		while (!flag)
			poll_once();
	else if (IS("count"))
		while (!flag)
			counter++;
	else if (IS("system-call"))
		while (!flag)
			getppid();
	else if (IS("poll-count"))
		for (int i = 0; i < POLLS; i++)
			poll_once();
	else if (IS("poll-count-deep"))
		for (int i = 0; i < POLLS; i++)
			progress();
	else if (IS("poll-count-memory"))
		for (counter = 0; counter < SHORT_POLLS; counter++)
			poll_once();
	else if (IS("poll-lock"))
		poll_under_lock(NULL);
	else
		NEED(!"a loop of this name");
	close(epoll);
}

int main(int count, char **arguments)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	const char *name = arguments[1];
	pthread_t thread[2];
	int threads = 0;
	long long begun;

	NEED(count == 2 && devices && devices[0]);
	context = ibv_open_device(devices[0]);
	NEED(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	NEED(cq);
	event = eventfd(1, 0);
	NEED(event >= 0);
	notice = eventfd(0, 0);
	NEED(notice >= 0);
	EQUAL(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE), 0);
	EQUAL(sem_init(&semaphore, 0, 0), 0);
	EQUAL(mtx_init(&mtx, mtx_plain), thrd_success);
	if (IS("poll-lock")) {
		EQUAL(pthread_create(&thread[threads++], NULL, poll_under_lock, NULL), 0);
	} else if (strncmp(name, "poll-count", 10)) {
		EQUAL(pthread_spin_lock(&spin), 0);
		atomic_store(&word, 1);
		EQUAL(pthread_create(&thread[threads++], NULL, release, NULL), 0);
		EQUAL(pthread_create(&thread[threads++], NULL, own, NULL), 0);
		while (!atomic_load(&owns))
			sched_yield();
	}
	begun = now();
	loop(name);
	printf("%s %lld\n", name, now() - begun);
	while (threads)
		EQUAL(pthread_join(thread[--threads], NULL), 0);
	EQUAL(ibv_destroy_cq(cq), 0);
	EQUAL(ibv_close_device(context), 0);
	ibv_free_device_list(devices);
	return 0;
}
