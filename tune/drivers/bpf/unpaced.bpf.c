// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pacing=pfifo_fast for BBR: the same congestion control, its segments sent as soon as the window lets them go.
 *
 * BBR asks for pacing when it begins, and nothing that an option can set takes that back. Here its beginning is called
 * and the request is withdrawn at once; all else is BBR's own code, called as kernel functions. A queueing discipline
 * fq on the way out paces all the same: it asks the socket for itself.
 *
 * cong_control and bbr_main have had four arguments since Linux 6.10; older kernels refuse the program, and the driver
 * says so. Linux 7 has renamed cwnd_event, of which BBR minds TX_START alone: compiled for it with -DTX_START.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SK_PACING_NONE 0

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock {
	__u32 sk_pacing_status;
};

/* Only handed on; a type without any member would not match the kernel's. */
struct rate_sample {
	__u32 losses;
};

enum tcp_ca_event {
	CA_EVENT_TX_START,
};

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 new_state);
#ifdef TX_START
	void (*cwnd_event_tx_start)(struct sock *sk);
#else
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
#endif
	__u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag,
			     const struct rate_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*sndbuf_expand)(struct sock *sk);
	void (*init)(struct sock *sk);
	char name[16];
};

#pragma clang attribute pop

extern void bbr_init(struct sock *sk) __ksym;
extern void bbr_main(struct sock *sk, __u32 ack, int flag, const struct rate_sample *sample) __ksym;
extern __u32 bbr_sndbuf_expand(struct sock *sk) __ksym;
extern __u32 bbr_undo_cwnd(struct sock *sk) __ksym;
#ifdef TX_START
extern void bbr_cwnd_event_tx_start(struct sock *sk) __ksym;
#else
extern void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
#endif
extern __u32 bbr_ssthresh(struct sock *sk) __ksym;
extern __u32 bbr_min_tso_segs(struct sock *sk) __ksym;
extern void bbr_set_state(struct sock *sk, __u8 new_state) __ksym;

SEC("struct_ops")
void BPF_PROG(init, struct sock *sk)
{
	bbr_init(sk);
	sk->sk_pacing_status = SK_PACING_NONE;
}

SEC("struct_ops")
void BPF_PROG(control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *sample)
{
	bbr_main(sk, ack, flag, sample);
}

SEC("struct_ops")
__u32 BPF_PROG(sndbuf_expand, struct sock *sk)
{
	return bbr_sndbuf_expand(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return bbr_undo_cwnd(sk);
}

#ifdef TX_START
SEC("struct_ops")
void BPF_PROG(start, struct sock *sk)
{
	bbr_cwnd_event_tx_start(sk);
}
#else
SEC("struct_ops")
void BPF_PROG(event, struct sock *sk, enum tcp_ca_event event)
{
	bbr_cwnd_event(sk, event);
}
#endif

SEC("struct_ops")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	return bbr_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(min_tso_segs, struct sock *sk)
{
	return bbr_min_tso_segs(sk);
}

SEC("struct_ops")
void BPF_PROG(set_state, struct sock *sk, __u8 new_state)
{
	bbr_set_state(sk, new_state);
}

char _license[] SEC("license") = "Dual BSD/GPL";

SEC(".struct_ops")
struct tcp_congestion_ops ct_bbr_unpaced = {
	.init = (void *)init,
	.cong_control = (void *)control,
	.sndbuf_expand = (void *)sndbuf_expand,
	.undo_cwnd = (void *)undo_cwnd,
#ifdef TX_START
	.cwnd_event_tx_start = (void *)start,
#else
	.cwnd_event = (void *)event,
#endif
	.ssthresh = (void *)ssthresh,
	.min_tso_segs = (void *)min_tso_segs,
	.set_state = (void *)set_state,
	.name = "ct_bbr_unpaced",
};
