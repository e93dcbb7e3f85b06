// SPDX-License-Identifier: GPL-2.0-only
/*
 * Settings on a socket: written when a connection begins or is assigned, read back when asked.
 *
 * A connection is given its settings in two steps around the real congestion control's init():
 * before it what init() reads (bbr derives its pacing rate from snd_cwnd), after it what init()
 * would write over (bbr turns pacing on).
 *
 * What a connection has already shown is left alone: no initial window and no first timeout after
 * data was sent, and the cut to one segment of RFC 5681 after a repeated SYN-ACK stays.
 *
 * Nothing here writes to dst_entry, as the paper suggests: an IPv4 dst is cached per next hop and
 * shared by all its sockets, so one prefix's metrics would leak into the next.
 */
#include <linux/jiffies.h>

#include "internal.h"

/* Microseconds in ticks, never none. */
static u32 ct_ticks(s64 us)
{
	return max(1UL, usecs_to_jiffies(us));
}

/* Nothing of the connection's own has left yet, save what a SYN may carry. */
static bool ct_is_fresh(const struct tcp_sock *tp)
{
	return tp->data_segs_out <= tp->syn_data;
}

/* The caller owns the socket; it has no congestion control, or an old one that is released. */
void ct_params_before(struct sock *sk, const struct ct_settings *set)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (ct_given(set, CONFIGTRON_CWND_CLAMP)) {
		tp->snd_cwnd_clamp = set->value[CONFIGTRON_CWND_CLAMP];
		tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), tp->snd_cwnd_clamp));
	}
	if (ct_given(set, CONFIGTRON_INITCWND) && ct_is_fresh(tp) &&
	    !(tp->total_retrans > 1 && tp->undo_marker))
		tcp_snd_cwnd_set(tp, min_t(u32, set->value[CONFIGTRON_INITCWND],
					   tp->snd_cwnd_clamp));
}

static void ct_set_pacing(struct sock *sk, bool on)
{
	u32 from = on ? SK_PACING_NONE : SK_PACING_NEEDED;
	u32 to = on ? SK_PACING_NEEDED : SK_PACING_NONE;

	/* SK_PACING_FQ stays: the qdisc paces already */
	cmpxchg(&sk->sk_pacing_status, from, to);
}

static void ct_set_max_pacing_rate(struct sock *sk, s64 rate)
{
	WRITE_ONCE(sk->sk_max_pacing_rate, rate);
	WRITE_ONCE(sk->sk_pacing_rate, min(sk->sk_pacing_rate, sk->sk_max_pacing_rate));
	ct_set_pacing(sk, true);
}

/*
 * The round trip of the SYN-ACK has already seeded the variance with the old minimum, which would
 * decay over dozens of round trips: seed it anew.
 */
static void ct_set_min_rto(struct sock *sk, s64 us)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	icsk->icsk_rto_min = ct_ticks(us);
	if (!tp->srtt_us || !ct_is_fresh(tp))
		return;
	tp->rttvar_us = max_t(u32, tp->mdev_us, us);
	tp->mdev_max_us = tp->rttvar_us;
	icsk->icsk_rto = min_t(u32, TCP_RTO_MAX,
			       usecs_to_jiffies((tp->srtt_us >> 3) + tp->rttvar_us));
}

static void ct_set_window_clamp(struct tcp_sock *tp, u32 bytes)
{
	WRITE_ONCE(tp->window_clamp, bytes);
	tp->rcv_ssthresh = min(tp->rcv_ssthresh, bytes);
}

static void ct_set_nagle(struct tcp_sock *tp, bool on)
{
	if (on)
		tp->nonagle &= ~TCP_NAGLE_OFF;
	else
		tp->nonagle |= TCP_NAGLE_OFF;
}

static void ct_set_mark(struct sock *sk, u32 mark)
{
	if (sk->sk_mark == mark)
		return;
	WRITE_ONCE(sk->sk_mark, mark);
	sk_dst_reset(sk);	/* rules may look at marks: ask for the route again */
}

static void ct_params_network(struct sock *sk, const struct ct_settings *set)
{
	if (ct_given(set, CONFIGTRON_PRIORITY))
		WRITE_ONCE(sk->sk_priority, set->value[CONFIGTRON_PRIORITY]);
	if (ct_given(set, CONFIGTRON_MARK))
		ct_set_mark(sk, set->value[CONFIGTRON_MARK]);
#ifdef CONFIG_NET_RX_BUSY_POLL
	if (ct_given(set, CONFIGTRON_BUSY_POLL))
		WRITE_ONCE(sk->sk_ll_usec, set->value[CONFIGTRON_BUSY_POLL]);
#endif
#ifdef CT_HAS_QUICKACK
	if (ct_given(set, CONFIGTRON_QUICKACK))
		inet_csk(sk)->icsk_ack.dst_quick_ack = set->value[CONFIGTRON_QUICKACK];
#endif
}

/* The caller owns the socket, whose congestion control has just been initialised. */
void ct_params_after(struct sock *sk, const struct ct_settings *set)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (ct_given(set, CONFIGTRON_PACING))
		ct_set_pacing(sk, set->value[CONFIGTRON_PACING]);
	if (ct_given(set, CONFIGTRON_MAX_PACING_RATE))
		ct_set_max_pacing_rate(sk, set->value[CONFIGTRON_MAX_PACING_RATE]);
	if (ct_given(set, CONFIGTRON_MIN_RTO))
		ct_set_min_rto(sk, set->value[CONFIGTRON_MIN_RTO]);
	if (ct_given(set, CONFIGTRON_DATA_RTO) && ct_is_fresh(tp))
		icsk->icsk_rto = min_t(u32, ct_ticks(set->value[CONFIGTRON_DATA_RTO]), TCP_RTO_MAX);
	if (ct_given(set, CONFIGTRON_DELACK_MAX))
		icsk->icsk_delack_max = ct_ticks(set->value[CONFIGTRON_DELACK_MAX]);
	if (ct_given(set, CONFIGTRON_NOTSENT_LOWAT))
		WRITE_ONCE(tp->notsent_lowat, set->value[CONFIGTRON_NOTSENT_LOWAT]);
	if (ct_given(set, CONFIGTRON_NAGLE))
		ct_set_nagle(tp, set->value[CONFIGTRON_NAGLE]);
	if (ct_given(set, CONFIGTRON_WINDOW_CLAMP))
		ct_set_window_clamp(tp, set->value[CONFIGTRON_WINDOW_CLAMP]);
	ct_params_network(sk, set);
}

static s64 ct_read_network(const struct sock *sk, u32 key)
{
	switch (key) {
	case CONFIGTRON_PRIORITY:
		return READ_ONCE(sk->sk_priority);
	case CONFIGTRON_MARK:
		return READ_ONCE(sk->sk_mark);
#ifdef CONFIG_NET_RX_BUSY_POLL
	case CONFIGTRON_BUSY_POLL:
		return READ_ONCE(sk->sk_ll_usec);
#endif
#ifdef CT_HAS_QUICKACK
	case CONFIGTRON_QUICKACK:
		return inet_csk(sk)->icsk_ack.dst_quick_ack;
#endif
	default:
		return 0;
	}
}

/* What is in force now; for initcwnd the window as it stands. The caller owns the socket. */
s64 ct_param_read(const struct sock *sk, u32 key)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	switch (key) {
	case CONFIGTRON_INITCWND:
		return tcp_snd_cwnd(tp);
	case CONFIGTRON_SLOW_START_AFTER_IDLE:
		return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle);
	case CONFIGTRON_PACING:
		return READ_ONCE(sk->sk_pacing_status) != SK_PACING_NONE;
	case CONFIGTRON_MAX_PACING_RATE:
		return min_t(u64, READ_ONCE(sk->sk_max_pacing_rate), LONG_MAX);
	case CONFIGTRON_MIN_RTO:
		return jiffies_to_usecs(icsk->icsk_rto_min);
	case CONFIGTRON_DATA_RTO:
		return jiffies_to_usecs(icsk->icsk_rto);
	case CONFIGTRON_DELACK_MAX:
		return jiffies_to_usecs(icsk->icsk_delack_max);
	case CONFIGTRON_NOTSENT_LOWAT:
		return READ_ONCE(tp->notsent_lowat);
	case CONFIGTRON_NAGLE:
		return !(tp->nonagle & TCP_NAGLE_OFF);
	case CONFIGTRON_WINDOW_CLAMP:
		return READ_ONCE(tp->window_clamp);
	case CONFIGTRON_CWND_CLAMP:
		return tp->snd_cwnd_clamp;
	default:
		return ct_read_network(sk, key);
	}
}
