// SPDX-License-Identifier: MIT
/* The load under way: its clock, and what has come of its objects. */
#define _GNU_SOURCE
#include "load.h"

#include <string.h>
#include <time.h>

struct load load;

ns_t clock_ns(void)
{
	struct timespec reading;

	clock_gettime(CLOCK_MONOTONIC, &reading);
	return reading.tv_sec * SECOND + reading.tv_nsec;
}

ns_t now(void)
{
	if (!load.read)
		load.read = clock_ns();
	return load.read;
}

void got_bytes(struct object *thing, long bytes)
{
	thing->got += bytes;
	load.bytes += bytes;
	if (thing->got > thing->size)
		load.failed = "size";
}

void got_all(struct object *thing)
{
	if (thing->got != thing->size && !load.failed)
		load.failed = "size";
	thing->state = DONE;
	thing->done = now();
	thing->on = NULL;
	load.done++;
}

/* Keeps the description of the document's Server-Timing: ct;desc="TOKEN". */
void got_timing(struct object *thing, const char *value, size_t count)
{
	static const char before[] = "ct;desc=\"";
	const char *at = memmem(value, count, before, strlen(before)), *end = value + count;
	size_t kept = 0;

	if (!at || thing != load.page->objects)
		return;
	for (at += strlen(before); at < end && *at != '"' && kept < sizeof(load.token) - 1; at++)
		if ((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z'))
			load.token[kept++] = *at;
	load.token[kept] = 0;
}
