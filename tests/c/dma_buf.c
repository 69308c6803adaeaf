/*
 * Regions of dma-bufs, as clients probe and use them: the answers to wrong arguments, data, device
 * memory that is exported. The first argument says what is a dma-buf here: "memfd", memory files
 * stand for them; "udmabuf", those of the kernel, around memory files; "kernel", nothing. The second
 * says whether device memory can be exported: "export" or not.
 */
#include "common.h"
#include "init_attr.h"
#include "pattern.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum { PAGE = 4096, SIZE = 16 * PAGE, SHIFT = 100, LENGTH = 3 * PAGE, DM_SIZE = 2 * PAGE };

/* An IOVA of the program's choice; its page offset is SHIFT. */
#define IOVA (0x123450000000ull + SHIFT)
#define WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define ALL (WRITES | IBV_ACCESS_REMOTE_ATOMIC)

/* The newer calls, which an older header and library lack. */
typedef struct ibv_mr *register_dma_buf(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
static register_dma_buf *reg_1_12;
static struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct init_attr *);
static int (*export_dm)(struct ibv_dm *);
static bool takes_memory_files, makes_dma_bufs, is_exportable;

static void look_up(void)
{
	/* As NCCL does. */
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);

	NEED(library);
	reg_1_12 = (register_dma_buf *)dlvsym(library, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
	*(void **)&reg_mr_ex = dlvsym(library, "ibv_reg_mr_ex", "IBVERBS_1.15");
	*(void **)&export_dm = dlvsym(library, "ibv_dm_export_dmabuf_fd", "IBVERBS_1.16");
	NEED(reg_1_12 && reg_mr_ex && export_dm);
}

/* The kernel's dma-buf around a memory file, which it keeps. */
static int dma_buf_of(int fd, size_t size)
{
	struct udmabuf_create create = { .memfd = fd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = size };
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), dma_buf;

	NEED(device >= 0 && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	dma_buf = ioctl(device, UDMABUF_CREATE, &create);
	NEED(dma_buf >= 0);
	close(device);
	close(fd);
	return dma_buf;
}

static int memory_file(size_t size)
{
	int fd = memfd_create("buffer of a test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	NEED(fd >= 0 && !ftruncate(fd, size));
	return makes_dma_bufs ? dma_buf_of(fd, size) : fd;
}

static char *mapped(int fd, size_t size)
{
	char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	NEED(bytes != MAP_FAILED);
	return bytes;
}

/* The errno of a registration that has to fail. */
static int refused(struct bench *bench, uint64_t offset, size_t length, uint64_t iova, int fd,
		   int access)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_dmabuf_mr(bench->pd, offset, length, iova, fd, access);
	CHECK(!mr);
	return errno;
}

/* What clients call to find out whether dma-bufs are supported. */
static void probe(struct bench *bench)
{
	/* UCX: exactly EBADF. */
	EQUAL(refused(bench, 0, PAGE, 0, -1, ALL), EBADF);
	EQUAL(refused(bench, 0, PAGE, 0, -1, ALL | IBV_ACCESS_RELAXED_ORDERING), EBADF);
	/* NCCL: neither of two. */
	errno = 0;
	CHECK(!reg_1_12(bench->pd, 0, 0, 0, -1, 0));
	CHECK(errno != EOPNOTSUPP && errno != EPROTONOSUPPORT);
	/* libfabric: not EOPNOTSUPP. */
	CHECK(refused(bench, 0, 0, 0, -1, 0) != EOPNOTSUPP);
	/* pyverbs: a real buffer. */
	if (takes_memory_files) {
		int fd = memory_file(PAGE);
		struct ibv_mr *mr = ibv_reg_dmabuf_mr(bench->pd, 0, PAGE, 0, fd, ALL);

		NEED(mr);
		close(fd);
		EQUAL(ibv_dereg_mr(mr), 0);
	}
}

/* The kernel's checks; an earlier one wins over a descriptor that is not open, a later one not. */
static void refuse(struct bench *bench)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), file = memory_file(SIZE), reader;
	const int memory = takes_memory_files ? 0 : EINVAL;
	char path[64];

	EQUAL(refused(bench, 0, PAGE, 1, -1, 0), EINVAL);
	EQUAL(refused(bench, PAGE + 8, PAGE, 0, -1, 0), EINVAL);
	EQUAL(refused(bench, 0, PAGE, 0, -1, ALL | IBV_ACCESS_MW_BIND), EINVAL);
	EQUAL(refused(bench, 0, PAGE, 0, -1, IBV_ACCESS_ZERO_BASED), EINVAL);
	EQUAL(refused(bench, 0, PAGE, 0, -1, IBV_ACCESS_ON_DEMAND), EINVAL);
	EQUAL(refused(bench, 0, PAGE, 0, -1, IBV_ACCESS_HUGETLB), EINVAL);
	EQUAL(refused(bench, 0, PAGE, 0, -1, 1 << 21), EINVAL);
	EQUAL(refused(bench, 0, PAGE, 0, -1, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	EQUAL(refused(bench, 0, PAGE, 0, -1, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	EQUAL(refused(bench, -(uint64_t)PAGE, 2 * PAGE, 0, -1, 0), EINVAL);
	EQUAL(refused(bench, 0, PAGE, 0, 999, 0), EBADF);
	EQUAL(refused(bench, 0, PAGE, 0, null, 0), EINVAL);
	EQUAL(refused(bench, 0, 0, 0, file, 0), EINVAL);
	EQUAL(refused(bench, 0, SIZE + 1, 0, file, 0), EINVAL);
	EQUAL(refused(bench, SIZE, PAGE, 0, file, 0), EINVAL);
	EQUAL(refused(bench, 1ull << 62, PAGE, 0, file, 0), EINVAL);
	if (memory)
		EQUAL(refused(bench, 0, PAGE, 0, file, WRITES), memory);
	if (!memory && !makes_dma_bufs) {
		/* Like a dma-buf that cannot be mapped. The kernel opens no dma-buf again. */
		snprintf(path, sizeof path, "/proc/self/fd/%d", file);
		reader = open(path, O_RDONLY | O_CLOEXEC);
		NEED(reader >= 0);
		EQUAL(refused(bench, 0, PAGE, 0, reader, WRITES), EOPNOTSUPP);
		close(reader);
	}
	close(null);
	close(file);
}

static void refuse_extended(struct bench *bench)
{
	int file = memory_file(SIZE);
	struct init_attr attr = { .length = PAGE, .access = WRITES, .fd = file, .addr = bench->buffer };
	const struct { uint64_t mask; int number; } cases[] = {
		{ MASK_FD, EINVAL },
		{ MASK_FD_OFFSET | MASK_ADDR, EINVAL },
		{ MASK_FD | MASK_FD_OFFSET | MASK_ADDR, EINVAL },
		{ MASK_FD | MASK_FD_OFFSET | MASK_DMAH, EOPNOTSUPP },
		{ MASK_FD | MASK_FD_OFFSET | 1 << 30, EINVAL },
		{ 0, EINVAL },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		attr.comp_mask = cases[i].mask;
		errno = 0;
		CHECK(!reg_mr_ex(bench->pd, &attr));
		EQUAL(errno, cases[i].number);
	}
	close(file);
}

/* Executes one request from the bench's buffer, or to it. */
static enum ibv_wc_status outcome(struct bench *bench, enum ibv_wr_opcode opcode, uint32_t length,
				  uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = sge_of(bench, 0, length);
	struct ibv_send_wr *bad, wr = {
		.wr_id = remote,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { remote, rkey },
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.compare_add = 3;
		wr.wr.atomic.rkey = rkey;
	}
	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
	return wait_for(bench->send_cq).status;
}

static void transfer(struct bench *bench, enum ibv_wr_opcode opcode, uint32_t length,
		     uint64_t remote, uint32_t rkey, enum ibv_wc_status status)
{
	EQUAL(outcome(bench, opcode, length, remote, rkey), status);
}

static void allow_atomics(struct bench *bench)
{
	struct ibv_qp_attr attr = { .qp_access_flags = ALL };

	connect_pair(bench);
	EQUAL(ibv_modify_qp(bench->qp[1], &attr, IBV_QP_ACCESS_FLAGS), 0);
}

static bool is_mapped(const char *name)
{
	char line[512];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "r");

	NEED(maps);
	while (fgets(line, sizeof line, maps))
		found |= strstr(line, name) != NULL;
	fclose(maps);
	return found;
}

/* Registers a part of a file, closes the file, and transfers data both ways. */
static void use(struct bench *bench, bool is_extended)
{
	const uint64_t offset = PAGE + SHIFT;
	/* Its name in the list of mappings. */
	const char *name = makes_dma_bufs ? "/dmabuf:" : "buffer of a test";
	int fd = memory_file(SIZE);
	char *bytes = mapped(fd, SIZE), *part = bytes + offset;
	uint64_t *word = (uint64_t *)(part + LENGTH - PAGE - SHIFT);
	struct init_attr attr = {
		.length = LENGTH, .access = ALL, .fd = fd, .fd_offset = offset, .iova = IOVA,
		.comp_mask = MASK_FD | MASK_FD_OFFSET | MASK_IOVA,
	};
	struct ibv_mr *mr = is_extended ? reg_mr_ex(bench->pd, &attr) :
		ibv_reg_dmabuf_mr(bench->pd, offset, LENGTH, IOVA, fd, ALL);

	NEED(mr);
	close(fd);
	EQUAL(mr->length, LENGTH);
	CHECK(mr->context == bench->context && mr->pd == bench->pd);
	allow_atomics(bench);
	fill(bench->buffer, LENGTH, 1);
	transfer(bench, IBV_WR_RDMA_WRITE, LENGTH, IOVA, mr->rkey, IBV_WC_SUCCESS);
	CHECK(is_filled(part, LENGTH, 1));
	CHECK(!part[-1] && !part[LENGTH]);
	fill(part, LENGTH, 2);
	transfer(bench, IBV_WR_RDMA_READ, LENGTH, IOVA, mr->rkey, IBV_WC_SUCCESS);
	CHECK(is_filled(bench->buffer, LENGTH, 2));
	*word = 40;
	transfer(bench, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IOVA + LENGTH - PAGE - SHIFT, mr->rkey,
		 IBV_WC_SUCCESS);
	EQUAL(*word, 43);
	/* Its memory has no address that a program could exchange. */
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, bench->buffer, PAGE, 0),
	      IBV_REREG_MR_ERR_INPUT);
	transfer(bench, IBV_WR_RDMA_WRITE, 8, IOVA + LENGTH - 4, mr->rkey, IBV_WC_REM_ACCESS_ERR);
	munmap(bytes, SIZE);
	CHECK(is_mapped(name));
	EQUAL(ibv_dereg_mr(mr), 0);
	CHECK(!is_mapped(name));
}

/* A program waits for the last byte in a second mapping, which the library does not know. */
static void wait_for_byte(struct bench *bench)
{
	int fd = memory_file(SIZE);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(bench->pd, 0, SIZE, 0, fd, ALL);
	char *bytes = mapped(fd, SIZE);
	volatile char *last = bytes + SIZE - 1;
	struct ibv_sge sge = sge_of(bench, 0, SIZE);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	NEED(mr);
	close(fd);
	connect_pair(bench);
	memset(bench->buffer, 1, SIZE);
	wr.wr.rdma.rkey = mr->rkey;
	EQUAL(ibv_post_send(bench->qp[0], &wr, &bad), 0);
	while (!*last)
		;
	EQUAL(wait_for(bench->send_cq).status, IBV_WC_SUCCESS);
	EQUAL(ibv_dereg_mr(mr), 0);
	munmap(bytes, SIZE);
}

/* A region without rights to write may be of a file that cannot be written. */
static void read_only(struct bench *bench)
{
	int fd = memory_file(PAGE), reader;
	char path[64], *bytes = mapped(fd, PAGE);
	enum ibv_wc_status status;
	struct ibv_mr *mr;

	fill(bytes, PAGE, 5);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	mr = ibv_reg_dmabuf_mr(bench->pd, 0, PAGE, 0, reader, IBV_ACCESS_REMOTE_READ);
	NEED(mr);
	close(fd);
	close(reader);
	connect_pair(bench);
	transfer(bench, IBV_WR_RDMA_READ, PAGE, 0, mr->rkey, IBV_WC_SUCCESS);
	CHECK(is_filled(bench->buffer, PAGE, 5));
	/* A ConnectX has another status than Ferroce's own card. */
	status = outcome(bench, IBV_WR_RDMA_WRITE, 8, 0, mr->rkey);
	CHECK(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR);
	EQUAL(ibv_dereg_mr(mr), 0);
	munmap(bytes, PAGE);
}

static struct ibv_dm *device_memory(struct bench *bench, size_t length)
{
	struct ibv_alloc_dm_attr attr = { .length = length };
	struct ibv_dm *dm = ibv_alloc_dm(bench->context, &attr);

	NEED(dm);
	return dm;
}

static void refuse_export(struct bench *bench)
{
	struct ibv_dm *dm = device_memory(bench, DM_SIZE);

	errno = 0;
	EQUAL(export_dm(dm), -1);
	EQUAL(errno, EOPNOTSUPP);
	EQUAL(ibv_free_dm(dm), 0);
}

/* Memory of less than a page is exported if it is alone in a page. The rest of the page is zero. */
static void export_small(struct bench *bench)
{
	struct ibv_dm *before = device_memory(bench, PAGE), *small = device_memory(bench, 100),
		      *neighbour = device_memory(bench, 64);
	char data[100], *bytes;
	int fd;

	fill(data, sizeof data, 1);
	EQUAL(ibv_memcpy_to_dm(small, 0, data, sizeof data), 0);
	EQUAL(ibv_memcpy_to_dm(neighbour, 0, data, 64), 0);
	for (int i = 0; i < 2; i++) {
		errno = 0;
		EQUAL(export_dm(i ? small : neighbour), -1);
		EQUAL(errno, EINVAL);
	}
	EQUAL(ibv_free_dm(neighbour), 0);
	fd = export_dm(small);
	NEED(fd >= 0);
	EQUAL(lseek(fd, 0, SEEK_END), PAGE);
	bytes = mapped(fd, PAGE);
	close(fd);
	CHECK(is_filled(bytes, sizeof data, 1));
	for (int i = sizeof data; i < PAGE; i++)
		NEED(!bytes[i]);
	/* The page is no longer free. */
	neighbour = device_memory(bench, 64);
	fill(data, 64, 2);
	EQUAL(ibv_memcpy_to_dm(neighbour, 0, data, 64), 0);
	for (int i = sizeof data; i < PAGE; i++)
		NEED(!bytes[i]);
	munmap(bytes, PAGE);
	EQUAL(ibv_free_dm(neighbour), 0);
	EQUAL(ibv_free_dm(small), 0);
	EQUAL(ibv_free_dm(before), 0);
}

/* Device memory, its file, and a region of the file show the same bytes. `other` may be a bench on
 * another function. */
static void export(struct bench *bench, struct bench *other)
{
	struct ibv_dm *dm = device_memory(bench, DM_SIZE - 8), *next;
	char *bytes, found[DM_SIZE - 8], data[64];
	struct ibv_mr *mr, *dm_mr;
	int fd, again;

	fill(data, sizeof data, 1);
	EQUAL(ibv_memcpy_to_dm(dm, 4, data, sizeof data), 0);
	fd = export_dm(dm);
	NEED(fd >= 0);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	EQUAL(lseek(fd, 0, SEEK_END), DM_SIZE);
	bytes = mapped(fd, DM_SIZE);
	CHECK(is_filled(bytes + 4, sizeof data, 1));
	again = export_dm(dm);
	NEED(again >= 0);
	mr = ibv_reg_dmabuf_mr(other->pd, 0, DM_SIZE, 0, again, ALL);
	NEED(mr);
	close(fd);
	close(again);
	dm_mr = ibv_reg_dm_mr(bench->pd, dm, 0, PAGE, ALL | IBV_ACCESS_ZERO_BASED);
	NEED(dm_mr);
	allow_atomics(bench);
	allow_atomics(other);
	/* To the file, from the device memory; and the other way round. */
	fill(other->buffer, PAGE, 2);
	transfer(other, IBV_WR_RDMA_WRITE, PAGE, 0, mr->rkey, IBV_WC_SUCCESS);
	CHECK(is_filled(bytes, PAGE, 2));
	EQUAL(ibv_memcpy_from_dm(found, dm, 0, PAGE), 0);
	CHECK(is_filled(found, PAGE, 2));
	transfer(bench, IBV_WR_RDMA_READ, PAGE, 0, dm_mr->rkey, IBV_WC_SUCCESS);
	CHECK(is_filled(bench->buffer, PAGE, 2));
	fill(bench->buffer, PAGE, 3);
	transfer(bench, IBV_WR_RDMA_WRITE, PAGE, 0, dm_mr->rkey, IBV_WC_SUCCESS);
	CHECK(is_filled(bytes, PAGE, 3));
	*(uint64_t *)bytes = 10;
	transfer(bench, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, dm_mr->rkey, IBV_WC_SUCCESS);
	transfer(other, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, mr->rkey, IBV_WC_SUCCESS);
	EQUAL(*(uint64_t *)bytes, 16);
	EQUAL(ibv_dereg_mr(dm_mr), 0);
	/* The next owner of the memory does not meet those who still have the file. */
	EQUAL(ibv_free_dm(dm), 0);
	next = device_memory(bench, DM_SIZE);
	transfer(other, IBV_WR_RDMA_WRITE, PAGE, 0, mr->rkey, IBV_WC_SUCCESS);
	EQUAL(ibv_memcpy_from_dm(found, next, 0, PAGE), 0);
	for (int i = 0; i < PAGE; i++)
		NEED(!found[i]);
	EQUAL(ibv_free_dm(next), 0);
	EQUAL(ibv_dereg_mr(mr), 0);
	munmap(bytes, DM_SIZE);
}

int main(int count, char **arguments)
{
	struct bench bench, other;
	int open_files;

	makes_dma_bufs = count > 1 && !strcmp(arguments[1], "udmabuf");
	takes_memory_files = makes_dma_bufs || (count > 1 && !strcmp(arguments[1], "memfd"));
	is_exportable = count > 2 && !strcmp(arguments[2], "export");
	look_up();
	open_bench(&bench);
	open_bench(&other);
	open_files = descriptors();
	probe(&bench);
	refuse(&bench);
	refuse_extended(&bench);
	if (takes_memory_files) {
		use(&bench, false);
		use(&bench, true);
		if (!makes_dma_bufs)
			read_only(&bench);
		wait_for_byte(&bench);
	}
	if (is_exportable) {
		export_small(&bench);
		export(&bench, &bench);
		export(&bench, &other);
	} else {
		refuse_export(&bench);
	}
	EQUAL(descriptors(), open_files);
	close_bench(&other);
	close_bench(&bench);
	return finish();
}
