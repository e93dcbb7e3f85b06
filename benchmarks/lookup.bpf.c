// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What one look-up of a client costs: the driver's own way through its own pinned maps, for addresses drawn at random,
 * beside the same loop with the look-up left out. Run by BPF_PROG_TEST_RUN, which measures.
 */
#include <linux/bpf.h>

#include "drawing.h"

#define CLIENTS 256 /* in one run; more and the loop is what is measured */

__u64 found;

static __always_inline void draw(struct client *client)
{
	client->length_bits = LONGEST_BITS;
	client->address[2] = bpf_htonl(0xffff);
	client->address[3] = bpf_get_prandom_u32();
}

/* A function that the kernel calls: as a loop of its own the verifier would walk each turn of it. */
static long look_up(__u32 turn, void *nothing)
{
	struct client client = {};
	struct place here = {};
	struct beginning begun = {};

	draw(&client);
	found += !!profile_of(&client, &here, 0, 0, &begun);
	return 0;
}

static long leave_out(__u32 turn, void *nothing)
{
	struct client client = {};

	draw(&client);
	found += client.address[3];
	return 0;
}

SEC("tc")
int with_lookup(struct __sk_buff *unused)
{
	bpf_loop(CLIENTS, look_up, 0, 0);
	return 0;
}

SEC("tc")
int without_lookup(struct __sk_buff *unused)
{
	bpf_loop(CLIENTS, leave_out, 0, 0);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
