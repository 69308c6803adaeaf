/*
 * Keeps a secret in unregistered memory next to registered memory, and prints whether the secret
 * has changed.
 */
#include "common.h"
#include <sys/mman.h>

enum { REGISTERED_BYTES = 64 << 10, PAGE_BYTES = 4096 };

static const char text[] = "the secret of a program";

int main(void)
{
	char *memory = mmap(NULL, REGISTERED_BYTES + PAGE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_context *context;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	char *secret;

	NEED(memory != MAP_FAILED);
	memset(memory, 0, REGISTERED_BYTES);
	secret = memory + REGISTERED_BYTES;
	strcpy(secret, text);
	context = open_first_device();
	NEED(context);
	pd = ibv_alloc_pd(context);
	NEED(pd);
	mr = ibv_reg_mr(pd, memory, REGISTERED_BYTES, IBV_ACCESS_LOCAL_WRITE);
	NEED(mr);
	printf("beside registered memory: \"%s\"\n", secret);
	EQUAL(strcmp(secret, text), 0);
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
	EQUAL(ibv_close_device(context), 0);
	return finish();
}
