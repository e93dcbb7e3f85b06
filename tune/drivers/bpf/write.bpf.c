// SPDX-License-Identifier: GPL-2.0-only
/*
 * The only hand that writes the prefixes.
 *
 * The table is frozen: no system call can write it any more, ours neither, so nobody changes it behind our back and
 * nobody has to read a million entries to know. What is to change is staged in an array, and this program, run as often
 * as there are entries, carries one over at each run and counts it. The count is in a frozen map too.
 *
 * Run by BPF_PROG_TEST_RUN; it is attached nowhere and never sees a packet.
 */
#include <linux/bpf.h>

#include "clients.h"

/* linux/errno.h; to drop what is not there is no mistake */
#define ENOENT 2

struct change {
	__u32 dropped;
	struct client client;
	struct match match;
};

/* As many as there are changes: sized before it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct change);
} staged SEC(".maps");

/* Read after it ran: how many changes were tried, and why the first that failed did. */
struct {
	__u32 tried;
	__s32 error;
} outcome;

SEC("tc")
int configtron_write(struct __sk_buff *nobody)
{
	__u32 at = outcome.tried, zero = 0;
	struct change *change = bpf_map_lookup_elem(&staged, &at);
	__u64 *count = bpf_map_lookup_elem(&writes, &zero);
	long error;

	if (!change || !count || outcome.error)
		return 0;
	*count += 1;
	outcome.tried = at + 1;
	if (change->dropped) {
		error = bpf_map_delete_elem(&prefixes, &change->client);
		if (error == -ENOENT)
			error = 0;
	} else {
		error = bpf_map_update_elem(&prefixes, &change->client, &change->match, BPF_ANY);
	}
	outcome.error = error;
	return 0;
}

char _license[] SEC("license") = "GPL";
