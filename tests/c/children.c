/*
 * A parent waits for a child process, which acts after a millisecond of simulated time. The
 * arguments select ways of waiting; the program prints how long each wait took, in nanoseconds.
 */
#include "common.h"
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { DELAY_NS = 1000000 };

extern char **environ;

/* What parent and child share. */
static struct shared {
	pthread_mutex_t mutex;
	pthread_cond_t condition;
	pthread_barrier_t barrier;
	sem_t semaphore;
	atomic_int flag;
	int value;
} *shared;
static int pipes[2];
static pid_t child;

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

static void share(void)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t condition;
	pthread_barrierattr_t barrier;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	EQUAL(pthread_mutex_init(&shared->mutex, &mutex), 0);
	pthread_condattr_init(&condition);
	pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
	EQUAL(pthread_cond_init(&shared->condition, &condition), 0);
	pthread_barrierattr_init(&barrier);
	pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
	EQUAL(pthread_barrier_init(&shared->barrier, &barrier, 2), 0);
	EQUAL(sem_init(&shared->semaphore, 1, 0), 0);
	EQUAL(pipe(pipes), 0);
}

static void nothing(void)
{
}

static void reap(int expected)
{
	int status = -1;

	EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	EQUAL(WEXITSTATUS(status), expected);
}

static void reap_child(void)
{
	reap(0);
}

static void reap_any(void)
{
	int status = -1;

	EQUAL(wait(&status), child);
	EQUAL(status, 0);
	EQUAL(wait(&status), -1);
	EQUAL(errno, ECHILD);
}

static void reap_by_id(void)
{
	siginfo_t information;

	EQUAL(waitid(P_PID, child, &information, WEXITED | WNOWAIT), 0);
	EQUAL(information.si_pid, child);
	reap(0);
}

static volatile sig_atomic_t ended;

static void read_pipe(void)
{
	char byte;

	EQUAL(read(pipes[0], &byte, 1), 1);
}

static void note_end(int signal)
{
	(void)signal;
	ended++;
}

static void reap_in_handler(int signal)
{
	int result = waitpid(-1, NULL, WNOHANG);

	(void)signal;
	ended += result == child;
}

static void write_at_end(int signal)
{
	(void)signal;
	EQUAL(write(pipes[1], "x", 1), 1);
}

/* The child may have ended before. */
static void handle(void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };

	ended = 0;
	EQUAL(sigaction(SIGCHLD, &action, NULL), 0);
}

static void pause_for_child(void)
{
	handle(note_end);
	EQUAL(pause(), -1);
	EQUAL(errno, EINTR);
	EQUAL(ended, 1);
	signal(SIGCHLD, SIG_DFL);
	reap(0);
}

static void suspend_for_child(void)
{
	sigset_t none;

	sigemptyset(&none);
	handle(reap_in_handler);
	EQUAL(sigsuspend(&none), -1);
	EQUAL(ended, 1);
	signal(SIGCHLD, SIG_DFL);
	EQUAL(waitpid(-1, NULL, 0), -1);
	EQUAL(errno, ECHILD);
}

static void interrupt_poll(void)
{
	struct pollfd ready = { .fd = pipes[0], .events = POLLIN };

	handle(note_end);
	EQUAL(poll(&ready, 1, -1), -1);
	EQUAL(errno, EINTR);
	EQUAL(ended, 1);
	signal(SIGCHLD, SIG_DFL);
}

static void interrupt_semaphore(void)
{
	handle(note_end);
	EQUAL(sem_wait(&shared->semaphore), -1);
	EQUAL(errno, EINTR);
	signal(SIGCHLD, SIG_DFL);
}

static void poll_own_pipe(void)
{
	struct pollfd ready = { .fd = pipes[0], .events = POLLIN };

	handle(write_at_end);
	while (poll(&ready, 1, -1) < 0)
		EQUAL(errno, EINTR);
	read_pipe();
	signal(SIGCHLD, SIG_DFL);
}

static void reap_before_handler(void)
{
	handle(reap_in_handler);
	reap(0);
	EQUAL(ended, 0);
	signal(SIGCHLD, SIG_DFL);
}

static void look_for_child(void)
{
	int status, result;

	while ((result = waitpid(child, &status, WNOHANG)) == 0)
		;
	EQUAL(result, child);
}

static void write_pipe(void)
{
	EQUAL(write(pipes[1], "x", 1), 1);
}

static void poll_pipe(void)
{
	struct pollfd ready = { .fd = pipes[0], .events = POLLIN };

	EQUAL(poll(&ready, 1, -1), 1);
	read_pipe();
}

static void spin(void)
{
	while (!atomic_load(&shared->flag))
		;
}

static void set_flag(void)
{
	atomic_store(&shared->flag, 1);
}

static void wait_condition(void)
{
	pthread_mutex_lock(&shared->mutex);
	while (!shared->value)
		EQUAL(pthread_cond_wait(&shared->condition, &shared->mutex), 0);
	pthread_mutex_unlock(&shared->mutex);
}

static void signal_condition(void)
{
	pthread_mutex_lock(&shared->mutex);
	shared->value = 1;
	EQUAL(pthread_cond_signal(&shared->condition), 0);
	pthread_mutex_unlock(&shared->mutex);
}

/* As daemons and launchers do. */
static void close_all(void)
{
	for (int fd = 3; fd < 700; fd++)
		close(fd);
	close_range(3, ~0U, 0);
}

static void own_mutex(void)
{
	pthread_mutex_lock(&shared->mutex);
}

static void take_mutex(void)
{
	/* The child takes it first. */
	usleep(1);
	pthread_mutex_lock(&shared->mutex);
	pthread_mutex_unlock(&shared->mutex);
}

static void give_mutex(void)
{
	pthread_mutex_unlock(&shared->mutex);
}

static void take_semaphore(void)
{
	EQUAL(sem_wait(&shared->semaphore), 0);
}

static void post_semaphore(void)
{
	EQUAL(sem_post(&shared->semaphore), 0);
}

static void at_barrier(void)
{
	pthread_barrier_wait(&shared->barrier);
}

/* A child of a fork. */
static const struct kind {
	const char *name;
	void (*waits)(void), (*before)(void), (*after)(void);
} kinds[] = {
	{ "waitpid", reap_child, nothing, nothing },
	{ "wait", reap_any, nothing, nothing },
	{ "waitid", reap_by_id, nothing, nothing },
	{ "closed-descriptors", reap_child, close_all, nothing },
	{ "waitpid-nohang", look_for_child, nothing, nothing },
	{ "pause", pause_for_child, nothing, nothing },
	{ "sigsuspend", suspend_for_child, nothing, nothing },
	{ "poll-interrupted", interrupt_poll, nothing, nothing },
	{ "semaphore-interrupted", interrupt_semaphore, nothing, nothing },
	{ "poll-own-pipe", poll_own_pipe, nothing, nothing },
	{ "waitpid-and-handler", reap_before_handler, nothing, nothing },
	{ "pipe", read_pipe, nothing, write_pipe },
	{ "poll-pipe", poll_pipe, nothing, write_pipe },
	{ "shared-flag", spin, nothing, set_flag },
	{ "shared-condition", wait_condition, nothing, signal_condition },
	{ "shared-mutex", take_mutex, own_mutex, give_mutex },
	{ "shared-semaphore", take_semaphore, nothing, post_semaphore },
	{ "shared-barrier", at_barrier, nothing, at_barrier },
};

static long long of_fork(const struct kind *kind)
{
	long long begin;

	share();
	begin = now();
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		kind->before();
		delay();
		kind->after();
		_exit(0);
	}
	kind->waits();
	begin = now() - begin;
	/* Kinds that wait for the child have reaped it. */
	waitpid(child, NULL, 0);
	return begin;
}

/* Other programs: each sleeps for a millisecond. */
static void run_shell(void)
{
	EQUAL(system("sleep 0.001"), 0);
}

static void run_popen(void)
{
	char line[16] = "";
	FILE *stream = popen("sleep 0.001; echo done", "r");

	CHECK(stream != NULL);
	EQUAL(read(fileno(stream), line, sizeof(line)), 5);
	EQUAL(strcmp(line, "done\n"), 0);
	EQUAL(pclose(stream), 0);
}

static void run_spawn(void)
{
	char *arguments[] = { "sleep", "0.001", NULL };

	EQUAL(posix_spawnp(&child, "sleep", NULL, NULL, arguments, environ), 0);
	reap(0);
}

static void run_vfork(void)
{
	child = vfork();
	CHECK(child >= 0);
	if (child == 0) {
		execlp("sleep", "sleep", "0.001", NULL);
		_exit(127);
	}
	reap(0);
}

static void run_missing(void)
{
	child = vfork();
	CHECK(child >= 0);
	if (child == 0) {
		execl("/nonexistent", "nonexistent", NULL);
		delay();
		_exit(7);
	}
	reap(7);
}

static const struct program {
	const char *name;
	void (*run)(void);
} programs[] = {
	{ "system", run_shell },   { "popen", run_popen },	       { "posix_spawn", run_spawn },
	{ "vfork-exec", run_vfork }, { "exec-fails", run_missing },
};

static int is_wanted(const char *name, int argc, char **argv)
{
	int i, wanted = argc == 1;

	for (i = 1; i < argc; i++)
		wanted |= strcmp(argv[i], name) == 0;
	return wanted;
}

int main(int argc, char **argv)
{
	long long begin;
	size_t i;

	setbuf(stdout, NULL);
	/* The program joins the world. */
	NEED(ibv_get_device_list(NULL) != NULL);
	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (is_wanted(kinds[i].name, argc, argv))
			printf("%s %lld\n", kinds[i].name, of_fork(&kinds[i]));
	for (i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		if (!is_wanted(programs[i].name, argc, argv))
			continue;
		begin = now();
		programs[i].run();
		printf("%s %lld\n", programs[i].name, now() - begin);
	}
	return failures != 0;
}
