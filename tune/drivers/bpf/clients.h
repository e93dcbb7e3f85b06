/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which client gets which profile: the maps that the programs beside this file share, and the way through them.
 *
 *   prefixes   the table: client's prefix -> number of a profile
 *   lengths    which lengths prefixes have, longest first, with their masks; a list for each family
 *   current    number of a profile -> the version of it that is in force
 *   profiles   version -> what is to be set
 *   writes     how often a prefix was written
 *
 * The table is a hash, asked once for each length in use until one answers: a table cut to /24 and /48 costs one probe,
 * wherever its parts lie in memory. A trie walks a pointer for each bit that tells two prefixes apart, and each is a
 * cache miss on a server that does other things between two connections. The table stands inside another map, so that a
 * larger one takes its place with one store.
 *
 * IPv4 stands inside IPv6 as ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2), so that one table serves both, and a client
 * that reaches an IPv6 listener over IPv4 is found too. The lists of lengths are apart: ::/0 is never asked for IPv4.
 *
 * A profile is changed by writing its other version and then turning `current` to it with one store: a program that
 * runs meanwhile sees the old one or the new one, never half of each, and no prefix has to be written again.
 */
#ifndef CONFIGTRON_CLIENTS_H
#define CONFIGTRON_CLIENTS_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))

#define MAX_PROFILES 1024 /* number 0 is nobody's */
#define MAX_STEPS 12 /* one for each option in layout.py's table, and room */
#define MAX_KNOBS 32 /* rows of layout.py's table */
#define NAME_BYTES 64
#define CC_BYTES 16 /* TCP_CA_NAME_MAX */

#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_BPF_IW 1001

/* Row 0 of layout.py's table. */
#define KNOB_CONGESTION_CONTROL 0

struct client {
	__u32 length_bits;
	__u32 address[4];
};

/* The kernel uses an entry that was dropped or changed again at once, maybe for another prefix, while somebody who has
 * just found it still reads it. So the value says whose it is.
 */
struct match {
	__u32 profile;
	__u32 check;
};

#define LONGEST_BITS 128
#define PLACES (LONGEST_BITS + 2) /* the list's head, and lengths 128 to 0 */
#define ROWS 256 /* a power of two, so that an AND keeps every place inside: the verifier wants to see that */

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
	__u32 steps_count;
	struct step steps[MAX_STEPS];
};

/* netns_cookie: whose connections; asks: bits of the early questions that any profile has an answer to. */
struct place {
	__u64 netns_cookie;
	__u32 default_profile;
	__u32 asks;
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

/* By row of layout.py's table: how often the kernel said no, and the last time with which errno. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_KNOBS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct refusal);
} refusals SEC(".maps");

static __always_inline __u32 check_of(const struct client *client)
{
	return client->length_bits ^ client->address[0] ^ client->address[1] ^ client->address[2] ^ client->address[3];
}

static __always_inline struct lengths *lengths_for(const struct client *client)
{
	__u32 ipv4 = 0, ipv6 = 1;

	if (!client->address[0] && !client->address[1] && client->address[2] == bpf_htonl(0xffff))
		return bpf_map_lookup_elem(&lengths, &ipv4);
	return bpf_map_lookup_elem(&lengths, &ipv6);
}

static __always_inline struct row *row_at(struct lengths *used, __u32 place)
{
	return &used->rows[place & (ROWS - 1)];
}

/* The number of the profile of the longest prefix that holds an address; 0: none does. */
static __always_inline __u32 number_of(const struct client *client)
{
	__u32 zero = 0, place, number;
	struct lengths *used = lengths_for(client);
	void *table = bpf_map_lookup_elem(&prefixes, &zero);
	struct match *match;
	struct client key;
	struct row *row;

	if (!used || !table)
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

static __always_inline struct profile *profile_of(struct client *client, struct place *here)
{
	__u32 number = number_of(client), *version;

	if (!number)
		number = here->default_profile;
	version = bpf_map_lookup_elem(&current, &number);
	if (!version || !*version)
		return 0;
	return bpf_map_lookup_elem(&profiles, version);
}

static __always_inline void count_refusal(__u32 knob, long error)
{
	struct refusal *refusal = bpf_map_lookup_elem(&refusals, &knob);

	if (!refusal)
		return;
	refusal->error = error;
	__sync_fetch_and_add(&refusal->count, 1);
}

/* `on` is a sock_ops context or a locked socket. A connection that lives already keeps its window: the kernel takes an
 * initial window only before the first byte. The congestion control comes last, since BBR derives its first pacing rate
 * from the window when it begins.
 */
static __always_inline void set_profile(void *on, struct profile *profile, int lives)
{
	long error;

	for (int i = 0; i < MAX_STEPS; i++) {
		struct step *step = &profile->steps[i];
		int value = step->value;

		if (i >= profile->steps_count)
			break;
		if (lives && step->level == SOL_TCP && step->option == TCP_BPF_IW)
			continue;
		error = bpf_setsockopt(on, step->level, step->option, &value, sizeof(value));
		if (error)
			count_refusal(step->knob, error);
	}
	if (!profile->congestion_control[0])
		return;
	error = bpf_setsockopt(on, SOL_TCP, TCP_CONGESTION, profile->congestion_control, CC_BYTES);
	if (error)
		count_refusal(KNOB_CONGESTION_CONTROL, error);
}

#endif
