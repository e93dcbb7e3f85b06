// SPDX-License-Identifier: MIT
/* failnth.c's calls: each one as it is made, and what is put back after it. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "failcalls.h"

#define BATCH 1000

static int device, connected;
static uint32_t profile, other;
static struct configtron_prefix batch[BATCH];
const char *module;

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
		number(CONFIGTRON_INITCWND, 20),
		number(CONFIGTRON_SLOW_START_AFTER_IDLE, 0),
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
		.profile = profile,
		.count = CONFIGTRON_KEYS,
		.params = (uintptr_t)params,
	};

	return ioctl(device, CONFIGTRON_PARAMS_GET, &get);
}

static int set_and_delete(uint32_t count)
{
	struct configtron_prefixes set = { .prefixes = (uintptr_t)batch, .count = count };
	int failed = ioctl(device, CONFIGTRON_PREFIX_SET, &set), error = errno;

	/* what was set before the failure stays, and `done` says how much: put it back */
	if (set.done && prefixes(device, CONFIGTRON_PREFIX_DEL, batch, set.done, 0) < 0 &&
	    errno != ENOMEM)
		die("PREFIX_DEL of what PREFIX_SET reported");
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

	return prefixes(device, CONFIGTRON_PREFIX_DUMP, list, 10, CONFIGTRON_FROM_START) < 0 ? -1
											     : 0;
}

static int get_prefixes(void)
{
	struct configtron_prefix list[] = { batch[0], batch[1] };

	return prefixes(device, CONFIGTRON_PREFIX_GET, list, 2, 0) < 0 ? -1 : 0;
}

static int flush_prefixes(void)
{
	return prefix_flush(device, profile);
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

/* A loaded plan, put in force and dropped: nothing of a plan that failed is left. */
static int load_plan(void)
{
	struct configtron_mix mixes[] = {
		{ .profile = profile, .arms = 2, .upto = { 100 }, .arm = { profile, other } },
		{ .profile = other, .arms = 1, .arm = { other } },
	};
	struct configtron_plan plan = {
		.epoch = 1,
		.not_after = ~0ULL,
		.mixes = (uintptr_t)mixes,
		.count = 2,
		.held_profile = other,
	};

	for (int i = 0; i < CONFIGTRON_ARMS; i++) {
		mixes[0].upto[i] = i ? 65535 : 100;
		mixes[1].upto[i] = 65535;
	}
	if (ioctl(device, CONFIGTRON_PLAN_LOAD, &plan))
		return -1;
	if (ioctl(device, CONFIGTRON_PLAN_TURN) || ioctl(device, CONFIGTRON_PLAN_DROP))
		die("PLAN_TURN or PLAN_DROP");
	return 0;
}

static int ask_plan(void)
{
	struct configtron_mix mixes[4];
	struct configtron_mixes get = { .mixes = (uintptr_t)mixes, .count = 4 };

	return ioctl(device, CONFIGTRON_PLAN_MIXES, &get);
}

static int ask_everything(void)
{
	struct configtron_param_info info = { .key = CONFIGTRON_AUTOCORKING };
	struct configtron_profile next = { .id = 1 };
	struct configtron_stats stats = { .profile = profile };
	struct configtron_version version;
	struct configtron_options options;

	return ioctl(device, CONFIGTRON_VERSION, &version) ||
			       ioctl(device, CONFIGTRON_PARAM_INFO, &info) ||
			       ioctl(device, CONFIGTRON_PROFILE_NEXT, &next) ||
			       ioctl(device, CONFIGTRON_STATS, &stats) ||
			       ioctl(device, CONFIGTRON_OPTIONS_GET, &options)
		       ? -1
		       : 0;
}

static int make_namespace(void)
{
	int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), failed, error;

	if (here < 0)
		return -1;
	failed = unshare(CLONE_NEWNET);
	error = errno;
	/* the allocation that fails may be this one's; it fails once */
	if (!failed && setns(here, CLONE_NEWNET) && setns(here, CLONE_NEWNET))
		die("back to the first namespace");
	close(here);
	errno = error;
	return failed;
}

int load_module(void)
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

void calls_begin(int of)
{
	device = of;
	if (profile_new(device, &profile) || profile_new(device, &other))
		die(DEVICE);
	connect_one();
	for (unsigned int i = 0; i < BATCH; i++)
		batch[i] = prefix4(i / 250, i % 250, 24, profile);
}

const struct call calls[] = {
	{ "open", open_it },
	{ "PROFILE_NEW", new_profile },
	{ "PARAMS_SET", set_numbers },
	{ "PARAMS_SET of a congestion control", set_vegas },
	{ "PARAMS_GET", get_params },
	{ "PREFIX_SET", one_prefix },
	{ "PREFIX_SET of 1000", many_prefixes },
	{ "PREFIX_DUMP", dump_prefixes },
	{ "PREFIX_GET", get_prefixes },
	{ "PREFIX_FLUSH", flush_prefixes },
	{ "SOCKET_ASSIGN", assign_socket },
	{ "SOCKET_GET", get_socket },
	{ "OPTIONS_SET", change_plain },
	{ "RECORDS", begin_records },
	{ "PLAN_LOAD", load_plan },
	{ "PLAN_MIXES", ask_plan },
	{ "the asking calls", ask_everything },
	{ "a network namespace", make_namespace, .shared = 1 },
};
const unsigned int calls_count = sizeof(calls) / sizeof(*calls);
