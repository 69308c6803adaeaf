/*
 * Verbs in a fiber: a stack of 16 KiB with an inaccessible page below it.
 */
#include "common.h"
#include <sys/mman.h>
#include <ucontext.h>

enum { PAGE = 4096, STACK = 16 << 10 };

static ucontext_t back, fiber;

static void body(void)
{
	static struct bench bench;

	for (int i = 0; i < 2; i++) {
		open_bench(&bench);
		connect_pair(&bench);
		EQUAL(post_send(&bench, IBV_WR_RDMA_WRITE, 1, sge_of(&bench, 0, 100000), 500000, bench.mr->rkey), 0);
		EXPECT_WC(bench.send_cq, 1, IBV_WC_SUCCESS);
		close_bench(&bench);
	}
}

int main(void)
{
	char *stack = mmap(NULL, PAGE + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(stack != MAP_FAILED && !mprotect(stack, PAGE, PROT_NONE));
	NEED(!getcontext(&fiber));
	fiber.uc_stack.ss_sp = stack + PAGE;
	fiber.uc_stack.ss_size = STACK;
	fiber.uc_link = &back;
	makecontext(&fiber, body, 0);
	NEED(!swapcontext(&back, &fiber));
	return finish();
}
