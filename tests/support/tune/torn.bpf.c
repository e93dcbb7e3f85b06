// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Looks at the plan in force as the driver's program does, and counts the looks that met half of one: the plan's key is
 * its epoch twice, and each mix has one arm, the profile that the epoch names.
 */
#include <linux/bpf.h>

#include "drawing.h"

#define LOOKS 4096

/* Number of the class, and of the first of eight arms; set before the program is loaded. */
const volatile struct {
	__u32 class;
	__u32 first;
} numbers;

struct {
	__u64 looks;
	__u64 torn;
} tally;

static long look(__u32 turn, void *unused)
{
	struct turn *now = turn_now();
	__u32 at = now ? READ_ONCE(now->half) - 1 : 0, slot = at * MAX_PROFILES + numbers.class;
	struct plan *plan = bpf_map_lookup_elem(&plans, &at);
	struct mix *mix = bpf_map_lookup_elem(&mixes, &slot);
	__u64 epoch, first, second;

	if (!plan || !mix)
		return 0;
	first = READ_ONCE(plan->key[0]);
	epoch = READ_ONCE(plan->epoch);
	second = READ_ONCE(plan->key[1]);
	tally.looks++;
	tally.torn += first != epoch || second != epoch ||
		      READ_ONCE(mix->profile[0]) != numbers.first + (epoch & 7);
	return 0;
}

SEC("tc")
int torn(struct __sk_buff *unused)
{
	bpf_loop(LOOKS, look, 0, 0);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
