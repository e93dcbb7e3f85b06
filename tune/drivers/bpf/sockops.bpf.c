// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sets the profile of a client's prefix on each connection that a server takes.
 *
 * Runs for every TCP socket of one control group (version 2) and acts on those of one network namespace that came to one
 * of the place's listeners, if it names any. The kernel asks at three moments that matter here:
 *
 *   TIMEOUT_INIT         a SYN came: how long to wait for its answer before the SYN-ACK is repeated (ticks)
 *   RWND_INIT            a SYN came: the window to offer, in segments of the MSS that the SYN-ACK announces
 *   PASSIVE_ESTABLISHED  the handshake is complete, no byte was sent: everything else
 *
 * With a plan in force (drawing.h) the client's profile is drawn, and the connection is recorded (recording.h), for which
 * the kernel asks at two more: once per round trip, and when the connection's state changes.
 *
 * The first two are looked up only while some profile has an answer, so that most connections cost one look-up. Where
 * we have no opinion the reply is left alone: another program on the same group may have given one.
 */
#include <linux/bpf.h>

#include "recording.h"
#include "setting.h"

#define AF_INET6 10

static __always_inline struct profile *wanted_by(struct bpf_sock_ops *ops, struct place *here,
						 __u32 half, __u32 rtt_us, struct beginning *begun)
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
	begun->rtt_us = rtt_us;
	begun->remote[0] = client.address[0];
	begun->remote[1] = client.address[1];
	begun->remote[2] = client.address[2];
	begun->remote[3] = client.address[3];
	return profile_of(&client, here, half, rtt_us, begun);
}

/* Whether the connection came to one of the listeners that the place is for. */
static __always_inline int came_to(struct bpf_sock_ops *ops, struct place *here)
{
	struct listener local = { .port = ops->local_port };
	__u32 last;

	if (!here->listeners)
		return 1;
	if (ops->family == AF_INET6) {
		local.address[0] = ops->local_ip6[0];
		local.address[1] = ops->local_ip6[1];
		local.address[2] = ops->local_ip6[2];
		last = ops->local_ip6[3];
		asm volatile("" : "+r"(last));
	} else {
		local.address[2] = bpf_htonl(0xffff);
		last = ops->local_ip4;
		asm volatile("" : "+r"(last));
	}
	local.address[3] = last;
	return is_meant(here, &local);
}

/* Whether the kernel has cut the initial window to one segment, because the SYN-ACK had to be repeated (RFC 5681 section
 * 3.1). Linux does so from the second repeat on, unless timestamps prove that the first one was not lost
 * (tcp_init_transfer), and before this program is called; no profile takes it back.
 */
static __always_inline int cut_window(struct bpf_sock_ops *ops)
{
	return ops->total_retrans > 1 && ops->snd_cwnd == 1;
}

/* Where a question that no profile answers ends, before anything is called. */
static __always_inline struct place *our_place(struct bpf_sock_ops *ops, __u32 asks)
{
	__u32 zero = 0;
	struct place *here = bpf_map_lookup_elem(&place, &zero);

	if (!here || (asks && !(here->asks & asks)))
		return 0;
	if (here->netns_cookie != bpf_get_netns_cookie(ops))
		return 0;
	return came_to(ops, here) ? here : 0;
}

static __always_inline void establish(struct bpf_sock_ops *ops, struct profile *profile,
				      int recorded, struct beginning *begun)
{
	int cut = cut_window(ops);

	if (profile)
		set_profile(ops, profile, cut);
	if (!recorded)
		return;
	if (profile && cut)
		begun->flags |= WINDOW_CUT;
	record_open(ops, begun);
}

SEC("sockops")
int configtron(struct bpf_sock_ops *ops)
{
	struct beginning begun = {};
	struct profile *profile;
	struct place *here;
	struct turn *turn;
	__u32 asks = 0, rtt_us = 0;

	switch (ops->op) {
	case BPF_SOCK_OPS_TIMEOUT_INIT:
		asks = ASKS_SYNACK_RTO;
		break;
	case BPF_SOCK_OPS_RWND_INIT:
		asks = ASKS_RWND;
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		rtt_us = ops->srtt_us >> 3;
		break;
	case BPF_SOCK_OPS_RTT_CB:
		record_round_trip(ops);
		return 1;
	case BPF_SOCK_OPS_STATE_CB:
		if (ops->args[1] == BPF_TCP_CLOSE)
			record_end(ops);
		return 1;
	default:
		return 1;
	}
	here = our_place(ops, asks);
	turn = turn_now();
	if (!here || !turn || has_lapsed(turn))
		return 1;
	profile = wanted_by(ops, here, READ_ONCE(turn->half), rtt_us, &begun);
	if (!asks) {
		establish(ops, profile, READ_ONCE(turn->records), &begun);
	} else if (profile && asks == ASKS_SYNACK_RTO) {
		if (profile->synack_rto_ticks)
			ops->reply = profile->synack_rto_ticks;
	} else if (profile) {
		if (profile->rwnd_segments)
			ops->reply = profile->rwnd_segments;
	}
	return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
