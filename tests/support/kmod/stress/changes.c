// SPDX-License-Identifier: MIT
/* churn.c's changes: everything that a connection's settings hang on, while connections come and go. */
#define _GNU_SOURCE
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "roles.h"

#define BATCH 50

/* One of these per so many connections. */
#define PER_PARAMS 3
#define PER_PREFIXES 5
#define PER_PROFILE 10
#define PER_FLIP 20
#define PER_UNLOAD 50
#define PER_NAMESPACE 200
#define PER_READ 10
#define READS 100
/* Plans that turn as fast as they can, for each connection. */
#define TURNS 200

static const char *const names[] = { "reno", "cubic", "bbr", "vegas" };

/* Values of every key that can be set, some of them out of range: an error must leave all as it was. */
static struct configtron_param any_param(void)
{
	static const int64_t some[] = { 0, 1, 2, 10, 30, 1000, 20000, 1000000, 1 << 30, -1 };
	unsigned int key = below(CONFIGTRON_KEYS);
	struct configtron_param param = number(key, some[below(sizeof(some) / sizeof(*some))]);

	if (key == CONFIGTRON_CONGESTION_CONTROL)
		param = congestion_control(names[below(4)]);
	if (below(5) == 0)
		param = (struct configtron_param){ .key = key, .flags = CONFIGTRON_PARAM_UNSET };
	return param;
}

void change_params(unsigned int seed)
{
	int device = device_open();

	while (wait_for_connections(PER_PARAMS)) {
		struct configtron_param params[3] = { any_param(), any_param(), any_param() };
		uint32_t count = 1 + below(3);

		if (!params_set(device, any_profile(), params, count,
				below(4) ? 0 : CONFIGTRON_REPLACE))
			count_one(&shared->changes);
	}
}

static struct configtron_prefix any_prefix(uint32_t id)
{
	static const unsigned char lengths[] = { 16, 24 };
	unsigned char six[16] = { 0xfd, 0, 0, 0, 0, below(NETWORKS) };

	if (below(4) == 0)
		return prefix6(six, 48, id);
	return prefix4(1 + below(NETWORKS), below(SUBNETS), lengths[below(2)], id);
}

static void dump(int device)
{
	struct configtron_prefix list[BATCH];
	uint32_t flags = CONFIGTRON_FROM_START;

	while (prefixes(device, CONFIGTRON_PREFIX_DUMP, list, BATCH, flags) > 0 && below(20))
		flags = 0;
}

void change_prefixes(unsigned int seed)
{
	struct configtron_prefix list[BATCH];
	int device = device_open();

	while (wait_for_connections(PER_PREFIXES)) {
		unsigned int what = below(20);

		for (unsigned int i = 0; i < BATCH; i++)
			list[i] = any_prefix(any_profile());
		if (what < 12 && prefixes(device, CONFIGTRON_PREFIX_SET, list, BATCH, 0) > 0)
			count_one(&shared->changes);
		else if (what < 18)
			prefixes(device, CONFIGTRON_PREFIX_DEL, list, 1 + below(10),
				 CONFIGTRON_ABSENT_OK);
		else if (what == 18)
			dump(device);
		else
			prefix_flush(device, below(2) ? any_profile() : 0);
	}
	prefix_flush(device, 0);
}

/* Profiles of a short life, which connections may outlive; and the options, which unmatched clients follow. */
void change_profiles(unsigned int seed)
{
	int device = device_open();
	uint32_t id;

	while (wait_for_connections(PER_PROFILE)) {
		if (!profile_new(device, &id)) {
			struct configtron_param params[] = { congestion_control(names[below(4)]),
							     number(CONFIGTRON_INITCWND, 5) };
			struct configtron_prefix prefix = any_prefix(id);

			params_set(device, id, params, 2, 0);
			prefixes(device, CONFIGTRON_PREFIX_SET, &prefix, 1, 0);
			wait_for_connections(below(PER_PROFILE));
			/* BUSY while it has a prefix: first the refusal, then the right way */
			profile_del(device, id);
			prefix_flush(device, id);
			profile_del(device, id);
			count_one(&shared->changes);
		}
		options_set(device,
			    below(10) ? CONFIGTRON_ENABLED | below(2) * CONFIGTRON_ACTIVE_OPENS : 0,
			    below(2) ? any_profile() : 0, names[below(4)]);
		write_text("/sys/module/configtron/parameters/enabled", below(10) ? "Y" : "N");
	}
	write_text("/sys/module/configtron/parameters/enabled", "Y");
	options_set(device, CONFIGTRON_ENABLED, 0, "cubic");
}

void flip_default(unsigned int seed)
{
	while (wait_for_connections(PER_FLIP))
		write_text(DEFAULT_CC, below(4) ? "configtron" : names[below(4)]);
	write_text(DEFAULT_CC, "cubic");
}

/* A namespace with tables and a connection of its own, gone with the process that made it. */
static void live_in_namespace(void)
{
	struct sockaddr_in us = { .sin_family = AF_INET };
	struct configtron_prefix prefix;
	socklen_t length = sizeof(us);
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int device, listening, client;
	uint32_t id;

	if (unshare(CLONE_NEWNET))
		_exit(0);
	write_text(DEFAULT_CC, "configtron");
	device = device_open();
	listening = socket(AF_INET, SOCK_STREAM, 0);
	us.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (device < 0 || ioctl(listening, SIOCSIFFLAGS, &lo) || profile_new(device, &id))
		_exit(0);
	prefix = prefix4(0, 0, 8, id);
	prefixes(device, CONFIGTRON_PREFIX_SET, &prefix, 1, 0);
	if (bind(listening, (void *)&us, sizeof(us)) || listen(listening, 5) ||
	    getsockname(listening, (void *)&us, &length))
		_exit(0);
	client = socket(AF_INET, SOCK_STREAM, 0);
	if (!connect(client, (void *)&us, length) && accept(listening, NULL, NULL) >= 0)
		count_one(&shared->namespaces);
	_exit(0);
}

void make_namespaces(unsigned int seed)
{
	pid_t child;

	while (wait_for_connections(PER_NAMESPACE)) {
		child = fork();
		if (!child)
			live_in_namespace();
		if (child > 0)
			waitpid(child, NULL, 0);
	}
}

/* Our own open device holds the module: every try must be refused. */
void try_unload(unsigned int seed)
{
	int device = device_open();

	while (device >= 0 && wait_for_connections(PER_UNLOAD)) {
		if (!syscall(SYS_delete_module, "configtron", O_NONBLOCK)) {
			fprintf(stderr, "the module went while it was used\n");
			_exit(1);
		}
		count_one(&shared->unloads_refused);
	}
}

/*
 * Plans, every other one with a lease that has passed before it comes in force: no connection may be given a profile by
 * such a one, whatever lease the plan before it or after it has.
 */
void turn_plans(unsigned int seed)
{
	struct configtron_record got[64];
	int device = device_open();
	ssize_t size;

	if (device < 0 || records_begin(device, 4096))
		die("records of plans");
	for (uint64_t epoch = 1; !shared->done; epoch++) {
		if (plan_load(device, epoch, epoch % 2 ? ~0ull : 1, any_profile()) ||
		    ioctl(device, CONFIGTRON_PLAN_TURN))
			die("a plan");
		count_one(&shared->turns);
		while ((size = read(device, got, sizeof(got))) > 0)
			for (unsigned int i = 0; i < size / sizeof(*got); i++)
				if (got[i].flags & CONFIGTRON_RECORD_OPEN && got[i].epoch % 2 == 0)
					count_one(&shared->lapsed);
		if (epoch % TURNS == 0)
			wait_for_connections(1);
	}
	ioctl(device, CONFIGTRON_PLAN_DROP);
}

/* A reader with a ring too small: it must lose records, never hold a connection up. */
void read_records(unsigned int seed)
{
	struct configtron_record got[8];
	ssize_t size;
	int device;

	while (!shared->done) {
		device = device_open();
		if (device < 0 || records_begin(device, 64))
			die("records");
		for (unsigned int turn = 0; turn < READS && wait_for_connections(PER_READ);
		     turn++) {
			size = read(device, got, sizeof(got));
			if (size > 0)
				__atomic_add_fetch(&shared->records, size / sizeof(*got),
						   __ATOMIC_RELAXED);
		}
		close(device);
	}
}
