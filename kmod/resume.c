// SPDX-License-Identifier: GPL-2.0-only
/*
 * Careful Resume (RFC 9959): a connection takes up the window that was learned for its client.
 *
 * A profile with resume_cwnd and resume_rtt has what earlier connections came to: RFC 9959's
 * saved_cwnd and saved_rtt. Its connections begin as any other and pass through these phases:
 *
 *   reconnaissance  the initial window, as ever. Once all of it was acknowledged without
 *                   congestion and there is data to send: unvalidated. Not where the smallest
 *                   round trip says that the path is another one (at most half of resume_rtt, or
 *                   more than ten times), slow start has ended, the SYN-ACK was sent again, or
 *                   another connection of this client has resumed and is still open.
 *   unvalidated     the window is half of resume_cwnd, paced over a round trip, and does not
 *                   grow. Ends once it is full, its first packet was acknowledged, or more than
 *                   a round trip has passed. Less was sent than PipeSize: the window becomes
 *                   PipeSize and the connection goes on as any other; else the window becomes
 *                   what is in flight.
 *   validating      the real congestion control's growth, until the jump's last is acknowledged.
 *   retreat         congestion in one of the last two: ssthresh is half of PipeSize, and the
 *                   window goes there by the core's proportional rate reduction and does not
 *                   grow until the jump's last, or what was sent after it, is acknowledged, by
 *                   SACK too. Then ssthresh is half of what PipeSize has become. A timeout ends
 *                   it: the window grows from one segment on, as after any other.
 *
 * PipeSize: packets in flight at the jump, and what was delivered since (tp->delivered).
 *
 * Differs from the RFC: an undo by the core (a loss that was none) brings ssthresh back, never
 * the jump; parameters are learned per prefix, so a retreat does not delete them: the close
 * record has it, and the learner decides.
 *
 * Beside it, of every connection whose congestion control leaves room: its largest window. It
 * can only fall where congestion is answered and after idle, so it is noted there and at the end.
 *
 * All of it runs where the socket is owned. Profiles that do not resume have nothing of this on
 * the path of an ACK.
 */
#include <linux/siphash.h>

#include "internal.h"

enum ct_phase {
	CT_NORMAL, /* 0: as memory is given */
	CT_RECONNAISSANCE,
	CT_UNVALIDATED,
	CT_VALIDATING,
	CT_RETREAT,
	CT_RETREATED, /* its last was acknowledged; the core has not ended its recovery yet */
	CT_TIMED_OUT, /* the core's timer ended it, and grows the window from one segment on */
};

#define CT_UNPACED 0x1 /* nothing paced this socket before the jump */
#define CT_RESUMED 0x2
#define CT_VALIDATED 0x4
#define CT_CONGESTED 0x8

/*
 * Clients of which a connection has resumed: the client's hash, and when to forget it. Another
 * client may take the place; then the first one's next connection may resume too.
 */
#define CT_CLIENTS 4096
#define CT_CLIENT_HOLD (60 * HZ)

static atomic64_t ct_clients[CT_CLIENTS];

bool ct_has_room(const struct ct_real *real)
{
	return !real->ops->cong_control &&
	       real->private_bytes + sizeof(struct ct_room) <= ICSK_CA_PRIV_SIZE;
}

static u32 ct_client_hash(const struct sock *sk)
{
	static siphash_aligned_key_t key;
	const void *address;
	u8 family = ct_address(sk, true, &address);

	net_get_random_once(&key, sizeof(key));
	return (u32)siphash_2u64(ct_unit(family, address), (unsigned long)sock_net(sk), &key) ?: 1;
}

/* Whether this client's window is free to be used, which is then taken. */
static bool ct_client_take(struct sock *sk, struct ct_room *room)
{
	u32 hash = ct_client_hash(sk), now = tcp_jiffies32, until = (now + CT_CLIENT_HOLD) ?: 1;
	atomic64_t *place = &ct_clients[hash % CT_CLIENTS];
	u64 had = atomic64_read(place);

	if (had >> 32 == hash && (s32)(now - (u32)had) < 0)
		return false;
	if (atomic64_cmpxchg(place, had, (u64)hash << 32 | until) != had)
		return false;
	room->until = until;
	return true;
}

/* Unless the time was over, and another connection of this client has taken it meanwhile. */
static void ct_client_give(struct sock *sk, struct ct_room *room)
{
	u32 hash;

	if (!room->until)
		return;
	hash = ct_client_hash(sk);
	atomic64_cmpxchg(&ct_clients[hash % CT_CLIENTS], (u64)hash << 32 | room->until, 0);
	room->until = 0;
}

static void ct_note_window(struct sock *sk)
{
	struct ct_room *room = ct_room(sk);

	room->max_cwnd = max(room->max_cwnd, tcp_snd_cwnd(tcp_sk(sk)));
}

static void ct_pace_jump(struct sock *sk, struct ct_room *room, u32 jump)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 rate = div_u64((u64)jump * tp->mss_cache * USEC_PER_SEC * 8, tp->srtt_us);

	room->max_rate = sk->sk_max_pacing_rate;
	WRITE_ONCE(sk->sk_max_pacing_rate, min_t(u64, room->max_rate, rate));
	room->pace = sk->sk_max_pacing_rate;
	WRITE_ONCE(sk->sk_pacing_rate, min(sk->sk_pacing_rate, sk->sk_max_pacing_rate));
	if (cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED) == SK_PACING_NONE)
		room->flags |= CT_UNPACED;
}

/* Unless the application has set a rate of its own meanwhile, which stays. */
static void ct_unpace(struct sock *sk, struct ct_room *room)
{
	if ((u16)sk->sk_max_pacing_rate != room->pace)
		return;
	WRITE_ONCE(sk->sk_max_pacing_rate, room->max_rate);
	if (room->flags & CT_UNPACED)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED, SK_PACING_NONE);
	room->flags &= ~CT_UNPACED;
}

static bool ct_is_same_path(const struct tcp_sock *tp, s64 saved_us)
{
	s64 now_us = tcp_min_rtt(tp);

	return now_us != ~0U && tp->srtt_us && now_us > saved_us / 2 && now_us <= saved_us * 10;
}

static void ct_jump(struct sock *sk, struct ct_room *room, u32 jump)
{
	struct tcp_sock *tp = tcp_sk(sk);

	ct_pace_jump(sk, room, jump);
	room->first = tp->snd_nxt;
	room->begun = tcp_jiffies32;
	room->pipe = tcp_packets_in_flight(tp) - tp->delivered;
	room->flags |= CT_RESUMED;
	room->phase = CT_UNVALIDATED;
	tcp_snd_cwnd_set(tp, jump);
}

static void ct_reconnaissance(struct sock *sk, const struct ct_settings *set, struct ct_room *room)
{
	u32 jump = set->value[CONFIGTRON_RESUME_CWND] / 2;
	struct tcp_sock *tp = tcp_sk(sk);

	jump = min(jump, tp->snd_cwnd_clamp);
	if ((s32)(tp->delivered - room->first) < 0 || inet_csk(sk)->icsk_ca_state != TCP_CA_Open)
		return;
	if (!tcp_in_slow_start(tp) || jump <= tcp_snd_cwnd(tp) ||
	    !ct_is_same_path(tp, set->value[CONFIGTRON_RESUME_RTT]))
		room->phase = CT_NORMAL;
	else if (!before(tp->snd_nxt, tp->write_seq))
		return; /* nothing to send: later */
	else if (ct_client_take(sk, room))
		ct_jump(sk, room, jump);
	else
		room->phase = CT_NORMAL;
}

static void ct_unvalidated(struct sock *sk, struct ct_room *room)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 flight = tcp_packets_in_flight(tp), pipe = room->pipe + tp->delivered;

	if (flight < tcp_snd_cwnd(tp) && !after(tp->snd_una, room->first) &&
	    tcp_jiffies32 - room->begun <= usecs_to_jiffies(tp->srtt_us >> 3))
		return;
	ct_unpace(sk, room);
	room->last = tp->snd_nxt;
	room->phase = flight > pipe && flight >= TCP_INIT_CWND ? CT_VALIDATING : CT_NORMAL;
	if (room->phase == CT_NORMAL)
		flight = max_t(u32, pipe, TCP_INIT_CWND);
	tcp_snd_cwnd_set(tp, min(flight, tcp_snd_cwnd(tp)));
}

/* The threshold that congestion leaves to the jump. */
static u32 ct_retreat(struct sock *sk, struct ct_room *room)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (room->phase == CT_UNVALIDATED) {
		ct_unpace(sk, room);
		room->last = tp->snd_nxt;
	}
	room->flags |= CT_CONGESTED;
	room->phase = CT_RETREAT;
	return max((room->pipe + tp->delivered) / 2, 2U);
}

static void ct_validating(struct sock *sk, struct ct_room *room)
{
	if (before(tcp_sk(sk)->snd_una, room->last))
		return;
	room->flags |= CT_VALIDATED;
	room->phase = CT_NORMAL;
}

static void ct_retreating(struct sock *sk, struct ct_room *room)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (before(tp->snd_una, room->last) && before(tcp_highest_sack_seq(tp), room->last))
		return;
	room->pipe += tp->delivered;
	room->phase = CT_RETREATED;
}

static void ct_retreated(struct sock *sk, struct ct_room *room)
{
	if (inet_csk(sk)->icsk_ca_state != TCP_CA_Open)
		return;
	tcp_sk(sk)->snd_ssthresh = max(room->pipe / 2, 2U);
	room->phase = CT_NORMAL;
}

static void ct_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	const struct ct_version *version = ct_version_of(sk);
	struct ct_room *room = ct_room(sk);

	if (version->real->ops->pkts_acked)
		version->real->ops->pkts_acked(sk, sample);
	if (room->phase == CT_RECONNAISSANCE)
		ct_reconnaissance(sk, &version->set, room);
	else if (room->phase == CT_UNVALIDATED)
		ct_unvalidated(sk, room);
	else if (room->phase == CT_VALIDATING)
		ct_validating(sk, room);
	else if (room->phase == CT_RETREAT)
		ct_retreating(sk, room);
	else if (room->phase == CT_RETREATED)
		ct_retreated(sk, room);
	else if (room->phase == CT_TIMED_OUT && inet_csk(sk)->icsk_ca_state == TCP_CA_Open)
		room->phase = CT_NORMAL;
}

static bool ct_is_held(const struct ct_room *room)
{
	return room->phase == CT_UNVALIDATED || room->phase == CT_RETREAT ||
	       room->phase == CT_RETREATED;
}

static void ct_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	if (!ct_is_held(ct_room(sk)))
		ct_version_of(sk)->real->ops->cong_avoid(sk, ack, acked);
}

static u32 ct_ssthresh(struct sock *sk)
{
	struct ct_room *room = ct_room(sk);

	ct_note_window(sk);
	if (room->phase == CT_UNVALIDATED || room->phase == CT_VALIDATING)
		return ct_retreat(sk, room);
	if (room->phase == CT_RECONNAISSANCE)
		room->phase = CT_NORMAL;
	return ct_version_of(sk)->real->ops->ssthresh(sk);
}

static u32 ct_undo_cwnd(struct sock *sk)
{
	if (ct_room(sk)->phase >= CT_RETREAT)
		return tcp_snd_cwnd(tcp_sk(sk));
	return ct_version_of(sk)->real->ops->undo_cwnd(sk);
}

/* For a congestion control that leaves room. */
void ct_resume_wrap(struct tcp_congestion_ops *ops, const struct ct_settings *set)
{
	ops->ssthresh = ct_ssthresh;
	if (!ct_resumes(set))
		return;
	ops->pkts_acked = ct_pkts_acked;
	ops->cong_avoid = ct_cong_avoid;
	ops->undo_cwnd = ct_undo_cwnd;
}

/* The caller owns the socket, which has just been given this version. */
void ct_resume_begin(struct sock *sk, const struct ct_version *version)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct ct_room *room = ct_room(sk);

	if (!ct_has_room(version->real))
		return;
	memset(room, 0, sizeof(*room));
	if (!ct_resumes(&version->set) || tp->total_retrans || tp->data_segs_out > tp->syn_data)
		return;
	room->phase = CT_RECONNAISSANCE;
	room->first = tp->delivered + tcp_snd_cwnd(tp);
}

/*
 * A timeout ends a retreat. After idle the window is an initial one again, and what was sent before
 * is acknowledged.
 */
void ct_resume_event(struct sock *sk, enum tcp_ca_event event)
{
	struct ct_room *room = ct_room(sk);

	if (event == CA_EVENT_LOSS && room->phase >= CT_RETREAT)
		room->phase = CT_TIMED_OUT;
	if (event != CA_EVENT_CWND_RESTART)
		return;
	ct_note_window(sk);
	if (room->phase == CT_UNVALIDATED)
		ct_unpace(sk, room);
	if (room->phase != CT_RECONNAISSANCE)
		room->phase = CT_NORMAL;
}

void ct_resume_end(struct sock *sk, const struct ct_version *version)
{
	struct ct_room *room = ct_room(sk);

	if (!ct_has_room(version->real))
		return;
	if (room->phase == CT_UNVALIDATED)
		ct_unpace(sk, room);
	room->phase = CT_NORMAL;
	ct_client_give(sk, room);
}

/* NULL: `version` does not hold this socket, or leaves no room. */
static const struct ct_room *ct_room_under(const struct sock *sk, const struct ct_version *version)
{
	bool held = inet_csk(sk)->icsk_ca_ops == &version->ops;

	return held && ct_has_room(version->real) ? ct_room(sk) : NULL;
}

u16 ct_resume_flags(const struct sock *sk, const struct ct_version *version)
{
	const struct ct_room *room = ct_room_under(sk, version);
	u16 flags = 0;

	if (!room)
		return 0;
	if (room->flags & CT_RESUMED)
		flags |= CONFIGTRON_RECORD_RESUMED;
	if (room->flags & CT_VALIDATED)
		flags |= CONFIGTRON_RECORD_VALIDATED;
	if (room->flags & CT_CONGESTED)
		flags |= CONFIGTRON_RECORD_RETREATED;
	return flags;
}

/* Segments; 0 where it is not known. */
u32 ct_max_cwnd(const struct sock *sk, const struct ct_version *version)
{
	const struct ct_room *room = ct_room_under(sk, version);

	return room ? max(room->max_cwnd, tcp_snd_cwnd(tcp_sk(sk))) : 0;
}
