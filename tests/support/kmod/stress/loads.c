// SPDX-License-Identifier: MIT
/*
 * The module is loaded and unloaded while connections come and go.
 *
 *   loads TIMES MODULE SEED     prints one line of JSON; exit code 1 when it could not be unloaded in time
 *
 * Each time: load, make it the default, give all clients a profile, let some connections have it, take the default away,
 * unload as soon as the last connection lets go. The traffic never stops; what it meets is its own affair.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "roles.h"

/* Connections that must have begun with the profile before it is taken away. */
#define WITH_PROFILE 20
/* The server keeps connections until others come; orphans wait for their last ACK. */
#define PATIENCE_S 60

struct shared *shared;

static void start(void (*role)(unsigned int), unsigned int seed)
{
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	random_begin(seed);
	role(seed);
	_exit(0);
}

static void load(const char *module)
{
	struct configtron_param params[] = { congestion_control("bbr"),
					     number(CONFIGTRON_INITCWND, 30) };
	int file = open(module, O_RDONLY | O_CLOEXEC), device;
	struct configtron_prefix all;
	uint32_t id;

	if (file < 0 || syscall(SYS_finit_module, file, "", 0))
		die(module);
	close(file);
	device = device_open();
	if (device < 0 || profile_new(device, &id) || params_set(device, id, params, 2, 0))
		die("a profile");
	all = prefix4(0, 0, 8, id);
	if (prefixes(device, CONFIGTRON_PREFIX_SET, &all, 1, 0) != 1 ||
	    write_text(DEFAULT_CC, "configtron"))
		die("a prefix");
	while (1) {
		struct configtron_stats stats = { .profile = id };

		if (ioctl(device, CONFIGTRON_STATS, &stats))
			die("STATS");
		if (stats.opened >= WITH_PROFILE)
			break;
		usleep(1000);
	}
	close(device);
}

static void unload(void)
{
	if (write_text(DEFAULT_CC, "cubic"))
		die(DEFAULT_CC);
	for (unsigned int tries = 0; syscall(SYS_delete_module, "configtron", O_NONBLOCK);
	     tries++) {
		if (errno != EAGAIN && errno != EBUSY)
			die("unloading");
		if (tries > PATIENCE_S * 1000)
			die("still in use");
		count_one(&shared->unloads_refused);
		usleep(1000);
	}
}

int main(int count, char **words)
{
	unsigned long times = count == 4 ? atol(words[1]) : 0;

	if (!times) {
		fprintf(stderr, "usage: loads TIMES MODULE SEED\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		die("mmap");
	shared->wanted = ~0ul;
	signal(SIGPIPE, SIG_IGN);
	listen_everywhere(0);
	keep_most = 8;
	start(serve, atoi(words[3]));
	for (unsigned int i = 0; i < CLIENTS; i++)
		start(connect_often, atoi(words[3]) + 1 + i);
	for (unsigned long i = 0; i < times; i++) {
		load(words[2]);
		unload();
	}
	printf("{\"loads\": %lu, \"connections\": %lu, \"unloads_refused\": %lu}\n", times,
	       shared->connected, shared->unloads_refused);
	return 0;
}
