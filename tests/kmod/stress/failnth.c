// SPDX-License-Identifier: GPL-2.0
/*
 * Every allocation of every call fails once.
 *
 *   failnth calls              each call of /dev/configtron, opening it, and making a network namespace
 *   failnth insmod MODULE      loading the module; it must not be loaded, and is not afterwards
 *
 * Question   Is there an allocation whose failure loses memory, leaves half a change, or brings the kernel down?
 * Method     /proc/thread-self/fail-nth (Documentation/fault-injection): "the n-th allocation from now fails". For each
 *            call n = 1, 2, ... until the call ends before its n-th allocation. failslab and fail_page_alloc are set to
 *            count allocations that may sleep, of any size.
 * Reads as   one line of JSON, {"call": failures met}. A failed call must say ENOMEM and change nothing: profiles,
 *            prefixes and versions are counted before and after. A call may succeed although an allocation failed, if
 *            the kernel has another way (a table that grows later, a bigger page instead of a smaller).
 * Fails as   "another error", "half a change", or the kernel's own words.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "device.h"

#define BATCH 1000
/* No call is near: making a namespace, the longest, makes some thousand allocations. */
#define MOST 20000
#define SETTLE_S 30
#define DEBUG_FS "/sys/kernel/debug"

static int device, connected;
static uint32_t profile, other;
static struct configtron_prefix batch[BATCH];
static const char *module;

static int open_it(void)
{
	int fd = device_open();

	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int new_profile(void)
{
	uint32_t id;

	if (profile_new(device, &id))
		return -1;
	return profile_del(device, id);
}

static int set_numbers(void)
{
	struct configtron_param params[] = {
		number(CONFIGTRON_INITCWND, 20), number(CONFIGTRON_SLOW_START_AFTER_IDLE, 0),
	};

	return params_set(device, profile, params, 2, 0);
}

/* The first profile with a congestion control makes the socket that holds it. */
static int set_vegas(void)
{
	struct configtron_param param = congestion_control("vegas");

	return params_set(device, other, &param, 1, 0);
}

static int get_params(void)
{
	struct configtron_param params[CONFIGTRON_KEYS];
	struct configtron_params get = {
		.profile = profile, .count = CONFIGTRON_KEYS, .params = (uintptr_t)params,
	};

	return ioctl(device, CONFIGTRON_PARAMS_GET, &get);
}

static int set_and_delete(uint32_t count)
{
	struct configtron_prefixes set = { .prefixes = (uintptr_t)batch, .count = count };
	int failed = ioctl(device, CONFIGTRON_PREFIX_SET, &set), error = errno;

	/* what was set before the failure stays, and `done` says how much: put it back */
	if (set.done && prefixes(device, CONFIGTRON_PREFIX_DEL, batch, set.done, 0) < 0 && errno != ENOMEM)
		die("PREFIX_DEL of what PREFIX_SET said it did");
	prefix_flush(device, 0);
	errno = error;
	return failed;
}

static int one_prefix(void)
{
	return set_and_delete(1);
}

static int many_prefixes(void)
{
	return set_and_delete(BATCH);
}

static int dump_prefixes(void)
{
	struct configtron_prefix list[10];

	return prefixes(device, CONFIGTRON_PREFIX_DUMP, list, 10, CONFIGTRON_FROM_START) < 0 ? -1 : 0;
}

static int assign_socket(void)
{
	return socket_assign(device, connected, profile);
}

static int get_socket(void)
{
	return socket_get(device, connected);
}

/* A new plain congestion control: every profile that follows it gets a new version, or none does. */
static int change_plain(void)
{
	if (options_set(device, CONFIGTRON_ENABLED, profile, "reno"))
		return -1;
	return options_set(device, CONFIGTRON_ENABLED, 0, "cubic");
}

static int begin_records(void)
{
	int fd = device_open(), failed, error;

	if (fd < 0)
		return -1;
	failed = records_begin(fd, 65536);
	error = errno;
	close(fd);
	errno = error;
	return failed;
}

static int ask_everything(void)
{
	struct configtron_param_info info = { .key = CONFIGTRON_AUTOCORKING };
	struct configtron_profile next = { .id = 1 };
	struct configtron_stats stats = { .profile = profile };
	struct configtron_version version;
	struct configtron_options options;

	return ioctl(device, CONFIGTRON_VERSION, &version) || ioctl(device, CONFIGTRON_PARAM_INFO, &info) ||
	       ioctl(device, CONFIGTRON_PROFILE_NEXT, &next) || ioctl(device, CONFIGTRON_STATS, &stats) ||
	       ioctl(device, CONFIGTRON_OPTIONS_GET, &options) ? -1 : 0;
}

static int make_namespace(void)
{
	int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), failed, error;

	if (here < 0)
		return -1;
	failed = unshare(CLONE_NEWNET);
	error = errno;
	if (!failed && setns(here, CLONE_NEWNET))
		die("back to the first namespace");
	close(here);
	errno = error;
	return failed;
}

static int load_module(void)
{
	int file = open(module, O_RDONLY | O_CLOEXEC), failed, error;

	if (file < 0)
		return -1;
	failed = syscall(SYS_finit_module, file, "", 0);
	error = errno;
	close(file);
	if (!failed && syscall(SYS_delete_module, "configtron", O_NONBLOCK))
		die("unloading");
	errno = error;
	return failed;
}

static void counts(uint32_t *into)
{
	struct configtron_status status = {};

	if (device >= 0 && ioctl(device, CONFIGTRON_STATUS, &status))
		die("CONFIGTRON_STATUS");
	into[0] = status.profiles;
	into[1] = status.prefixes;
	into[2] = status.versions;
}

/* Whether the nth allocation of `call` was reached; then it has failed, and the call's result is checked. */
static int fail(const char *name, int (*call)(void), int fail_nth, unsigned int nth)
{
	uint32_t before[3], after[3];
	char text[16], left[16] = "";
	int failed, error;

	counts(before);
	snprintf(text, sizeof(text), "%u", nth);
	if (pwrite(fail_nth, text, strlen(text), 0) < 0)
		die("fail-nth");
	failed = call();
	error = errno;
	if (pread(fail_nth, left, sizeof(left) - 1, 0) < 0 || pwrite(fail_nth, "0", 1, 0) < 0)
		die("fail-nth");
	counts(after);
	/* a namespace is made by all of the network's parts, and some tell EEXIST or EINVAL when they lack memory */
	if (failed && error != ENOMEM && call != make_namespace) {
		fprintf(stderr, "%s, allocation %u: another error: %s\n", name, nth, strerror(error));
		exit(1);
	}
	/* one that came to an end is taken down later, by a worker */
	if (failed && memcmp(before, after, sizeof(before)) && call != make_namespace) {
		fprintf(stderr, "%s, allocation %u: half a change: profiles %u -> %u, prefixes %u -> %u, versions %u -> %u\n",
			name, nth, before[0], after[0], before[1], after[1], before[2], after[2]);
		exit(1);
	}
	if (failed && atoi(left)) {
		fprintf(stderr, "%s fails without a failed allocation\n", name);
		exit(1);
	}
	return atoi(left) == 0;
}

static void fail_all(const char *name, int (*call)(void), int fail_nth)
{
	unsigned int nth = 1;

	while (nth < MOST && fail(name, call, fail_nth, nth))
		nth++;
	printf("\"%s\": %u", name, nth - 1);
}

/* Versions go when the last namespace has: "half a change" of a call that leaves its end to a worker. */
static void settle(uint32_t versions)
{
	uint32_t now[3];

	for (unsigned int tenths = 0; tenths < SETTLE_S * 10; tenths++) {
		counts(now);
		if (now[2] == versions)
			return;
		usleep(100000);
	}
	fprintf(stderr, "half a change: versions %u -> %u\n", versions, now[2]);
	exit(1);
}

static void count_all_allocations(void)
{
	const char *const settings[][2] = {
		{ DEBUG_FS "/failslab/ignore-gfp-wait", "N" }, { DEBUG_FS "/failslab/verbose", "0" },
		{ DEBUG_FS "/fail_page_alloc/ignore-gfp-wait", "N" }, { DEBUG_FS "/fail_page_alloc/verbose", "0" },
		{ DEBUG_FS "/fail_page_alloc/min-order", "0" },
	};

	for (unsigned int i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		if (write_text(settings[i][0], settings[i][1]))
			die(settings[i][0]);
}

static void connect_one(void)
{
	struct sockaddr_in us = { .sin_family = AF_INET };
	int listening = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t length = sizeof(us);

	us.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listening, (void *)&us, sizeof(us)) || listen(listening, 1) ||
	    getsockname(listening, (void *)&us, &length))
		die("listen");
	connected = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(connected, (void *)&us, sizeof(us)))
		die("connect");
}

int main(int count, char **words)
{
	static const struct {
		const char *name;
		int (*call)(void);
	} calls[] = {
		{ "open", open_it }, { "PROFILE_NEW", new_profile }, { "PARAMS_SET", set_numbers },
		{ "PARAMS_SET of a congestion control", set_vegas }, { "PARAMS_GET", get_params },
		{ "PREFIX_SET", one_prefix }, { "PREFIX_SET of 1000", many_prefixes }, { "PREFIX_DUMP", dump_prefixes },
		{ "SOCKET_ASSIGN", assign_socket }, { "SOCKET_GET", get_socket }, { "OPTIONS_SET", change_plain },
		{ "RECORDS", begin_records }, { "the asking calls", ask_everything },
		{ "a network namespace", make_namespace },
	};
	uint32_t before[3];
	int fail_nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);

	if (fail_nth < 0)
		die("fail-nth");
	count_all_allocations();
	printf("{");
	device = -1;
	if (count == 3 && !strcmp(words[1], "insmod")) {
		module = words[2];
		fail_all("insmod", load_module, fail_nth);
		printf("}\n");
		return 0;
	}
	device = device_open();
	if (device < 0 || profile_new(device, &profile) || profile_new(device, &other))
		die(DEVICE);
	connect_one();
	for (unsigned int i = 0; i < BATCH; i++)
		batch[i] = prefix4(i / 250, i % 250, 24, profile);
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		printf(i ? ", " : "");
		counts(before);
		fail_all(calls[i].name, calls[i].call, fail_nth);
	}
	settle(before[2]);
	printf("}\n");
	return 0;
}
