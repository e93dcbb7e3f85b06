// SPDX-License-Identifier: GPL-2.0-only
/*
 * What one look-up of a client costs: the driver's own way through its own pinned maps, for addresses drawn at random,
 * beside the same loop with the look-up left out. Run by BPF_PROG_TEST_RUN, which measures.
 */
#include <linux/bpf.h>

#include "clients.h"

#define CLIENTS 256 /* in one run; more and the loop is what is measured */

__u64 found;

static __always_inline int draw(int look)
{
	struct place here = {};
	__u64 count = 0;

	for (int i = 0; i < CLIENTS; i++) {
		struct client client = { .length_bits = 128 };

		client.address[2] = bpf_htonl(0xffff);
		client.address[3] = bpf_get_prandom_u32();
		count += look ? !!profile_of(&client, &here) : client.address[3];
	}
	found += count;
	return 0;
}

SEC("tc")
int with_lookup(struct __sk_buff *nobody)
{
	return draw(1);
}

SEC("tc")
int without_lookup(struct __sk_buff *nobody)
{
	return draw(0);
}

char _license[] SEC("license") = "GPL";
