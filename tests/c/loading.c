/*
 * However a program loads libibverbs, it gets the same library. Arguments: a copy of the
 * distribution's library with the name that a Python wheel would give it; this program as a plugin.
 */
#include "common.h"

#include <dlfcn.h>

#define DEBIAN "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"

typedef struct ibv_device **(*get_list_t)(int *);
typedef const char *(*get_name_t)(struct ibv_device *);
typedef struct ibv_context *(*open_t)(struct ibv_device *);

/* This function is also exported when the file is a plugin. */
int first_device_is_ours(get_list_t get_list, get_name_t get_name, open_t open_device)
{
	int count = 0;
	struct ibv_device **list = get_list ? get_list(&count) : NULL;

	return list && count == 1 && !strcmp(get_name(list[0]), "ferroce0") && open_device(list[0]);
}

int plugin_finds_device(void)
{
	return first_device_is_ours(ibv_get_device_list, ibv_get_device_name, ibv_open_device);
}

static void try(const char *way, void *library)
{
	if (!library) {
		printf("%s: %s\n", way, dlerror());
		failures++;
		return;
	}
	get_list_t get_list = (get_list_t)dlsym(library, "ibv_get_device_list");
	open_t open_device = (open_t)dlvsym(library, "ibv_open_device", "IBVERBS_1.1");

	if (first_device_is_ours(get_list, (get_name_t)dlsym(library, "ibv_get_device_name"),
				 open_device)) {
		printf("works: %s\n", way);
	} else {
		printf("%s: no device\n", way);
		failures++;
	}
}

static void try_plugin(const char *way, void *plugin)
{
	int (*finds)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugin_finds_device") : NULL;

	if (finds && finds()) {
		printf("works: %s\n", way);
	} else {
		printf("%s: %s\n", way, finds ? "no device" : dlerror());
		failures++;
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int flags;
	} ways[] = {
		{ "libibverbs.so", RTLD_NOW },
		{ "libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL },
		{ "libibverbs.so", RTLD_NOW | RTLD_DEEPBIND },
		{ "libibverbs.so.1", RTLD_NOW | RTLD_DEEPBIND },
		{ DEBIAN, RTLD_NOW | RTLD_GLOBAL },
		{ DEBIAN, RTLD_NOW | RTLD_DEEPBIND },
	};
	char way[512];

	NEED(argc == 3);
	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		snprintf(way, sizeof way, "dlopen(%s, %x)", ways[i].name, ways[i].flags);
		try(way, dlopen(ways[i].name, ways[i].flags));
	}
	try("a wheel's copy", dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND));
	try_plugin("a plugin", dlopen(argv[2], RTLD_NOW | RTLD_DEEPBIND));
	try("dlmopen", dlmopen(LM_ID_NEWLM, "libibverbs.so.1", RTLD_NOW));
	try("dlmopen of the link", dlmopen(LM_ID_NEWLM, "libibverbs.so", RTLD_NOW));
	try_plugin("a plugin by dlmopen", dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW));
	printf("%d failures\n", failures);
	return failures != 0;
}
