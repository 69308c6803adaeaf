/*
 * A verbs program, linked against the distribution's libibverbs and run over the drop-in one by
 * client.rs. It checks points that conformance suites omit: errno of refused calls, events and
 * their file descriptors, cancellation, fork, and sysfs.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) check((condition), #condition, __LINE__)
/* Checks a call that fails with NULL or -1 and sets errno. */
#define REFUSED(number, failed) (errno = 0, (failed) && errno == (number))

enum { BUFFER_SIZE = 8192, HALF = BUFFER_SIZE / 2, QUEUE = 4, POLLS = 1000000 };

static int failures;

static struct ibv_context *context;
static struct ibv_comp_channel *channel;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static struct ibv_mr *mr;
static char *buffer;
static union ibv_gid gid;

static void check(int condition, const char *text, int line)
{
	if (!condition) {
		printf("line %d: %s (errno %d)\n", line, text, errno);
		failures++;
	}
}

static void *wait_for_completion_event(void *unused)
{
	struct ibv_cq *from;
	void *cq_context;

	ibv_get_cq_event(channel, &from, &cq_context);
	return unused;
}

static void *wait_for_async_event(void *unused)
{
	struct ibv_async_event event;

	ibv_get_async_event(context, &event);
	return unused;
}

static void cancel(void *(*wait)(void *))
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, wait, NULL);
	usleep(50000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	CHECK(result == PTHREAD_CANCELED);
}

static void open_device(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	CHECK(list && count == 1 && !list[1]);
	CHECK(!strcmp(ibv_get_device_name(list[0]), "ferroce0"));
	CHECK(ibv_get_device_guid(list[0]) != 0);
	context = ibv_open_device(list[0]);
	CHECK(context != NULL);
	ibv_free_device_list(list);
	CHECK(dup(context->cmd_fd) >= 0);
}

static void create_objects(void)
{
	channel = ibv_create_comp_channel(context);
	pd = ibv_alloc_pd(context);
	CHECK(channel && pd);
	cq = ibv_create_cq(context, 2 * QUEUE, &cq, channel, 0);
	CHECK(cq && cq->cqe >= 2 * QUEUE && channel->refcnt == 1);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { QUEUE, QUEUE, 2, 2, 64 },
		.qp_type = IBV_QPT_RC,
	};
	for (int i = 0; i < 2; i++) {
		qp[i] = ibv_create_qp(pd, &attr);
		CHECK(qp[i] && attr.cap.max_inline_data >= 64);
	}
	buffer = aligned_alloc(4096, BUFFER_SIZE);
	memset(buffer, 7, BUFFER_SIZE);
	mr = ibv_reg_mr(pd, buffer, BUFFER_SIZE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	CHECK(mr && mr->addr == buffer && mr->length == BUFFER_SIZE);
}

static void refuse_bad_arguments(void)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp_init_attr_ex extended = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_TSO,
	};
	struct ibv_srq_init_attr srq = { .attr = { 0, 1, 0 } };
	const int vectors = context->num_comp_vectors;

	CHECK(REFUSED(EINVAL, !ibv_create_cq(context, 0, NULL, NULL, 0)));
	CHECK(REFUSED(EINVAL, !ibv_create_cq(context, -1, NULL, NULL, 0)));
	CHECK(REFUSED(EINVAL, !ibv_create_cq(context, INT_MAX, NULL, NULL, 0)));
	CHECK(REFUSED(EINVAL, !ibv_create_cq(context, 10, NULL, NULL, vectors)));
	CHECK(REFUSED(EINVAL, !ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_REMOTE_WRITE)));
	CHECK(REFUSED(EFAULT, !ibv_reg_mr(pd, (void *)4096, 4096, 0)));
	CHECK(REFUSED(EFAULT, !ibv_reg_mr(pd, (void *)refuse_bad_arguments, 1,
					  IBV_ACCESS_LOCAL_WRITE)));
	attr.cap.max_send_sge = 1000;
	CHECK(REFUSED(EINVAL, !ibv_create_qp(pd, &attr)));
	attr.cap.max_send_sge = 0;
	attr.qp_type = 99;
	CHECK(REFUSED(EINVAL, !ibv_create_qp(pd, &attr)));
	CHECK(REFUSED(EOPNOTSUPP, !ibv_create_qp_ex(context, &extended)));
	attr.qp_type = IBV_QPT_RAW_PACKET;
	CHECK(REFUSED(EOPNOTSUPP, !ibv_create_qp(pd, &attr)));
	CHECK(REFUSED(EINVAL, !ibv_create_srq(pd, &srq)));
	CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
	CHECK(ibv_destroy_cq(cq) == EBUSY);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
}

static void query(void)
{
	struct ibv_device_attr_ex device;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry, table[256];
	uint16_t p_key;

	CHECK(!ibv_query_device_ex(context, NULL, &device));
	CHECK(device.orig_attr.vendor_id == 0x1172 && device.phys_port_cnt_ex == 1);
	CHECK(!ibv_query_port(context, 1, &port));
	CHECK(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET);
	CHECK(ibv_query_port(context, 2, &port) == EINVAL);
	for (int i = 0; i < port.gid_tbl_len; i++)
		CHECK(!ibv_query_gid(context, 1, i, &gid));
	CHECK(REFUSED(EINVAL, ibv_query_gid(context, 1, port.gid_tbl_len, &gid) == -1));
	CHECK(!ibv_query_gid(context, 1, 1, &gid));
	CHECK(!ibv_query_gid_ex(context, 1, 1, &entry, 0));
	CHECK(entry.gid_type == IBV_GID_TYPE_ROCE_V2 && entry.gid_index == 1);
	CHECK(!memcmp(&entry.gid, &gid, sizeof gid));
	CHECK(ibv_query_gid_ex(context, 1, port.gid_tbl_len - 1, &entry, 0) == ENODATA);
	CHECK(ibv_query_gid_ex(context, 1, port.gid_tbl_len, &entry, 0) == EINVAL);
	CHECK(ibv_query_gid_table(context, table, 256, 0) >= 2);
	CHECK(ibv_query_gid_table(context, table, 0, 0) == -EINVAL);
	CHECK(!ibv_query_pkey(context, 1, 0, &p_key) && p_key == 0xffff);
	CHECK(REFUSED(EINVAL, ibv_query_pkey(context, 1, 1, &p_key) == -1));
	CHECK(ibv_get_pkey_index(context, 1, 0xffff) == 0);
}

static void connect(struct ibv_qp *own, struct ibv_qp *other)
{
	const int init = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad = NULL;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_init_attr created;

	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	CHECK(ibv_modify_qp(own, &attr, init & ~IBV_QP_PKEY_INDEX) == EINVAL);
	CHECK(ibv_modify_qp(own, &attr, init | IBV_QP_QKEY) == EINVAL);
	CHECK(!ibv_modify_qp(own, &attr, init));
	CHECK(ibv_post_send(own, &wr, &bad) == EINVAL && bad == &wr);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = other->qp_num;
	attr.min_rnr_timer = 12;
	attr.max_dest_rd_atomic = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.dgid = gid;
	attr.ah_attr.grh.sgid_index = 1;
	CHECK(!ibv_modify_qp(own, &attr, rtr));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	CHECK(!ibv_modify_qp(own, &attr, rts) && own->state == IBV_QPS_RTS);
	memset(&attr, 0, sizeof attr);
	CHECK(!ibv_query_qp(own, &attr, IBV_QP_STATE, &created));
	CHECK(attr.qp_state == IBV_QPS_RTS && attr.dest_qp_num == other->qp_num);
	CHECK(attr.path_mtu == IBV_MTU_1024 && attr.timeout == 14 && created.send_cq == cq);
	CHECK(!memcmp(&attr.ah_attr.grh.dgid, &gid, sizeof gid));
}

static void send_with_event(void)
{
	const uint32_t immediate = htobe32(0x1234);
	struct ibv_sge received = { (uintptr_t)buffer + HALF, HALF, mr->lkey };
	struct ibv_recv_wr receive = { .wr_id = 9, .sg_list = &received, .num_sge = 1 };
	struct ibv_sge sent[2] = {
		{ (uintptr_t)buffer, 32, mr->lkey },
		{ (uintptr_t)buffer + 32, 32, mr->lkey },
	};
	struct ibv_send_wr send = {
		.wr_id = 8,
		.sg_list = sent,
		.num_sge = 99,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = immediate,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	};
	struct ibv_send_wr *bad_send = NULL;
	struct ibv_recv_wr *bad_receive = NULL;
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *from = NULL;
	void *cq_context = NULL;
	struct ibv_wc wc[2];
	int found = 0;

	fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
	CHECK(REFUSED(EAGAIN, ibv_get_cq_event(channel, &from, &cq_context) == -1));
	CHECK(!ibv_req_notify_cq(cq, 0));
	CHECK(!ibv_post_recv(qp[1], &receive, &bad_receive));
	CHECK(ibv_post_send(qp[0], &send, &bad_send) == EINVAL && bad_send == &send);
	send.num_sge = 2;
	CHECK(!ibv_post_send(qp[0], &send, &bad_send));
	/* The descriptor is level-triggered. */
	CHECK(poll(&ready, 1, 5000) == 1);
	CHECK(poll(&ready, 1, 0) == 1);
	CHECK(!ibv_get_cq_event(channel, &from, &cq_context));
	CHECK(from == cq && cq_context == &cq);
	CHECK(poll(&ready, 1, 0) == 0);
	ibv_ack_cq_events(cq, 1);
	for (int i = 0; i < POLLS && found < 2; i++)
		found += ibv_poll_cq(cq, 1, &wc[found]);
	CHECK(found == 2);
	for (int i = 0; i < found; i++) {
		CHECK(wc[i].status == IBV_WC_SUCCESS);
		if (wc[i].opcode & IBV_WC_RECV) {
			CHECK(wc[i].wr_id == 9 && wc[i].byte_len == 64);
			CHECK(wc[i].wc_flags == IBV_WC_WITH_IMM && wc[i].imm_data == immediate);
			CHECK(wc[i].qp_num == qp[1]->qp_num);
		} else {
			CHECK(wc[i].wr_id == 8 && wc[i].opcode == IBV_WC_SEND);
		}
	}
	CHECK(!memcmp(buffer, buffer + HALF, 64));
}

static void refuse_bad_work_requests(void)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 32, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad = NULL;
	int posted = 0, result = 0;

	wr.opcode = IBV_WR_TSO;
	CHECK(ibv_post_send(qp[0], &wr, &bad) == EOPNOTSUPP && bad == &wr);
	wr.opcode = 77;
	CHECK(ibv_post_send(qp[0], &wr, &bad) == EINVAL);
	/* There is no receiver, so no entry leaves the queue. */
	wr.opcode = IBV_WR_SEND;
	for (bad = NULL; posted < 1000 && !result; posted += !result)
		result = ibv_post_send(qp[0], &wr, &bad);
	CHECK(result == ENOMEM && bad == &wr && posted >= QUEUE);
}

/* The child cannot use the parent's objects, and may open the device anew. */
static int run_child(void)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 32, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_context *inherited = context;
	struct ibv_pd *own;
	struct ibv_cq *from;
	void *cq_context;
	struct ibv_wc wc;

	failures = 0;
	CHECK(ibv_post_send(qp[0], &wr, &bad) == EIO);
	CHECK(ibv_poll_cq(cq, 1, &wc) < 0);
	CHECK(ibv_destroy_qp(qp[0]) == EIO);
	CHECK(REFUSED(EIO, !ibv_alloc_pd(context)));
	CHECK(REFUSED(EIO, ibv_get_cq_event(channel, &from, &cq_context) == -1));
	open_device();
	own = ibv_alloc_pd(context);
	CHECK(own != NULL);
	CHECK(!ibv_dealloc_pd(own));
	CHECK(!ibv_close_device(context));
	CHECK(ibv_close_device(inherited) == EIO);
	fflush(stdout);
	return failures != 0;
}

static void fork_child(void)
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(run_child());
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void read_sysfs(void)
{
	const char *device = "/sys/class/infiniband/ferroce0";
	char text[256], path[PATH_MAX];
	struct stat status;
	struct dirent *entry;
	int entries = 0;
	DIR *directory;
	FILE *file;

	CHECK(!access("/sys/class/infiniband/ferroce0/ports/1/gid_attrs/types/1", R_OK));
	CHECK(!access("/sys/class/infiniband/ferroce0/device/net/lo", F_OK));
	CHECK(access("/sys/class/infiniband/ferroce0/nothing", F_OK) == -1);
	CHECK(!stat("/dev/infiniband/uverbs0", &status) && S_ISCHR(status.st_mode));
	file = fopen("/sys/class/infiniband/ferroce0/ports/1/gid_attrs/types/1", "r");
	CHECK(file && fgets(text, sizeof text, file) && !strcmp(text, "RoCE v2\n"));
	fclose(file);
	directory = opendir("/sys/class/infiniband");
	CHECK(directory != NULL);
	while (directory && (entry = readdir(directory)))
		entries += !strcmp(entry->d_name, "ferroce0");
	CHECK(entries == 1);
	closedir(directory);
	CHECK(realpath(device, path) && !strncmp(path, "/sys/devices/pci", 16));
	CHECK(!stat(path, &status) && S_ISDIR(status.st_mode));
	CHECK(system("ls -l /sys/class/infiniband/ferroce0/device/net/ > /dev/null") == 0);
	CHECK(!stat("/sys/class", &status) && S_ISDIR(status.st_mode));
}

static void look_up_versions(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);

	CHECK(library && dlvsym(library, "ibv_open_device", "IBVERBS_1.1"));
	CHECK(dlvsym(library, "ibv_reg_mr_iova2", "IBVERBS_1.8") != NULL);
	CHECK(dlvsym(library, "ibv_query_ece", "IBVERBS_1.10") != NULL);
	CHECK(dlsym(library, "ibv_alloc_buf") != NULL);
	int (*export_buffer)(void *) = (int (*)(void *))dlsym(library, "ibv_export_buf_dmabuf_fd");
	CHECK(export_buffer && export_buffer(NULL) == -1 && errno == ENODATA);
}

int main(void)
{
	open_device();
	create_objects();
	cancel(wait_for_completion_event);
	cancel(wait_for_async_event);
	refuse_bad_arguments();
	query();
	connect(qp[0], qp[1]);
	connect(qp[1], qp[0]);
	send_with_event();
	refuse_bad_work_requests();
	fork_child();
	read_sysfs();
	look_up_versions();
	CHECK(!ibv_destroy_qp(qp[0]) && !ibv_destroy_qp(qp[1]));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
	printf("%d failures\n", failures);
	return failures != 0;
}
