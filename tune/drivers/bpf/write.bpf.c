// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The only hand that writes the prefixes.
 *
 * The table is frozen: no system call can write it any more, ours neither, so no program changes it behind our back and
 * none has to read a million entries to know. What is to change is staged in an array, and this program, run as often
 * as there are entries, carries one over at each run and counts it. The count and the list of lengths are frozen too.
 *
 * Run by BPF_PROG_TEST_RUN; it is attached nowhere and never sees a packet.
 */
#include <linux/bpf.h>

#include "clients.h"

/* linux/errno.h; to drop what is not there is no mistake */
#define ENOENT 2
#define EINVAL 22
#define ENOSPC 28

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
} outcome SEC(".bss.outcome");

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

/* A length's first prefix puts it into the list, its last takes it out: each with one store, so that a walk of the
 * list meanwhile goes on from where it is.
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

/* The change that is being made in IPv4's table. Functions of their own, that hand each other nothing but this, are read
 * by the verifier once each, not once for every way to get there.
 */
struct {
	__u64 key;
	__u32 found; /* the prefix is there */
	__u32 room; /* there is, or would be, a free slot */
	__u32 passed; /* so many cells after its own, be it found or not */
	__u32 slot; /* that one of the cell */
} now;

static __always_inline void *table4(__u32 *cells)
{
	__u32 zero = 0;
	void *table = bpf_map_lookup_elem(&prefixes4, &zero);
	struct cell *head = table ? bpf_map_lookup_elem(table, &zero) : 0;

	*cells = head ? head->slots[0] : 0;
	return table;
}

static __always_inline __u32 next_place(__u32 place, __u32 cells)
{
	return place + 1 < cells ? place + 1 : 0;
}

/* Of seven, one at least being set. */
static __always_inline __u32 first_bit(__u32 bits)
{
	__u32 lowest = bits & -bits;

	return !!(lowest & 0x2a) + 2 * !!(lowest & 0x4c) + 4 * !!(lowest & 0x70);
}

__noinline int look_for(void)
{
	__u32 cells, place, there, room;
	void *table = table4(&cells);
	struct cell *cell;

	now.found = now.room = 0;
	if (!table)
		return 0;
	place = home_of(now.key, cells);
#pragma clang loop unroll(disable)
	for (__u32 passed = 0; passed < MAX_CELLS; passed++) {
		cell = cell_at(table, place);
		if (!cell)
			return 0;
		there = room = 0;
#pragma clang loop unroll(full)
		for (__u32 i = 0; i < SLOTS; i++) {
			__u64 slot = READ_ONCE(cell->slots[i]);

			there |= 1 << i & all_ones_if_zero(slot >> 16 ^ now.key);
			room |= 1 << i & all_ones_if_zero(slot >> 1 | (slot & 1));
		}
		now.found = !!there;
		if (there || (room && !now.room)) {
			now.room = 1;
			now.passed = passed;
			now.slot = first_bit(there ? there : room);
		}
		if (there || (now.room && !cell->spilled))
			return 0;
		place = next_place(place, cells);
	}
	return 0;
}

/* A look-up of the prefix meanwhile goes far enough: the cells that it passed are marked before it is there, and after
 * it has gone.
 */
__noinline int mark_passed(int more)
{
	__u32 cells, place;
	void *table = table4(&cells);
	struct cell *cell;

	if (!table)
		return 0;
	place = home_of(now.key, cells);
#pragma clang loop unroll(disable)
	for (__u32 passed = 0; passed < MAX_CELLS; passed++) {
		if (passed >= now.passed)
			return 0;
		cell = cell_at(table, place);
		if (!cell)
			return 0;
		cell->spilled += more;
		place = next_place(place, cells);
	}
	return 0;
}

__noinline int write_slot(__u64 slot)
{
	__u32 cells, place, at = now.slot;
	void *table = table4(&cells);
	struct cell *cell;

	if (!table)
		return 0;
	place = home_of(now.key, cells) + now.passed;
	cell = cell_at(table, place < cells ? place : place - cells);
	if (cell && at < SLOTS)
		*(volatile __u64 *)&cell->slots[at] = slot;
	return 0;
}

static __always_inline long carry4(struct change *change, int *more)
{
	now.key = slot_key(change->client.address[3], change->client.length_bits);
	look_for();
	if (now.found && change->dropped) {
		write_slot(0);
		mark_passed(-1);
		*more = -1;
	} else if (now.found) {
		write_slot(now.key << 16 | change->profile);
	} else if (!change->dropped) {
		if (!now.room)
			return -ENOSPC;
		mark_passed(1);
		write_slot(now.key << 16 | change->profile);
		*more = 1;
	}
	return 0;
}

static __always_inline long carry6(struct change *change, int *more)
{
	struct match match = { .profile = change->profile, .check = check_of(&change->client) };
	__u32 zero = 0;
	void *table = bpf_map_lookup_elem(&prefixes, &zero);
	long error;
	int there;

	if (!table)
		return -EINVAL;
	there = !!bpf_map_lookup_elem(table, &change->client);
	if (change->dropped) {
		error = bpf_map_delete_elem(table, &change->client);
		if (!error)
			*more = -1;
		return error == -ENOENT ? 0 : error;
	}
	error = bpf_map_update_elem(table, &change->client, &match, BPF_ANY);
	if (!error && !there)
		*more = 1;
	return error;
}

static __always_inline long carry(struct change *change)
{
	int ipv4 = is_ipv4(&change->client);
	struct lengths *used = lengths_for(!ipv4);
	__u32 row = LONGEST_BITS + 1 - change->client.length_bits;
	int more = 0;
	long error;

	if (!used || !row || row >= PLACES)
		return -EINVAL;
	error = ipv4 ? carry4(change, &more) : carry6(change, &more);
	if (more)
		count_length(used, row, more);
	return error;
}

SEC("tc")
int configtron_write(struct __sk_buff *unused)
{
	__u32 at = outcome.tried, zero = 0;
	struct change *change = bpf_map_lookup_elem(&staged, &at);
	__u64 *count = bpf_map_lookup_elem(&writes, &zero);

	if (!change || !count || outcome.error)
		return 0;
	*count += 1;
	outcome.tried = at + 1;
	outcome.error = carry(change);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
