// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * slow_start_after_idle=0 for one connection: cubic and reno that keep their window across a pause.
 *
 * The kernel knows this switch only for a whole network namespace. When a connection falls idle it calls its congestion
 * control (CWND_RESTART), cuts the window, and calls it again when the first segment leaves (TX_START). Between the two
 * nothing is acknowledged, so the window of before is simply put back. The first burst's first segment may still be
 * counted against the cut window; all others go at once. A loss in between means that the path was not idle:
 * forgotten.
 *
 * All else is cubic's and reno's own code, called as kernel functions. BBR needs none of this: the kernel cuts no
 * window for a congestion control that owns its window. Vegas offers no functions to BPF. What the kernel takes from a
 * connection that goes on sending less than its window (RFC 2861) it takes here too: no hook sees that.
 *
 * Linux 7 has a callback of its own for TX_START, and calls cwnd_event with it no more: compiled for it with -DTX_START.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Of types that are only handed on, one member stands for all: a type without any would not match the kernel's. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock {
	int sk_sndbuf;
};

struct tcp_sock {
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
};

struct ack_sample {
	__u32 pkts_acked;
};

enum tcp_ca_event {
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,
};

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
#ifdef TX_START
	void (*cwnd_event_tx_start)(struct sock *sk);
#endif
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	char name[16];
};

#pragma clang attribute pop

extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym;
#ifdef TX_START
extern void cubictcp_cwnd_event_tx_start(struct sock *sk) __ksym;
#else
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
#endif
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

struct window {
	__u32 cwnd;
	__u32 ssthresh;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct window);
} kept SEC(".maps");

static __always_inline void restore_window(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct window *window = bpf_sk_storage_get(&kept, sk, 0, 0);

	if (!window || !window->cwnd)
		return;
	if (window->cwnd > tp->snd_cwnd)
		tp->snd_cwnd = window->cwnd;
	tp->snd_ssthresh = window->ssthresh;
	window->cwnd = 0;
}

static __always_inline void keep_window(struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct window *window = bpf_sk_storage_get(&kept, sk, 0, 0);

	if (!window)
		return;
	switch (event) {
	case CA_EVENT_CWND_RESTART:
		if (!window->cwnd) {
			window->cwnd = tp->snd_cwnd;
			window->ssthresh = tp->snd_ssthresh;
		}
		break;
	case CA_EVENT_TX_START:
		restore_window(sk);
		break;
	case CA_EVENT_LOSS:
		window->cwnd = 0;
		break;
	default:
		break;
	}
}

SEC("struct_ops")
void BPF_PROG(cubic_init, struct sock *sk)
{
	cubictcp_init(sk);
	bpf_sk_storage_get(&kept, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

SEC("struct_ops")
__u32 BPF_PROG(cubic_ssthresh, struct sock *sk)
{
	return cubictcp_recalc_ssthresh(sk);
}

SEC("struct_ops")
void BPF_PROG(cubic_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	cubictcp_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
void BPF_PROG(cubic_state, struct sock *sk, __u8 new_state)
{
	cubictcp_state(sk, new_state);
}

SEC("struct_ops")
void BPF_PROG(cubic_event, struct sock *sk, enum tcp_ca_event event)
{
#ifndef TX_START
	cubictcp_cwnd_event(sk, event);
#endif
	keep_window(sk, event);
}

SEC("struct_ops")
void BPF_PROG(cubic_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubictcp_acked(sk, sample);
}

SEC("struct_ops")
__u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(reno_init, struct sock *sk)
{
	bpf_sk_storage_get(&kept, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

SEC("struct_ops")
__u32 BPF_PROG(reno_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
void BPF_PROG(reno_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
void BPF_PROG(reno_event, struct sock *sk, enum tcp_ca_event event)
{
	keep_window(sk, event);
}

#ifdef TX_START
SEC("struct_ops")
void BPF_PROG(cubic_start, struct sock *sk)
{
	cubictcp_cwnd_event_tx_start(sk);
	restore_window(sk);
}

SEC("struct_ops")
void BPF_PROG(reno_start, struct sock *sk)
{
	restore_window(sk);
}
#endif

char _license[] SEC("license") = "Dual BSD/GPL";

SEC(".struct_ops")
struct tcp_congestion_ops ct_cubic_keep = {
	.init = (void *)cubic_init,
	.ssthresh = (void *)cubic_ssthresh,
	.cong_avoid = (void *)cubic_cong_avoid,
	.set_state = (void *)cubic_state,
	.cwnd_event = (void *)cubic_event,
#ifdef TX_START
	.cwnd_event_tx_start = (void *)cubic_start,
#endif
	.pkts_acked = (void *)cubic_acked,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "ct_cubic_keep",
};

SEC(".struct_ops")
struct tcp_congestion_ops ct_reno_keep = {
	.init = (void *)reno_init,
	.ssthresh = (void *)reno_ssthresh,
	.cong_avoid = (void *)reno_cong_avoid,
	.cwnd_event = (void *)reno_event,
#ifdef TX_START
	.cwnd_event_tx_start = (void *)reno_start,
#endif
	.undo_cwnd = (void *)undo_cwnd,
	.name = "ct_reno_keep",
};
