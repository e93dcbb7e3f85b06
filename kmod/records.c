// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records: what a connection came to, written at its end for readers of /dev/configtron and,
 * while a plan is in force, what was drawn for it, written at its beginning. The socket has no
 * room for what was drawn: who reads both records joins them by a keyed hash of the socket's
 * address.
 *
 * Each reader has a ring of its own, so readers do not take records from one another, and one
 * that sleeps does not hold the others up. The end of a connection never waits: a full ring
 * loses the record, the reader's next record says how many were lost before it, and
 * CONFIGTRON_STATUS counts them all. Without a reader there is no record and no cost.
 *
 * The lock of the list orders writers of all rings; one reader at a time empties its own (the
 * file's mutex), so head and tail need only acquire and release.
 */
#include <linux/mm.h>
#include <linux/once.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include "internal.h"

struct ct_reader *ct_reader_new(struct ct_net *cn, u32 capacity, wait_queue_head_t *wait)
{
	struct ct_reader *reader;

	if (!capacity)
		capacity = CT_RECORDS_DEFAULT;
	if (capacity > CT_RECORDS_MAX || !is_power_of_2(capacity))
		return ERR_PTR(-EINVAL);
	reader = kzalloc(sizeof(*reader), GFP_KERNEL_ACCOUNT);
	if (!reader)
		return ERR_PTR(-ENOMEM);
	reader->ring = kvcalloc(capacity, sizeof(*reader->ring), GFP_KERNEL_ACCOUNT);
	if (!reader->ring) {
		kfree(reader);
		return ERR_PTR(-ENOMEM);
	}
	reader->mask = capacity - 1;
	reader->wait = wait;
	spin_lock_bh(&cn->readers_lock);
	if (cn->reader_count < CT_READERS_MAX) {
		WRITE_ONCE(cn->reader_count, cn->reader_count + 1);
		list_add_tail(&reader->list, &cn->readers);
		spin_unlock_bh(&cn->readers_lock);
		return reader;
	}
	spin_unlock_bh(&cn->readers_lock);
	kvfree(reader->ring);
	kfree(reader);
	return ERR_PTR(-ENOSPC);
}

/* The file is gone: there is no reader and no poller any more. */
void ct_reader_free(struct ct_net *cn, struct ct_reader *reader)
{
	spin_lock_bh(&cn->readers_lock);
	list_del(&reader->list);
	WRITE_ONCE(cn->reader_count, cn->reader_count - 1);
	spin_unlock_bh(&cn->readers_lock);
	kvfree(reader->ring);
	kfree(reader);
}

bool ct_reader_ready(const struct ct_reader *reader)
{
	return READ_ONCE(reader->head) != READ_ONCE(reader->tail);
}

/*
 * Whole records into `to`, as many as there are and fit; 0 when there is none. The caller holds
 * the file's mutex.
 */
ssize_t ct_reader_read(struct ct_reader *reader, char __user *to, size_t size)
{
	const size_t each = sizeof(*reader->ring);
	unsigned int tail = reader->tail;
	unsigned int head = smp_load_acquire(&reader->head); /* before what lies below it */
	unsigned int room = min_t(size_t, size / each, head - tail);
	unsigned int first = min(room, reader->mask + 1 - (tail & reader->mask));

	if (copy_to_user(to, &reader->ring[tail & reader->mask], first * each) ||
	    copy_to_user(to + first * each, reader->ring, (room - first) * each))
		return -EFAULT;
	smp_store_release(&reader->tail, tail + room); /* the places are read: take them */
	return room * each;
}

static void ct_fill_addresses(struct configtron_record *record, const struct sock *sk)
{
	const void *remote, *local;
	size_t bytes;

	record->family = ct_address(sk, true, &remote);
	ct_address(sk, false, &local);
	bytes = record->family == AF_INET6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);
	memcpy(record->remote, remote, bytes);
	memcpy(record->local, local, bytes);
	record->remote_port = ntohs(inet_sk(sk)->inet_dport);
	record->local_port = ntohs(inet_sk(sk)->inet_sport); /* inet_num is already 0 here */
}

static u64 ct_chrono_us(const struct tcp_sock *tp, enum tcp_chrono type)
{
	u64 ticks = tp->chrono_stat[type - 1];

	if (type == tp->chrono_type)
		ticks += tcp_jiffies32 - tp->chrono_start;
	return ticks * (USEC_PER_SEC / HZ);
}

static u64 ct_busy_us(const struct tcp_sock *tp)
{
	u64 us = 0;
	int i;

	for (i = TCP_CHRONO_BUSY; i < __TCP_CHRONO_MAX; i++)
		us += ct_chrono_us(tp, i);
	return us;
}

static u64 ct_delivery_rate(const struct tcp_sock *tp)
{
	u64 bytes = (u64)tp->rate_delivered * tp->mss_cache * USEC_PER_SEC;

	return tp->rate_interval_us ? div_u64(bytes, tp->rate_interval_us) : 0;
}

/* A FIN counts as one byte in bytes_acked, but not in bytes_sent. */
static bool ct_is_finished(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return sock_flag(sk, SOCK_DONE) || tp->bytes_acked > tp->bytes_sent - tp->bytes_retrans;
}

static u16 ct_flags(const struct sock *sk)
{
	u16 flags = sk->sk_state == TCP_CLOSE ? 0 : CONFIGTRON_RECORD_LEFT;

	if (tcp_sk(sk)->rate_app_limited)
		flags |= CONFIGTRON_RECORD_APP_LIMITED;
	if (!inet_sk(sk)->inet_dport) /* tcp_disconnect() has begun */
		flags |= CONFIGTRON_RECORD_ABORTED;
	else if (sk->sk_state == TCP_CLOSE && ct_is_finished(sk))
		flags |= CONFIGTRON_RECORD_FINISHED;
	return flags;
}

/* No other socket has its address until it is freed; it leaves the kernel as a hash. */
static u64 ct_socket_id(const struct sock *sk)
{
	static siphash_aligned_key_t key;

	net_get_random_once(&key, sizeof(key));
	return siphash_1u64((unsigned long)sk, &key);
}

/* What both records have. */
static void ct_fill(struct configtron_record *record, const struct sock *sk,
		    const struct ct_version *version)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	record->time_ns = ktime_get_real_ns();
	record->boot_ns = ktime_get_boottime_ns();
	record->socket = ct_socket_id(sk);
	record->cookie = atomic64_read(&sk->sk_cookie); /* modules cannot make one */
	record->profile = version->profile ? version->profile->id : 0;
	record->version = version->profile ? version->serial : 0;
	record->arm = CONFIGTRON_ARM_NONE;
	record->mss = tp->mss_cache;
	ct_fill_addresses(record, sk);
}

static void ct_fill_end(struct configtron_record *record, const struct sock *sk,
			const struct ct_version *version)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	record->bytes_acked = tp->bytes_acked;
	record->bytes_received = tp->bytes_received;
	record->bytes_retrans = tp->bytes_retrans;
	record->busy_us = ct_busy_us(tp);
	record->rwnd_limited_us = ct_chrono_us(tp, TCP_CHRONO_RWND_LIMITED);
	record->delivery_rate = ct_delivery_rate(tp);
	record->segs_out = tp->data_segs_out;
	record->retrans = tp->total_retrans;
	record->srtt_us = tp->srtt_us >> 3;
	record->min_rtt_us = tcp_min_rtt(tp) == ~0U ? 0 : tcp_min_rtt(tp);
	record->cwnd = tcp_snd_cwnd(tp);
	record->max_cwnd = ct_max_cwnd(sk, version);
	record->segs_in = tp->segs_in;
	record->ssthresh = tp->snd_ssthresh;
	record->error = READ_ONCE(sk->sk_err);
	record->flags = ct_flags(sk) | ct_resume_flags(sk, version);
	strscpy(record->cc, inet_csk(sk)->icsk_ca_ops->name, sizeof(record->cc));
}

static bool ct_push(struct ct_reader *reader, const struct configtron_record *record)
{
	unsigned int head = reader->head;

	if (head - smp_load_acquire(&reader->tail) > reader->mask) { /* the places are read */
		reader->lost++;
		return false;
	}
	reader->ring[head & reader->mask] = *record;
	reader->ring[head & reader->mask].lost = reader->lost;
	reader->lost = 0;
	smp_store_release(&reader->head, head + 1); /* the record is complete */
	wake_up_interruptible_poll(reader->wait, EPOLLIN | EPOLLRDNORM);
	return true;
}

static void ct_push_all(struct ct_net *cn, const struct configtron_record *record)
{
	struct ct_reader *reader;

	spin_lock_bh(&cn->readers_lock);
	list_for_each_entry(reader, &cn->readers, list)
		atomic64_inc(ct_push(reader, record) ? &cn->records : &cn->records_lost);
	spin_unlock_bh(&cn->readers_lock);
}

/*
 * A connection leaves what it was given. Those that were left as they are count only while a
 * plan is in force, whose holdback they can be. The caller owns the socket; any context but
 * hard interrupts.
 */
void ct_record(const struct sock *sk, const struct ct_version *version)
{
	struct ct_net *cn = ct_net_of(sock_net(sk));
	struct configtron_record record = {};

	if (!READ_ONCE(cn->reader_count) || (!version->profile && !rcu_access_pointer(cn->plan)))
		return;
	ct_fill(&record, sk, version);
	ct_fill_end(&record, sk, version);
	ct_push_all(cn, &record);
}

/* A connection begins: what was drawn for it. As ct_record(). */
void ct_record_open(const struct sock *sk, const struct ct_choice *choice)
{
	struct ct_net *cn = ct_net_of(sock_net(sk));
	const struct tcp_sock *tp = tcp_sk(sk);
	struct configtron_record record = {};

	if (!READ_ONCE(cn->reader_count))
		return;
	ct_fill(&record, sk, choice->version);
	record.flags = CONFIGTRON_RECORD_OPEN;
	if (tp->total_retrans > 1 && tp->undo_marker)
		record.flags |= CONFIGTRON_RECORD_WINDOW_CUT;
	record.epoch = choice->epoch;
	record.class_profile = choice->class_profile;
	record.handshake_us = choice->handshake_us;
	record.arm = choice->arm;
	record.band = choice->band;
	strscpy(record.cc, choice->version->real->ops->name, sizeof(record.cc));
	ct_push_all(cn, &record);
}
