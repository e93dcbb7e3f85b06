// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parameters: one table of what can be set, in which range, or why not.
 *
 * The table is the interface (CONFIGTRON_PARAM_INFO hands it out): names are those of
 * configtron/model/knobs.py, times are in microseconds, and a parameter that no connection can have for
 * itself is in it too, with the reason in words. apply.c sets them on a socket. KUnit tests this
 * file by itself.
 */
#include <linux/string.h>

#include "internal.h"

/* RFC 6298 says 60 s at least for a maximum; Linux' own TCP_RTO_MAX is 120 s. */
#define CT_RTO_MAX_US		(120 * USEC_PER_SEC)
/* Below 1 ms a timer is an interrupt storm, and no jiffy is shorter. */
#define CT_TIME_MIN_US		USEC_PER_MSEC
/* A sysadmin's mistake in the unit (kbit/s for bytes/s) should not stop a connection for hours. */
#define CT_RATE_MIN		1000
/* A petabyte a second is no bound for any device, and exact in a double. */
#define CT_RATE_MAX		(BITS_PER_LONG == 64 ? 1LL << 50 : LONG_MAX)
/* Far above any path; a window in segments is multiplied by an MSS in 32 bits. */
#define CT_WINDOW_MAX		1000
#define CT_CLAMP_MAX		65535
/* Longer than one timer tick of the slowest kernel a busy poll only burns the processor. */
#define CT_BUSY_POLL_MAX_US	10000

/* icsk_ack.dst_quick_ack (Kbuild looks for it); before, only a route's metric holds them. */
#ifdef CT_HAS_QUICKACK
#define CT_QUICKACK_FLAGS	CONFIGTRON_PARAM_SETTABLE
#define CT_QUICKACK_WORDS	"ACKs are not delayed; until the connection's route changes"
#else
#define CT_QUICKACK_FLAGS	0
#define CT_QUICKACK_WORDS	"this kernel keeps it in the route only, beyond 16 segments; use driver route"
#endif

#ifdef CONFIG_NET_RX_BUSY_POLL
#define CT_BUSY_POLL_FLAGS	CONFIGTRON_PARAM_SETTABLE
#define CT_BUSY_POLL_WORDS	"microseconds to poll the device for data; only with NAPI devices"
#else
#define CT_BUSY_POLL_FLAGS	0
#define CT_BUSY_POLL_WORDS	"this kernel is built without NET_RX_BUSY_POLL"
#endif

struct ct_row {
	const char *name;
	const char *unit;
	u32 flags;
	s64 min;
	s64 max;
	const char *words;
};

#define CT_SETTABLE	CONFIGTRON_PARAM_SETTABLE

static const struct ct_row ct_rows[CONFIGTRON_KEYS] = {
	[CONFIGTRON_CONGESTION_CONTROL] = {
		"tcp_congestion_control", "", CT_SETTABLE | CONFIGTRON_PARAM_TEXT, 0, 0,
		"any that the kernel has, but struct_ops and those that need ECN (dctcp): use driver route",
	},
	[CONFIGTRON_INITCWND] = {
		"initcwnd", "segments", CT_SETTABLE, 1, CT_WINDOW_MAX,
		"also the restart window after idle, but not under bbr",
	},
	[CONFIGTRON_SLOW_START_AFTER_IDLE] = {
		"tcp_slow_start_after_idle", "", CT_SETTABLE, 0, 1,
		"0 acts for reno, cubic, vegas; bbr never slows down after idle, whatever is set",
	},
	[CONFIGTRON_PACING] = {
		"pacing", "", CT_SETTABLE, 0, 1,
		"1: the socket paces itself; 0 takes bbr's pacing away too; fq on the device paces anyhow",
	},
	[CONFIGTRON_MAX_PACING_RATE] = {
		"max_pacing_rate", "bytes/s", CT_SETTABLE, CT_RATE_MIN, CT_RATE_MAX,
		"turns pacing on",
	},
	[CONFIGTRON_MIN_RTO] = {
		"min_rto", "us", CT_SETTABLE, CT_TIME_MIN_US, CT_RTO_MAX_US,
		"in the kernel's ticks; a route's locked rto_min wins",
	},
	[CONFIGTRON_DATA_RTO] = {
		"data_rto", "us", CT_SETTABLE, CT_TIME_MIN_US, CT_RTO_MAX_US,
		"until the first round trip of data; after TCP Fast Open the handshake's round trip rules",
	},
	[CONFIGTRON_DELACK_MAX] = {
		"delack_max", "us", CT_SETTABLE, CT_TIME_MIN_US, 200 * USEC_PER_MSEC,
		"in the kernel's ticks",
	},
	[CONFIGTRON_NOTSENT_LOWAT] = {
		"notsent_lowat", "bytes", CT_SETTABLE, 1, U32_MAX,
		"as TCP_NOTSENT_LOWAT",
	},
	[CONFIGTRON_WINDOW_CLAMP] = {
		"window_clamp", "bytes", CT_SETTABLE, SOCK_MIN_RCVBUF / 2, INT_MAX,
		"as TCP_WINDOW_CLAMP: autotuning may raise it; the SYN-ACK's window is out of reach",
	},
	[CONFIGTRON_CWND_CLAMP] = {
		"cwnd_clamp", "segments", CT_SETTABLE, 1, CT_CLAMP_MAX,
		"bounds every congestion window, the first too",
	},
	[CONFIGTRON_PRIORITY] = {
		"priority", "", CT_SETTABLE, 0, U32_MAX,
		"as SO_PRIORITY; or a class of the device's qdisc: 0x10020 is 1:20",
	},
	[CONFIGTRON_MARK] = {
		"mark", "", CT_SETTABLE, 0, U32_MAX,
		"as SO_MARK; the SYN-ACK has left without it",
	},
	[CONFIGTRON_BUSY_POLL] = {
		"busy_poll", "us", CT_BUSY_POLL_FLAGS, 0, CT_BUSY_POLL_MAX_US,
		CT_BUSY_POLL_WORDS,
	},
	[CONFIGTRON_QUICKACK] = {
		"quickack", "", CT_QUICKACK_FLAGS, 0, 1,
		CT_QUICKACK_WORDS,
	},
	[CONFIGTRON_NAGLE] = {
		"nagle", "", CT_SETTABLE, 0, 1,
		"0 is TCP_NODELAY; a server that sets that itself has the last word",
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
