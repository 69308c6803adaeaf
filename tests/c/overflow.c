/*
 * A program with an error between verbs that the address sanitizer finds.
 */
#include "common.h"

int main(void)
{
	struct bench bench;
	volatile char *bytes = malloc(10);

	open_bench(&bench);
	connect_pair(&bench);
	EQUAL(post_send(&bench, IBV_WR_RDMA_WRITE, 1, sge_of(&bench, 0, 5000), 1 << 19,
			bench.mr->rkey), 0);
	EXPECT_WC(bench.send_cq, 1, IBV_WC_SUCCESS);
	/* Beyond the end, in a way that the compiler cannot detect. */
	bytes[bench.size / (1 << 20) + 9] = 1;
	free((void *)bytes);
	close_bench(&bench);
	return finish();
}
