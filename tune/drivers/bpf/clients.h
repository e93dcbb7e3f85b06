/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which client gets which profile: the maps that the programs beside this file share, and the way through them.
 *
 *   prefixes   client's prefix -> number of a profile, longest prefix first
 *   current    number of a profile -> the version of it that is in force
 *   profiles   version -> what is to be set
 *   writes     how often a prefix was written
 *
 * IPv4 stands inside IPv6 as ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2), so that one table serves both, and a client
 * that reaches an IPv6 listener over IPv4 is found too. The driver keeps a barrier at ::ffff:0:0/96, profile 0: without
 * it an IPv6 prefix as wide as ::/0 would hold all of IPv4.
 *
 * A profile is changed by writing its other version and then turning `current` to it with one store: a program that
 * runs meanwhile sees the old one or the new one, never half of each, and no prefix has to be written again.
 */
#ifndef CONFIGTRON_CLIENTS_H
#define CONFIGTRON_CLIENTS_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_PREFIXES ((1 << 20) + 1) /* a million and the barrier */
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

/* The length stands in the value too: a trie answers with the longest match, and who asks for 10.0.0.0/24 must be able
 * to see that he got 10.0.0.0/8.
 */
struct match {
	__u32 profile;
	__u32 length_bits;
};

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

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, MAX_PREFIXES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, struct client);
	__type(value, struct match);
} prefixes SEC(".maps");

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

static __always_inline struct profile *profile_of(struct client *client, struct place *here)
{
	struct match *match = bpf_map_lookup_elem(&prefixes, client);
	__u32 number = here->default_profile, *version;

	if (match && match->profile)
		number = match->profile;
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
