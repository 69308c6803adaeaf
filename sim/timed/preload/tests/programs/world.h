/* What a program of these tests uses of the library: its table, as in
 * sim/timed/protocol/src/table.rs. */
#pragma once
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table {
	uint32_t version;
	int (*join)(void);
	const void *(*program)(void);
	uint64_t (*now_ps)(void);
	void (*spend_ps)(uint64_t);
	void (*store)(uint32_t kind, uint32_t slot, const uint64_t *words, size_t count);
	void (*catch_up)(void);
	void (*flush)(void);
	uint64_t (*wait)(const void *);
	void (*set_interrupts)(void (*)(void *, uint64_t), void *);
	void (*outside)(_Bool);
	uint64_t (*activity)(void);
	void (*card_memory)(uintptr_t start, size_t length);
};

enum { REGISTER = 2, WRITE = 1, INTERRUPT = 2 };
#define US UINT64_C(1000000)
#define MS (1000 * US)
#define S (1000 * MS)

static const struct table *world;

#define CHECK(condition)                                                                   \
	do {                                                                               \
		if (!(condition)) {                                                        \
			printf("%s:%d: %s (errno %d, %" PRIu64 " ps)\n", __FILE__, __LINE__,    \
			       #condition, errno, world ? world->now_ps() : 0);             \
			fflush(stdout);                                                    \
			_exit(1);                                                          \
		}                                                                          \
	} while (0)
#define CHECK_AT(time_ps)                                                                  \
	do {                                                                               \
		uint64_t now_ = world->now_ps(), then_ = (time_ps);                        \
		if (now_ != then_) {                                                       \
			printf("%s:%d: it is %" PRIu64 " ps, not %" PRIu64 "\n", __FILE__, \
			       __LINE__, now_, then_);                                     \
			fflush(stdout);                                                    \
			_exit(1);                                                          \
		}                                                                          \
	} while (0)

#include <unistd.h>

static inline void join_world(void)
{
	const struct table *(*get)(void) = dlsym(RTLD_DEFAULT, "ferroce_time_v1");
	if (!get) {
		puts("the library is not there");
		exit(1);
	}
	const struct table *table = get();
	int error = table->join();
	if (error) {
		printf("cannot join: %s\n", strerror(error));
		exit(1);
	}
	world = table;
}

static inline void write_later(const volatile void *address, uint8_t value, uint64_t delay_ps)
{
	uint64_t words[] = {(uint64_t)address, value, delay_ps};
	world->store(REGISTER, WRITE, words, 3);
}

static inline void interrupt_later(uint64_t vectors, uint64_t delay_ps)
{
	uint64_t words[] = {vectors, delay_ps};
	world->store(REGISTER, INTERRUPT, words, 2);
}
