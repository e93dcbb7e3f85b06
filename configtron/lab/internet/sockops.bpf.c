/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Per-address TCP settings of the laboratory's servers.
 *
 * Runs for every TCP socket of the control group that the servers live in. The kernel asks at four moments; the answer
 * depends on the server's own address, looked up in one map:
 *
 *   TIMEOUT_INIT         a SYN came: how long to wait for its answer before the SYN-ACK is repeated (jiffies)
 *   RWND_INIT            a SYN came: the window to offer, in segments of the MSS that the SYN-ACK announces
 *   PASSIVE_ESTABLISHED  the handshake is complete: initial congestion window, congestion control
 *
 * The minimum of the data RTO is not here: setting it now is too late, the first RTO has been computed from the
 * handshake. It is a property of the route (configtron/lab/internet/links.py).
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define AF_INET 2
#define AF_INET6 10
#define SOL_TCP 6
#define TCP_CONGESTION 13

/* An IPv4 address is written as IPv6 does it: ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2). */
struct address {
	__u32 word[4];
};

struct setting {
	__u32 icw_segments;
	__u32 syn_ack_timeout_jiffies;
	__u32 rwnd_segments;
	char congestion_control[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct address);
	__type(value, struct setting);
} settings SEC(".maps");

/* Settings that the kernel refused; the laboratory checks that it stays zero. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} refusals SEC(".maps");

static __always_inline void count_refusal(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&refusals, &zero);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline struct setting *setting_of(struct bpf_sock_ops *ops)
{
	struct address own = {};
	__u32 ip4 = ops->local_ip4;

	/* Or clang joins the loads of both branches through a moved context pointer, which the verifier refuses. */
	asm volatile("" : "+r"(ip4));
	if (ops->family == AF_INET) {
		own.word[2] = bpf_htonl(0xffff);
		own.word[3] = ip4;
	} else {
		own.word[0] = ops->local_ip6[0];
		own.word[1] = ops->local_ip6[1];
		own.word[2] = ops->local_ip6[2];
		own.word[3] = ops->local_ip6[3];
	}
	return bpf_map_lookup_elem(&settings, &own);
}

static __always_inline void set_established(struct bpf_sock_ops *ops, struct setting *wanted)
{
	int icw = wanted->icw_segments;

	/* Before the congestion control: BBR derives its first pacing rate from the window. */
	if (icw && bpf_setsockopt(ops, SOL_TCP, TCP_BPF_IW, &icw, sizeof(icw)))
		count_refusal();
	if (wanted->congestion_control[0] &&
	    bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, wanted->congestion_control,
			   sizeof(wanted->congestion_control)))
		count_refusal();
}

SEC("sockops")
int lab_sockops(struct bpf_sock_ops *ops)
{
	struct setting *wanted = setting_of(ops);
	int reply = -1; /* "no opinion" */

	if (!wanted)
		return 1;
	switch (ops->op) {
	case BPF_SOCK_OPS_TIMEOUT_INIT:
		if (wanted->syn_ack_timeout_jiffies)
			reply = wanted->syn_ack_timeout_jiffies;
		break;
	case BPF_SOCK_OPS_RWND_INIT:
		if (wanted->rwnd_segments)
			reply = wanted->rwnd_segments;
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		set_established(ops, wanted);
		break;
	}
	ops->reply = reply;
	return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
