// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Puts the profiles in force on connections that live already.
 *
 * An iterator over the TCP sockets of the reader's network namespace. It meets listening sockets first and remembers
 * their ports; an established socket with such a local port is one that a server took, and gets its client's profile,
 * unless the place names listeners and this one came to another.
 * The others are connections that this host opened itself: no client's, left alone.
 *
 * Needs the kernel's type information (/sys/kernel/btf/vmlinux); the types below name only what is read, and where it
 * lies in the running kernel is found out at load time (CO-RE).
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>

#include "recording.h"
#include "setting.h"

#define AF_INET 2
#define TCP_ESTABLISHED 1
#define TCP_LISTEN 10
#define PORTS 65536
#define MAX_LEVELS 32 /* of control groups, one in another */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__u16 skc_num;
	unsigned short skc_family;
	unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[];
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock {
	struct sock_common __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
};

struct tcp_sock;

struct bpf_iter_meta;

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

#pragma clang attribute pop

/* Set before the program is loaded. */
const volatile __u64 cgroup_id;

/* Read after it ran. */
struct {
	__u32 seen;
	__u32 moved;
} tally;

/* The pass's own: one load, one pass. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORTS);
	__type(key, __u32);
	__type(value, __u8);
} listened SEC(".maps");

static __always_inline int in_group(struct sock *sk)
{
	struct cgroup *group = sk->sk_cgrp_data.cgroup, *above;

	for (int level = 0; level < MAX_LEVELS; level++) {
		if (!group || level > group->level)
			return 0;
		if (!bpf_core_read(&above, sizeof(above), &group->ancestors[level]) &&
		    BPF_CORE_READ(above, kn, id) == cgroup_id)
			return 1;
	}
	return 0;
}

static __always_inline int came_to(struct sock *sk, struct place *here)
{
	struct listener local = { .port = sk->__sk_common.skc_num };

	if (sk->__sk_common.skc_family == AF_INET) {
		local.address[2] = bpf_htonl(0xffff);
		local.address[3] = sk->__sk_common.skc_rcv_saddr;
	} else {
		local.address[0] = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[0];
		local.address[1] = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[1];
		local.address[2] = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[2];
		local.address[3] = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[3];
	}
	return is_meant(here, &local);
}

/* By the round trip of its handshake where that was recorded, so that its class stays. */
static __always_inline struct profile *wanted_by(struct sock *sk, struct place *here, __u32 half,
						 struct connection *recorded)
{
	struct client client = { .length_bits = 128 };
	struct beginning unused = {};

	if (sk->__sk_common.skc_family == AF_INET) {
		client.address[2] = bpf_htonl(0xffff);
		client.address[3] = sk->__sk_common.skc_daddr;
	} else {
		client.address[0] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[0];
		client.address[1] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[1];
		client.address[2] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[2];
		client.address[3] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[3];
	}
	return profile_of(&client, here, half, recorded ? recorded->begun.rtt_us : 0, &unused);
}

SEC("iter/tcp")
int configtron_move(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct connection *recorded;
	struct profile *profile;
	struct tcp_sock *tp;
	struct place *here;
	struct turn *turn;
	struct sock *sk;
	__u8 *served, yes = 1;
	__u32 port, zero = 0;

	if (!common)
		return 0;
	port = common->skc_num;
	if (common->skc_state == TCP_LISTEN) {
		bpf_map_update_elem(&listened, &port, &yes, BPF_ANY);
		return 0;
	}
	served = bpf_map_lookup_elem(&listened, &port);
	if (common->skc_state != TCP_ESTABLISHED || !served || !*served)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	sk = (struct sock *)tp;
	here = bpf_map_lookup_elem(&place, &zero);
	if (!here || !in_group(sk) || !came_to(sk, here))
		return 0;
	tally.seen++;
	turn = turn_now();
	if (!turn || has_lapsed(turn))
		return 0;
	recorded = bpf_sk_storage_get(&connections, sk, 0, 0);
	profile = wanted_by(sk, here, READ_ONCE(turn->half), recorded);
	if (!profile)
		return 0;
	set_profile(tp, profile, 1);
	if (recorded)
		recorded->begun.flags |= MOVED;
	tally.moved++;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
