/* SPDX-License-Identifier: MIT */
/* The calls whose allocations fail. Each returns 0, or -1 with errno, and leaves everything as it was. */
#ifndef STRESS_FAILCALLS_H
#define STRESS_FAILCALLS_H

#include "device.h"

struct call {
	const char *name;
	int (*make)(void);
	int shared; /* with other parts of the kernel, which report other errors, and end it later */
};

extern const struct call calls[];
extern const unsigned int calls_count;

/* Profiles, a batch of prefixes and a connection, for the calls on an open device. */
void calls_begin(int of);

/* The call of `failnth insmod`: the module is loaded from this file, and unloaded if that succeeds. */
extern const char *module;
int load_module(void);

#endif
