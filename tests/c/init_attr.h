/* `struct ibv_mr_init_attr` of `ibv_reg_mr_ex`, which an older header lacks. */
#ifndef INIT_ATTR_H
#define INIT_ATTR_H

#include <stddef.h>
#include <stdint.h>

struct init_attr {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah, *buf;
};
enum { MASK_IOVA = 1, MASK_ADDR = 2, MASK_FD = 4, MASK_FD_OFFSET = 8, MASK_DMAH = 16 };

#endif
