// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a draw costs: parts of the driver's own way, with its own pinned maps, beside the same loop without them. Run by
 * BPF_PROG_TEST_RUN, which measures.
 */
#include <linux/bpf.h>

#include "drawing.h"

#define CLIENTS 1024 /* in one run; fewer and the call is what is measured */

/* Number of the class; set before the program is loaded. */
const volatile __u32 class;

__u64 found, next;

/* A function that the kernel calls: as a loop of its own the verifier would walk each turn of it. */
#define PART(name, expression)                                          \
	static long turn_##name(__u32 turn, void *unused)               \
	{                                                               \
		__u32 zero = 0;                                         \
		struct plan *plan = bpf_map_lookup_elem(&plans, &zero); \
		struct turn *word = turn_now();                         \
		__u64 unit = draw_unit4(next++);                        \
                                                                        \
		if (!plan || !word)                                     \
			return 1;                                       \
		found += (expression) + (unit & 1);                     \
		return 0;                                               \
	}                                                               \
	SEC("tc")                                                       \
	int name(struct __sk_buff *unused)                              \
	{                                                               \
		bpf_loop(CLIENTS, turn_##name, 0, 0);                   \
		return 0;                                               \
	}

static __always_inline __u32 choose(const struct plan *plan, __u64 unit)
{
	__u32 number = class;
	struct mix *mix = bpf_map_lookup_elem(&mixes, &number);

	return mix ? mix->profile[draw_arm(mix, draw_slice(plan, plan->epoch, unit)) & 7] : 0;
}

PART(nothing, unit)
PART(hash, draw_slice(plan, plan->epoch, unit))
PART(hash_and_choice, choose(plan, unit))
PART(holdback, draw_is_held(plan, unit))
PART(lease, has_lapsed(word))

char _license[] SEC("license") = "Dual BSD/GPL";
