/*
 * Each call of libc that takes a path finds the device's files. The program looks the calls up by
 * name, in their newest version, and prints the names, which a test compares with the book's table.
 */
#include "common.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#define DEVICE "/sys/class/infiniband/ferroce0"
#define PORT DEVICE "/ports/1"
#define STATE PORT "/state"
#define COUNTER PORT "/counters/port_xmit_data"
#define CARD "/sys/devices/pcif10a:00/f10a:00:00.0"

enum { SYSFS_MAGIC = 0x62656572 };

typedef union {
	void *address;
	int (*open)(const char *, int, ...);
	int (*open_2)(const char *, int);
	int (*openat)(int, const char *, int, ...);
	int (*openat_2)(int, const char *, int);
	FILE *(*fopen)(const char *, const char *);
	FILE *(*freopen)(const char *, const char *, FILE *);
	int (*access)(const char *, int);
	int (*faccessat)(int, const char *, int, int);
	int (*stat)(const char *, struct stat *);
	int (*xstat)(int, const char *, struct stat *);
	int (*fstatat)(int, const char *, struct stat *, int);
	int (*fxstatat)(int, int, const char *, struct stat *, int);
	int (*statx)(int, const char *, int, unsigned int, struct statx *);
	int (*statfs)(const char *, struct statfs *);
	int (*statvfs)(const char *, struct statvfs *);
	long (*pathconf)(const char *, int);
	ssize_t (*getxattr)(const char *, const char *, void *, size_t);
	ssize_t (*listxattr)(const char *, char *, size_t);
	ssize_t (*readlink)(const char *, char *, size_t);
	ssize_t (*readlink_chk)(const char *, char *, size_t, size_t);
	ssize_t (*readlinkat)(int, const char *, char *, size_t);
	ssize_t (*readlinkat_chk)(int, const char *, char *, size_t, size_t);
	char *(*realpath)(const char *, char *);
	char *(*realpath_chk)(const char *, char *, size_t);
	char *(*canonicalize)(const char *);
	DIR *(*opendir)(const char *);
	int (*scandir)(const char *, struct dirent ***, int (*)(const struct dirent *),
		       int (*)(const struct dirent **, const struct dirent **));
	int (*scandirat)(int, const char *, struct dirent ***, int (*)(const struct dirent *),
			 int (*)(const struct dirent **, const struct dirent **));
	int (*glob)(const char *, int, int (*)(const char *, int), glob_t *);
	int (*ftw)(const char *, int (*)(const char *, const struct stat *, int), int);
	int (*nftw)(const char *, int (*)(const char *, const struct stat *, int, struct FTW *),
		    int, int);
	FTS *(*fts_open)(char *const *, int, int (*)(const FTSENT **, const FTSENT **));
	FTSENT *(*fts_read)(FTS *);
	FTSENT *(*fts_children)(FTS *, int);
	int (*chdir)(const char *);
	char *(*getcwd)(char *, size_t);
	char *(*getcwd_chk)(char *, size_t, size_t);
	char *(*getwd)(char *);
	char *(*getwd_chk)(char *, size_t);
	char *(*get_current_dir_name)(void);
	int (*inotify_add_watch)(int, const char *, uint32_t);
} call_t;

static bool reads(int fd, const char *expected)
{
	char text[64];
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	close(fd);
	text[length < 0 ? 0 : length] = 0;
	return length > 0 && (!expected || !strcmp(text, expected));
}

static bool streams(FILE *stream, const char *expected)
{
	char text[64] = "";
	bool read = stream && fgets(text, sizeof text, stream);

	if (stream)
		fclose(stream);
	return read && (!expected || !strcmp(text, expected));
}

static bool opens(call_t call)
{
	/* Read-only files of sysfs cannot be written, and no file can be created there. */
	return reads(call.open(STATE, O_RDONLY), "4: ACTIVE\n") &&
	       reads(call.open("//sys/./class//infiniband/ferroce0/ports/1/state", O_RDONLY), NULL) &&
	       reads(call.open(COUNTER, O_RDONLY), NULL) && call.open(STATE, O_RDWR) == -1 &&
	       errno == EACCES && call.open(DEVICE "/new", O_CREAT | O_WRONLY, 0600) == -1 &&
	       errno == EACCES;
}

static bool opens_2(call_t call)
{
	return reads(call.open_2(STATE, O_RDONLY), "4: ACTIVE\n");
}

static bool opens_at(call_t call)
{
	return reads(call.openat(AT_FDCWD, STATE, O_RDONLY), "4: ACTIVE\n");
}

static bool opens_at_2(call_t call)
{
	return reads(call.openat_2(AT_FDCWD, STATE, O_RDONLY), "4: ACTIVE\n");
}

static bool opens_stream(call_t call)
{
	return streams(call.fopen(STATE, "r"), "4: ACTIVE\n") &&
	       streams(call.fopen(COUNTER, "r"), NULL);
}

static bool reopens_stream(call_t call)
{
	return streams(call.freopen(STATE, "r", fopen("/dev/null", "r")), "4: ACTIVE\n") &&
	       streams(call.freopen(COUNTER, "r", fopen("/dev/null", "r")), NULL);
}

static bool accesses(call_t call)
{
	return !call.access(STATE, R_OK) && call.access(DEVICE "/nothing", F_OK) == -1;
}

static bool accesses_at(call_t call)
{
	return !call.faccessat(AT_FDCWD, STATE, R_OK, 0) &&
	       !call.faccessat(AT_FDCWD, STATE, R_OK, AT_EACCESS);
}

static bool has_status(call_t call)
{
	struct stat status;

	return !call.stat(STATE, &status) && S_ISREG(status.st_mode) &&
	       !call.stat("/dev/infiniband", &status) && S_ISDIR(status.st_mode);
}

static bool has_old_status(call_t call)
{
	struct stat status;

	return !call.xstat(1, STATE, &status) && S_ISREG(status.st_mode);
}

static bool has_status_at(call_t call)
{
	struct stat status;

	return !call.fstatat(AT_FDCWD, DEVICE, &status, AT_SYMLINK_NOFOLLOW) &&
	       S_ISLNK(status.st_mode);
}

static bool has_old_status_at(call_t call)
{
	struct stat status;

	return !call.fxstatat(1, AT_FDCWD, DEVICE, &status, 0) && S_ISDIR(status.st_mode);
}

static bool has_statx(call_t call)
{
	struct statx status;

	return !call.statx(AT_FDCWD, STATE, 0, STATX_TYPE, &status) && S_ISREG(status.stx_mode);
}

static bool has_file_system(call_t call)
{
	struct statfs status;

	return !call.statfs(DEVICE, &status) && status.f_type == SYSFS_MAGIC;
}

static bool has_volume(call_t call)
{
	struct statvfs status;

	return !call.statvfs(DEVICE, &status);
}

static bool has_limits(call_t call)
{
	return call.pathconf(DEVICE, _PC_NAME_MAX) > 0;
}

static bool has_attribute(call_t call)
{
	char value[8];

	return call.getxattr(STATE, "user.nothing", value, sizeof value) == -1 && errno != ENOENT;
}

static bool lists_attributes(call_t call)
{
	return call.listxattr(STATE, NULL, 0) >= 0 || errno == EOPNOTSUPP;
}

static bool is_device_link(const char *text, ssize_t length)
{
	static const char expected[] = "/f10a:00:00.0/infiniband/ferroce0";
	ssize_t start = length - (ssize_t)strlen(expected);

	return start > 0 && !strncmp(text + start, expected, strlen(expected));
}

static bool reads_link(call_t call)
{
	char text[PATH_MAX];

	return is_device_link(text, call.readlink(DEVICE, text, sizeof text));
}

static bool reads_link_chk(call_t call)
{
	char text[PATH_MAX];

	return is_device_link(text, call.readlink_chk(DEVICE, text, sizeof text, sizeof text));
}

static bool reads_link_at(call_t call)
{
	char text[PATH_MAX];

	return is_device_link(text, call.readlinkat(AT_FDCWD, DEVICE, text, sizeof text));
}

static bool reads_link_at_chk(call_t call)
{
	char text[PATH_MAX];

	return is_device_link(text, call.readlinkat_chk(AT_FDCWD, DEVICE, text, sizeof text,
							sizeof text));
}

static bool is_card(char *text)
{
	return text && !strcmp(text, CARD);
}

static bool resolves(call_t call)
{
	char text[PATH_MAX];

	return is_card(call.realpath(DEVICE "/device", text)) &&
	       is_card(call.realpath("/sys/bus/pci/devices/f10a:00:00.0", text));
}

static bool resolves_chk(call_t call)
{
	char text[PATH_MAX];

	return is_card(call.realpath_chk(DEVICE "/device", text, sizeof text));
}

static bool resolves_new(call_t call)
{
	char *text = call.canonicalize(DEVICE "/device");
	bool is = is_card(text);

	free(text);
	return is;
}

static bool lists(call_t call)
{
	static const char *const places[][2] = {
		{ "/sys/class/infiniband", "ferroce0" },
		{ "/sys/class/infiniband_verbs/", "uverbs0" },
		{ "/sys/bus/pci/devices", "f10a:00:00.0" },
		{ "/dev/infiniband", "uverbs0" },
	};

	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		DIR *directory = call.opendir(places[i][0]);
		struct dirent *entry;
		int found = 0;

		while (directory && (entry = readdir(directory)))
			found += !strcmp(entry->d_name, places[i][1]);
		if (directory)
			closedir(directory);
		if (found != 1)
			return false;
	}
	return true;
}

static int is_ferroce(const struct dirent *entry)
{
	return !strncmp(entry->d_name, "ferroce", 7);
}

static bool is_ferroce0(struct dirent **entries, int count)
{
	bool is = count == 1 && !strcmp(entries[0]->d_name, "ferroce0");

	for (int i = 0; i < count; i++)
		free(entries[i]);
	if (count >= 0)
		free(entries);
	return is;
}

static bool scans(call_t call)
{
	struct dirent **entries;
	int count = call.scandir("/sys/class/infiniband", &entries, is_ferroce, alphasort);

	return is_ferroce0(entries, count);
}

static bool scans_at(call_t call)
{
	struct dirent **entries;
	int count = call.scandirat(AT_FDCWD, "/sys/class/infiniband", &entries, is_ferroce,
				   alphasort);

	return is_ferroce0(entries, count);
}

static bool globs(call_t call)
{
	static const char *const patterns[][2] = {
		{ "/sys/class/infiniband/*", DEVICE },
		{ "/sys/class/infiniband/*/ports/[0-9]/state", STATE },
		{ "/sys/bus/pci/devices/f10a*/infiniband/*",
		  "/sys/bus/pci/devices/f10a:00:00.0/infiniband/ferroce0" },
	};

	for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
		glob_t found = { 0 };
		bool is = !call.glob(patterns[i][0], 0, NULL, &found) && found.gl_pathc == 1 &&
			  !strcmp(found.gl_pathv[0], patterns[i][1]);

		globfree(&found);
		if (!is)
			return false;
	}
	return true;
}

/* The entries that a walk through the port's directory has found. */
static struct {
	int states, strangers;
} met;

static int meet(const char *path, const struct stat *status, int type)
{
	met.states += !strcmp(path, STATE) && type == FTW_F && S_ISREG(status->st_mode);
	met.strangers += strncmp(path, PORT, strlen(PORT)) != 0;
	return 0;
}

static int meet_new(const char *path, const struct stat *status, int type, struct FTW *place)
{
	if (!strcmp(path, STATE) && strcmp(path + place->base, "state"))
		met.strangers++;
	return meet(path, status, type);
}

static bool has_met_the_port(int result)
{
	bool has = !result && met.states == 1 && !met.strangers;

	met.states = met.strangers = 0;
	return has;
}

static bool walks(call_t call)
{
	return has_met_the_port(call.ftw(PORT, meet, 8));
}

static bool walks_new(call_t call)
{
	return has_met_the_port(call.nftw(PORT, meet_new, 8, FTW_PHYS));
}

static bool walks_fts(const char *open_name, const char *read_name, int options)
{
	call_t open = { .address = dlsym(RTLD_DEFAULT, open_name) };
	call_t read = { .address = dlsym(RTLD_DEFAULT, read_name) };
	char *places[] = { PORT, NULL };
	FTS *walk = open.fts_open(places, options, NULL);
	FTSENT *entry;

	while (walk && (entry = read.fts_read(walk))) {
		met.states += !strcmp(entry->fts_path, STATE) && entry->fts_info == FTS_F;
		met.strangers += strncmp(entry->fts_path, PORT, strlen(PORT)) != 0 ||
				 strlen(entry->fts_path) != entry->fts_pathlen;
	}
	return walk && has_met_the_port(fts_close(walk));
}

static bool opens_walk(call_t call)
{
	(void)call;
	return walks_fts("fts_open", "fts_read", FTS_PHYSICAL) &&
	       walks_fts("fts_open", "fts_read", FTS_PHYSICAL | FTS_NOCHDIR);
}

static bool opens_walk_64(call_t call)
{
	(void)call;
	return walks_fts("fts64_open", "fts64_read", FTS_PHYSICAL);
}

/* A walk continues after its children have been listed. */
static bool lists_children(const char *open_name, const char *read_name, call_t call)
{
	call_t open = { .address = dlsym(RTLD_DEFAULT, open_name) };
	call_t read = { .address = dlsym(RTLD_DEFAULT, read_name) };
	char *places[] = { PORT, NULL };
	FTS *walk = open.fts_open(places, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	FTSENT *entry = walk ? read.fts_read(walk) : NULL;
	FTSENT *child = entry ? call.fts_children(walk, 0) : NULL;
	int states = 0;

	for (; child; child = child->fts_link)
		states += !strcmp(child->fts_name, "state");
	while (entry && !strcmp(entry->fts_path, PORT) && entry->fts_info == FTS_D)
		entry = read.fts_read(walk);
	return states == 1 && entry && !strncmp(entry->fts_path, PORT "/", strlen(PORT "/")) &&
	       !fts_close(walk);
}

static bool opens_children(call_t call)
{
	return lists_children("fts_open", "fts_read", call);
}

static bool opens_children_64(call_t call)
{
	return lists_children("fts64_open", "fts64_read", call);
}

static bool changes_directory(call_t call)
{
	bool works = !call.chdir(PORT) && !access("state", R_OK);

	return works && reads(open("counters/port_xmit_data", O_RDONLY), NULL) && !chdir("/");
}

static bool is_card_here(char *text)
{
	bool is = is_card(text);

	return !chdir("/") && is;
}

static bool names_directory(call_t call)
{
	char text[PATH_MAX];

	return !chdir(CARD) && is_card_here(call.getcwd(text, sizeof text));
}

static bool names_directory_chk(call_t call)
{
	char text[PATH_MAX];

	return !chdir(CARD) && is_card_here(call.getcwd_chk(text, sizeof text, sizeof text));
}

static bool names_directory_old(call_t call)
{
	char text[PATH_MAX];

	return !chdir(CARD) && is_card_here(call.getwd(text));
}

static bool names_directory_old_chk(call_t call)
{
	char text[PATH_MAX];

	return !chdir(CARD) && is_card_here(call.getwd_chk(text, sizeof text));
}

static bool names_directory_new(call_t call)
{
	char *text = chdir(CARD) ? NULL : call.get_current_dir_name();
	bool is = is_card_here(text);

	free(text);
	return is;
}

static bool watches(call_t call)
{
	int fd = inotify_init();
	bool works = call.inotify_add_watch(fd, "/dev/infiniband", IN_CREATE) >= 0;

	close(fd);
	return works;
}

static const struct {
	const char *name;
	bool (*works)(call_t call);
} CALLS[] = {
	{ "open", opens },
	{ "open64", opens },
	{ "__open_2", opens_2 },
	{ "__open64_2", opens_2 },
	{ "openat", opens_at },
	{ "openat64", opens_at },
	{ "__openat_2", opens_at_2 },
	{ "__openat64_2", opens_at_2 },
	{ "fopen", opens_stream },
	{ "fopen64", opens_stream },
	{ "freopen", reopens_stream },
	{ "freopen64", reopens_stream },
	{ "access", accesses },
	{ "euidaccess", accesses },
	{ "eaccess", accesses },
	{ "faccessat", accesses_at },
	{ "stat", has_status },
	{ "stat64", has_status },
	{ "lstat", has_status },
	{ "lstat64", has_status },
	{ "fstatat", has_status_at },
	{ "fstatat64", has_status_at },
	{ "__xstat", has_old_status },
	{ "__xstat64", has_old_status },
	{ "__lxstat", has_old_status },
	{ "__lxstat64", has_old_status },
	{ "__fxstatat", has_old_status_at },
	{ "__fxstatat64", has_old_status_at },
	{ "statx", has_statx },
	{ "statfs", has_file_system },
	{ "statfs64", has_file_system },
	{ "statvfs", has_volume },
	{ "statvfs64", has_volume },
	{ "pathconf", has_limits },
	{ "getxattr", has_attribute },
	{ "lgetxattr", has_attribute },
	{ "listxattr", lists_attributes },
	{ "llistxattr", lists_attributes },
	{ "readlink", reads_link },
	{ "__readlink_chk", reads_link_chk },
	{ "readlinkat", reads_link_at },
	{ "__readlinkat_chk", reads_link_at_chk },
	{ "realpath", resolves },
	{ "__realpath_chk", resolves_chk },
	{ "canonicalize_file_name", resolves_new },
	{ "opendir", lists },
	{ "scandir", scans },
	{ "scandir64", scans },
	{ "scandirat", scans_at },
	{ "scandirat64", scans_at },
	{ "glob", globs },
	{ "glob64", globs },
	{ "ftw", walks },
	{ "ftw64", walks },
	{ "nftw", walks_new },
	{ "nftw64", walks_new },
	{ "fts_open", opens_walk },
	{ "fts_read", opens_walk },
	{ "fts_children", opens_children },
	{ "fts64_open", opens_walk_64 },
	{ "fts64_read", opens_walk_64 },
	{ "fts64_children", opens_children_64 },
	{ "chdir", changes_directory },
	{ "getcwd", names_directory },
	{ "__getcwd_chk", names_directory_chk },
	{ "getwd", names_directory_old },
	{ "__getwd_chk", names_directory_old_chk },
	{ "get_current_dir_name", names_directory_new },
	{ "inotify_add_watch", watches },
};

int main(void)
{
	for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
		call_t call = { .address = dlsym(RTLD_DEFAULT, CALLS[i].name) };

		NEED(call.address);
		errno = 0;
		if (CALLS[i].works(call)) {
			printf("works: %s\n", CALLS[i].name);
		} else {
			printf("%s does not find the device (errno %d)\n", CALLS[i].name, errno);
			failures++;
		}
	}
	printf("%d failures\n", failures);
	return failures != 0;
}
