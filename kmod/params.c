// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parameters: one row for each, with its range or the reason why it cannot be set, and the
 * functions that set it on a socket and read it back.
 *
 * The table is the interface (CONFIGTRON_PARAM_INFO copies it to the caller): names are those of
 * configtron/model/knobs.py, times are in microseconds, and a parameter that no connection can have
 * for itself has a row too, with the reason in words. docs/recipes/knob.md adds one. KUnit tests
 * this file by itself.
 *
 * A connection is given its settings in two steps around the real congestion control's init():
 * before it what init() reads (bbr derives its pacing rate from snd_cwnd), after it what init()
 * would write over (bbr turns pacing on). Rows are applied in the order of their keys: data_rto
 * after min_rto, which computes the timeout anew.
 *
 * What a connection has already shown is left alone: no initial window and no first timeout after
 * data was sent, and the cut to one segment of RFC 5681 after a repeated SYN-ACK stays.
 *
 * Nothing here writes to dst_entry, as the paper suggests: an IPv4 dst is cached per next hop and
 * shared by all its sockets, so one prefix's metrics would leak into the next.
 */
#include <linux/jiffies.h>
#include <linux/string.h>

#include "internal.h"

/* RFC 6298 says 60 s at least for a maximum; Linux' own TCP_RTO_MAX is 120 s. */
#define CT_RTO_MAX_US (120 * USEC_PER_SEC)
/* Below 1 ms a timer is an interrupt storm, and no jiffy is shorter. */
#define CT_TIME_MIN_US USEC_PER_MSEC
/* A sysadmin's mistake in the unit (kbit/s for bytes/s) should not stop a connection for hours. */
#define CT_RATE_MIN 1000
/* A petabyte a second is no bound for any device, and exact in a double. */
#define CT_RATE_MAX (BITS_PER_LONG == 64 ? 1LL << 50 : LONG_MAX)
/* Far above any path; a window in segments is multiplied by an MSS in 32 bits. */
#define CT_WINDOW_MAX 1000
#define CT_CLAMP_MAX 65535
/* Longer than one timer tick of the slowest kernel a busy poll only burns the processor. */
#define CT_BUSY_POLL_MAX_US 10000

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

/* Setters: the caller owns the socket; `set` has the row's key. */

static void ct_set_initcwnd(struct sock *sk, const struct ct_settings *set)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 most = tp->snd_cwnd_clamp;

	if (ct_given(set, CONFIGTRON_CWND_CLAMP))
		most = set->value[CONFIGTRON_CWND_CLAMP];
	if (ct_is_fresh(tp) && !(tp->total_retrans > 1 && tp->undo_marker))
		tcp_snd_cwnd_set(tp, min_t(u32, set->value[CONFIGTRON_INITCWND], most));
}

static void ct_set_cwnd_clamp(struct sock *sk, const struct ct_settings *set)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd_clamp = set->value[CONFIGTRON_CWND_CLAMP];
	tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), tp->snd_cwnd_clamp));
}

static void ct_pace(struct sock *sk, bool on)
{
	u32 from = on ? SK_PACING_NONE : SK_PACING_NEEDED;
	u32 to = on ? SK_PACING_NEEDED : SK_PACING_NONE;

	/* SK_PACING_FQ stays: the qdisc paces already */
	cmpxchg(&sk->sk_pacing_status, from, to);
}

static void ct_set_pacing(struct sock *sk, const struct ct_settings *set)
{
	ct_pace(sk, set->value[CONFIGTRON_PACING]);
}

static void ct_set_max_pacing_rate(struct sock *sk, const struct ct_settings *set)
{
	WRITE_ONCE(sk->sk_max_pacing_rate, set->value[CONFIGTRON_MAX_PACING_RATE]);
	WRITE_ONCE(sk->sk_pacing_rate, min(sk->sk_pacing_rate, sk->sk_max_pacing_rate));
	ct_pace(sk, true);
}

/*
 * The round trip of the SYN-ACK has already seeded the variance with the old minimum, which would
 * decay over dozens of round trips: seed it anew.
 */
static void ct_set_min_rto(struct sock *sk, const struct ct_settings *set)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	s64 us = set->value[CONFIGTRON_MIN_RTO];

	icsk->icsk_rto_min = ct_ticks(us);
	if (!tp->srtt_us || !ct_is_fresh(tp))
		return;
	tp->rttvar_us = max_t(u32, tp->mdev_us, us);
	tp->mdev_max_us = tp->rttvar_us;
	icsk->icsk_rto =
		min_t(u32, TCP_RTO_MAX, usecs_to_jiffies((tp->srtt_us >> 3) + tp->rttvar_us));
}

static void ct_set_data_rto(struct sock *sk, const struct ct_settings *set)
{
	u32 ticks = ct_ticks(set->value[CONFIGTRON_DATA_RTO]);

	if (ct_is_fresh(tcp_sk(sk)))
		inet_csk(sk)->icsk_rto = min_t(u32, ticks, TCP_RTO_MAX);
}

static void ct_set_delack_max(struct sock *sk, const struct ct_settings *set)
{
	inet_csk(sk)->icsk_delack_max = ct_ticks(set->value[CONFIGTRON_DELACK_MAX]);
}

static void ct_set_notsent_lowat(struct sock *sk, const struct ct_settings *set)
{
	WRITE_ONCE(tcp_sk(sk)->notsent_lowat, set->value[CONFIGTRON_NOTSENT_LOWAT]);
}

static void ct_set_window_clamp(struct sock *sk, const struct ct_settings *set)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 bytes = set->value[CONFIGTRON_WINDOW_CLAMP];

	WRITE_ONCE(tp->window_clamp, bytes);
	tp->rcv_ssthresh = min(tp->rcv_ssthresh, bytes);
}

static void ct_set_priority(struct sock *sk, const struct ct_settings *set)
{
	WRITE_ONCE(sk->sk_priority, set->value[CONFIGTRON_PRIORITY]);
}

static void ct_set_mark(struct sock *sk, const struct ct_settings *set)
{
	u32 mark = set->value[CONFIGTRON_MARK];

	if (sk->sk_mark == mark)
		return;
	WRITE_ONCE(sk->sk_mark, mark);
	sk_dst_reset(sk); /* rules may look at marks: ask for the route again */
}

static void ct_set_nagle(struct sock *sk, const struct ct_settings *set)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (set->value[CONFIGTRON_NAGLE])
		tp->nonagle &= ~TCP_NAGLE_OFF;
	else
		tp->nonagle |= TCP_NAGLE_OFF;
}

/* Readers: what is in force now. The caller owns the socket. */

#define CT_GET(name, expression)                        \
	static s64 ct_get_##name(const struct sock *sk) \
	{                                               \
		return expression;                      \
	}

CT_GET(initcwnd, tcp_snd_cwnd(tcp_sk(sk)))
CT_GET(slow_start_after_idle, READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle))
CT_GET(pacing, READ_ONCE(sk->sk_pacing_status) != SK_PACING_NONE)
CT_GET(max_pacing_rate, min_t(u64, READ_ONCE(sk->sk_max_pacing_rate), LONG_MAX))
CT_GET(min_rto, jiffies_to_usecs(inet_csk(sk)->icsk_rto_min))
CT_GET(data_rto, jiffies_to_usecs(inet_csk(sk)->icsk_rto))
CT_GET(delack_max, jiffies_to_usecs(inet_csk(sk)->icsk_delack_max))
CT_GET(notsent_lowat, READ_ONCE(tcp_sk(sk)->notsent_lowat))
CT_GET(window_clamp, READ_ONCE(tcp_sk(sk)->window_clamp))
CT_GET(cwnd_clamp, tcp_sk(sk)->snd_cwnd_clamp)
CT_GET(priority, READ_ONCE(sk->sk_priority))
CT_GET(mark, READ_ONCE(sk->sk_mark))
CT_GET(nagle, !(tcp_sk(sk)->nonagle & TCP_NAGLE_OFF))

/* icsk_ack.dst_quick_ack (Kbuild looks for it); before, only a route's metric holds them. */
#ifdef CT_HAS_QUICKACK
static void ct_set_quickack(struct sock *sk, const struct ct_settings *set)
{
	inet_csk(sk)->icsk_ack.dst_quick_ack = set->value[CONFIGTRON_QUICKACK];
}

static s64 ct_get_quickack(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ack.dst_quick_ack;
}

#define CT_QUICKACK_FLAGS CONFIGTRON_PARAM_SETTABLE
#define CT_QUICKACK_WORDS "ACKs are not delayed; until the connection's route changes"
#else
#define ct_set_quickack NULL
#define ct_get_quickack NULL
#define CT_QUICKACK_FLAGS 0
#define CT_QUICKACK_WORDS \
	"this kernel keeps it in the route only, beyond 16 segments; use driver route"
#endif

#ifdef CONFIG_NET_RX_BUSY_POLL
static void ct_set_busy_poll(struct sock *sk, const struct ct_settings *set)
{
	WRITE_ONCE(sk->sk_ll_usec, set->value[CONFIGTRON_BUSY_POLL]);
}

static s64 ct_get_busy_poll(const struct sock *sk)
{
	return READ_ONCE(sk->sk_ll_usec);
}

#define CT_BUSY_POLL_FLAGS CONFIGTRON_PARAM_SETTABLE
#define CT_BUSY_POLL_WORDS "microseconds to poll the device for data; only with NAPI devices"
#else
#define ct_set_busy_poll NULL
#define ct_get_busy_poll NULL
#define CT_BUSY_POLL_FLAGS 0
#define CT_BUSY_POLL_WORDS "this kernel is built without NET_RX_BUSY_POLL"
#endif

struct ct_row {
	const char *name;
	const char *unit;
	u32 flags;
	s64 min;
	s64 max;
	const char *words;
	/* before the real init(), after it; NULL: neither */
	void (*set_before)(struct sock *sk, const struct ct_settings *set);
	void (*set_after)(struct sock *sk, const struct ct_settings *set);
	s64 (*get)(const struct sock *sk); /* NULL: not a socket's */
};

#define CT_SETTABLE CONFIGTRON_PARAM_SETTABLE

static const struct ct_row ct_rows[CONFIGTRON_KEYS] = {
	[CONFIGTRON_CONGESTION_CONTROL] = {
		"tcp_congestion_control", "", CT_SETTABLE | CONFIGTRON_PARAM_TEXT, 0, 0,
		"any that the kernel has, but struct_ops and those that need ECN (dctcp): use driver route",
	},
	[CONFIGTRON_INITCWND] = {
		"initcwnd", "segments", CT_SETTABLE, 1, CT_WINDOW_MAX,
		"also the restart window after idle, but not under bbr",
		.set_before = ct_set_initcwnd,
		.get = ct_get_initcwnd,
	},
	[CONFIGTRON_SLOW_START_AFTER_IDLE] = {
		"tcp_slow_start_after_idle", "", CT_SETTABLE, 0, 1,
		"0 acts for reno, cubic, vegas; bbr never slows down after idle, whatever is set",
		.get = ct_get_slow_start_after_idle,
	},
	[CONFIGTRON_PACING] = {
		"pacing", "", CT_SETTABLE, 0, 1,
		"1: the socket paces itself; 0 takes bbr's pacing away too; fq on the device paces anyhow",
		.set_after = ct_set_pacing,
		.get = ct_get_pacing,
	},
	[CONFIGTRON_MAX_PACING_RATE] = {
		"max_pacing_rate", "bytes/s", CT_SETTABLE, CT_RATE_MIN, CT_RATE_MAX,
		"turns pacing on",
		.set_after = ct_set_max_pacing_rate,
		.get = ct_get_max_pacing_rate,
	},
	[CONFIGTRON_MIN_RTO] = {
		"min_rto", "us", CT_SETTABLE, CT_TIME_MIN_US, CT_RTO_MAX_US,
		"in the kernel's ticks; a route's locked rto_min wins",
		.set_after = ct_set_min_rto,
		.get = ct_get_min_rto,
	},
	[CONFIGTRON_DATA_RTO] = {
		"data_rto", "us", CT_SETTABLE, CT_TIME_MIN_US, CT_RTO_MAX_US,
		"until the first round trip of data; after TCP Fast Open the handshake's round trip rules",
		.set_after = ct_set_data_rto,
		.get = ct_get_data_rto,
	},
	[CONFIGTRON_DELACK_MAX] = {
		"delack_max", "us", CT_SETTABLE, CT_TIME_MIN_US, 200 * USEC_PER_MSEC,
		"in the kernel's ticks",
		.set_after = ct_set_delack_max,
		.get = ct_get_delack_max,
	},
	[CONFIGTRON_NOTSENT_LOWAT] = {
		"notsent_lowat", "bytes", CT_SETTABLE, 1, U32_MAX,
		"as TCP_NOTSENT_LOWAT",
		.set_after = ct_set_notsent_lowat,
		.get = ct_get_notsent_lowat,
	},
	[CONFIGTRON_WINDOW_CLAMP] = {
		"window_clamp", "bytes", CT_SETTABLE, SOCK_MIN_RCVBUF / 2, INT_MAX,
		"as TCP_WINDOW_CLAMP: autotuning may raise it; the SYN-ACK's window is out of reach",
		.set_after = ct_set_window_clamp,
		.get = ct_get_window_clamp,
	},
	[CONFIGTRON_CWND_CLAMP] = {
		"cwnd_clamp", "segments", CT_SETTABLE, 1, CT_CLAMP_MAX,
		"bounds every congestion window, the first too",
		.set_before = ct_set_cwnd_clamp,
		.get = ct_get_cwnd_clamp,
	},
	[CONFIGTRON_PRIORITY] = {
		"priority", "", CT_SETTABLE, 0, U32_MAX,
		"as SO_PRIORITY; or a class of the device's qdisc: 0x10020 is 1:20",
		.set_after = ct_set_priority,
		.get = ct_get_priority,
	},
	[CONFIGTRON_MARK] = {
		"mark", "", CT_SETTABLE, 0, U32_MAX,
		"as SO_MARK; the SYN-ACK has left without it",
		.set_after = ct_set_mark,
		.get = ct_get_mark,
	},
	[CONFIGTRON_BUSY_POLL] = {
		"busy_poll", "us", CT_BUSY_POLL_FLAGS, 0, CT_BUSY_POLL_MAX_US,
		CT_BUSY_POLL_WORDS,
		.set_after = ct_set_busy_poll,
		.get = ct_get_busy_poll,
	},
	[CONFIGTRON_QUICKACK] = {
		"quickack", "", CT_QUICKACK_FLAGS, 0, 1,
		CT_QUICKACK_WORDS,
		.set_after = ct_set_quickack,
		.get = ct_get_quickack,
	},
	[CONFIGTRON_NAGLE] = {
		"nagle", "", CT_SETTABLE, 0, 1,
		"0 is TCP_NODELAY; a server that sets that itself has the last word",
		.set_after = ct_set_nagle,
		.get = ct_get_nagle,
	},
	[CONFIGTRON_LOW_LATENCY] = {
		"tcp_low_latency", "", 0, 0, 1,
		"no kernel since 4.14 reads it; busy_poll is what it became",
	},
	[CONFIGTRON_AUTOCORKING] = {
		"tcp_autocorking", "", 0, 0, 1,
		"read from the namespace's sysctl in sendmsg(), where no hook is safe with kTLS; use sysctl",
	},
	[CONFIGTRON_SYNACK_RTO] = {
		"synack_rto", "us", 0, 0, CT_RTO_MAX_US,
		"the SYN-ACK is sent before a congestion control is asked; use driver ebpf",
	},
	[CONFIGTRON_INITRWND] = {
		"initrwnd", "segments", 0, 0, CT_WINDOW_MAX,
		"the SYN-ACK is sent before a congestion control is asked; use driver ebpf or route",
	},
	[CONFIGTRON_RESUME_CWND] = {
		"resume_cwnd", "segments", CT_SETTABLE, 4, CT_CLAMP_MAX,
		"Careful Resume (RFC 9959) to half of it; with resume_rtt; reno, cubic, vegas",
	},
	[CONFIGTRON_RESUME_RTT] = {
		"resume_rtt", "us", CT_SETTABLE, 1, CT_RTO_MAX_US,
		"round trip that resume_cwnd was learned at; over half to ten times of it resumes",
	},
};

/* Fills in what is known of info->key; -EINVAL for a key that is none. */
int ct_param_info(struct configtron_param_info *info)
{
	const struct ct_row *row;
	u32 key = info->key;

	if (key >= CONFIGTRON_KEYS)
		return -EINVAL;
	row = &ct_rows[key];
	memset(info, 0, sizeof(*info));
	info->key = key;
	info->flags = row->flags;
	info->min = row->min;
	info->max = row->max;
	strscpy(info->name, row->name, sizeof(info->name));
	strscpy(info->unit, row->unit, sizeof(info->unit));
	strscpy(info->words, row->words, sizeof(info->words));
	return 0;
}

bool ct_param_is_text(u32 key)
{
	return ct_rows[key].flags & CONFIGTRON_PARAM_TEXT;
}

static bool ct_is_text(const char *text)
{
	return text[0] && strnlen(text, CONFIGTRON_CC_BYTES) < CONFIGTRON_CC_BYTES;
}

/*
 * 0, or -EINVAL (malformed), -EOPNOTSUPP (cannot be set), -ERANGE. Whether a text is known is not
 * asked here.
 */
int ct_param_check(const struct configtron_param *param)
{
	const struct ct_row *row;

	if (param->key >= CONFIGTRON_KEYS || param->flags & ~CONFIGTRON_PARAM_UNSET)
		return -EINVAL;
	row = &ct_rows[param->key];
	if (!(row->flags & CONFIGTRON_PARAM_SETTABLE))
		return -EOPNOTSUPP;
	if (param->flags & CONFIGTRON_PARAM_UNSET)
		return 0;
	if (row->flags & CONFIGTRON_PARAM_TEXT)
		return ct_is_text(param->text) ? 0 : -EINVAL;
	return param->value < row->min || param->value > row->max ? -ERANGE : 0;
}

static void ct_params_apply(struct sock *sk, const struct ct_settings *set, bool before)
{
	unsigned long given = set->given;
	const struct ct_row *row;
	u32 key;

	for_each_set_bit(key, &given, CONFIGTRON_KEYS) {
		row = &ct_rows[key];
		if (before && row->set_before)
			row->set_before(sk, set);
		if (!before && row->set_after)
			row->set_after(sk, set);
	}
}

/* The caller owns the socket; it has no congestion control, or an old one that is released. */
void ct_params_before(struct sock *sk, const struct ct_settings *set)
{
	ct_params_apply(sk, set, true);
}

/* The caller owns the socket, whose congestion control has just been initialised. */
void ct_params_after(struct sock *sk, const struct ct_settings *set)
{
	ct_params_apply(sk, set, false);
}

/* What is in force now; for initcwnd the window as it stands. The caller owns the socket. */
s64 ct_param_read(const struct sock *sk, u32 key)
{
	return ct_rows[key].get ? ct_rows[key].get(sk) : 0;
}
