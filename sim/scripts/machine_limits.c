/*
 * Prints one limit of this machine, as the median of many short measurements: what takes the
 * processor away meanwhile lengthens a few of them only.
 *   machine_limits clock          ns of a reading of the clock
 *   machine_limits system-call    ns of the cheapest system call
 *   machine_limits switch         ns from a thread to another on the same processor, by futex
 *   machine_limits hop            ns of a cache line from a processor to another, one way
 *   machine_limits copy-line      ns of a copy of 64 bytes within the L1 cache
 *   machine_limits copy-l2        GB/s of copies of 64 KiB by one thread, within the L2 cache
 *   machine_limits copy-across    GB/s of copies of 4 KiB into a ring in shared memory by one
 *                                 processor, and out of it by another
 *   machine_limits copy-memory    GB/s of copies by one thread from memory to memory
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "median.h"

enum {
	LINE = 64,
	LINES = 64,
	L2_BLOCK = 64 << 10,
	SLOT = 4 << 10,
	SLOTS = 128,
	/* Both buffers together are larger than a cache of a common machine. */
	MEMORY_BLOCK_MIN = 64 << 20,
	MEMORY_BLOCK_MAX = 256 << 20,
	MEMORY_STEP = 4 << 20,
};

#define NEED(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
		exit(1); \
	} \
} while (0)

/* Two processes ask and answer through `turn`, in a line that holds nothing else. */
struct shared {
	_Alignas(2 * LINE) _Atomic uint32_t turn;
	_Alignas(2 * LINE) char end;
};

static struct shared *shared;

/* Slots that one process fills and another empties; both numbers only grow. */
struct ring {
	_Alignas(2 * LINE) _Atomic uint32_t filled;
	_Alignas(2 * LINE) _Atomic uint32_t emptied;
	_Alignas(2 * LINE) char slots[SLOTS][SLOT];
};

static struct ring *ring;

static void read_clock(void)
{
	now_ns();
}

static void enter_kernel(void)
{
	syscall(SYS_getppid);
}

static char *from, *to;
static size_t block, step, offset;

static void copy(void)
{
	memcpy(to + offset, from + offset, step);
	/* The compiler must not leave a copy out that no code reads. */
	__asm__ volatile("" : : "r"(to) : "memory");
	offset += step;
	if (offset == block)
		offset = 0;
}

/* Each line by itself, as messages come. */
static void copy_lines(void)
{
	for (size_t line = 0; line < block; line += LINE) {
		memcpy(to + line, from + line, LINE);
		__asm__ volatile("" : : "r"(to) : "memory");
	}
}

static void allocate(size_t block_bytes)
{
	block = block_bytes;
	from = aligned_alloc(4096, block);
	to = aligned_alloc(4096, block);
	NEED(from && to);
	memset(from, 1, block);
	memset(to, 1, block);
}

static double copy_ns(void (*copy)(void), size_t block_bytes, size_t step_bytes, int count)
{
	allocate(block_bytes);
	step = step_bytes;
	return median_ns(copy, count);
}

/* Puts the caller onto the processor with this index among those that the process may use. */
static int run_on(int index)
{
	cpu_set_t allowed, one;

	NEED(!sched_getaffinity(0, sizeof allowed, &allowed));
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || index-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return !sched_setaffinity(0, sizeof one, &one);
	}
	return 0;
}

static void spin_until(uint32_t turn)
{
	while (atomic_load_explicit(&shared->turn, memory_order_acquire) != turn)
		;
}

static void ask_by_line(void)
{
	atomic_store_explicit(&shared->turn, 1, memory_order_release);
	spin_until(0);
}

static void answer_by_line(void)
{
	spin_until(1);
	atomic_store_explicit(&shared->turn, 0, memory_order_release);
}

static void give_turn(uint32_t turn)
{
	atomic_store(&shared->turn, turn);
	syscall(SYS_futex, &shared->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void sleep_until(uint32_t turn)
{
	while (atomic_load(&shared->turn) != turn)
		syscall(SYS_futex, &shared->turn, FUTEX_WAIT, !turn, NULL, NULL, 0);
}

static void ask_by_futex(void)
{
	give_turn(1);
	sleep_until(0);
}

static void answer_by_futex(void)
{
	sleep_until(1);
	give_turn(0);
}

/* Copies a block into slots. */
static void fill_slots(void)
{
	static uint32_t emptied;

	for (size_t done = 0; done < block; done += SLOT) {
		const uint32_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed);

		while (filled - emptied == SLOTS)
			emptied = atomic_load_explicit(&ring->emptied, memory_order_acquire);
		memcpy(ring->slots[filled % SLOTS], from + done, SLOT);
		atomic_store_explicit(&ring->filled, filled + 1, memory_order_release);
	}
}

/* Copies a block out of slots. */
static void empty_slots(void)
{
	static uint32_t filled;

	for (size_t done = 0; done < block; done += SLOT) {
		const uint32_t emptied = atomic_load_explicit(&ring->emptied, memory_order_relaxed);

		while (filled == emptied)
			filled = atomic_load_explicit(&ring->filled, memory_order_acquire);
		memcpy(to + done, ring->slots[emptied % SLOTS], SLOT);
		atomic_store_explicit(&ring->emptied, emptied + 1, memory_order_release);
	}
}

static void *share(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	NEED(memory != MAP_FAILED);
	return memory;
}

/* Returns what `ask` takes here, beside a process on processor `other` that answers. */
static double beside_ns(void (*ask)(void), void (*answer)(void), int other, int count)
{
	pid_t child;
	double time;

	if (other && sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		fprintf(stderr, "this needs two processors\n");
		exit(1);
	}
	child = fork();
	NEED(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		NEED(run_on(other));
		for (;;)
			answer();
	}
	if (!run_on(0) || (other && waitpid(child, NULL, WNOHANG))) {
		fprintf(stderr, "a processor is missing\n");
		exit(1);
	}
	ask();
	time = median_ns(ask, count);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return time;
}

/* Returns half of a round trip between this process and one on processor `other`. */
static double one_way_ns(void (*ask)(void), void (*answer)(void), int other, int count)
{
	shared = share(sizeof *shared);
	return beside_ns(ask, answer, other, count) / 2;
}

static double copy_across_ns(void)
{
	ring = share(sizeof *ring);
	allocate(L2_BLOCK);
	return beside_ns(fill_slots, empty_slots, 1, 10);
}

static size_t memory_block(void)
{
	const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
	size_t bytes = cache > 0 ? (size_t)cache + (size_t)cache / 2 : 0;

	bytes = bytes < MEMORY_BLOCK_MIN ? MEMORY_BLOCK_MIN : bytes;
	bytes = bytes > MEMORY_BLOCK_MAX ? MEMORY_BLOCK_MAX : bytes;
	return bytes / MEMORY_STEP * MEMORY_STEP;
}

int main(int count, char **arguments)
{
	const char *name = count == 2 ? arguments[1] : "";
	double result;

	if (!strcmp(name, "clock")) {
		result = median_ns(read_clock, 1000);
	} else if (!strcmp(name, "system-call")) {
		result = median_ns(enter_kernel, 500);
	} else if (!strcmp(name, "switch")) {
		result = one_way_ns(ask_by_futex, answer_by_futex, 0, 50);
	} else if (!strcmp(name, "hop")) {
		result = one_way_ns(ask_by_line, answer_by_line, 1, 200);
	} else if (!strcmp(name, "copy-line")) {
		result = copy_ns(copy_lines, LINES * LINE, LINE, 50) / LINES;
	} else if (!strcmp(name, "copy-l2")) {
		result = L2_BLOCK / copy_ns(copy, L2_BLOCK, L2_BLOCK, 10);
	} else if (!strcmp(name, "copy-across")) {
		result = L2_BLOCK / copy_across_ns();
	} else if (!strcmp(name, "copy-memory")) {
		result = MEMORY_STEP / copy_ns(copy, memory_block(), MEMORY_STEP, 1);
	} else {
		fprintf(stderr, "see the top of machine_limits.c for the names\n");
		return 2;
	}
	printf("%.3f\n", result);
	return 0;
}
