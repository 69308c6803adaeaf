/*
 * A preload that plays /dev/dri/renderD128 as an i915 GPU, for pyverbs' tests of dma-bufs on machines
 * without a GPU. A node is a memory file, and so is its one buffer: the same file. Both the node and
 * the dma-buf can therefore be mapped. Programs need `ferroce run --dma-buf memfd`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODE "/dev/dri/renderD128"
#define NAME "renderD128"
#define DRIVER "i915"
enum { PAGE = 4096, HANDLE = 1 };

/* Of Linux's drm.h and i915_drm.h, which Debian has in libdrm-dev. */
struct version {
	int numbers[3];
	size_t name_length;
	char *name;
	struct { size_t length; char *text; } date, description;
};
struct closing { uint32_t handle, padding; };
struct prime { uint32_t handle, flags; int32_t fd; };
struct creation { uint64_t size; uint32_t handle, padding; };
struct mapping { uint32_t handle, padding; uint64_t offset; };
#define VERSION _IOWR('d', 0x00, struct version)
#define CLOSE _IOW('d', 0x09, struct closing)
#define PRIME_HANDLE_TO_FD _IOWR('d', 0x2d, struct prime)
#define CREATE _IOWR('d', 0x5b, struct creation)
#define MMAP_GTT _IOWR('d', 0x64, struct mapping)

static int failed(int error)
{
	errno = error;
	return -1;
}

/* The name of the memory file marks a node, also after dup and fork. */
static bool is_node(int fd)
{
	static const char expected[] = "/memfd:" NAME " (deleted)";
	char path[32], target[sizeof expected];
	ssize_t length;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	length = readlink(path, target, sizeof target);
	return length == sizeof expected - 1 && !memcmp(target, expected, length);
}

static int open_node(int flags)
{
	return memfd_create(NAME, flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
}

/* The kernel returns the name without a NUL, and its full length. */
static int answer_version(struct version *version)
{
	size_t length = strlen(DRIVER);

	if (version->name)
		memcpy(version->name, DRIVER, version->name_length < length ? version->name_length : length);
	version->name_length = length;
	return 0;
}

static int create(int fd, struct creation *creation)
{
	struct stat file;

	if (!creation->size || creation->size > INT64_MAX - PAGE)
		return failed(EINVAL);
	if (fstat(fd, &file))
		return -1;
	if (file.st_size)
		return failed(ENOSPC);
	creation->size = (creation->size + PAGE - 1) / PAGE * PAGE;
	creation->handle = HANDLE;
	return ftruncate(fd, creation->size);
}

static int control(int fd, unsigned long request, void *argument)
{
	struct prime *prime = argument;
	struct mapping *mapping = argument;

	switch (request) {
	case VERSION:
		return answer_version(argument);
	case CREATE:
		return create(fd, argument);
	case MMAP_GTT:
		mapping->offset = 0;
		return mapping->handle == HANDLE ? 0 : failed(ENOENT);
	case PRIME_HANDLE_TO_FD:
		if (prime->handle != HANDLE)
			return failed(ENOENT);
		prime->fd = fcntl(fd, prime->flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
		return prime->fd < 0 ? -1 : 0;
	case CLOSE:
		/* The file goes with its last descriptor and mapping. */
		return 0;
	}
	return failed(EINVAL);
}

#define NEXT(name) \
	static __typeof__(name) *next; \
	if (!next) \
		next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		va_list arguments; \
		mode_t mode; \
		NEXT(name); \
		va_start(arguments, flags); \
		mode = va_arg(arguments, mode_t); \
		va_end(arguments); \
		return strcmp(path, NODE) ? next(path, flags, mode) : open_node(flags); \
	}

OPEN(open)
OPEN(open64)

int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;
	NEXT(ioctl);

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (_IOC_TYPE(request) == 'd' && is_node(fd))
		return control(fd, request, argument);
	return next(fd, request, argument);
}
