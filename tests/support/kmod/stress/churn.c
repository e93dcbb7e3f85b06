// SPDX-License-Identifier: MIT
/*
 * Connections that come and go while everything that can change about them changes.
 *
 *   churn CONNECTIONS SEED      prints one line of JSON; exit code 1 when the counters do not balance
 *
 * Question   Does any order of events lose a reference, use freed memory, or wedge the module?
 * Method     Servers and clients open and close connections over loopback from many prefixes, IPv4, IPv6 and v4-mapped,
 *            some by MPTCP. Meanwhile others change parameters, prefixes, profiles and options, flip the default
 *            congestion control, make and drop network namespaces, and try to unload the module. Servers override the
 *            congestion control, assign profiles, read settings back, disconnect and reconnect.
 * Reads as   for every profile alive: opened == closed once no connection is left; versions alive are those of the
 *            profiles and of the plain one; the kernel's log has no report (the caller looks).
 * Fails as   "unbalanced", "versions", "lapsed" (a plan gave a connection a profile after its lease), or the kernel's own
 *            words.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "roles.h"

/* Connections end a moment after their sockets are closed: FIN, ACK, and the last RCU callback. */
#define SETTLE_S 30

struct shared *shared;

static pid_t start(void (*role)(unsigned int), unsigned int seed)
{
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child) {
		/* the parent's death is everybody's */
		if (getppid() == 1)
			_exit(1);
		random_begin(seed);
		role(seed);
		_exit(0);
	}
	return child;
}

static void wait_for(pid_t *children, unsigned int count)
{
	int status;

	for (unsigned int i = 0; i < count; i++) {
		if (waitpid(children[i], &status, 0) < 0 || !WIFEXITED(status) ||
		    WEXITSTATUS(status)) {
			fprintf(stderr, "child %u of %u ended with status %#x\n", i, count, status);
			exit(1);
		}
	}
}

/* How many connections the profiles say are alive; -1 when a profile cannot be asked. */
static long alive(int device, unsigned long *opened)
{
	long left = 0;

	*opened = 0;
	for (unsigned int i = 0; i < PROFILES; i++) {
		struct configtron_stats stats = { .profile = shared->profile[i] };

		if (ioctl(device, CONFIGTRON_STATS, &stats))
			return -1;
		*opened += stats.opened;
		left += stats.opened - stats.closed;
	}
	return left;
}

static int balance(int device, unsigned long *opened, struct configtron_status *status)
{
	long left = 0;

	for (unsigned int tenths = 0; tenths < SETTLE_S * 10; tenths++) {
		left = alive(device, opened);
		if (ioctl(device, CONFIGTRON_STATUS, status))
			die("CONFIGTRON_STATUS");
		if (!left && status->versions <= status->profiles + 1)
			return 0;
		usleep(100000);
	}
	fprintf(stderr,
		left ? "unbalanced: %ld connections are counted as alive\n" : "versions: %ld\n",
		left ? left : (long)status->versions);
	return 1;
}

static void profiles_make(int device)
{
	static const char *const names[] = { "reno", "cubic", "bbr", "vegas" };

	for (unsigned int i = 0; i < PROFILES; i++) {
		struct configtron_param params[] = {
			congestion_control(names[i % 4]),
			number(CONFIGTRON_INITCWND, 1 + 10 * i),
		};

		if (profile_new(device, &shared->profile[i]) ||
		    params_set(device, shared->profile[i], params, 2, 0))
			die("making a profile");
	}
}

int main(int count, char **words)
{
	static void (*const roles[])(unsigned int) = {
		change_params,	 change_prefixes, change_profiles, flip_default,
		make_namespaces, try_unload,	  read_records,	   turn_plans,
	};
	pid_t clients[CLIENTS], others[sizeof(roles) / sizeof(*roles)], server;
	struct configtron_status status;
	unsigned long opened;
	unsigned int seed;
	int device, failed;

	if (count != 3) {
		fprintf(stderr, "usage: churn CONNECTIONS SEED\n");
		return 2;
	}
	seed = atoi(words[2]);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	device = device_open();
	if (shared == MAP_FAILED || device < 0)
		die(DEVICE);
	shared->wanted = atol(words[1]);
	signal(SIGPIPE, SIG_IGN);
	profiles_make(device);
	listen_everywhere(1);
	server = start(serve, seed);
	for (unsigned int i = 0; i < sizeof(roles) / sizeof(*roles); i++)
		others[i] = start(roles[i], seed * 100 + i);
	for (unsigned int i = 0; i < CLIENTS; i++)
		clients[i] = start(connect_often, seed * 100 + 50 + i);
	wait_for(clients, CLIENTS);
	shared->done = 1;
	wait_for(others, sizeof(roles) / sizeof(*roles));
	wait_for(&server, 1);
	close_listeners();
	failed = balance(device, &opened, &status);
	if (shared->lapsed) {
		fprintf(stderr,
			"lapsed: %lu connections of %lu turns began by a plan whose lease had passed\n",
			shared->lapsed, shared->turns);
		failed = 1;
	}
	printf("{\"connections\": %lu, \"refused\": %lu, \"accepted\": %lu, \"held\": %lu, \"assigned\": %lu, "
	       "\"overridden\": %lu, \"reconnected\": %lu, \"changes\": %lu, \"namespaces\": %lu, "
	       "\"unloads_refused\": %lu, \"records\": %lu, \"turns\": %lu, \"lapsed\": %lu, "
	       "\"versions\": %u, \"balanced\": %s}\n",
	       shared->connected, shared->refused, shared->accepted, opened, shared->assigned,
	       shared->overridden, shared->reconnected, shared->changes, shared->namespaces,
	       shared->unloads_refused, shared->records, shared->turns, shared->lapsed,
	       status.versions, failed ? "false" : "true");
	return failed;
}
