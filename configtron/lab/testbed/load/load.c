// SPDX-License-Identifier: MIT
/*
 * Loads pages as a browser does and reports how long it took.
 *
 *   load PLAN          then, on stdin, one line per load:  PAGE h2|http/1.1 SEED LIMIT_S VISIT SOURCE
 *
 *   VISIT              "first", or nothing; or the page is loaded once before, and then: "resumed", on new connections that resume
 *                      its TLS sessions; "warm:SECONDS", on its connections, which were idle for so long
 *   SOURCE             the client's address, one of this namespace; nothing: the kernel's choice. With one, the ports of
 *                      the load's connections are reported.
 *
 * Question  How long until a page is complete, over this network and these two stacks?
 * Method    New connections for each load but a warm one, TLS set up once. A load begins on a whole second of the clock plus less than
 *           one kernel tick that SEED decides, so that a run does not depend on what came before it.
 * Reads as  one line of JSON per load, on stdout (loads.py documents its members).
 * Fails as  "failed" in that line: timeout, unreachable, refused, tls, alpn, closed, head, answer, unasked, size, stream,
 *           frames. Exit code 2 for a plan or a command that makes no sense.
 * Differs   from a browser: no caches, no work of its own (the plan's delays stand for it), no TLS verification.
 */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

/* HZ is 100 in the guests: the seed shifts a load against the kernel's ticks, and nothing else */
#define TICK_US 10000
/* connections of the load before are closed, and what they still send is gone, when the next one begins */
#define SETTLE (SECOND / 5)
#define SETTLE_FAILED (5 * SECOND)
#define EVENTS 64

/* when nothing of the load before is under way any more */
static ns_t settled;
static int timer;
/* of the client, network order; 0: the kernel's choice */
static uint32_t source;

static uint64_t spread(uint64_t seed)
{
	seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
	seed = (seed ^ (seed >> 27)) * 0x94d049bb133111eb;
	return seed ^ (seed >> 31);
}

/* Sleeps until the moment at which this load shall begin. */
static ns_t wait_for_begin(uint64_t seed)
{
	ns_t soonest = clock_ns(), free = soonest > settled ? soonest : settled;
	ns_t begin = (free / SECOND + 1) * SECOND + spread(seed) % TICK_US * 1000;
	struct timespec until = { begin / SECOND, begin % SECOND };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	return begin;
}

/* A timer of its own: epoll's may be late by a thousandth, five milliseconds of an idle gap. */
static void wake_at(ns_t moment)
{
	struct itimerspec once = { .it_value = { moment / SECOND, moment % SECOND } };
	static ns_t set;

	if (moment != set)
		timerfd_settime(timer, TFD_TIMER_ABSTIME, &once, NULL);
	set = moment;
}

static void run(void)
{
	struct epoll_event events[EVENTS];

	begin_page();
	proceed();
	while (!load.failed && load.done < load.page->object_count) {
		int count;

		wake_at(next_moment());
		count = epoll_wait(watch, events, EVENTS, -1);
		load.read = 0;
		load.due = false;
		for (int i = 0; i < count; i++)
			load.due |= !events[i].data.ptr;
		for (int i = 0; i < count && !load.failed; i++)
			if (events[i].data.ptr)
				on_event(events[i].data.ptr, events[i].events);
		if (load.due && now() >= load.begun + load.limit && !load.failed)
			load.failed = "timeout";
		if (!load.failed)
			proceed();
	}
}

static double ms(ns_t moment)
{
	return moment ? (moment - load.begun) / 1e6 : 0;
}

static void report(const char *http, uint64_t seed)
{
	ns_t last = 0, gaps = 0;

	for (int i = 0; i < load.page->object_count; i++)
		if (load.page->objects[i].done > last)
			last = load.page->objects[i].done;
	for (int i = 0; i < load.page->gap_count; i++)
		gaps += load.page->gaps[i];
	printf("{\"page\":\"%s\",\"http\":\"%s\",\"seed\":%llu,\"failed\":\"%s\",\"plt_ms\":%.3f,\"elapsed_ms\":%.3f,"
	       "\"connect_ms\":%.3f,\"ttfb_ms\":%.3f,\"index_ms\":%.3f,\"bytes\":%ld,\"connections\":%d,\"resumed\":%d,\"times\":[",
	       load.page->name, http, (unsigned long long)seed, load.failed ? load.failed : "",
	       load.failed ? 0 : ms(last - gaps), ms(last), ms(load.connected),
	       ms(load.page->objects[0].first), load.failed ? 0 : shown_ms(), load.bytes,
	       load.connections, load.resumed);
	for (int i = 0; i < load.page->object_count; i++) {
		struct object *thing = &load.page->objects[i];

		printf("%s[%.3f,%.3f,%.3f]", i ? "," : "", ms(thing->asked), ms(thing->first),
		       ms(thing->done));
	}
	printf("]");
	if (load.token[0])
		printf(",\"token\":\"%s\"", load.token);
	for (int i = 0; load.source && i < load.connections && i < MOST_PORTS; i++)
		printf("%s%d", i ? "," : ",\"ports\":[", load.ports[i]);
	printf("%s}\n", load.source && load.connections ? "]" : "");
	fflush(stdout);
}

static void visit(struct page *page, const char *http, uint64_t seed, double limit_s, bool resumes)
{
	memset(&load, 0, sizeof(load));
	load.source = source;
	load.page = page;
	load.h2 = !strcmp(http, "h2");
	load.protocol = load.h2 ? &http2 : &http1;
	load.resumes = resumes;
	load.limit = limit_s * SECOND;
	load.begun = load.read = wait_for_begin(seed);
	run();
}

/* Loads the page once before, where the visit is no first one; a failure is that of the load. */
static void one(struct page *page, const char *http, uint64_t seed, double limit_s, bool resumes,
		double warm_s)
{
	if (resumes || warm_s) {
		visit(page, http, seed, limit_s, false);
		settled = clock_ns() + (warm_s ? (ns_t)(warm_s * SECOND) : SETTLE);
		if (resumes)
			close_all(page);
	}
	if (!(resumes || warm_s) || !load.failed)
		visit(page, http, seed, limit_s, resumes);
	close_all(page);
	forget_sessions(page);
	report(http, seed);
	settled = clock_ns() + (load.failed ? SETTLE_FAILED : SETTLE);
}

int main(int count, char **words)
{
	char line[256], name[64], http[16], kind[32], address[32];
	struct page *pages, *page;
	unsigned long long seed;
	double limit_s, warm_s;

	if (count != 2) {
		fprintf(stderr,
			"usage: load PLAN, and on stdin: PAGE h2|http/1.1 SEED LIMIT_S VISIT SOURCE\n");
		return 2;
	}
	pages = read_plan(words[1]);
	watch = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	epoll_ctl(watch, EPOLL_CTL_ADD, timer,
		  &(struct epoll_event){ .events = EPOLLIN | EPOLLET });
	prepare_tls();
	while (fgets(line, sizeof(line), stdin)) {
		warm_s = 0;
		strcpy(kind, "first");
		strcpy(address, "0.0.0.0");
		if (sscanf(line, "%63s %15s %llu %lf %31s %31s", name, http, &seed, &limit_s, kind,
			   address) < 4 ||
		    inet_pton(AF_INET, address, &source) != 1 ||
		    (strcmp(http, "h2") && strcmp(http, "http/1.1")) ||
		    (strcmp(kind, "first") && strcmp(kind, "resumed") &&
		     sscanf(kind, "warm:%lf", &warm_s) != 1)) {
			fprintf(stderr, "load: a command without sense: %s", line);
			return 2;
		}
		for (page = pages; page && strcmp(page->name, name);)
			page = page->next;
		if (!page) {
			fprintf(stderr, "load: no page %s in this plan\n", name);
			return 2;
		}
		one(page, http, seed, limit_s, !strcmp(kind, "resumed"), warm_s);
	}
	return 0;
}
