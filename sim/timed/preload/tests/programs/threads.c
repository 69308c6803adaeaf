/* Threads of a program that wait for one another: none stands still, and time limits are exact. */
#include "world.h"
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static int turns[2];
static volatile int is_ready;

static struct timespec in(clockid_t clock, int64_t ms)
{
	struct timespec time;
	clock_gettime(clock, &time);
	int64_t ns = time.tv_nsec + ms * 1000000;
	time.tv_sec += ns / 1000000000;
	time.tv_nsec = ns % 1000000000;
	return time;
}

static void *take_turns(void *own)
{
	for (int i = 0; i < 200; i++) {
		CHECK(pthread_mutex_lock(&mutex) == 0);
		++*(int *)own;
		/* The other thread gets its turn while this one holds the mutex. */
		usleep(5);
		CHECK(pthread_mutex_unlock(&mutex) == 0);
		usleep(1);
	}
	return own;
}

static void *share(void *unused)
{
	for (int i = 0; i < 100; i++) {
		int writes = i % 7 == 0;
		CHECK((writes ? pthread_rwlock_wrlock : pthread_rwlock_rdlock)(&rwlock) == 0);
		usleep(3);
		CHECK(pthread_rwlock_unlock(&rwlock) == 0);
		if (i % 25 == 0)
			pthread_barrier_wait(&barrier);
	}
	return unused;
}

static volatile int flag;

static void *set_flag(void *unused)
{
	usleep(2000);
	flag = 1;
	return unused;
}

static void *wake_up(void *unused)
{
	usleep(1000);
	CHECK(pthread_mutex_lock(&mutex) == 0);
	is_ready = 1;
	CHECK(pthread_cond_signal(&condition) == 0);
	CHECK(pthread_mutex_unlock(&mutex) == 0);
	usleep(1000);
	CHECK(sem_post(&semaphore) == 0);
	return unused;
}

static void *want_mutex(void *unused)
{
	CHECK(pthread_mutex_lock(&mutex) == 0);
	CHECK(pthread_mutex_unlock(&mutex) == 0);
	return unused;
}

static void *signal_soon(void *unused)
{
	usleep(10);
	CHECK(pthread_mutex_lock(&mutex) == 0);
	is_ready = 1;
	CHECK(pthread_cond_signal(&condition) == 0);
	CHECK(pthread_mutex_unlock(&mutex) == 0);
	return unused;
}

/* The wait begins far ahead of the world, which has to run the signalling thread first. */
static void wait_ahead_of_the_world(void)
{
	pthread_t threads[2];

	is_ready = 0;
	CHECK(pthread_mutex_lock(&mutex) == 0);
	CHECK(pthread_create(&threads[0], NULL, want_mutex, NULL) == 0);
	CHECK(pthread_create(&threads[1], NULL, signal_soon, NULL) == 0);
	usleep(5);
	world->spend_ps(50 * US);
	while (!is_ready)
		CHECK(pthread_cond_wait(&condition, &mutex) == 0);
	CHECK(pthread_mutex_unlock(&mutex) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void)
{
	join_world();
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, take_turns, &turns[i]) == 0);
	for (int i = 0; i < 2; i++) {
		void *result;
		CHECK(pthread_join(threads[i], &result) == 0);
		CHECK(result == &turns[i] && turns[i] == 200);
	}
	CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, share, NULL) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	/* A thread that spins until another one has its turn. */
	uint64_t t = world->now_ps();
	CHECK(pthread_create(&threads[0], NULL, set_flag, NULL) == 0);
	while (!flag)
		;
	CHECK(world->now_ps() >= t + 2 * MS && world->now_ps() <= t + 2 * MS + 10 * US);
	CHECK(pthread_join(threads[0], NULL) == 0);
	CHECK(sem_init(&semaphore, 0, 0) == 0);
	CHECK(pthread_create(&threads[0], NULL, wake_up, NULL) == 0);
	CHECK(pthread_mutex_lock(&mutex) == 0);
	while (!is_ready)
		CHECK(pthread_cond_wait(&condition, &mutex) == 0);
	CHECK(pthread_mutex_unlock(&mutex) == 0);
	CHECK(sem_wait(&semaphore) == 0);
	CHECK(pthread_join(threads[0], NULL) == 0);
	/* A wait that would never end is refused. */
	pthread_mutexattr_t attributes;
	pthread_mutex_t checked;
	CHECK(pthread_mutexattr_init(&attributes) == 0);
	CHECK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK) == 0);
	CHECK(pthread_mutex_init(&checked, &attributes) == 0);
	CHECK(pthread_mutex_lock(&checked) == 0);
	CHECK(pthread_mutex_lock(&checked) == EDEADLK);
	CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
	CHECK(pthread_rwlock_wrlock(&rwlock) == EDEADLK);
	wait_ahead_of_the_world();
	/* Time limits. */
	t = world->now_ps();
	struct timespec limit = in(CLOCK_REALTIME, 30);
	CHECK(sem_timedwait(&semaphore, &limit) == -1 && errno == ETIMEDOUT);
	CHECK_AT(t += 30 * MS);
	CHECK(pthread_mutex_lock(&mutex) == 0);
	limit = in(CLOCK_REALTIME, 30);
	CHECK(pthread_cond_timedwait(&condition, &mutex, &limit) == ETIMEDOUT);
	CHECK_AT(t += 30 * MS);
	limit = in(CLOCK_MONOTONIC, 30);
	CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &limit) == ETIMEDOUT);
	CHECK_AT(t += 30 * MS);
	limit = in(CLOCK_REALTIME, 30);
	CHECK(pthread_mutex_timedlock(&mutex, &limit) == ETIMEDOUT);
	CHECK_AT(t += 30 * MS);
	puts("well");
	return 0;
}
