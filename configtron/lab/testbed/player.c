// SPDX-License-Identifier: MIT
/*
 * A link that plays what the kernel's queues cannot: packets leave when opportunities say so.
 *
 *     player NAMESPACE NEAR FAR      two TUN devices: NEAR here, FAR in that namespace; way 0 leads from NEAR to FAR
 *
 * Commands come by stdin, a line each, and each is answered by a line of what is then in force:
 *
 *     way NUMBER FILE PERIOD_US OFFSET_US DELAY_US LOSS QUEUE_PACKETS QUEUE_BYTES RATE BUCKET_BYTES OUTAGE_US SEED WAITS
 *     counts
 *
 * FILE holds the opportunities of one period, a line each, in microseconds; then they come again. "-" is no limit.
 * The order is Mahimahi's for a sender inside its shells: queue, opportunity, loss, delay. An opportunity carries
 * PACKET_BYTES: several small packets, or a part of one that goes on with the next. What no packet waits for is lost.
 * A BUCKET_BYTES makes the way a policer: filled with RATE bytes a second, full at first; what it does not hold is
 * dropped. An OUTAGE_US makes losses outages of that mean duration, exponential as the time between them is, so that
 * LOSS is the share of the time (Gilbert's and Elliott's chain in continuous time).
 * A way is at OFFSET_US of its period when it is set or, if it WAITS (1), when the first packet arrives at either way:
 * then a load meets the same moments however long it took to begin. The end of stdin ends the link.
 *
 * Differs from Mahimahi: microseconds instead of milliseconds; a packet in parts counts as queued until all of it left.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>

#include "played_way.h"

#define WAYS 2

static struct way ways[WAYS];

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void read_opportunities(struct way *way, const char *path)
{
	unsigned long long at_us;
	uint64_t room = 0;
	FILE *file;

	way->count = 0;
	if (!strcmp(path, "-"))
		return;
	file = fopen(path, "r");
	if (!file)
		fail(path);
	while (fscanf(file, "%llu", &at_us) == 1) {
		if (way->count == room) {
			room = room ? 2 * room : 4096;
			way->at_us = realloc(way->at_us, room * sizeof(*way->at_us));
			if (!way->at_us)
				fail("memory");
		}
		way->at_us[way->count++] = at_us;
	}
	fclose(file);
}

static void release(struct way *way, uint64_t now)
{
	while (way->queue.head)
		leave(way, take(&way->queue), now);
}

static void set_way(const char *words, uint64_t now)
{
	unsigned long long number, period, offset, delay, packets, bytes, rate, bucket, outage,
		seed;
	int waits;
	struct way *way;
	char path[4096];
	double loss;

	if (sscanf(words, "way %llu %4095s %llu %llu %llu %lf %llu %llu %llu %llu %llu %llu %d",
		   &number, path, &period, &offset, &delay, &loss, &packets, &bytes, &rate, &bucket,
		   &outage, &seed, &waits) != 13 ||
	    number >= WAYS) {
		errno = EINVAL;
		fail(words);
	}
	way = &ways[number];
	read_opportunities(way, path);
	way->period_us = period;
	way->offset_us = offset;
	way->delay_us = delay;
	way->loss = loss;
	way->most_packets = packets;
	way->most_bytes = bytes;
	way->rate = rate;
	way->bucket = bucket;
	way->outage_us = outage;
	way->seed = way->chance = seed;
	way->start_ns = now;
	begin_chance(way, now);
	/* what is queued no longer waits */
	way->waits = waits && !way->queue.head;
	if (way->count)
		pass_over(way, now);
	else
		release(way, now);
	printf("way %llu opportunities %lu period_us %lu offset_us %lu delay_us %lu loss %.9g packets %lu bytes %lu ",
	       number, way->count, way->period_us, way->offset_us, way->delay_us, way->loss,
	       way->most_packets, way->most_bytes);
	printf("rate %lu bucket %lu outage_us %lu seed %lu waits %d\n", way->rate, way->bucket,
	       way->outage_us, way->seed, way->waits);
}

static void print_counts(void)
{
	printf("counts");
	for (struct way *way = ways; way < ways + WAYS; way++)
		printf(" %lu %lu %lu %lu %lu %lu", way->arrived, way->dropped, way->lost,
		       way->delivered, way->delivered_bytes,
		       way->queue.packets + way->flight.packets);
	printf("\n");
}

/* The first packet has come. */
static void begin(uint64_t now)
{
	for (struct way *way = ways; way < ways + WAYS; way++) {
		if (way->waits)
			way->start_ns = now;
		way->waits = 0;
	}
}

static void obey(void)
{
	static char line[8192];
	static size_t held;
	ssize_t got = read(0, line + held, sizeof(line) - 1 - held);
	char *end;

	if (got <= 0)
		exit(got < 0);
	held += got;
	line[held] = 0;
	while ((end = strchr(line, '\n'))) {
		*end = 0;
		if (!strcmp(line, "counts"))
			print_counts();
		else
			set_way(line, now_ns());
		held -= end + 1 - line;
		memmove(line, end + 1, held + 1);
	}
	fflush(stdout);
}

static int tun(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (device < 0 || ioctl(device, TUNSETIFF, &request))
		fail(name);
	return device;
}

static void enter(const char *netns)
{
	char path[300];
	int there;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	there = open(path, O_RDONLY | O_CLOEXEC);
	if (there < 0 || setns(there, CLONE_NEWNET))
		fail(path);
}

static void run(void)
{
	for (;;) {
		struct pollfd ready[] = { { 0, POLLIN, 0 },
					  { ways[0].in, POLLIN, 0 },
					  { ways[1].in, POLLIN, 0 } };
		uint64_t now = now_ns(), next = NEVER, wait;
		struct timespec timeout;

		for (struct way *way = ways; way < ways + WAYS; way++) {
			use_opportunities(way, now);
			deliver(way, now);
			next = next_ns(way) < next ? next_ns(way) : next;
		}
		wait = next > now ? next - now : 0;
		timeout = (struct timespec){ wait / 1000000000, wait % 1000000000 };
		if (ppoll(ready, WAYS + 1, next == NEVER ? NULL : &timeout, NULL) < 0)
			fail("ppoll");
		now = now_ns();
		for (int i = 0; i < WAYS; i++) {
			use_opportunities(&ways[i], now);
			if (!ready[i + 1].revents)
				continue;
			begin(now);
			receive(&ways[i], now);
		}
		if (ready[0].revents)
			obey();
	}
}

int main(int count, char **words)
{
	int near, far;

	if (count != 4) {
		fprintf(stderr, "usage: player NAMESPACE NEAR FAR\n");
		return 2;
	}
	near = tun(words[2]);
	enter(words[1]);
	far = tun(words[3]);
	ways[0].in = ways[1].out = near;
	ways[0].out = ways[1].in = far;
	/* a wait ends when it ends, not 50 us later */
	prctl(PR_SET_TIMERSLACK, 1);
	run();
}
