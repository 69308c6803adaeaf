/*
 * A thread waits for another thread of its program, which acts after a millisecond of simulated
 * time. The arguments select ways of waiting; the program prints how long each wait took, in
 * nanoseconds.
 */
#include "common.h"
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <threads.h>

enum { DELAY_NS = 1000000 };

static pthread_mutex_t mutex;
static pthread_cond_t condition;
static pthread_rwlock_t rwlock;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static sem_t semaphore;
static mtx_t mtx;
static cnd_t cnd;
static atomic_int word;
static atomic_int owns;
static volatile int flag;
static int pipes[2], sockets[2], event;
static pthread_t waiter;

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void delay(void)
{
	EQUAL(nanosleep(&(struct timespec){ 0, DELAY_NS }, NULL), 0);
}

/* A time of the clock, `ns` from now. */
static struct timespec in(clockid_t clock, long ns)
{
	struct timespec time;

	clock_gettime(clock, &time);
	time.tv_nsec += ns;
	time.tv_sec += time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return time;
}

static long futex(int operation, int value)
{
	return syscall(SYS_futex, &word, operation, value, NULL, NULL, 0);
}

/* Each wait: what the waiting thread does, what the other one does first and after the delay. */
static void nothing(void)
{
}

static void wait_condition(void)
{
	pthread_mutex_lock(&mutex);
	while (!flag)
		EQUAL(pthread_cond_wait(&condition, &mutex), 0);
	pthread_mutex_unlock(&mutex);
}

static void signal_condition(void)
{
	pthread_mutex_lock(&mutex);
	flag = 1;
	EQUAL(pthread_cond_signal(&condition), 0);
	pthread_mutex_unlock(&mutex);
}

static void wait_long(void)
{
	struct timespec limit = in(CLOCK_MONOTONIC, 900000000);

	pthread_mutex_lock(&mutex);
	while (!flag)
		EQUAL(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &limit), 0);
	pthread_mutex_unlock(&mutex);
}

static void wait_short(void)
{
	struct timespec limit = in(CLOCK_REALTIME, DELAY_NS);

	pthread_mutex_lock(&mutex);
	EQUAL(pthread_cond_timedwait(&condition, &mutex, &limit), ETIMEDOUT);
	pthread_mutex_unlock(&mutex);
}

static void take_semaphore(void)
{
	EQUAL(sem_wait(&semaphore), 0);
}

static void post_semaphore(void)
{
	EQUAL(sem_post(&semaphore), 0);
}

static void at_barrier(void)
{
	pthread_barrier_wait(&barrier);
}

static void own_mutex(void)
{
	EQUAL(pthread_mutex_lock(&mutex), 0);
}

static void free_mutex(void)
{
	EQUAL(pthread_mutex_unlock(&mutex), 0);
}

static void take_mutex(void)
{
	EQUAL(pthread_mutex_lock(&mutex), 0);
	EQUAL(pthread_mutex_unlock(&mutex), 0);
}

static void own_rwlock(void)
{
	EQUAL(pthread_rwlock_wrlock(&rwlock), 0);
}

static void free_rwlock(void)
{
	EQUAL(pthread_rwlock_unlock(&rwlock), 0);
}

static void read_rwlock(void)
{
	struct timespec limit = in(CLOCK_REALTIME, 900000000);

	EQUAL(pthread_rwlock_timedrdlock(&rwlock, &limit), 0);
	EQUAL(pthread_rwlock_unlock(&rwlock), 0);
}

static void own_spin(void)
{
	EQUAL(pthread_spin_lock(&spin), 0);
}

static void free_spin(void)
{
	EQUAL(pthread_spin_unlock(&spin), 0);
}

static void take_spin(void)
{
	EQUAL(pthread_spin_lock(&spin), 0);
	EQUAL(pthread_spin_unlock(&spin), 0);
}

static void wait_c11(void)
{
	mtx_lock(&mtx);
	while (!flag)
		EQUAL(cnd_wait(&cnd, &mtx), thrd_success);
	mtx_unlock(&mtx);
}

static void signal_c11(void)
{
	mtx_lock(&mtx);
	flag = 1;
	EQUAL(cnd_broadcast(&cnd), thrd_success);
	mtx_unlock(&mtx);
}

static int sleeping(void *unused)
{
	(void)unused;
	delay();
	return 17;
}

static void join_c11(void)
{
	thrd_t thread;
	int result;

	EQUAL(thrd_create(&thread, sleeping, NULL), thrd_success);
	EQUAL(thrd_join(thread, &result), thrd_success);
	EQUAL(result, 17);
}

static void *delayed(void *argument)
{
	delay();
	return argument;
}

static void join(void)
{
	pthread_t thread;
	void *result;

	EQUAL(pthread_create(&thread, NULL, delayed, &semaphore), 0);
	EQUAL(pthread_join(thread, &result), 0);
	CHECK(result == &semaphore);
}

static void wait_futex(void)
{
	while (!atomic_load(&word))
		futex(FUTEX_WAIT_PRIVATE, 0);
}

/* Without the flag for private memory, and with a limit. */
static void wait_plain_futex(void)
{
	struct timespec limit = { 1, 0 };

	while (!atomic_load(&word))
		syscall(SYS_futex, &word, FUTEX_WAIT, 0, &limit, NULL, 0);
}

static void wake_futex(void)
{
	atomic_store(&word, 1);
	EQUAL(futex(FUTEX_WAKE_PRIVATE, 5), 1);
	EQUAL(futex(FUTEX_WAKE_PRIVATE, 5), 0);
}

static void read_byte(int fd)
{
	char byte;

	EQUAL(read(fd, &byte, 1), 1);
}

static void read_pipe(void)
{
	read_byte(pipes[0]);
}

static void poll_pipe(void)
{
	EQUAL(poll(&(struct pollfd){ .fd = pipes[0], .events = POLLIN }, 1, -1), 1);
	read_byte(pipes[0]);
}

static void write_pipe(void)
{
	EQUAL(write(pipes[1], "x", 1), 1);
}

static void read_socket(void)
{
	read_byte(sockets[0]);
}

static void write_socket(void)
{
	EQUAL(send(sockets[1], "x", 1, 0), 1);
}

static void read_event(void)
{
	EQUAL(read(event, &(uint64_t){ 0 }, 8), 8);
}

static void write_event(void)
{
	EQUAL(write(event, &(uint64_t){ 1 }, 8), 8);
}

static sigset_t only(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	return set;
}

static void take_signal(void)
{
	sigset_t set = only(SIGUSR1);
	int taken;

	EQUAL(sigwait(&set, &taken), 0);
	EQUAL(taken, SIGUSR1);
}

static void read_signal(void)
{
	struct signalfd_siginfo information;
	sigset_t set = only(SIGUSR1);
	int fd = signalfd(-1, &set, 0);

	EQUAL(read(fd, &information, sizeof(information)), sizeof(information));
	close(fd);
}

static void send_signal(void)
{
	EQUAL(pthread_kill(waiter, SIGUSR1), 0);
}

static void on_signal(int signal)
{
	(void)signal;
	flag = 1;
}

static void wait_handler(void)
{
	while (!flag)
		EQUAL(pause(), -1);
}

static void send_handled(void)
{
	EQUAL(pthread_kill(waiter, SIGUSR2), 0);
}

static void yield_in_kernel(void)
{
	while (!flag)
		syscall(SYS_sched_yield);
}

static void set_flag(void)
{
	flag = 1;
}

static const struct {
	const char *name;
	void (*wait)(void), (*begin)(void), (*act)(void);
} waits[] = {
	{ "condition", wait_condition, nothing, signal_condition },
	{ "condition-with-limit", wait_long, nothing, signal_condition },
	{ "condition-timed-out", wait_short, nothing, nothing },
	{ "semaphore", take_semaphore, nothing, post_semaphore },
	{ "barrier", at_barrier, nothing, at_barrier },
	{ "mutex", take_mutex, own_mutex, free_mutex },
	{ "rwlock", read_rwlock, own_rwlock, free_rwlock },
	{ "spin-lock", take_spin, own_spin, free_spin },
	{ "c11-condition", wait_c11, nothing, signal_c11 },
	{ "c11-join", join_c11, nothing, nothing },
	{ "join", join, nothing, nothing },
	{ "futex", wait_futex, nothing, wake_futex },
	{ "plain-futex", wait_plain_futex, nothing, wake_futex },
	{ "pipe", read_pipe, nothing, write_pipe },
	{ "poll-pipe", poll_pipe, nothing, write_pipe },
	{ "socket-pair", read_socket, nothing, write_socket },
	{ "eventfd", read_event, nothing, write_event },
	{ "sigwait", take_signal, nothing, send_signal },
	{ "signalfd", read_signal, nothing, send_signal },
	{ "pause", wait_handler, nothing, send_handled },
	{ "raw-yield", yield_in_kernel, nothing, set_flag },
};

enum { WAITS = sizeof(waits) / sizeof(waits[0]) };

/* The other thread; the waiting one begins when this one owns what it needs. */
static void *act(void *place)
{
	int number = *(int *)place;

	waits[number].begin();
	atomic_store(&owns, 1);
	delay();
	waits[number].act();
	return NULL;
}

static void prepare(void)
{
	sigset_t set = only(SIGUSR1);

	EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	signal(SIGUSR2, on_signal);
	EQUAL(pthread_mutex_init(&mutex, NULL), 0);
	EQUAL(pthread_cond_init(&condition, NULL), 0);
	EQUAL(pthread_rwlock_init(&rwlock, NULL), 0);
	EQUAL(pthread_barrier_init(&barrier, NULL, 2), 0);
	EQUAL(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE), 0);
	EQUAL(sem_init(&semaphore, 0, 0), 0);
	EQUAL(mtx_init(&mtx, mtx_plain), thrd_success);
	EQUAL(cnd_init(&cnd), thrd_success);
	EQUAL(pipe(pipes), 0);
	EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	event = eventfd(0, 0);
	NEED(event >= 0);
	waiter = pthread_self();
}

static void measure(int number)
{
	pthread_t thread;
	long long begun;

	flag = 0;
	atomic_store(&word, 0);
	atomic_store(&owns, 0);
	EQUAL(pthread_create(&thread, NULL, act, &number), 0);
	while (!atomic_load(&owns))
		sched_yield();
	begun = now();
	waits[number].wait();
	printf("%s %lld\n", waits[number].name, now() - begun);
	EQUAL(pthread_join(thread, NULL), 0);
}

int main(int count, char **arguments)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	NEED(devices && devices[0]);
	prepare();
	for (int number = 0; number < WAITS; number++)
		for (int wanted = 1; wanted < count || count == 1; wanted++) {
			if (count == 1 || !strcmp(arguments[wanted], waits[number].name))
				measure(number);
			if (count == 1)
				break;
		}
	ibv_free_device_list(devices);
	printf("%d failures\n", failures);
	return failures != 0;
}
