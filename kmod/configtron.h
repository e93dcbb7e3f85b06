/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * configtron: TCP settings per client prefix and per socket - calls of /dev/configtron.
 *
 * Rules of this interface: every structure has a fixed size, the same for 32 and 64 bits, and
 * no hidden padding; pointers travel as __u64; fields called `reserved` must be zero; addresses
 * are in network order, ports in the host's. CONFIGTRON_VERSION comes first: abi, features and
 * limits. CONFIGTRON_PARAM_INFO gives each parameter's name, unit and range, and for a
 * parameter that cannot be set, why. Every call needs CAP_NET_ADMIN in the first user
 * namespace. An open file belongs to the network namespace of the process that opened it.
 *
 * Errors: EPERM no CAP_NET_ADMIN; ENOENT no such profile, prefix or congestion control; ERANGE
 * value out of range; EOPNOTSUPP this parameter cannot be set (PARAM_INFO says why);
 * EPROTONOSUPPORT this congestion control needs ECN, which is agreed on before a profile is
 * looked up; EBUSY the profile still has prefixes, is the default or is part of a plan; ENOSPC
 * a limit of CONFIGTRON_VERSION is reached; EXDEV the socket lives in another network
 * namespace; ENODATA no plan is loaded or in force; EEXIST another plan for the epoch that is in
 * force; EINVAL anything malformed, reserved fields included.
 */
#ifndef _UAPI_CONFIGTRON_H
#define _UAPI_CONFIGTRON_H

#include <linux/types.h>
#include <linux/ioctl.h>

/*
 * Raised when a structure or a meaning changes; additions raise `features` or `parameters`
 * instead.
 */
#define CONFIGTRON_ABI 4

#define CONFIGTRON_CC_BYTES 16 /* TCP_CA_NAME_MAX */
#define CONFIGTRON_NAME_BYTES 64
#define CONFIGTRON_UNIT_BYTES 16
#define CONFIGTRON_WORDS_BYTES 104

/* Parameters. The numbers never change; CONFIGTRON_PARAM_INFO gives the names. */
enum configtron_key {
	CONFIGTRON_CONGESTION_CONTROL,
	CONFIGTRON_INITCWND,
	CONFIGTRON_SLOW_START_AFTER_IDLE,
	CONFIGTRON_PACING,
	CONFIGTRON_MAX_PACING_RATE,
	CONFIGTRON_MIN_RTO,
	CONFIGTRON_DATA_RTO,
	CONFIGTRON_DELACK_MAX,
	CONFIGTRON_NOTSENT_LOWAT,
	CONFIGTRON_WINDOW_CLAMP,
	CONFIGTRON_CWND_CLAMP,
	CONFIGTRON_PRIORITY,
	CONFIGTRON_MARK,
	CONFIGTRON_BUSY_POLL,
	CONFIGTRON_QUICKACK,
	CONFIGTRON_NAGLE,
	CONFIGTRON_LOW_LATENCY,
	CONFIGTRON_AUTOCORKING,
	CONFIGTRON_SYNACK_RTO,
	CONFIGTRON_INITRWND,
	CONFIGTRON_RESUME_CWND,
	CONFIGTRON_RESUME_RTT,
	CONFIGTRON_KEYS
};

/* configtron_version.features */
#define CONFIGTRON_HAS_ACTIVE_OPENS 0x1
#define CONFIGTRON_HAS_RECORDS 0x2
#define CONFIGTRON_HAS_SOCKET_GET 0x4
#define CONFIGTRON_HAS_PLANS 0x8

struct configtron_version {
	__u32 abi;
	__u32 features;
	__u32 parameters; /* keys below this exist */
	__u32 profiles_max;
	__u32 prefixes_max;
	__u32 record_bytes; /* size of struct configtron_record */
	char release[16]; /* of the module */
};

/* configtron_param_info.flags */
#define CONFIGTRON_PARAM_SETTABLE 0x1
#define CONFIGTRON_PARAM_TEXT 0x2 /* in `text`, not in `value` */

struct configtron_param_info {
	__u32 key; /* in */
	__u32 flags;
	__s64 min;
	__s64 max;
	char name[CONFIGTRON_NAME_BYTES];
	char unit[CONFIGTRON_UNIT_BYTES];
	char words[CONFIGTRON_WORDS_BYTES]; /* how it acts, or why it cannot be set */
};

/* configtron_param.flags */
#define CONFIGTRON_PARAM_UNSET 0x1 /* back to what the kernel does by itself */

struct configtron_param {
	__u32 key;
	__u32 flags;
	__s64 value;
	char text[CONFIGTRON_CC_BYTES];
};

struct configtron_profile {
	__u32 id; /* never 0, not used again before 2^31 others were */
	__u32 reserved;
	/* the owner's word for it; ends in NUL, need not be unique */
	char name[CONFIGTRON_NAME_BYTES];
};

/* configtron_params.flags */
#define CONFIGTRON_REPLACE 0x1 /* parameters not named become unset */

/* All parameters of the batch are in force together or, after an error, none is. */
struct configtron_params {
	__u32 profile;
	__u32 flags;
	__u32 count; /* set: how many; get: room in, number out */
	__u32 refused; /* out, after an error of set: which one of the batch, from 0 */
	__u64 params; /* struct configtron_param * */
};

struct configtron_prefix {
	__u8 family; /* AF_INET or AF_INET6; v4-mapped clients are AF_INET */
	__u8 length;
	__u16 reserved;
	__u32 profile; /* ignored when deleting */
	__u8 address[16]; /* bits below the length must be zero */
};

/* configtron_prefixes.flags */
#define CONFIGTRON_ABSENT_OK 0x1 /* del: a prefix that is not there is no error */
#define CONFIGTRON_FROM_START 0x2 /* dump: begin anew */

/*
 * Set and del: after an error, or a fatal signal, `done` prefixes are in force. Dump: `done` were
 * written, 0 at the end; a prefix may come twice while the table grows, and may be left out while
 * others are deleted: compare `generation` before and after.
 */
struct configtron_prefixes {
	__u64 prefixes; /* struct configtron_prefix * */
	__u32 count;
	__u32 done;
	__u32 flags;
	__u32 reserved;
};

/* What others set meanwhile stays. After a fatal signal `removed` are gone, the rest is there. */
struct configtron_flush {
	__u32 profile; /* 0: all prefixes */
	__u32 removed; /* out */
};

struct configtron_socket {
	__s32 fd;
	__u32 profile;
};

/* Read back from a socket: what is in force there, also if another program set it. */
struct configtron_socket_params {
	__s32 fd;
	__u32 profile; /* out: 0 when the module does not hold this socket */
	__u32 count; /* room in, number out */
	__u32 reserved;
	__u64 params; /* struct configtron_param * */
};

#define CONFIGTRON_PORTS 32

/* configtron_options.flags */
#define CONFIGTRON_ENABLED 0x1 /* off: new connections are left as they are */
#define CONFIGTRON_ACTIVE_OPENS 0x2 /* also connections that this side opens */

struct configtron_options {
	__u32 flags;
	/* profile of clients that no prefix holds; 0: none, they are left as they are */
	__u32 unmatched;
	/* congestion control of connections that are left as they are */
	char plain[CONFIGTRON_CC_BYTES];
	/* local ports; connections at others are left as they are; 0 ends them; none: every port */
	__u16 ports[CONFIGTRON_PORTS];
};

struct configtron_status {
	/* one more with every change of this namespace's tables, by any program */
	__u64 generation;
	__u64 records; /* close records written since the namespace began */
	__u64 records_lost; /* not written because a reader's ring was full */
	__u32 profiles;
	__u32 prefixes;
	/* whole module: versions of profiles alive; old ones live as long as their connections */
	__u32 versions;
	__u32 readers;
};

struct configtron_stats {
	__u32 profile;
	__u32 prefixes;
	__u64 opened; /* connections given to this profile, any version */
	__u64 closed; /* ... that ended or left; opened - closed are alive */
	__u64 bytes_acked;
	__u64 segs_out; /* with data, retransmissions included */
	__u64 retrans;
	__u64 srtt_us; /* sums over closed connections, as the five above */
	__u64 min_rtt_us;
	/*
	 * of `closed`: those whose congestion control replaced its own operations when it began and
	 * so left their profile; they run on, with its settings
	 */
	__u64 replaced;
};

/* As draw.h has them. */
#define CONFIGTRON_ARMS 8
#define CONFIGTRON_BANDS 4
/* configtron_record.arm: the client is held back; no mix was drawn from */
#define CONFIGTRON_ARM_HELD 8
#define CONFIGTRON_ARM_NONE 255

/* What the clients of a class get: arm i where the client's slice is upto[i] or less (draw.h). */
struct configtron_mix {
	__u32 profile; /* the class: the profile that prefixes point to */
	__u32 arms; /* 1 to CONFIGTRON_ARMS */
	__u16 upto[CONFIGTRON_ARMS]; /* rising; 65535 from the last arm on */
	__u32 arm[CONFIGTRON_ARMS]; /* profiles; 0 beyond the last */
};

/*
 * What all classes share in an epoch, with their mixes. PLAN_LOAD prepares one, PLAN_TURN puts
 * it in the place of the one in force, its lease with it: no connection sees half of each.
 * Other mixes, bands, holdback under the key and epoch in force are EEXIST: they would move
 * clients within an epoch.
 */
struct configtron_plan {
	__u64 key[2];
	__u64 epoch;
	__u64 not_after; /* end of its lease: CLOCK_BOOTTIME, ns */
	__u64 mixes; /* struct configtron_mix * */
	__u32 count;
	__u32 held; /* of 65536 clients with a class, so many are held back */
	__u32 held_profile; /* what they get; 0: left as they are */
	__u32 reserved;
	/* classes of clients without a prefix, by the handshake's round trip; rising; 0: unused */
	__u32 band_us[CONFIGTRON_BANDS];
	__u32 band_class[CONFIGTRON_BANDS];
};

/*
 * While a plan is in force, new connections are left as they are once the clock has passed
 * this; each call of PLAN_RENEW sets it anew.
 */
struct configtron_lease {
	__u64 not_after;
};

/* The mixes in force: as many as there is room for. */
struct configtron_mixes {
	__u64 mixes; /* struct configtron_mix * */
	__u32 count; /* in: room; out: how many there are */
	__u32 reserved;
};

/* configtron_plan_status.flags */
#define CONFIGTRON_PLAN_IN_FORCE 0x1
#define CONFIGTRON_PLAN_LOADED 0x2

/* What is in force and what is loaded; never the key. */
struct configtron_plan_status {
	__u32 flags;
	__u32 mixes; /* in force */
	__u64 epoch; /* in force */
	__u64 not_after;
	__u64 next_epoch; /* loaded */
	__u32 held;
	__u32 held_profile;
};

/* Begin to receive records on this file; reading before that is ENODATA. */
struct configtron_records {
	__u32 capacity; /* in: records to keep, a power of two up to 65536; 0: 4096 */
	__u32 reserved;
};

/* configtron_record.flags */
#define CONFIGTRON_RECORD_LEFT 0x1 /* alive: other profile or cc, or replaced */
#define CONFIGTRON_RECORD_OPEN 0x2 /* its beginning, not its end; only while a plan is in force */
#define CONFIGTRON_RECORD_WINDOW_CUT 0x4 /* after repeated SYN-ACKs: initcwnd was not set */
#define CONFIGTRON_RECORD_APP_LIMITED 0x8 /* delivery_rate: the application was the limit */
#define CONFIGTRON_RECORD_FINISHED 0x10 /* the client's FIN came, or ours was acknowledged */
/* this host reset it: ports, round trip and window are gone, counters are there */
#define CONFIGTRON_RECORD_ABORTED 0x20
/* Careful Resume: it jumped; all of the jump was acknowledged; congestion made it retreat */
#define CONFIGTRON_RECORD_RESUMED 0x40
#define CONFIGTRON_RECORD_VALIDATED 0x80
#define CONFIGTRON_RECORD_RETREATED 0x100

/*
 * One connection at its end and, while a plan is in force, at its beginning. read() gives whole
 * records; a full ring never holds a connection up. What was drawn is in the first record alone:
 * `socket` leads from the one to the other.
 */
struct configtron_record {
	__u64 time_ns; /* CLOCK_REALTIME */
	__u64 boot_ns; /* CLOCK_BOOTTIME */
	__u64 socket; /* the same in both records, and in no other's while it lives */
	__u64 cookie; /* SO_COOKIE; 0: none was asked for yet */
	__u64 epoch; /* of the plan that was in force; open records only */
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 bytes_retrans;
	__u64 busy_us; /* time with data to send or unacknowledged */
	__u64 rwnd_limited_us; /* part of it that the client's window did not let it send */
	__u64 delivery_rate; /* bytes/s, best sample of the kernel's filter; 0: none */
	__u32 lost; /* records this reader lost just before this one */
	__u32 profile; /* 0: left as it is */
	__u32 version; /* of the profile: changes when its settings do */
	__u32 class_profile; /* whose mix was drawn from; 0: none */
	__u32 handshake_us; /* round trip; 0: unknown */
	__u32 segs_out;
	__u32 retrans;
	__u32 srtt_us;
	__u32 min_rtt_us; /* 0: no sample */
	__u32 cwnd;
	__u32 max_cwnd; /* 0: unknown, its congestion control leaves no room for it */
	__u32 ssthresh;
	__u32 segs_in; /* of all kinds */
	__u32 mss;
	__u32 error; /* what ended it, an errno; 0: nothing that the application has not read */
	__u16 flags;
	__u8 family;
	__u8 arm; /* place in the mix, CONFIGTRON_ARM_HELD or CONFIGTRON_ARM_NONE */
	__u16 remote_port;
	__u16 local_port;
	__u8 band; /* from 1, where the class was found by it */
	__u8 reserved[3];
	__u8 remote[16];
	__u8 local[16];
	char cc[CONFIGTRON_CC_BYTES];
};

#define CONFIGTRON_IOC 0xC7
#define CONFIGTRON_VERSION _IOR(CONFIGTRON_IOC, 1, struct configtron_version)
#define CONFIGTRON_PARAM_INFO _IOWR(CONFIGTRON_IOC, 2, struct configtron_param_info)
/* The six calls of the paper's Table 3 */
#define CONFIGTRON_PROFILE_NEW _IOWR(CONFIGTRON_IOC, 3, struct configtron_profile)
#define CONFIGTRON_PROFILE_DEL _IOW(CONFIGTRON_IOC, 4, struct configtron_profile)
#define CONFIGTRON_PARAMS_SET _IOWR(CONFIGTRON_IOC, 5, struct configtron_params)
#define CONFIGTRON_PARAMS_GET _IOWR(CONFIGTRON_IOC, 6, struct configtron_params)
#define CONFIGTRON_PREFIX_SET _IOWR(CONFIGTRON_IOC, 7, struct configtron_prefixes)
#define CONFIGTRON_SOCKET_ASSIGN _IOW(CONFIGTRON_IOC, 8, struct configtron_socket)
/* Around them. PROFILE_NEXT: the first profile whose id is at least `id`; ENOENT after the last */
#define CONFIGTRON_PROFILE_NEXT _IOWR(CONFIGTRON_IOC, 9, struct configtron_profile)
#define CONFIGTRON_PREFIX_DEL _IOWR(CONFIGTRON_IOC, 10, struct configtron_prefixes)
#define CONFIGTRON_PREFIX_DUMP _IOWR(CONFIGTRON_IOC, 11, struct configtron_prefixes)
#define CONFIGTRON_PREFIX_FLUSH _IOWR(CONFIGTRON_IOC, 12, struct configtron_flush)
#define CONFIGTRON_SOCKET_GET _IOWR(CONFIGTRON_IOC, 13, struct configtron_socket_params)
#define CONFIGTRON_OPTIONS_SET _IOW(CONFIGTRON_IOC, 14, struct configtron_options)
#define CONFIGTRON_OPTIONS_GET _IOR(CONFIGTRON_IOC, 15, struct configtron_options)
#define CONFIGTRON_STATUS _IOR(CONFIGTRON_IOC, 16, struct configtron_status)
#define CONFIGTRON_STATS _IOWR(CONFIGTRON_IOC, 17, struct configtron_stats)
#define CONFIGTRON_RECORDS _IOW(CONFIGTRON_IOC, 18, struct configtron_records)
/* Fills in the profile of each prefix of the batch, 0 where there is no such prefix. */
#define CONFIGTRON_PREFIX_GET _IOWR(CONFIGTRON_IOC, 19, struct configtron_prefixes)
#define CONFIGTRON_PLAN_LOAD _IOW(CONFIGTRON_IOC, 20, struct configtron_plan)
#define CONFIGTRON_PLAN_TURN _IO(CONFIGTRON_IOC, 21)
#define CONFIGTRON_PLAN_RENEW _IOW(CONFIGTRON_IOC, 22, struct configtron_lease)
/* Nothing in force, nothing loaded: prefixes have the profile that they point to. */
#define CONFIGTRON_PLAN_DROP _IO(CONFIGTRON_IOC, 23)
#define CONFIGTRON_PLAN_STATUS _IOR(CONFIGTRON_IOC, 24, struct configtron_plan_status)
#define CONFIGTRON_PLAN_MIXES _IOWR(CONFIGTRON_IOC, 25, struct configtron_mixes)

#endif /* _UAPI_CONFIGTRON_H */
