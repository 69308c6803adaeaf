/*
 * RDMA WRITE from device memory to device memory, with the calls and the order of `ib_write_bw
 * --use_cuda=0 --use_cuda_dmabuf`: the driver by cuGetProcAddress, an allocation, its descriptor, a
 * registration by ibv_reg_mr_ex or ibv_reg_dmabuf_mr at the allocation's address, close. The data
 * are checked.
 *
 *     cuda_client [-x] -p PORT [ADDRESS]     -x: by ibv_reg_mr_ex
 */
#include "common.h"
#include "init_attr.h"
#include <dlfcn.h>
#include <stdbool.h>

enum { MESSAGE = 65536, MESSAGES = 40, BUFFER = 4 * MESSAGE, DEVICE_PAGE = 64 << 10 };
enum { DMA_BUF_SUPPORTED = 124, DMA_BUF_FD = 1 };
enum { CUDA_2_0 = 2000, CUDA_3_2 = 3020, CUDA_4_0 = 4000, CUDA_11_7 = 11070 };

static struct {
	int (*init)(unsigned);
	int (*device_count)(int *);
	int (*device)(int *, int);
	int (*attribute)(int *, int, int);
	int (*create)(void **, unsigned, int);
	int (*set_current)(void *);
	int (*destroy)(void *);
	int (*allocate)(uint64_t *, size_t);
	int (*free)(uint64_t);
	int (*copy)(uint64_t, uint64_t, size_t);
	int (*handle)(void *, uint64_t, size_t, int, unsigned long long);
} cuda;

static void load_cuda(void)
{
	const struct { void **function; const char *name; int version; } entries[] = {
		{ (void **)&cuda.init, "cuInit", CUDA_2_0 },
		{ (void **)&cuda.device_count, "cuDeviceGetCount", CUDA_2_0 },
		{ (void **)&cuda.device, "cuDeviceGet", CUDA_2_0 },
		{ (void **)&cuda.attribute, "cuDeviceGetAttribute", CUDA_2_0 },
		{ (void **)&cuda.create, "cuCtxCreate", CUDA_3_2 },
		{ (void **)&cuda.set_current, "cuCtxSetCurrent", CUDA_4_0 },
		{ (void **)&cuda.destroy, "cuCtxDestroy", CUDA_4_0 },
		{ (void **)&cuda.allocate, "cuMemAlloc", CUDA_3_2 },
		{ (void **)&cuda.free, "cuMemFree", CUDA_3_2 },
		{ (void **)&cuda.copy, "cuMemcpyDtoD", CUDA_3_2 },
		{ (void **)&cuda.handle, "cuMemGetHandleForAddressRange", CUDA_11_7 },
	};
	void *library = dlopen("libcuda.so", RTLD_LAZY);
	int (*look_up)(const char *, void **, int, uint64_t, void *);

	NEED(library);
	*(void **)&look_up = dlsym(library, "cuGetProcAddress");
	NEED(look_up);
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
		NEED(!look_up(entries[i].name, entries[i].function, entries[i].version, 0, NULL));
}

static void *open_gpu(void)
{
	int count = 0, device, is_supported = 0;
	void *context;

	NEED(!cuda.init(0) && !cuda.device_count(&count) && count > 0);
	NEED(!cuda.device(&device, 0) && !cuda.create(&context, 8, device));
	NEED(!cuda.set_current(context));
	NEED(!cuda.attribute(&is_supported, DMA_BUF_SUPPORTED, device) && is_supported);
	return context;
}

static struct ibv_mr *registered(struct ibv_pd *pd, uint64_t start, bool is_extended)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	const uint64_t page = sysconf(_SC_PAGESIZE), aligned = start & ~(page - 1);
	const uint64_t offset = start - aligned;
	struct init_attr attr = {
		.length = BUFFER, .access = access, .iova = start, .fd_offset = offset,
		.comp_mask = MASK_FD | MASK_IOVA | MASK_FD_OFFSET,
	};
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct init_attr *);
	struct ibv_mr *mr;
	int fd = 0;

	NEED(!cuda.handle(&fd, aligned, (BUFFER + offset + page - 1) & ~(page - 1), DMA_BUF_FD, 0));
	if (is_extended) {
		*(void **)&reg_mr_ex = dlsym(dlopen("libibverbs.so.1", RTLD_NOW), "ibv_reg_mr_ex");
		NEED(reg_mr_ex);
		attr.fd = fd;
		mr = reg_mr_ex(pd, &attr);
	} else {
		mr = ibv_reg_dmabuf_mr(pd, offset, BUFFER, start, fd, access);
	}
	NEED(mr);
	close(fd);
	return mr;
}

/* Device memory that the processor could read is no device memory: it is copied. */
static void set_pattern(uint64_t start, uint8_t seed)
{
	static uint8_t bytes[BUFFER];

	for (size_t i = 0; i < BUFFER; i++)
		bytes[i] = seed ? (uint8_t)(seed + i * 7 + i / 251) : 0;
	NEED(!cuda.copy(start, (uintptr_t)bytes, BUFFER));
}

static bool has_pattern(uint64_t start, uint8_t seed)
{
	static uint8_t bytes[BUFFER];

	NEED(!cuda.copy((uintptr_t)bytes, start, BUFFER));
	for (size_t i = 0; i < BUFFER; i++)
		if (bytes[i] != (uint8_t)(seed + i * 7 + i / 251))
			return false;
	return true;
}

static void write_all(struct bench *bench, uint64_t from, uint32_t lkey,
		      const struct peer_address *peer)
{
	for (int i = 0; i < MESSAGES; i++) {
		const uint64_t offset = (uint64_t)(i % (BUFFER / MESSAGE)) * MESSAGE;
		struct ibv_sge sge = { from + offset, MESSAGE, lkey };
		struct ibv_send_wr *bad, wr = {
			.wr_id = i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { peer->buffer + offset, peer->rkey },
		};

		EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
		EQUAL(wait_for(bench->send_cq).status, IBV_WC_SUCCESS);
	}
}

int main(int count, char **arguments)
{
	struct peer_address own, peer;
	struct bench bench;
	const char *address = NULL;
	bool is_extended = false;
	int option, port = 0, connection;
	struct ibv_mr *mr;
	uint64_t start;
	void *gpu;
	char done = 0;

	while ((option = getopt(count, arguments, "xp:")) != -1) {
		is_extended |= option == 'x';
		if (option == 'p')
			port = atoi(optarg);
	}
	address = arguments[optind];
	load_cuda();
	gpu = open_gpu();
	open_bench(&bench);
	bench.qp[0] = create_qp(&bench);
	NEED(bench.qp[0]);
	NEED(!cuda.allocate(&start, (BUFFER + DEVICE_PAGE - 1) / DEVICE_PAGE * DEVICE_PAGE));
	set_pattern(start, address ? 9 : 0);
	mr = registered(bench.pd, start, is_extended);
	own = (struct peer_address){ bench.gid, bench.qp[0]->qp_num, mr->rkey, start };
	connection = connected_socket(port, address);
	NEED(write(connection, &own, sizeof own) == sizeof own);
	NEED(recv(connection, &peer, sizeof peer, MSG_WAITALL) == sizeof peer);
	connect_qp(&bench, &peer, 14, 7, 7);
	/* Each side waits until the other one is connected. */
	NEED(write(connection, &done, 1) == 1 && recv(connection, &done, 1, MSG_WAITALL) == 1);
	if (address) {
		write_all(&bench, start, mr->lkey, &peer);
		NEED(write(connection, &done, 1) == 1);
	} else {
		NEED(recv(connection, &done, 1, MSG_WAITALL) == 1);
		CHECK(has_pattern(start, 9));
	}
	close(connection);
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(cuda.free(start), 0);
	close_bench(&bench);
	EQUAL(cuda.destroy(gpu), 0);
	return finish();
}
