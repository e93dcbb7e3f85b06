/* SPDX-License-Identifier: MIT */
/*
 * The calls of /dev/configtron, one line each, for the stress programs. Every one returns 0 or -1 with errno, as ioctl().
 */
#ifndef STRESS_DEVICE_H
#define STRESS_DEVICE_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "configtron.h"

#define DEVICE "/dev/configtron"

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static inline int device_open(void)
{
	return open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

static inline int profile_new(int device, uint32_t *id)
{
	struct configtron_profile profile = { .name = "stress" };
	int failed = ioctl(device, CONFIGTRON_PROFILE_NEW, &profile);

	*id = failed ? 0 : profile.id;
	return failed;
}

static inline int profile_del(int device, uint32_t id)
{
	struct configtron_profile profile = { .id = id };

	return ioctl(device, CONFIGTRON_PROFILE_DEL, &profile);
}

static inline int params_set(int device, uint32_t id, struct configtron_param *params,
			     uint32_t count, uint32_t flags)
{
	struct configtron_params batch = {
		.profile = id,
		.flags = flags,
		.count = count,
		.params = (uintptr_t)params,
	};

	return ioctl(device, CONFIGTRON_PARAMS_SET, &batch);
}

static inline struct configtron_param number(uint32_t key, int64_t value)
{
	return (struct configtron_param){ .key = key, .value = value };
}

static inline struct configtron_param congestion_control(const char *name)
{
	struct configtron_param param = { .key = CONFIGTRON_CONGESTION_CONTROL };

	strncpy(param.text, name, sizeof(param.text) - 1);
	return param;
}

/* 127.a.b.0/length, with the bits below the length cleared */
static inline struct configtron_prefix prefix4(unsigned int a, unsigned int b, unsigned int length,
					       uint32_t id)
{
	struct configtron_prefix prefix = { .family = AF_INET, .length = length, .profile = id };

	prefix.address[0] = 127;
	prefix.address[1] = a;
	prefix.address[2] = length > 16 ? b : 0;
	return prefix;
}

static inline struct configtron_prefix prefix6(const unsigned char *address, unsigned int length,
					       uint32_t id)
{
	struct configtron_prefix prefix = { .family = AF_INET6, .length = length, .profile = id };
	unsigned int bytes = length / 8;

	memcpy(prefix.address, address, bytes);
	return prefix;
}

static inline int prefixes(int device, unsigned long call, struct configtron_prefix *list,
			   uint32_t count, uint32_t flags)
{
	struct configtron_prefixes batch = { .prefixes = (uintptr_t)list,
					     .count = count,
					     .flags = flags };
	int failed = ioctl(device, call, &batch);

	return failed ? -1 : (int)batch.done;
}

static inline int prefix_flush(int device, uint32_t id)
{
	struct configtron_flush flush = { .profile = id };

	return ioctl(device, CONFIGTRON_PREFIX_FLUSH, &flush);
}

static inline int socket_assign(int device, int fd, uint32_t id)
{
	struct configtron_socket assign = { .fd = fd, .profile = id };

	return ioctl(device, CONFIGTRON_SOCKET_ASSIGN, &assign);
}

static inline int socket_get(int device, int fd)
{
	struct configtron_param params[CONFIGTRON_KEYS];
	struct configtron_socket_params get = { .fd = fd,
						.count = CONFIGTRON_KEYS,
						.params = (uintptr_t)params };

	return ioctl(device, CONFIGTRON_SOCKET_GET, &get);
}

static inline int options_set(int device, uint32_t flags, uint32_t unmatched, const char *plain)
{
	struct configtron_options options = { .flags = flags, .unmatched = unmatched };

	strncpy(options.plain, plain, sizeof(options.plain) - 1);
	return ioctl(device, CONFIGTRON_OPTIONS_SET, &options);
}

/* One class, `profile`, whose clients all get that. */
static inline int plan_load(int device, uint64_t epoch, uint64_t not_after, uint32_t profile)
{
	struct configtron_mix mix = { .profile = profile, .arms = 1, .arm = { profile } };
	struct configtron_plan plan = {
		.key = { 1, 2 },
		.epoch = epoch,
		.not_after = not_after,
		.mixes = (uintptr_t)&mix,
		.count = 1,
	};

	memset(mix.upto, 0xff, sizeof(mix.upto));
	return ioctl(device, CONFIGTRON_PLAN_LOAD, &plan);
}

static inline int records_begin(int device, uint32_t capacity)
{
	struct configtron_records records = { .capacity = capacity };

	return ioctl(device, CONFIGTRON_RECORDS, &records);
}

static inline int write_text(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	int failed = file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text);

	if (file >= 0)
		close(file);
	return failed ? -1 : 0;
}

#define DEFAULT_CC "/proc/sys/net/ipv4/tcp_congestion_control"

#endif
