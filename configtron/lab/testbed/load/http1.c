// SPDX-License-Identifier: MIT
/* HTTP/1.1: one request at a time on a kept connection, bodies of known length. */
#define _GNU_SOURCE
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ask_h1(struct connection *c, struct object *thing)
{
	char request[1024];
	int count =
		snprintf(request, sizeof(request),
			 "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: keep-alive\r\nUser-Agent: " AGENT
			 "\r\n"
			 "Accept: */*\r\nSec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors\r\n"
			 "Accept-Encoding: identity\r\nAccept-Language: en-US,en;q=0.9\r\n\r\n",
			 thing->path, c->pool->host);

	thing->state = ASKED;
	thing->asked = now();
	thing->on = c;
	thing->got = 0;
	c->answering = thing;
	c->head_bytes = 0;
	c->in_body = false;
	put(c, request, count);
	flush(c);
}

/* Reads the head once it is whole; returns how many of the bytes belonged to it. */
static size_t read_head(struct connection *c, const unsigned char *bytes, size_t count)
{
	size_t before = c->head_bytes, taken = count;
	char *end, *length, *timing;

	if (taken > sizeof(c->head) - 1 - before)
		taken = sizeof(c->head) - 1 - before;
	memcpy(c->head + before, bytes, taken);
	c->head_bytes += taken;
	c->head[c->head_bytes] = 0;
	end = strstr(c->head, "\r\n\r\n");
	if (!end) {
		if (c->head_bytes == sizeof(c->head) - 1)
			load.failed = "head";
		return taken;
	}
	length = strcasestr(c->head, "\r\ncontent-length:");
	if (strncmp(c->head, "HTTP/1.1 200", 12) || !length || length > end ||
	    atol(length + strlen("\r\ncontent-length:")) != c->answering->size)
		load.failed = "answer";
	timing = strcasestr(c->head, "\r\nserver-timing:");
	if (timing && timing < end)
		got_timing(c->answering, timing, end - timing);
	c->in_body = true;
	return end + 4 - c->head - before;
}

static void opened_h1(struct connection *c)
{
	(void)c;
}

static void read_h1(struct connection *c, const unsigned char *bytes, size_t count)
{
	struct object *thing = c->answering;

	if (!thing) {
		load.failed = "unasked";
		return;
	}
	if (!thing->first)
		thing->first = now();
	if (!c->in_body) {
		size_t taken = read_head(c, bytes, count);

		bytes += taken;
		count -= taken;
	}
	if (!c->in_body || load.failed)
		return;
	got_bytes(thing, count);
	if (thing->got >= thing->size) {
		c->answering = NULL;
		c->answered++;
		got_all(thing);
	}
}

/* A server may close a kept connection just when it is asked again: then the request moves, as in browsers. */
static void ended_h1(struct connection *c)
{
	struct object *thing = c->answering;

	c->answering = NULL;
	if (!thing)
		return;
	if (thing->first || !(c->answered || c->rested))
		load.failed = "closed";
	thing->state = READY;
}

const struct protocol http1 = { .opened = opened_h1, .read = read_h1, .ended = ended_h1 };
