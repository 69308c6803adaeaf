/*
 * Unmaps registered memory in one way per run, which the first argument selects. A card pins pages,
 * so accesses must continue to work where the library sees the unmapping; otherwise they complete
 * in error, but never cause a signal.
 */
#include "common.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { PAGE = 4096, PAGES = 32, SIZE = PAGES * PAGE, LENGTH = 3 * PAGE - 100, AT = 2 * PAGE + 60 };

#define RIGHTS (PROT_READ | PROT_WRITE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC)

static struct bench bench;
static char *memory;
static struct ibv_mr *mr;

static void *pages(int flags, int file)
{
	void *start = mmap(NULL, SIZE, RIGHTS, flags, file, 0);

	NEED(start != MAP_FAILED);
	return start;
}

static void register_it(void *start)
{
	memory = start;
	memset(memory, 1, SIZE);
	mr = ibv_reg_mr(bench.pd, memory, SIZE, ACCESS);
	NEED(mr);
}

/* As connect_pair, with atomics. */
static void connect_both(void)
{
	struct ibv_qp_attr attr = { .qp_access_flags = ACCESS };

	connect_pair(&bench);
	EQUAL(ibv_modify_qp(bench.qp[1], &attr, IBV_QP_ACCESS_FLAGS), 0);
}

/* An operation between the memory and the buffer of the bench. */
static enum ibv_wc_status operate(enum ibv_wr_opcode opcode, size_t offset, uint32_t length)
{
	struct ibv_sge sge = sge_of(&bench, 0, length);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)memory + offset, mr->rkey },
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)memory + offset;
		wr.wr.atomic.rkey = mr->rkey;
		wr.wr.atomic.compare_add = 0x101;
	}
	EQUAL(ibv_post_send(bench.qp[0], &wr, &bad), 0);
	return next_wc(bench.send_cq).status;
}

static int is_all(const char *bytes, char value, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i] != value)
			return 0;
	return 1;
}

/* The old key accesses all of the old pages, and reads return data that was written there. */
static void reaches_old_pages(void)
{
	uint64_t before;

	memset(bench.buffer, 0, SIZE);
	EQUAL(operate(IBV_WR_RDMA_READ, 0, SIZE), IBV_WC_SUCCESS);
	CHECK(is_all(bench.buffer, 1, SIZE));
	memset(bench.buffer, 7, SIZE);
	EQUAL(operate(IBV_WR_RDMA_WRITE, AT, LENGTH), IBV_WC_SUCCESS);
	EQUAL(operate(IBV_WR_ATOMIC_FETCH_AND_ADD, 64, 8), IBV_WC_SUCCESS);
	memcpy(&before, bench.buffer, 8);
	CHECK(before == 0x0101010101010101);
	memset(bench.buffer, 0, SIZE);
	EQUAL(operate(IBV_WR_RDMA_READ, 0, SIZE), IBV_WC_SUCCESS);
	memcpy(&before, bench.buffer + 64, 8);
	CHECK(before == 0x0101010101010202);
	CHECK(is_all(bench.buffer + 72, 1, AT - 72));
	CHECK(is_all(bench.buffer + AT, 7, LENGTH));
	CHECK(is_all(bench.buffer + AT + LENGTH, 1, SIZE - AT - LENGTH));
}

static void is_refused(void)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t length;
	} operations[] = {
		{ IBV_WR_RDMA_WRITE, LENGTH },
		{ IBV_WR_RDMA_READ, 1000 },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8 },
	};

	for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
		EQUAL(operate(operations[i].opcode, AT + 4, operations[i].length),
		      IBV_WC_REM_ACCESS_ERR);
		connect_both();
	}
}

static void by_munmap(void)
{
	EQUAL(munmap(memory, SIZE), 0);
	reaches_old_pages();
}

/* Unmap a part, in the middle of a packet's page; then the rest. */
static void by_munmap_in_parts(void)
{
	EQUAL(munmap(memory + 3 * PAGE, PAGE), 0);
	EQUAL(munmap(memory + 9 * PAGE, 4 * PAGE), 0);
	reaches_old_pages();
	memset(memory, 1, 3 * PAGE);
	EQUAL(munmap(memory + 10, PAGE), -1);
	EQUAL(munmap(memory, SIZE), 0);
	EQUAL(operate(IBV_WR_RDMA_READ, 0, SIZE), IBV_WC_SUCCESS);
	CHECK(is_all(bench.buffer, 1, 3 * PAGE));
}

static void by_munmap_and_mmap(void)
{
	char *other;

	EQUAL(munmap(memory, SIZE), 0);
	other = mmap(memory, SIZE, RIGHTS, PRIVATE | MAP_FIXED, -1, 0);
	NEED(other == memory);
	memset(other, 9, SIZE);
	reaches_old_pages();
	CHECK(is_all(other, 9, SIZE));
	EQUAL(munmap(other, SIZE), 0);
	EQUAL(operate(IBV_WR_RDMA_READ, 0, SIZE), IBV_WC_SUCCESS);
	CHECK(is_all(bench.buffer + AT, 7, LENGTH));
}

static void by_mmap_over_it(void)
{
	NEED(mmap(memory, SIZE, RIGHTS, PRIVATE | MAP_FIXED, -1, 0) == memory);
	CHECK(is_all(memory, 0, SIZE));
	reaches_old_pages();
	CHECK(is_all(memory, 0, SIZE));
}

/* The pages move to the new address, as with a card. */
static void by_mremap(void)
{
	char *moved = pages(PRIVATE, -1);

	NEED(mremap(memory, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, moved) == moved);
	reaches_old_pages();
	CHECK(is_all(moved + AT, 7, LENGTH));
	EQUAL(munmap(moved, SIZE), 0);
	EQUAL(operate(IBV_WR_RDMA_READ, 0, SIZE), IBV_WC_SUCCESS);
	CHECK(is_all(bench.buffer + AT, 7, LENGTH));
}

static void by_shrinking(void)
{
	NEED(mremap(memory, SIZE, PAGE, 0) == memory);
	reaches_old_pages();
	memory[100] = 3;
	EQUAL(operate(IBV_WR_RDMA_READ, 0, PAGE), IBV_WC_SUCCESS);
	EQUAL(bench.buffer[100], 3);
}

static void by_madvise(void)
{
	EQUAL(madvise(memory, SIZE, MADV_DONTNEED), 0);
	CHECK(is_all(memory, 0, SIZE));
	reaches_old_pages();
	CHECK(is_all(memory, 0, SIZE));
}

static void by_mprotect(void)
{
	EQUAL(mprotect(memory + PAGE, 3 * PAGE, PROT_READ), 0);
	EQUAL(mprotect(memory + 8 * PAGE, 8 * PAGE, PROT_NONE), 0);
	reaches_old_pages();
	EQUAL(mprotect(memory, SIZE, RIGHTS), 0);
	CHECK(is_all(memory + AT, 7, LENGTH));
}

/* Shared pages cannot be written through /proc/self/mem. Page by page, more often than there is room. */
static void by_mprotect_of(char *shared)
{
	EQUAL(ibv_dereg_mr(mr), 0);
	register_it(shared);
	EQUAL(mprotect(memory + PAGE, 3 * PAGE, PROT_READ), 0);
	EQUAL(mprotect(memory + 8 * PAGE, 8 * PAGE, PROT_NONE), 0);
	for (int i = 0; i < 50; i++)
		for (int page = 0; page < PAGES; page += 2)
			EQUAL(mprotect(memory + page * PAGE, PAGE, i % 2 ? PROT_READ : PROT_NONE), 0);
	reaches_old_pages();
	EQUAL(mprotect(memory, SIZE, RIGHTS), 0);
	CHECK(is_all(memory + AT, 7, LENGTH));
	/* From then on both see each other's writes. */
	memset(memory, 3, SIZE);
	EQUAL(operate(IBV_WR_RDMA_READ, 0, SIZE), IBV_WC_SUCCESS);
	CHECK(is_all(bench.buffer, 3, SIZE));
	memset(bench.buffer, 4, SIZE);
	EQUAL(operate(IBV_WR_RDMA_WRITE, 0, SIZE), IBV_WC_SUCCESS);
	CHECK(is_all(memory, 4, SIZE));
}

static void by_mprotect_of_shared(void)
{
	by_mprotect_of(pages(MAP_SHARED | MAP_ANONYMOUS, -1));
}

static void by_mprotect_of_memfd(void)
{
	int file = memfd_create("registered", 0);

	NEED(file >= 0 && !ftruncate(file, SIZE));
	by_mprotect_of(pages(MAP_SHARED, file));
	close(file);
}

/* One registration of private, shared, private and other shared pages; a second one begins inside. */
static void by_mprotect_of_mixed(void)
{
	char *mixed = pages(PRIVATE, -1);
	struct ibv_mr *inside;

	for (int page = 4; page + 8 <= PAGES; page += 12)
		NEED(mmap(mixed + page * PAGE, 8 * PAGE, RIGHTS,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	inside = ibv_reg_mr(bench.pd, mixed + 6 * PAGE + 8, 4 * PAGE, ACCESS);
	NEED(inside);
	/* Atomics do not reach private pages that are protected: the first page stays as it is. */
	EQUAL(ibv_dereg_mr(mr), 0);
	register_it(mixed);
	EQUAL(mprotect(memory + PAGE, SIZE - PAGE, PROT_READ), 0);
	reaches_old_pages();
	EQUAL(munmap(memory + 2 * PAGE, 8 * PAGE), 0);
	EQUAL(operate(IBV_WR_RDMA_READ, AT, LENGTH), IBV_WC_SUCCESS);
	CHECK(is_all(bench.buffer, 7, LENGTH));
	EQUAL(ibv_dereg_mr(inside), 0);
	EQUAL(operate(IBV_WR_RDMA_READ, AT, LENGTH), IBV_WC_SUCCESS);
	CHECK(is_all(bench.buffer, 7, LENGTH));
}

/* Two registrations overlap; each ends independently. */
static void by_munmap_of_two(void)
{
	struct ibv_mr *other = ibv_reg_mr(bench.pd, memory + 4 * PAGE, SIZE - 4 * PAGE, ACCESS), *all = mr;
	struct ibv_mr *third = ibv_reg_mr(bench.pd, memory, PAGE, ACCESS);

	NEED(other && third);
	EQUAL(munmap(memory, SIZE), 0);
	reaches_old_pages();
	EQUAL(ibv_dereg_mr(all), 0);
	mr = other;
	EQUAL(operate(IBV_WR_RDMA_READ, 5 * PAGE, 20 * PAGE), IBV_WC_SUCCESS);
	CHECK(is_all(bench.buffer + PAGE, 1, 19 * PAGE));
	EQUAL(ibv_dereg_mr(other), 0);
	mr = third;
	EQUAL(operate(IBV_WR_RDMA_READ, 100, 1000), IBV_WC_SUCCESS);
	CHECK(is_all(bench.buffer, 1, 1000));
}

/* Separate pages are released more often than there is room for them. */
static void places_are_given_back(void)
{
	EQUAL(munmap(memory, SIZE), 0);
	for (int i = 0; i < 3000; i++) {
		EQUAL(ibv_dereg_mr(mr), 0);
		register_it(pages(PRIVATE, -1));
		EQUAL(munmap(memory, SIZE), 0);
	}
	reaches_old_pages();
}

/*
 * The library does not see this, as when libc unmaps in free() or realloc(). An operation first: the
 * library maps its memory for first messages then, which the kernel would place at the free address.
 */
static void unmap_unseen(void)
{
	EQUAL(operate(IBV_WR_RDMA_WRITE, 0, SIZE), IBV_WC_SUCCESS);
	NEED(!syscall(SYS_munmap, memory, SIZE));
}

static void by_system_call(void)
{
	unmap_unseen();
	is_refused();
}

static void by_free(void)
{
	EQUAL(ibv_dereg_mr(mr), 0);
	memory = malloc(64 << 20);
	memset(memory, 1, SIZE);
	mr = ibv_reg_mr(bench.pd, memory, SIZE, ACCESS);
	NEED(mr);
	EQUAL(operate(IBV_WR_RDMA_WRITE, 0, SIZE), IBV_WC_SUCCESS);
	free(memory);
	is_refused();
}

static void by_truncation(void)
{
	int file = memfd_create("registered", 0);

	NEED(file >= 0 && !ftruncate(file, SIZE));
	EQUAL(ibv_dereg_mr(mr), 0);
	register_it(pages(MAP_SHARED, file));
	EQUAL(ftruncate(file, PAGE), 0);
	is_refused();
	EQUAL(ftruncate(file, SIZE), 0);
	EQUAL(operate(IBV_WR_RDMA_READ, 0, SIZE), IBV_WC_SUCCESS);
}

/* The local side: memory of sends and receives. */
static void of_a_segment(void)
{
	struct ibv_sge sge = { (uintptr_t)memory, LENGTH, mr->lkey };

	unmap_unseen();
	EQUAL(post_send(&bench, IBV_WR_RDMA_WRITE, 1, sge, 0, bench.mr->rkey), 0);
	EXPECT_WC(bench.send_cq, 1, IBV_WC_LOC_PROT_ERR);
	connect_both();
	EQUAL(post_send(&bench, IBV_WR_RDMA_READ, 2, sge, 0, bench.mr->rkey), 0);
	EXPECT_WC(bench.send_cq, 2, IBV_WC_LOC_PROT_ERR);
	connect_both();
	EQUAL(post_receive(bench.qp[1], 3, sge), 0);
	EQUAL(post_send(&bench, IBV_WR_SEND, 4, sge_of(&bench, 0, LENGTH), 0, 0), 0);
	EXPECT_WC(bench.receive_cq, 3, IBV_WC_LOC_PROT_ERR);
	EXPECT_WC(bench.send_cq, 4, IBV_WC_REM_OP_ERR);
	connect_both();
}

static sig_atomic_t handled;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	handled++;
	if (mprotect((void *)((uintptr_t)info->si_addr & -(uintptr_t)PAGE), PAGE, RIGHTS))
		_exit(9);
}

static void simple_handler(int signal)
{
	EQUAL(signal, SIGSEGV);
	_exit(31);
}

static void touch(char *place)
{
	*(volatile char *)place = 1;
}

/* The program handles its own faults. */
static void handlers_of_the_program(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO }, before;
	char *guarded = pages(PRIVATE, -1);
	int status;

	/* A handler from before the device was opened: see main. */
	EQUAL(mprotect(guarded, SIZE, PROT_NONE), 0);
	touch(guarded);
	EQUAL(handled, 1);
	EQUAL(sigaction(SIGSEGV, NULL, &before), 0);
	CHECK(before.sa_sigaction == on_fault && before.sa_flags & SA_SIGINFO);
	/* A handler from after that. */
	EQUAL(sigaction(SIGSEGV, &action, &before), 0);
	CHECK(before.sa_sigaction == on_fault);
	touch(guarded + PAGE);
	EQUAL(handled, 2);
	unmap_unseen();
	is_refused();
	EQUAL(handled, 2);
	fflush(stdout);
	for (int way = 0; way < 3; way++) {
		pid_t child = fork();

		NEED(child >= 0);
		if (!child) {
			CHECK(signal(SIGSEGV, way == 1 ? simple_handler : SIG_DFL) != SIG_ERR);
			if (way == 2)
				raise(SIGSEGV);
			touch(guarded + 2 * PAGE);
			_exit(7);
		}
		EQUAL(waitpid(child, &status, 0), child);
		if (way == 1)
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 31);
		else
			CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	}
}

/* A child may do anything with its memory. */
static void in_a_child(void)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	NEED(child >= 0);
	if (!child) {
		int is_bad = munmap(memory, SIZE) != 0;

		is_bad |= mmap(memory, PAGE, RIGHTS, PRIVATE | MAP_FIXED, -1, 0) != memory;
		is_bad |= !is_all(memory, 0, PAGE);
		_exit(is_bad);
	}
	EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(is_all(memory, 1, SIZE));
	reaches_old_pages();
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{ "munmap", by_munmap },
	{ "munmap-in-parts", by_munmap_in_parts },
	{ "munmap-and-mmap", by_munmap_and_mmap },
	{ "mmap-over-it", by_mmap_over_it },
	{ "mremap", by_mremap },
	{ "shrinking", by_shrinking },
	{ "madvise", by_madvise },
	{ "mprotect", by_mprotect },
	{ "mprotect-shared", by_mprotect_of_shared },
	{ "mprotect-memfd", by_mprotect_of_memfd },
	{ "mprotect-mixed", by_mprotect_of_mixed },
	{ "munmap-of-two", by_munmap_of_two },
	{ "given-back", places_are_given_back },
	{ "system-call", by_system_call },
	{ "free", by_free },
	{ "truncation", by_truncation },
	{ "segment", of_a_segment },
	{ "handlers", handlers_of_the_program },
	{ "child", in_a_child },
};

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	int found = 0;

	if (argc > 1 && !strcmp(argv[1], "handlers"))
		EQUAL(sigaction(SIGSEGV, &action, NULL), 0);
	open_bench(&bench);
	connect_both();
	register_it(pages(PRIVATE, -1));
	for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
		if (!strcmp(argv[1], ways[i].name)) {
			ways[i].run();
			found++;
		}
	EQUAL(found, 1);
	EQUAL(ibv_dereg_mr(mr), 0);
	close_bench(&bench);
	return finish();
}
