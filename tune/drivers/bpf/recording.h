/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records of connections: one when a connection is established, one when it has ended, in one stream.
 *
 *   connections  what was drawn for a connection, beside its socket for as long as it lives
 *   records      the stream that the agent reads (connection_records.py)
 *   lost         how many records found no room in it: open ones, close ones
 *
 * A record's size says which it is. What the kernel shows of a socket without its type information is in every record;
 * the rest (KERNEL_TYPES) is left out by a program that is loaded where there is none.
 *
 * The window and the delivery rate are seen once per round trip and at the end, the round trip itself once per round
 * trip: the kernel keeps the largest of none.
 */
#ifndef CONFIGTRON_RECORDING_H
#define CONFIGTRON_RECORDING_H

#include "drawing.h"

/* 2 s of 5 000 connections a second, 216 bytes each. */
#define STREAM_BYTES (1 << 21)

struct connection {
	struct beginning begun;
	__u64 rate; /* largest that the application did not limit, bytes/s; 0: none was seen */
	__u32 max_cwnd;
	__u32 max_rtt_us; /* 0: none was seen */
};

/* Times in ticks of the kernel's timers. */
struct ending {
	struct beginning begun;
	__u64 end_ns;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 rate;
	__u32 min_rtt_us; /* all ones: unknown */
	__u32 max_cwnd;
	__u32 segments;
	__u32 retransmits;
	__u32 state; /* before the end */
	__u32 known; /* whether the next three are: the program was loaded with type information */
	__s32 error; /* of the socket */
	__u32 busy_ticks;
	__u32 rwnd_ticks;
	__u32 max_rtt_us; /* 0: none was seen, or an earlier program wrote the record */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, STREAM_BYTES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} records SEC(".maps");

#define LOST_OPEN 0
#define LOST_CLOSE 1

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void count_lost(__u32 kind)
{
	__u64 *count = bpf_map_lookup_elem(&lost, &kind);

	if (count)
		__sync_fetch_and_add(count, 1);
}

#ifdef KERNEL_TYPES
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock {
	int sk_err;
};

struct tcp_sock {
	__u32 chrono_start;
	__u32 chrono_stat[3];
	__u8 chrono_type : 2;
	__u8 rate_app_limited : 1;
};

#pragma clang attribute pop

/* enum tcp_chrono: which of its three times runs. While the client's window or the own buffer limits, it is busy too. */
#define CHRONO_BUSY 1
#define CHRONO_RWND 2
#define CHRONO_SNDBUF 3

static __always_inline __u32 chrono(struct tcp_sock *tp, __u32 which_time, __u32 ticks)
{
	__u32 spent = tp->chrono_stat[which_time - 1];

	if (BPF_CORE_READ_BITFIELD(tp, chrono_type) == which_time)
		spent += ticks - tp->chrono_start;
	return spent;
}

static __always_inline int is_app_limited(struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	return !tp || BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
}

static __always_inline void add_known(struct ending *ending, struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	__u32 ticks = bpf_jiffies64();

	if (!tp)
		return;
	ending->known = 1;
	ending->error = ((struct sock *)tp)->sk_err;
	ending->rwnd_ticks = chrono(tp, CHRONO_RWND, ticks);
	ending->busy_ticks = chrono(tp, CHRONO_BUSY, ticks) + ending->rwnd_ticks +
			     chrono(tp, CHRONO_SNDBUF, ticks);
}
#else
static __always_inline int is_app_limited(struct bpf_sock *sk)
{
	return 1;
}

static __always_inline void add_known(struct ending *ending, struct bpf_sock *sk)
{
}
#endif

/* The kernel's latest sample of the delivery rate, as it computes it for tcp_info. */
static __always_inline void look_again(struct bpf_sock_ops *ops, struct bpf_sock *sk,
				       struct connection *connection)
{
	__u32 cwnd = ops->snd_cwnd, interval_us = ops->rate_interval_us;
	__u64 rate;

	if (cwnd > connection->max_cwnd)
		connection->max_cwnd = cwnd;
	if (!interval_us || is_app_limited(sk))
		return;
	rate = (__u64)ops->rate_delivered * ops->mss_cache * 1000000 / interval_us;
	if (rate > connection->rate)
		connection->rate = rate;
}

/* After its profile has been set: `begun` is whole but for what is read of the socket here. */
static __always_inline void record_open(struct bpf_sock_ops *ops, struct beginning *begun)
{
	struct bpf_sock *sk = ops->sk;
	struct connection *connection;

	if (!sk)
		return;
	begun->start_ns = bpf_ktime_get_boot_ns();
	begun->cookie = bpf_get_socket_cookie(ops);
	begun->local_port = ops->local_port;
	begun->remote_port = bpf_ntohl(ops->remote_port);
	connection = bpf_sk_storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (connection) {
		connection->begun = *begun;
		connection->max_cwnd = ops->snd_cwnd;
		connection->max_rtt_us = 0;
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags |
						       BPF_SOCK_OPS_STATE_CB_FLAG |
						       BPF_SOCK_OPS_RTT_CB_FLAG);
	} else {
		count_lost(LOST_CLOSE);
	}
	if (bpf_ringbuf_output(&records, begun, sizeof(*begun), BPF_RB_NO_WAKEUP))
		count_lost(LOST_OPEN);
}

/* Linux 6.10 and later hand over the sample; before that there is the smoothed round trip alone, in eighths. */
static __always_inline void note_round_trip(struct bpf_sock_ops *ops, struct connection *connection)
{
	__u32 sample_us = ops->args[0], rtt_us = sample_us ? sample_us : ops->srtt_us >> 3;

	if (rtt_us > connection->max_rtt_us)
		connection->max_rtt_us = rtt_us;
}

static __always_inline void record_round_trip(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct connection *connection;

	if (!sk)
		return;
	connection = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (!connection)
		return;
	note_round_trip(ops, connection);
	look_again(ops, sk, connection);
}

static __always_inline void record_end(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct connection *connection;
	struct ending *ending;

	if (!sk)
		return;
	connection = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (!connection)
		return;
	look_again(ops, sk, connection);
	ending = bpf_ringbuf_reserve(&records, sizeof(*ending), 0);
	if (!ending) {
		count_lost(LOST_CLOSE);
		return;
	}
	ending->begun = connection->begun;
	ending->end_ns = bpf_ktime_get_boot_ns();
	ending->bytes_acked = ops->bytes_acked;
	ending->bytes_received = ops->bytes_received;
	ending->rate = connection->rate;
	ending->min_rtt_us = ops->rtt_min;
	ending->max_cwnd = connection->max_cwnd;
	ending->segments = ops->data_segs_out;
	ending->retransmits = ops->total_retrans;
	ending->state = ops->args[0];
	ending->known = 0;
	ending->error = 0;
	ending->busy_ticks = 0;
	ending->rwnd_ticks = 0;
	ending->max_rtt_us = connection->max_rtt_us;
	add_known(ending, sk);
	bpf_ringbuf_submit(ending, BPF_RB_NO_WAKEUP);
}

#endif
