/* SPDX-License-Identifier: MIT */
/*
 * One direction of a link: packets in a queue, the opportunities that let them leave it, and packets under way.
 *
 * Time is an argument, nanoseconds of any one clock; chance is the way's own generator.
 */
#ifndef PLAYED_WAY_H
#define PLAYED_WAY_H

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PACKET_BYTES 1500
#define NEVER UINT64_MAX

struct packet {
	struct packet *next;
	uint64_t due_ns;
	uint32_t length, left;
	unsigned char bytes[PACKET_BYTES];
};

struct line {
	struct packet *head, **tail;
	uint64_t packets, bytes;
};

struct way {
	int in, out;
	uint64_t *at_us, count, period_us, next;
	/* when its period was at offset_us; not yet known while it waits for the first packet of any way */
	uint64_t start_ns;
	int waits;
	uint64_t offset_us, delay_us, most_packets, most_bytes, seed, chance;
	double loss;
	/* a policer: bytes a second, room in bytes, what is in it, since when */
	uint64_t rate, bucket, filled_ns;
	double tokens;
	/* outages: their mean duration; whether there is one, until when after start_ns */
	uint64_t outage_us, turn_ns;
	int is_out;
	struct line queue, flight;
	uint64_t arrived, dropped, lost, delivered, delivered_bytes;
};

static struct packet *spare;

static void fail(const char *what)
{
	fprintf(stderr, "player: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Steele, Lea, Flood 2014 */
static uint64_t splitmix64(uint64_t *state)
{
	uint64_t mixed = (*state += 0x9e3779b97f4a7c15ull);

	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
	return mixed ^ (mixed >> 31);
}

static void append(struct line *line, struct packet *packet)
{
	if (!line->head)
		line->tail = &line->head;
	packet->next = NULL;
	*line->tail = packet;
	line->tail = &packet->next;
	line->packets++;
	line->bytes += packet->length;
}

static struct packet *take(struct line *line)
{
	struct packet *packet = line->head;

	line->head = packet->next;
	line->packets--;
	line->bytes -= packet->length;
	return packet;
}

static void discard(struct packet *packet)
{
	packet->next = spare;
	spare = packet;
}

static struct packet *fresh(void)
{
	struct packet *packet = spare;

	if (packet)
		spare = packet->next;
	else if (!(packet = malloc(sizeof(*packet))))
		fail("memory");
	return packet;
}

/* The time of the way's n-th opportunity since its period's beginning. */
static uint64_t opportunity_ns(const struct way *way, uint64_t n)
{
	uint64_t at_us = n / way->count * way->period_us + way->at_us[n % way->count];

	return way->start_ns + at_us * 1000 - way->offset_us * 1000;
}

/* Opportunities up to `now` are gone: no packet waited. */
static void pass_over(struct way *way, uint64_t now)
{
	uint64_t since_us = (now - way->start_ns) / 1000 + way->offset_us;
	uint64_t low = 0, high = way->count, within = since_us % way->period_us;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (way->at_us[middle] <= within)
			low = middle + 1;
		else
			high = middle;
	}
	way->next = since_us / way->period_us * way->count + low;
}

static double uniform(struct way *way)
{
	return (splitmix64(&way->chance) >> 11) * 0x1p-53;
}

/* How long the present state lasts: exponential, so that a share `loss` of the time is an outage. */
static uint64_t state_ns(struct way *way)
{
	double mean_ns = way->outage_us * 1e3;

	if (!way->is_out)
		mean_ns *= (1 - way->loss) / way->loss;
	return 1 + (uint64_t)(-log1p(-uniform(way)) * mean_ns);
}

/* A way that is set begins with a full bucket, and in an outage as often as there is one. */
static void begin_chance(struct way *way, uint64_t now)
{
	way->tokens = way->bucket;
	way->filled_ns = now;
	if (way->outage_us) {
		way->is_out = uniform(way) < way->loss;
		way->turn_ns = state_ns(way);
	}
}

static int is_lost(struct way *way, uint64_t at_ns)
{
	if (way->loss <= 0)
		return 0;
	if (!way->outage_us)
		return uniform(way) < way->loss;
	while (way->start_ns + way->turn_ns <= at_ns) {
		way->is_out = !way->is_out;
		way->turn_ns += state_ns(way);
	}
	return way->is_out;
}

/* A policer's bucket has room for it; a packet that comes when it has not is lost, not kept. */
static int conforms(struct way *way, uint32_t length, uint64_t now)
{
	way->tokens += (now - way->filled_ns) * 1e-9 * way->rate;
	way->filled_ns = now;
	if (way->tokens > way->bucket)
		way->tokens = way->bucket;
	if (way->tokens < length)
		return 0;
	way->tokens -= length;
	return 1;
}

static void leave(struct way *way, struct packet *packet, uint64_t at_ns)
{
	if (is_lost(way, at_ns)) {
		way->lost++;
		discard(packet);
		return;
	}
	packet->due_ns = at_ns + way->delay_us * 1000;
	append(&way->flight, packet);
}

static void use_opportunities(struct way *way, uint64_t now)
{
	while (way->queue.head && opportunity_ns(way, way->next) <= now) {
		uint64_t at_ns = opportunity_ns(way, way->next++);
		uint32_t room = PACKET_BYTES;

		while (room && way->queue.head) {
			struct packet *packet = way->queue.head;
			uint32_t part = packet->left < room ? packet->left : room;

			packet->left -= part;
			room -= part;
			if (!packet->left)
				leave(way, take(&way->queue), at_ns);
		}
	}
}

static void arrive(struct way *way, struct packet *packet, uint64_t now)
{
	way->arrived++;
	packet->left = packet->length;
	if ((way->most_packets && way->queue.packets >= way->most_packets) ||
	    (way->most_bytes && way->queue.bytes + packet->length > way->most_bytes) ||
	    (way->bucket && !conforms(way, packet->length, now))) {
		way->dropped++;
		discard(packet);
	} else if (!way->count) {
		leave(way, packet, now);
	} else {
		if (!way->queue.head)
			pass_over(way, now);
		append(&way->queue, packet);
	}
}

static void receive(struct way *way, uint64_t now)
{
	for (;;) {
		struct packet *packet = fresh();
		ssize_t length = read(way->in, packet->bytes, PACKET_BYTES);

		if (length <= 0) {
			discard(packet);
			return;
		}
		packet->length = length;
		arrive(way, packet, now);
	}
}

static void deliver(struct way *way, uint64_t now)
{
	while (way->flight.head && way->flight.head->due_ns <= now) {
		struct packet *packet = take(&way->flight);

		if (write(way->out, packet->bytes, packet->length) == packet->length) {
			way->delivered++;
			way->delivered_bytes += packet->length;
		}
		discard(packet);
	}
}

static uint64_t next_ns(const struct way *way)
{
	uint64_t due = way->flight.head ? way->flight.head->due_ns : NEVER;
	uint64_t chance = way->queue.head ? opportunity_ns(way, way->next) : NEVER;

	return due < chance ? due : chance;
}

#endif
