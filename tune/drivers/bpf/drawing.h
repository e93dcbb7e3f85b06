/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which profile a client gets: that of its prefix, or one drawn from the mix that the prefix's profile has.
 *
 *   plans      the two halves' plans: key, epoch, holdback, bands (draw.h)
 *   mixes      the two halves' mixes, by number of a profile: those that are classes
 *   which      which half is in force, and whether connections are recorded
 *   not_after  end of the lease, CLOCK_BOOTTIME in ns: with a plan in force and the lease passed, nothing of ours applies
 *
 * A half is written while it is idle and no program can still read it, then `which` turns with one store (drawing.py).
 * The lease is apart from the plans: it is renewed each second, and may be mapped into memory for that.
 *
 * With no plan in force all this is one look-up: a client gets the profile of its prefix.
 */
#ifndef CONFIGTRON_DRAWING_H
#define CONFIGTRON_DRAWING_H

#include "clients.h"
#include "draw.h"

#define HALVES 2

/* half: 1 or 2, 0 for no plan; records: whether connections are recorded; loaded: the half that waits for its turn, and
 * when its lease ends. Programs read the first two only.
 */
struct turn {
	__u32 half;
	__u32 records;
	__u32 loaded;
	__u32 filling;
	__u64 lease_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HALVES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct plan);
} plans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HALVES *MAX_PROFILES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct mix);
} mixes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct turn);
} which SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, __u64);
} not_after SEC(".maps");

/* What was drawn for a connection, and where it came from: its open record, and the head of its close record. Address
 * in network order, ports in the host's.
 */
struct beginning {
	__u64 epoch;
	__u64 start_ns; /* CLOCK_BOOTTIME */
	__u64 cookie;
	__u32 class; /* number of the profile whose mix was drawn from, 0: none was */
	__u32 profile; /* number, 0: the untouched stack */
	__u32 version; /* of the profile */
	__u32 rtt_us; /* of the handshake, 0: unknown */
	__u32 remote[4];
	__u16 local_port;
	__u16 remote_port;
	__u8 arm;
	__u8 band; /* 0: the class is not by band */
	__u8 flags;
	__u8 filling;
};

#define HAS_EPOCH 1 /* a plan was in force */
#define WINDOW_CUT 2 /* the kernel had cut the initial window, so the profile's was not set */
#define MOVED 4 /* its profile was set anew while it was open */

static __always_inline struct turn *turn_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&which, &zero);
}

/* Whether a plan is in force whose lease has passed. */
static __always_inline int has_lapsed(const struct turn *turn)
{
	__u32 zero = 0;
	__u64 *until;

	if (!READ_ONCE(turn->half))
		return 0;
	until = bpf_map_lookup_elem(&not_after, &zero);
	return !until || bpf_ktime_get_boot_ns() > READ_ONCE(*until);
}

static __always_inline __u64 unit_of(const struct client *client)
{
	return draw_unit6(bpf_ntohl(client->address[0]), bpf_ntohl(client->address[1]),
			  bpf_ntohl(client->address[2]), bpf_ntohl(client->address[3]));
}

/* The number of a client's profile, and in `begun` how it came about. `rtt_us` 0: the handshake's round trip is unknown. */
static __always_inline __u32 drawn_number(const struct client *client, const struct place *here,
					  __u32 half, __u32 rtt_us, struct beginning *begun)
{
	__u32 number = number_of(client), at = half - 1, slot;
	struct plan *plan = half ? bpf_map_lookup_elem(&plans, &at) : 0;
	struct mix *mix;
	__u64 unit;

	if (!plan)
		return number ? number : here->default_profile;
	begun->epoch = plan->epoch;
	begun->flags |= HAS_EPOCH;
	if (!number) {
		begun->band = draw_band(plan, rtt_us);
		if (begun->band)
			number = plan->band_class[(begun->band - 1) & (DRAW_BANDS - 1)];
	}
	if (!number)
		number = here->default_profile;
	slot = at * MAX_PROFILES + number;
	mix = bpf_map_lookup_elem(&mixes, &slot);
	if (!number || !mix || !mix->profile[0])
		return number;
	begun->class = number;
	unit = unit_of(client);
	if (draw_is_held(plan, unit)) {
		begun->arm = DRAW_HELD;
		return plan->held_profile;
	}
	begun->arm = draw_arm(mix, draw_slice(plan, plan->epoch, unit));
	return mix->profile[begun->arm & (DRAW_ARMS - 1)];
}

/* A client's profile, 0 for the untouched stack. */
static __always_inline struct profile *profile_of(const struct client *client,
						  const struct place *here, __u32 half,
						  __u32 rtt_us, struct beginning *begun)
{
	__u32 number = drawn_number(client, here, half, rtt_us, begun), *version;
	struct profile *profile;

	version = bpf_map_lookup_elem(&current, &number);
	if (!version || !*version)
		return 0;
	profile = bpf_map_lookup_elem(&profiles, version);
	if (profile) {
		begun->profile = number;
		begun->version = profile->version;
	}
	return profile;
}

#endif
