/*
 * A CUDA driver (libcuda.so) for machines without a GPU: "device memory" is a memory file that the
 * program has mapped, and its handle for DMA is a descriptor of that file. It has the calls of
 * perftest with --use_cuda and --use_cuda_dmabuf. Programs need `ferroce run --dma-buf memfd`.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t address;
/* CUresult */
enum result {
	SUCCESS,
	INVALID_VALUE,
	OUT_OF_MEMORY,
	INVALID_DEVICE = 101,
	NOT_FOUND = 500,
};
/* CUdevice_attribute, CUmemRangeHandleType */
enum { UNIFIED_ADDRESSING = 41, DMA_BUF_SUPPORTED = 124, DMA_BUF_FD = 1 };
enum { AREAS = 64, DEVICE_PAGE = 64 << 10, VERSION = 12090 };

static struct area {
	address start;
	size_t length;
	int fd;
} areas[AREAS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The area that holds a range, or a free one for a range of no bytes. */
static struct area *area_of(address start, size_t length)
{
	for (struct area *area = areas; area < areas + AREAS; area++) {
		if (!length && !area->length)
			return area;
		if (length && start >= area->start && length <= area->length &&
		    start - area->start <= area->length - length)
			return area;
	}
	return NULL;
}

static enum result allocate(struct area *area, size_t length)
{
	void *start;
	int fd;

	if (!area || length > SIZE_MAX - DEVICE_PAGE)
		return OUT_OF_MEMORY;
	length = (length + DEVICE_PAGE - 1) / DEVICE_PAGE * DEVICE_PAGE;
	fd = memfd_create("device memory", MFD_CLOEXEC);
	if (fd < 0)
		return OUT_OF_MEMORY;
	start = MAP_FAILED;
	if (!ftruncate(fd, length))
		start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (start == MAP_FAILED) {
		close(fd);
		return OUT_OF_MEMORY;
	}
	*area = (struct area){ (address)(uintptr_t)start, length, fd };
	return SUCCESS;
}

enum result cuInit(unsigned flags)
{
	return flags ? INVALID_VALUE : SUCCESS;
}

enum result cuDriverGetVersion(int *version)
{
	*version = VERSION;
	return SUCCESS;
}

enum result cuDeviceGetCount(int *count)
{
	*count = 1;
	return SUCCESS;
}

enum result cuDeviceGet(int *device, int number)
{
	*device = number;
	return number ? INVALID_DEVICE : SUCCESS;
}

enum result cuDeviceGetByPCIBusId(int *device, const char *name)
{
	(void)name;
	*device = 0;
	return SUCCESS;
}

enum result cuDeviceGetName(char *name, int length, int device)
{
	snprintf(name, length, "memory files");
	return device ? INVALID_DEVICE : SUCCESS;
}

enum result cuDeviceGetAttribute(int *value, int attribute, int device)
{
	*value = attribute == DMA_BUF_SUPPORTED || attribute == UNIFIED_ADDRESSING;
	return device ? INVALID_DEVICE : SUCCESS;
}

enum result cuCtxCreate(void **context, unsigned flags, int device)
{
	(void)flags;
	*context = areas;
	return device ? INVALID_DEVICE : SUCCESS;
}

enum result cuDevicePrimaryCtxRetain(void **context, int device)
{
	return cuCtxCreate(context, 0, device);
}

enum result cuCtxSetCurrent(void *context)
{
	return context == areas ? SUCCESS : INVALID_VALUE;
}

enum result cuCtxSynchronize(void)
{
	return SUCCESS;
}

enum result cuCtxDestroy(void *context)
{
	return cuCtxSetCurrent(context);
}

enum result cuMemAlloc(address *start, size_t length)
{
	struct area *area;
	enum result result;

	if (!length)
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	area = area_of(0, 0);
	result = allocate(area, length);
	if (result == SUCCESS)
		*start = area->start;
	pthread_mutex_unlock(&lock);
	return result;
}

enum result cuMemAllocManaged(address *start, size_t length, unsigned flags)
{
	(void)flags;
	return cuMemAlloc(start, length);
}

enum result cuMemFree(address start)
{
	struct area *area;

	pthread_mutex_lock(&lock);
	area = area_of(start, 1);
	if (area && area->start != start)
		area = NULL;
	if (area) {
		munmap((void *)(uintptr_t)area->start, area->length);
		close(area->fd);
		area->length = 0;
	}
	pthread_mutex_unlock(&lock);
	return area ? SUCCESS : INVALID_VALUE;
}

enum result cuMemAllocHost(void **start, size_t length)
{
	*start = malloc(length);
	return *start ? SUCCESS : OUT_OF_MEMORY;
}

enum result cuMemFreeHost(void *start)
{
	free(start);
	return SUCCESS;
}

enum result cuMemcpy(address to, address from, size_t length)
{
	memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, length);
	return SUCCESS;
}

enum result cuMemcpyDtoD(address to, address from, size_t length)
{
	return cuMemcpy(to, from, length);
}

/* Only whole allocations from their start have the file's first page at their first byte: perftest
 * passes such a range. */
enum result cuMemGetHandleForAddressRange(void *handle, address start, size_t length, int type,
					  unsigned long long flags)
{
	enum result result = INVALID_VALUE;
	struct area *area;

	(void)flags;
	pthread_mutex_lock(&lock);
	area = length ? area_of(start, length) : NULL;
	if (area && type == DMA_BUF_FD && area->start == start) {
		int fd = dup(area->fd);

		memcpy(handle, &fd, sizeof fd);
		result = fd < 0 ? OUT_OF_MEMORY : SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

#define ENTRY(name) { #name, (void *)name }

enum result cuGetProcAddress(const char *name, void **function, int version, uint64_t flags,
			     void *status)
{
	static const struct { const char *name; void *function; } entries[] = {
		ENTRY(cuInit), ENTRY(cuDriverGetVersion), ENTRY(cuDeviceGetCount), ENTRY(cuDeviceGet),
		ENTRY(cuDeviceGetByPCIBusId), ENTRY(cuDeviceGetName), ENTRY(cuDeviceGetAttribute),
		ENTRY(cuCtxCreate), ENTRY(cuDevicePrimaryCtxRetain), ENTRY(cuCtxSetCurrent),
		ENTRY(cuCtxSynchronize), ENTRY(cuCtxDestroy), ENTRY(cuMemAlloc),
		ENTRY(cuMemAllocManaged), ENTRY(cuMemFree), ENTRY(cuMemAllocHost),
		ENTRY(cuMemFreeHost), ENTRY(cuMemcpy), ENTRY(cuMemcpyDtoD),
		ENTRY(cuMemGetHandleForAddressRange),
	};

	(void)version, (void)flags, (void)status;
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
		if (!strcmp(name, entries[i].name)) {
			*function = entries[i].function;
			return SUCCESS;
		}
	return NOT_FOUND;
}
