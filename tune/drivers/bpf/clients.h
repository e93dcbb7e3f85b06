/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which client gets which profile: the maps that the programs beside this file share, and the way through them.
 *
 *   prefixes4  the table of IPv4, prefix -> number of a profile
 *   prefixes   the table of IPv6
 *   lengths    which lengths prefixes have, longest first, with their masks; a list for each family
 *   current    number of a profile -> the version of it that is in force
 *   profiles   version -> what is to be set
 *   listeners  local port and address of the only connections that are meant; unread while `place` counts none
 *   writes     how often a prefix was written
 *
 * Both are hashes, asked once for each length in use until one answers: a table cut to /24 and /48 costs one probe,
 * wherever its parts lie in memory. A trie walks a pointer for each bit that distinguishes two prefixes, and each is a
 * cache miss on a server that does other things between two connections. Each stands inside another map, so that a
 * larger one takes its place with one store. IPv6's is the kernel's hash, IPv4's is our own (cells.h).
 *
 * IPv4 is written as IPv6's ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2) until it is looked up, so that a client that
 * reaches an IPv6 listener over IPv4 is found too. The lists of lengths are apart: ::/0 is never asked for IPv4.
 *
 * A profile is changed by writing its other version and then turning `current` to it with one store: a program that
 * runs meanwhile sees the old one or the new one, never half of each, and no prefix has to be written again.
 */
#ifndef CONFIGTRON_CLIENTS_H
#define CONFIGTRON_CLIENTS_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "cells.h"

#define MAX_PROFILES 1024 /* number 0 is no profile */
#define MAX_STEPS 12 /* one for each option in layout.py's table, and room */
#define MAX_KNOBS 32 /* rows of layout.py's table */
#define NAME_BYTES 64
#define CC_BYTES 16 /* TCP_CA_NAME_MAX */

struct client {
	__u32 length_bits;
	__u32 address[4];
};

/* The kernel's hash uses an entry that was dropped or changed again at once, maybe for another prefix, while a reader that has
 * just found it still reads it. So the value says whose it is.
 */
struct match {
	__u32 profile;
	__u32 check;
};

#define LONGEST_BITS 128
#define PLACES (LONGEST_BITS + 2) /* the list's head, and lengths 128 to 0 */
/* A power of two, so that an AND keeps every place inside: the verifier wants to see that. */
#define ROWS 256

/* A length's place in the list is 129 less the length: longest first. The head is at 0, and 0 as the next is the end.
 * The masks are written before the map is frozen, the rest by write.bpf.c.
 */
struct row {
	__u32 mask[4];
	__u32 next;
	__u32 count; /* of prefixes of this length */
};

struct lengths {
	struct row rows[ROWS];
};

#define FAMILIES 2 /* 0: IPv4, 1: IPv6 */

struct step {
	__u32 knob;
	__u32 level;
	__u32 option;
	__u32 value;
};

struct profile {
	char name[NAME_BYTES];
	char congestion_control[CC_BYTES];
	__u32 synack_rto_us;
	__u32 synack_rto_ticks;
	__u32 rwnd_segments;
	__u32 written; /* bits of what the profile says without a step: see layout.py */
	__u32 version; /* a checksum of all else */
	__u32 steps_count;
	struct step steps[MAX_STEPS];
};

/* netns_cookie: whose connections; asks: bits of the early questions that any profile has an answer to; listeners: how
 * many ports or addresses with a port are meant, 0 for all.
 */
struct place {
	__u64 netns_cookie;
	__u32 default_profile;
	__u32 asks;
	__u32 listeners;
	__u32 filling;
};

/* Port in host order; address as struct client writes it, all zero for every address of this host. */
#define MAX_LISTENERS 256
struct listener {
	__u32 port;
	__u32 address[4];
};

#define ASKS_SYNACK_RTO 1
#define ASKS_RWND 2

struct refusal {
	__u64 count;
	__s64 error;
};

/* Of struct client and struct match, as large as its prefixes need: the driver makes it (tables.py). Clang describes no
 * type that only an inner map names, hence sizes.
 */
struct table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct client));
	__uint(value_size, sizeof(struct match));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__array(values, struct table);
} prefixes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FAMILIES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct lengths);
} lengths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PROFILES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, __u32);
} current SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_PROFILES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct profile);
} profiles SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct place);
} place SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, __u64);
} writes SEC(".maps");

/* Written when the place is made, then frozen: another choice of listeners is another place. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LISTENERS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, struct listener);
	__type(value, __u32);
} listeners SEC(".maps");

/* By row of layout.py's table: how often the kernel refused, and the last time with which errno. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_KNOBS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct refusal);
} refusals SEC(".maps");

/* Whether a connection with this local end is meant. The address stands in `local` already. */
static __always_inline int is_meant(struct place *here, struct listener *local)
{
	struct listener any = { .port = local->port };

	if (!here->listeners || bpf_map_lookup_elem(&listeners, &any))
		return 1;
	return !!bpf_map_lookup_elem(&listeners, local);
}

static __always_inline __u32 check_of(const struct client *client)
{
	return client->length_bits ^ client->address[0] ^ client->address[1] ^ client->address[2] ^
	       client->address[3];
}

static __always_inline int is_ipv4(const struct client *client)
{
	return !client->address[0] && !client->address[1] &&
	       client->address[2] == bpf_htonl(0xffff);
}

static __always_inline struct lengths *lengths_for(__u32 family)
{
	return bpf_map_lookup_elem(&lengths, &family);
}

static __always_inline struct row *row_at(struct lengths *used, __u32 place)
{
	return &used->rows[place & (ROWS - 1)];
}

static __always_inline __u32 ipv4_number(__u32 address)
{
	__u32 place, number;
	struct lengths *used = lengths_for(0);
	struct row *row;

	if (!used)
		return 0;
	place = used->rows[0].next;
#pragma clang loop unroll(disable)
	for (int tried = 0; tried <= 32; tried++) {
		if (!place)
			break;
		row = row_at(used, place);
		number =
			number_in_cells(slot_key(address & row->mask[3], LONGEST_BITS + 1 - place));
		if (number)
			return number;
		place = row->next;
	}
	return 0;
}

/* A function of its own, which the verifier reads once, wherever it is called from. */
__noinline __weak int ipv6_number(const struct client *client)
{
	__u32 zero = 0, place, number;
	struct lengths *used = lengths_for(1);
	void *table = bpf_map_lookup_elem(&prefixes, &zero);
	struct match *match;
	struct client key;
	struct row *row;

	if (!client || !used || !table)
		return 0;
	place = used->rows[0].next;
#pragma clang loop unroll(disable)
	for (int tried = 1; tried < PLACES; tried++) {
		if (!place)
			break;
		row = row_at(used, place);
		key.length_bits = LONGEST_BITS + 1 - place;
		key.address[0] = client->address[0] & row->mask[0];
		key.address[1] = client->address[1] & row->mask[1];
		key.address[2] = client->address[2] & row->mask[2];
		key.address[3] = client->address[3] & row->mask[3];
		place = row->next;
		match = bpf_map_lookup_elem(table, &key);
		if (!match)
			continue;
		number = READ_ONCE(match->profile);
		if (READ_ONCE(match->check) == check_of(&key))
			return number;
		/* used again under our hands: what the prefix has now */
		match = bpf_map_lookup_elem(table, &key);
		if (match)
			return match->profile;
	}
	return 0;
}

/* The number of the profile of the longest prefix that holds an address; 0: none does. */
static __always_inline __u32 number_of(const struct client *client)
{
	return is_ipv4(client) ? ipv4_number(client->address[3]) : ipv6_number(client);
}

#endif
