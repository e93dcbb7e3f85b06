/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the module's files share. README.md describes how the objects live and die; each file's
 * head its part.
 *
 * Readers (a connection beginning or ending) run in softirq and take no lock: RCU and reference
 * counts only. Writers hold the namespace's mutex.
 */
#ifndef _CONFIGTRON_INTERNAL_H
#define _CONFIGTRON_INTERNAL_H

#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/refcount.h>
#include <linux/rhashtable.h>
#include <linux/version.h>
#include <linux/wait.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/tcp.h>

#include "configtron.h"
#include "draw.h"

#define CT_RELEASE "0.2.0"

/* Kernels that the module was tested on; Kbuild stops at others, dkms.conf has the same. */
#define CT_KERNEL_OLDEST "6.1"
#define CT_KERNEL_NEWEST "7.3"

/*
 * Profiles of one namespace. The paper's whole space is 768; a profile with a version takes 1 kB.
 */
#define CT_PROFILES_MAX 1024
/* One allocation of user input at a time; also how long a batch holds the mutex. */
#define CT_BATCH 1024
/*
 * Readers of records in one namespace: each costs a connection two copies of 208 bytes.
 */
#define CT_READERS_MAX 16
#define CT_RECORDS_DEFAULT 4096
#define CT_RECORDS_MAX 65536

/* struct_ops have this owner; only defined with CONFIG_BPF_JIT. */
#ifndef BPF_MODULE_OWNER
#define BPF_MODULE_OWNER ((void *)-1L)
#endif

/* store.c: prefix -> profile, longest match */

struct ct_key {
	u8 family;
	u8 length;
	u16 zero;
	u8 address[16];
};

struct ct_profile;

struct ct_prefix {
	struct rhash_head node;
	struct ct_key key;
	u32 epoch; /* of the store when it was last set */
	struct ct_profile *profile;
	struct rcu_head rcu;
};

#define CT_LENGTHS 129 /* 0 to 128 bits */

struct ct_store {
	struct rhashtable table;
	unsigned int count;
	u32 epoch; /* one more with each flush; under the mutex */
	/*
	 * how many prefixes of each length, and a map of lengths in use in which bit i stands for
	 * length 128 - i
	 */
	unsigned int lengths[2][CT_LENGTHS];
	unsigned long used[2][BITS_TO_LONGS(CT_LENGTHS)];
};

struct ct_walk {
	struct ct_store *store;
	struct rhashtable_iter iter;
};

int ct_store_setup(void);
void ct_store_teardown(void);
int ct_store_init(struct ct_store *store);
void ct_store_destroy(struct ct_store *store);
int ct_key_parse(const struct configtron_prefix *prefix, struct ct_key *key);
int ct_store_set(struct ct_store *store, const struct ct_key *key, struct ct_profile *profile,
		 unsigned int most, struct ct_profile **was);
struct ct_profile *ct_store_del(struct ct_store *store, const struct ct_key *key);
struct ct_profile *ct_store_get(struct ct_store *store, const struct ct_key *key);
struct ct_profile *ct_store_lookup(const struct ct_store *store, u8 family, const void *address);
void ct_walk_begin(struct ct_walk *walk, struct ct_store *store);
const struct ct_prefix *ct_walk_next(struct ct_walk *walk);
void ct_walk_pause(struct ct_walk *walk);
void ct_walk_resume(struct ct_walk *walk);
void ct_walk_end(struct ct_walk *walk);

/* params.c: what can be set, and how */

struct ct_settings {
	u32 given; /* bit per key */
	s64 value[CONFIGTRON_KEYS];
};

int ct_param_info(struct configtron_param_info *info);
bool ct_param_is_text(u32 key);
int ct_param_check(const struct configtron_param *param);
void ct_params_before(struct sock *sk, const struct ct_settings *set);
void ct_params_after(struct sock *sk, const struct ct_settings *set);
s64 ct_param_read(const struct sock *sk, u32 key);

static inline bool ct_given(const struct ct_settings *set, u32 key)
{
	return set->given & BIT(key);
}

/* resume_cwnd and resume_rtt: profiles.c sees that both are given */
static inline bool ct_resumes(const struct ct_settings *set)
{
	return ct_given(set, CONFIGTRON_RESUME_CWND);
}

/* slow_start_after_idle=0 */
static inline bool ct_stays_fast(const struct ct_settings *set)
{
	return ct_given(set, CONFIGTRON_SLOW_START_AFTER_IDLE) &&
	       !set->value[CONFIGTRON_SLOW_START_AFTER_IDLE];
}

/* real.c: the congestion controls that the kernel has */

struct ct_real {
	struct list_head list;
	struct socket *pin;
	const struct tcp_congestion_ops *ops;
	unsigned int private_bytes; /* of icsk_ca_priv that it uses; all of it when not known */
};

const struct ct_real *ct_real_find(const char *name);
void ct_real_release_all(void);

/* profiles, their versions, and the tables of a namespace */

struct ct_counts {
	u64 opened;
	u64 closed;
	u64 bytes_acked;
	u64 segs_out;
	u64 retrans;
	u64 srtt_us;
	u64 min_rtt_us;
	u64 replaced;
};

struct ct_profile {
	struct ct_version __rcu *now;
	struct ct_counts __percpu *counts;
	refcount_t users; /* the namespace's table, and each version */
	u32 id;
	u32 prefixes; /* under the mutex */
	struct ct_version *next; /* under the mutex: made and not yet published */
	u32 plans; /* under the mutex: how many places of plans name it */
	/* congestion control was given; else it follows the namespace's plain one */
	bool own_cc;
	char name[CONFIGTRON_NAME_BYTES];
	struct rcu_head rcu;
};

struct ct_version {
	/* what the socket points to: first, so that container_of costs nothing */
	struct tcp_congestion_ops ops;
	const struct ct_real *real;
	struct ct_profile *profile; /* NULL: plain, leaves connections as they are */
	struct ct_settings set;
	refcount_t users; /* the profile while current, and each connection */
	u32 serial; /* of all versions that this module has made */
	struct rcu_head rcu;
};

/*
 * At the end of icsk_ca_priv, where the real congestion control leaves room (real.c). `saved`
 * stays last: it alone fits beside some that leave less.
 */
struct ct_room {
	unsigned long max_rate; /* sk_max_pacing_rate before the jump */
	u32 first; /* reconnaissance: tp->delivered to reach; then: first sequence of the jump */
	union {
		u32 begun; /* unvalidated: tcp_jiffies32 at the jump */
		u32 last; /* afterwards: the sequence behind the jump's last */
	};
	u32 pipe; /* PipeSize less tp->delivered; retreated: PipeSize */
	u32 until; /* when ct_clients forgets that it resumed: tcp_jiffies32; 0: it has not */
	u32 max_cwnd;
	u16 pace; /* low bits of the sk_max_pacing_rate that the jump has set */
	u8 phase;
	u8 flags;
	struct ct_saved {
		u32 cwnd; /* 0: nothing saved */
		u32 ssthresh;
	} saved;
};

static inline struct ct_room *ct_room(const struct sock *sk)
{
	return (void *)((char *)inet_csk_ca(sk) + ICSK_CA_PRIV_SIZE - sizeof(struct ct_room));
}

/* draw.c: plans, whose classes draw */

struct ct_mix {
	struct mix draw;
	u32 class_id;
	struct ct_profile *class;
	u32 arms;
	struct ct_profile *arm[CONFIGTRON_ARMS];
};

/*
 * Never changed once it is published, but for its lease, which is renewed; each profile in it
 * counts it in `plans`.
 */
struct ct_plan {
	struct plan draw;
	atomic64_t not_after; /* end of its lease: CLOCK_BOOTTIME, ns */
	struct ct_profile *held_profile;
	struct ct_profile *band[CONFIGTRON_BANDS];
	struct rcu_head rcu;
	u32 count;
	struct ct_mix mixes[]; /* `count` of them, by class_id */
};

/* What a connection begins with, and why. */
struct ct_choice {
	struct ct_version *version;
	bool planned; /* a plan is in force */
	u64 epoch;
	u32 class_profile;
	u32 handshake_us;
	u8 arm;
	u8 band;
};

/* What configtron_options say, never changed once it is published: no connection sees half. */
struct ct_scope {
	struct ct_profile *unmatched;
	u32 flags;
	u16 ports[CONFIGTRON_PORTS];
	struct rcu_head rcu;
};

struct ct_net {
	struct mutex lock; /* all writers */
	struct xarray profiles;
	u32 next_id;
	u32 profile_count;
	struct ct_scope __rcu *scope;
	struct ct_version __rcu *plain;
	struct ct_plan __rcu *plan; /* in force */
	struct ct_plan *next_plan; /* loaded; under the mutex */
	struct ct_store store;
	atomic64_t generation;
	wait_queue_head_t changed;
	spinlock_t readers_lock; /* `readers`, and the writing end of each ring */
	struct list_head readers;
	unsigned int reader_count;
	atomic64_t records;
	atomic64_t records_lost;
};

/* The version that holds a socket. */
static inline struct ct_version *ct_version_of(const struct sock *sk)
{
	return container_of(inet_csk(sk)->icsk_ca_ops, struct ct_version, ops);
}

extern unsigned int ct_net_id;
extern unsigned int ct_prefixes_max;
extern bool ct_enabled;
extern atomic_t ct_versions;

static inline struct ct_net *ct_net_of(const struct net *net)
{
	return net_generic(net, ct_net_id);
}

/* For a writer. */
static inline const struct ct_scope *ct_scope_now(const struct ct_net *cn)
{
	return rcu_dereference_protected(cn->scope, lockdep_is_held(&cn->lock));
}

/* Wake the programs that watch this namespace: its tables have changed. */
static inline void ct_net_changed(struct ct_net *cn)
{
	atomic64_inc(&cn->generation);
	wake_up_interruptible_poll(&cn->changed, EPOLLPRI);
}

/* versions.c */
struct ct_version *ct_version_get(struct ct_version __rcu **from);
void ct_version_put(struct ct_version *version);
void ct_publish(struct ct_net *cn, struct ct_version __rcu **slot, struct ct_version *version);
struct ct_version *ct_now(struct ct_net *cn, struct ct_version __rcu *slot);
void ct_profile_put(struct ct_profile *profile);
struct ct_profile *ct_profile_find(struct ct_net *cn, u32 id);
void ct_counts_sum(const struct ct_profile *profile, struct configtron_stats *stats);

/* profiles.c */
int ct_profile_new(struct ct_net *cn, const char *name, u32 *id);
int ct_profile_del(struct ct_net *cn, u32 id);
void ct_profile_retire(struct ct_net *cn, struct ct_profile *profile);
int ct_settings_fit(const struct ct_real *real, const struct ct_settings *set);
int ct_profile_set(struct ct_net *cn, u32 id, u32 flags, const struct configtron_param *params,
		   u32 count, const struct ct_real *cc);
int ct_profile_params(const struct configtron_param *params, u32 count, const struct ct_real **cc,
		      u32 *refused);

/* draw.c */
u8 ct_address(const struct sock *sk, bool remote, const void **address);
u64 ct_unit(u8 family, const void *address);
struct ct_plan *ct_plan_new(struct ct_net *cn, const struct configtron_plan *set,
			    const struct configtron_mix *mixes);
int ct_plan_load(struct ct_net *cn, struct ct_plan *plan);
int ct_plan_turn(struct ct_net *cn);
int ct_plan_renew(struct ct_net *cn, u64 not_after);
void ct_plan_drop(struct ct_net *cn);
void ct_plan_status(struct ct_net *cn, struct configtron_plan_status *status);
u32 ct_plan_mixes(struct ct_net *cn, struct configtron_mix *mixes, u32 room);
bool ct_plan_lapsed(const struct ct_plan *plan);
struct ct_profile *ct_plan_choose(const struct ct_plan *plan, struct ct_profile *profile,
				  const struct sock *sk, u64 unit, struct ct_choice *choice);

/* netns.c */
int ct_net_init(struct ct_net *cn, const struct ct_real *real);
void ct_net_exit(struct ct_net *cn);
int ct_options_set(struct ct_net *cn, const struct configtron_options *options,
		   const struct ct_real *plain);
void ct_options_get(struct ct_net *cn, struct configtron_options *options);

/* wrap.c: where TCP calls us */

struct ct_version *ct_version_new(struct ct_profile *profile, const struct ct_settings *set,
				  const struct ct_real *real);
void ct_attach(struct sock *sk, struct ct_version *version);
const struct ct_version *ct_version_held(const struct sock *sk);
void ct_disinherit(struct net *net, const struct ct_real *plain);
int ct_wrap_register(void);
void ct_wrap_unregister(void);

/* resume.c: Careful Resume, and the largest window */
bool ct_has_room(const struct ct_real *real);
void ct_resume_wrap(struct tcp_congestion_ops *ops, const struct ct_settings *set);
void ct_resume_begin(struct sock *sk, const struct ct_version *version);
void ct_resume_event(struct sock *sk, enum tcp_ca_event event);
void ct_resume_end(struct sock *sk, const struct ct_version *version);
u16 ct_resume_flags(const struct sock *sk, const struct ct_version *version);
u32 ct_max_cwnd(const struct sock *sk, const struct ct_version *version);

/* socket.c */
int ct_socket_assign(struct ct_net *cn, int fd, u32 id);
int ct_socket_get(struct ct_net *cn, int fd, struct configtron_socket_params *head,
		  struct configtron_param *params);

/* records.c: connections at their end and, while a plan is in force, at their beginning */

struct ct_reader {
	struct list_head list;
	struct configtron_record *ring;
	unsigned int mask;
	unsigned int head; /* next to write; under the namespace's readers_lock */
	unsigned int tail; /* next to read; under the file's mutex */
	u32 lost;
	wait_queue_head_t *wait; /* the file's */
};

struct ct_reader *ct_reader_new(struct ct_net *cn, u32 capacity, wait_queue_head_t *wait);
void ct_reader_free(struct ct_net *cn, struct ct_reader *reader);
bool ct_reader_ready(const struct ct_reader *reader);
ssize_t ct_reader_read(struct ct_reader *reader, char __user *to, size_t size);
void ct_record(const struct sock *sk, const struct ct_version *version);
void ct_record_open(const struct sock *sk, const struct ct_choice *choice);

/* chardev.c, and its calls by what they are about */

struct ct_file;
union ct_argument;

int ct_chardev_register(void);
void ct_chardev_unregister(void);

#endif /* _CONFIGTRON_INTERNAL_H */
