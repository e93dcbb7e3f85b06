// SPDX-License-Identifier: MIT
/*
 * Every allocation of every call fails once.
 *
 *   failnth calls              each call of /dev/configtron, opening it, and making a network namespace
 *   failnth insmod MODULE      loading the module; it must not be loaded, and is not afterwards
 *
 * Question   Is there an allocation whose failure loses memory, leaves half a change, or brings the kernel down?
 * Method     /proc/thread-self/fail-nth (Documentation/fault-injection): "the n-th allocation from now fails". For each
 *            call n = 1, 2, ... until the call ends before its n-th allocation. failslab and fail_page_alloc are set to
 *            count allocations that may sleep, of any size.
 * Reads as   one line of JSON, {"call": failures met}. A failed call must say ENOMEM and change nothing: profiles,
 *            prefixes and versions are counted before and after. A call may succeed although an allocation failed, if
 *            the kernel has another way (a table that grows later, a bigger page instead of a smaller).
 * Fails as   "another error", "half a change", or the kernel's own words.
 */
#include "failcalls.h"

/* No call is near: making a namespace, the longest, makes some thousand allocations. */
#define MOST 20000
#define SETTLE_S 30
#define DEBUG_FS "/sys/kernel/debug"

static int device = -1;

static void counts(uint32_t *into)
{
	struct configtron_status status = {};

	if (device >= 0 && ioctl(device, CONFIGTRON_STATUS, &status))
		die("CONFIGTRON_STATUS");
	into[0] = status.profiles;
	into[1] = status.prefixes;
	into[2] = status.versions;
}

/* Whether the nth allocation of `call` was reached; then it has failed, and the call's result is checked. */
static int fail(const struct call *call, int fail_nth, unsigned int nth)
{
	uint32_t before[3], after[3];
	char text[16], left[16] = "";
	int failed, error;

	counts(before);
	snprintf(text, sizeof(text), "%u", nth);
	if (pwrite(fail_nth, text, strlen(text), 0) < 0)
		die("fail-nth");
	failed = call->make();
	error = errno;
	if (pread(fail_nth, left, sizeof(left) - 1, 0) < 0 || pwrite(fail_nth, "0", 1, 0) < 0)
		die("fail-nth");
	counts(after);
	/* a namespace is made by all of the network's parts, and some report EEXIST or EINVAL when they lack memory */
	if (failed && error != ENOMEM && !call->shared) {
		fprintf(stderr, "%s, allocation %u: another error: %s\n", call->name, nth,
			strerror(error));
		exit(1);
	}
	/* one that came to an end is taken down later, by a worker */
	if (failed && memcmp(before, after, sizeof(before)) && !call->shared) {
		fprintf(stderr,
			"%s, allocation %u: half a change: profiles %u -> %u, prefixes %u -> %u, versions %u -> %u\n",
			call->name, nth, before[0], after[0], before[1], after[1], before[2],
			after[2]);
		exit(1);
	}
	if (failed && atoi(left)) {
		fprintf(stderr, "%s fails without a failed allocation\n", call->name);
		exit(1);
	}
	return atoi(left) == 0;
}

static void fail_all(const struct call *call, int fail_nth)
{
	unsigned int nth = 1;

	while (nth < MOST && fail(call, fail_nth, nth))
		nth++;
	printf("\"%s\": %u", call->name, nth - 1);
}

/* Versions go when the last namespace has: "half a change" of a call that leaves its end to a worker. */
static void settle(uint32_t versions)
{
	uint32_t now[3];

	for (unsigned int tenths = 0; tenths < SETTLE_S * 10; tenths++) {
		counts(now);
		if (now[2] == versions)
			return;
		usleep(100000);
	}
	fprintf(stderr, "half a change: versions %u -> %u\n", versions, now[2]);
	exit(1);
}

static void count_all_allocations(void)
{
	const char *const settings[][2] = {
		{ DEBUG_FS "/failslab/ignore-gfp-wait", "N" },
		{ DEBUG_FS "/failslab/verbose", "0" },
		{ DEBUG_FS "/fail_page_alloc/ignore-gfp-wait", "N" },
		{ DEBUG_FS "/fail_page_alloc/verbose", "0" },
		{ DEBUG_FS "/fail_page_alloc/min-order", "0" },
	};

	for (unsigned int i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		if (write_text(settings[i][0], settings[i][1]))
			die(settings[i][0]);
}

int main(int count, char **words)
{
	static const struct call insmod = { "insmod", load_module };
	uint32_t before[3];
	int fail_nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);

	if (fail_nth < 0)
		die("fail-nth");
	count_all_allocations();
	printf("{");
	if (count == 3 && !strcmp(words[1], "insmod")) {
		module = words[2];
		fail_all(&insmod, fail_nth);
		printf("}\n");
		return 0;
	}
	device = device_open();
	if (device < 0)
		die(DEVICE);
	calls_begin(device);
	for (unsigned int i = 0; i < calls_count; i++) {
		printf(i ? ", " : "");
		counts(before);
		fail_all(&calls[i], fail_nth);
	}
	settle(before[2]);
	printf("}\n");
	return 0;
}
