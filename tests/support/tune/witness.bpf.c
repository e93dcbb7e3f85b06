// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What no getsockopt reports of established sockets, one line of JSON each: a witness that shares nothing with the
 * driver.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define TCP_ESTABLISHED 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	__u16 skc_num;
	__be16 skc_dport;
	unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
	__u32 sk_pacing_status;
	__u32 sk_mark;
};

struct inet_connection_sock {
	__u32 icsk_rto_min;
	__u32 icsk_delack_max;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd_clamp;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

#pragma clang attribute pop

SEC("iter/tcp")
int witness(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;
	struct sock *sk;

	if (!common || common->skc_state != TCP_ESTABLISHED)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	sk = (struct sock *)tp;
	BPF_SEQ_PRINTF(
		ctx->meta->seq,
		"{\"local\": %u, \"remote\": %u, \"paced\": %u, \"rto_min\": %u, \"delack_max\": %u, \"cwnd_clamp\": %u}\n",
		common->skc_num, __builtin_bswap16(common->skc_dport), sk->sk_pacing_status,
		tp->inet_conn.icsk_rto_min, tp->inet_conn.icsk_delack_max, tp->snd_cwnd_clamp);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
