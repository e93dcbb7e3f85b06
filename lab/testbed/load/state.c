// SPDX-License-Identifier: MIT
/* The load under way: its clock, and what has come of its objects. */
#include "load.h"

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
