// SPDX-License-Identifier: GPL-2.0-only
/*
 * The only hand that writes the prefixes.
 *
 * The table is frozen: no system call can write it any more, ours neither, so nobody changes it behind our back and
 * nobody has to read a million entries to know. What is to change is staged in an array, and this program, run as often
 * as there are entries, carries one over at each run and counts it. The count and the list of lengths are frozen too.
 *
 * Run by BPF_PROG_TEST_RUN; it is attached nowhere and never sees a packet.
 */
#include <linux/bpf.h>

#include "clients.h"

/* linux/errno.h; to drop what is not there is no mistake */
#define ENOENT 2
#define EINVAL 22

struct change {
	__u32 dropped;
	struct client client;
	__u32 profile;
	__u32 filling; /* entries of an array lie eight bytes apart, or a multiple */
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

/* The last row of the list before a place. */
static __always_inline struct row *row_before(struct lengths *used, __u32 place)
{
	struct row *row = row_at(used, 0);

#pragma clang loop unroll(disable)
	for (int seen = 0; seen < PLACES; seen++) {
		if (!row->next || row->next >= place)
			break;
		row = row_at(used, row->next);
	}
	return row;
}

/* A length's first prefix puts it into the list, its last takes it out: each with one store, so that whoever walks the
 * list meanwhile goes on from where he is.
 */
static __always_inline void count_length(struct lengths *used, __u32 place, int more)
{
	struct row *before = row_before(used, place), *row = row_at(used, place);

	row->count += more;
	if (more > 0 && row->count == 1) {
		row->next = before->next;
		barrier();
		before->next = place;
	} else if (!row->count) {
		before->next = row->next;
	}
}

static __always_inline long carry(void *table, struct change *change)
{
	struct match match = { .profile = change->profile, .check = check_of(&change->client) };
	struct lengths *used = lengths_for(&change->client);
	__u32 place = LONGEST_BITS + 1 - change->client.length_bits;
	int there = !!bpf_map_lookup_elem(table, &change->client);
	long error;

	if (!used || !place || place >= PLACES)
		return -EINVAL;
	if (change->dropped) {
		error = bpf_map_delete_elem(table, &change->client);
		if (!error)
			count_length(used, place, -1);
		return error == -ENOENT ? 0 : error;
	}
	error = bpf_map_update_elem(table, &change->client, &match, BPF_ANY);
	if (!error && !there)
		count_length(used, place, 1);
	return error;
}

SEC("tc")
int configtron_write(struct __sk_buff *nobody)
{
	__u32 at = outcome.tried, zero = 0;
	struct change *change = bpf_map_lookup_elem(&staged, &at);
	__u64 *count = bpf_map_lookup_elem(&writes, &zero);
	void *table = bpf_map_lookup_elem(&prefixes, &zero);

	if (!change || !count || !table || outcome.error)
		return 0;
	*count += 1;
	outcome.tried = at + 1;
	outcome.error = carry(table, change);
	return 0;
}

char _license[] SEC("license") = "GPL";
