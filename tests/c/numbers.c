/* Prints its numbers: QPNs without the process's place, and keys, new ones and reused ones. */
#include "common.h"

enum { COUNT = 8 };

int main(void)
{
	static char memory[COUNT][4096];
	struct ibv_mr *mr[COUNT];
	struct bench bench;

	open_bench(&bench);
	for (int i = 0; i < COUNT; i++) {
		struct ibv_qp *qp = create_qp(&bench);

		NEED(qp);
		mr[i] = ibv_reg_mr(bench.pd, memory[i], sizeof memory[i], IBV_ACCESS_LOCAL_WRITE);
		NEED(mr[i]);
		printf("%04x %08x\n", qp->qp_num & 0xffff, mr[i]->lkey);
		EQUAL(ibv_destroy_qp(qp), 0);
	}
	for (int i = 0; i < COUNT; i++)
		EQUAL(ibv_dereg_mr(mr[i]), 0);
	for (int i = 0; i < COUNT; i++) {
		mr[i] = ibv_reg_mr(bench.pd, memory[i], sizeof memory[i], IBV_ACCESS_LOCAL_WRITE);
		NEED(mr[i]);
		printf("%08x\n", mr[i]->lkey);
	}
	for (int i = 0; i < COUNT; i++)
		EQUAL(ibv_dereg_mr(mr[i]), 0);
	close_bench(&bench);
	return finish();
}
