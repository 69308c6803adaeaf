/* Loops that only read memory, like ib_write_lat's. */
#include "world.h"
#include <signal.h>

#define TURN 1000

struct state {
	int padding[7];
	int ends;
};

/* As compiled in ib_write_lat: two loads. */
__attribute__((noinline)) static void wait_for(volatile char *byte, char value,
					       volatile struct state *state)
{
	while (*byte != value && state->ends != 3)
		;
}

__attribute__((noinline)) static void wait_for_word(volatile uint32_t *word)
{
	while (!*word)
		;
}

static volatile uint64_t global;

__attribute__((noinline)) static void wait_for_global(uint64_t value)
{
	while (global != value)
		__builtin_ia32_pause();
}

/* Not optimised: everything is on the stack. */
__attribute__((noinline, optimize("O0"))) static int wait_slowly(volatile uint8_t *byte, int value)
{
	while (*byte != value) {
	}
	return *byte;
}

static volatile struct state *alarmed;

static void on_alarm(int signal)
{
	(void)signal;
	alarmed->ends = 3;
}

/* The end of a loop that began at t and could end at write. */
static uint64_t end_of(uint64_t t, uint64_t write)
{
	uint64_t turns = write <= t ? 0 : (write - t + TURN - 1) / TURN;
	return t + turns * TURN + TURN;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 50;
	join_world();
	char *memory = aligned_alloc(4096, 4096);
	memset(memory, 0, 4096);
	struct state state = {{0}, 0};
	uint64_t t = world->now_ps();
	for (int i = 1; i <= rounds; i++) {
		uint64_t delay = 1 * US + 337 * i;
		write_later(memory + 5, i, delay);
		/* Something else: the loop goes on. */
		write_later(memory + 600, i, delay / 2);
		wait_for(memory + 5, (char)i, &state);
		CHECK(memory[5] == (char)i);
		CHECK_AT(end_of(t, t + delay));
		t = world->now_ps();
		/* Later ones begin with work. */
		world->spend_ps(123);
		t += 123;
	}
	/* A thread that lets no signal interrupt it is found, too. */
	sigset_t all, before;
	sigfillset(&all);
	CHECK(sigprocmask(SIG_SETMASK, &all, &before) == 0);
	for (int i = 0; i < 5; i++) {
		memset(memory, 0, 4096);
		write_later(memory + 8 + 4 * i + 1, 7, 2 * US + 1);
		wait_for_word((uint32_t *)(memory + 8 + 4 * i));
		CHECK_AT(t = end_of(t, t + 2 * US + 1));
	}
	CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
	for (int i = 0; i < 5; i++) {
		write_later(&global, i + 1, 3 * US);
		wait_for_global(i + 1);
		CHECK_AT(t = end_of(t, t + 3 * US));
	}
	for (int i = 1; i < 5; i++) {
		write_later(memory + 100, i, 4 * US);
		CHECK(wait_slowly((uint8_t *)memory + 100, i) == i);
		CHECK_AT(t = end_of(t, t + 4 * US));
	}
	/* A signal ends it. */
	alarmed = &state;
	signal(SIGALRM, on_alarm);
	alarm(2);
	wait_for(memory + 5, 123, &state);
	CHECK(state.ends == 3);
	CHECK(world->now_ps() >= t + 2 * S && world->now_ps() <= t + 2 * S + TURN);
	printf("%" PRIu64 "\n", world->now_ps());
	return 0;
}
