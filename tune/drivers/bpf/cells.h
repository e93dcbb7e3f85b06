/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of IPv4 prefixes: a hash of our own, an array of cells as large as a cache line with seven prefixes each.
 *
 * The kernel's hash takes some hundred bytes for a prefix and misses two or three cache lines at each probe, in pages
 * that the processor has forgotten too. Here a prefix with its profile is one word, so that a probe is one miss in a
 * table that is a sixth as large. A prefix whose cell is full stands in the next one that is not, and is counted in each
 * cell that it passed (`spilled`), so that a look-up for it goes on, and for others the first cell is the last.
 *
 * Words are read and written whole and a prefix never moves, so that who reads while one is changed finds the old or the
 * new. IPv6's prefixes fill three words and stay in the kernel's hash.
 */
#ifndef CONFIGTRON_CELLS_H
#define CONFIGTRON_CELLS_H

#include <bpf/bpf_helpers.h>

#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))

/* A slot: address in network order 32 bits, length 16, profile 16; 0 is free. The first cell is the table's head: how
 * many cells follow, in its first slot.
 */
#define SLOTS 7
struct cell {
	__u64 slots[SLOTS];
	__u64 spilled;
};

/* Of one prefix, its own and those it passed: with four in a cell on average a few. */
#define MAX_CELLS 16
#define MIX_FIRST 0x9e3779b97f4a7c15ULL
#define MIX_SECOND 0xd6e8feb86659fd93ULL

/* Of struct cell, as large as its prefixes need: the driver makes it (cells.py). Aligned like memory that is mapped. */
struct cells {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct cell));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__array(values, struct cells);
} prefixes4 SEC(".maps");

static __always_inline __u64 slot_key(__u32 address, __u32 length_bits)
{
	return (__u64)address << 16 | length_bits;
}

/* Where a prefix belongs, of so many cells. */
static __always_inline __u32 home_of(__u64 key, __u32 cells)
{
	__u64 mixed = key * MIX_FIRST;

	mixed ^= mixed >> 32;
	mixed *= MIX_SECOND;
	return (mixed >> 32) * cells >> 32;
}

static __always_inline struct cell *cell_at(void *table, __u32 place)
{
	__u32 behind_head = place + 1;

	return bpf_map_lookup_elem(table, &behind_head);
}

/* Of 63 bits at most. Without a branch, which no processor could foretell and the verifier would follow both ways of;
 * the compiler is not to know what it does, or it makes one of it.
 */
static __always_inline __u64 all_ones_if_zero(__u64 bits)
{
	bits -= 1;
	barrier_var(bits);
	return (__s64)bits >> 63;
}

/* The profile of that very prefix. A function of its own, which the verifier reads once, wherever it is called from. */
__noinline __weak int number_in_cells(__u64 key)
{
	__u32 zero = 0, cells, place, number;
	void *table = bpf_map_lookup_elem(&prefixes4, &zero);
	struct cell *cell;

	if (!table)
		return 0;
	cell = bpf_map_lookup_elem(table, &zero);
	if (!cell)
		return 0;
	cells = cell->slots[0];
	place = home_of(key, cells);
#pragma clang loop unroll(disable)
	for (int passed = 0; passed < MAX_CELLS; passed++) {
		cell = cell_at(table, place);
		if (!cell)
			return 0;
		number = 0;
#pragma clang loop unroll(full)
		for (int i = 0; i < SLOTS; i++) {
			__u64 slot = READ_ONCE(cell->slots[i]);

			number |= slot & 0xffff & all_ones_if_zero(slot >> 16 ^ key);
		}
		if (number || !READ_ONCE(cell->spilled))
			return number;
		place = place + 1 < cells ? place + 1 : 0;
	}
	return 0;
}

#endif
