// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets the profile of a client's prefix on each connection that a server takes.
 *
 * Runs for every TCP socket of one control group (version 2) and acts on those of one network namespace. The kernel
 * asks at three moments that matter here:
 *
 *   TIMEOUT_INIT         a SYN came: how long to wait for its answer before the SYN-ACK is repeated (ticks)
 *   RWND_INIT            a SYN came: the window to offer, in segments of the MSS that the SYN-ACK announces
 *   PASSIVE_ESTABLISHED  the handshake is complete, no byte was sent: everything else
 *
 * The first two are looked up only while some profile has an answer, so that most connections cost one look-up. Where
 * we have no opinion the reply is left alone: another program on the same group may have given one.
 */
#include <linux/bpf.h>

#include "setting.h"

#define AF_INET6 10

static __always_inline struct profile *wanted_by(struct bpf_sock_ops *ops, struct place *here)
{
	struct client client = { .length_bits = 128 };
	__u32 last;

	/* Or clang joins the loads of both branches through a moved context pointer, which the verifier refuses. */
	if (ops->family == AF_INET6) {
		client.address[0] = ops->remote_ip6[0];
		client.address[1] = ops->remote_ip6[1];
		client.address[2] = ops->remote_ip6[2];
		last = ops->remote_ip6[3];
		asm volatile("" : "+r"(last));
	} else {
		client.address[2] = bpf_htonl(0xffff);
		last = ops->remote_ip4;
		asm volatile("" : "+r"(last));
	}
	client.address[3] = last;
	return profile_of(&client, here);
}

/* Where a question that no profile answers ends, before anything is called. */
static __always_inline struct place *our_place(struct bpf_sock_ops *ops, __u32 asks)
{
	__u32 zero = 0;
	struct place *here = bpf_map_lookup_elem(&place, &zero);

	if (!here || (asks && !(here->asks & asks)))
		return 0;
	return here->netns_cookie == bpf_get_netns_cookie(ops) ? here : 0;
}

SEC("sockops")
int configtron(struct bpf_sock_ops *ops)
{
	struct place *here;
	struct profile *profile;
	__u32 asks = 0;

	switch (ops->op) {
	case BPF_SOCK_OPS_TIMEOUT_INIT:
		asks = ASKS_SYNACK_RTO;
		break;
	case BPF_SOCK_OPS_RWND_INIT:
		asks = ASKS_RWND;
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		break;
	default:
		return 1;
	}
	here = our_place(ops, asks);
	if (!here)
		return 1;
	profile = wanted_by(ops, here);
	if (!profile)
		return 1;
	if (asks == ASKS_SYNACK_RTO) {
		if (profile->synack_rto_ticks)
			ops->reply = profile->synack_rto_ticks;
	} else if (asks == ASKS_RWND) {
		if (profile->rwnd_segments)
			ops->reply = profile->rwnd_segments;
	} else {
		set_profile(ops, profile, 0);
	}
	return 1;
}

char _license[] SEC("license") = "GPL";
