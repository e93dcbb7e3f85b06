// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Asks the driver's own way through its own pinned maps for the profile's number of each address of an array, one at
 * each run. Run by BPF_PROG_TEST_RUN.
 */
#include <linux/bpf.h>

#include "clients.h"

struct question {
	__u32 address[4];
	__u32 number;
	__u32 filling; /* entries of an array lie eight bytes apart, or a multiple */
};

/* As many as there are addresses: sized before it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct question);
} questions SEC(".maps");

__u32 asked;

SEC("tc")
int longest(struct __sk_buff *unused)
{
	struct client client = { .length_bits = LONGEST_BITS };
	__u32 at = asked;
	struct question *question = bpf_map_lookup_elem(&questions, &at);

	if (!question)
		return 0;
	client.address[0] = question->address[0];
	client.address[1] = question->address[1];
	client.address[2] = question->address[2];
	client.address[3] = question->address[3];
	question->number = number_of(&client);
	asked = at + 1;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
