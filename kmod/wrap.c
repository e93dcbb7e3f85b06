// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where TCP calls us: once when a connection begins, once when it ends, and for some when they
 * idle. Never per ACK.
 *
 *   SYN ... child made       -> icsk_ca_ops = dispatcher, one reference to this module
 *   handshake done, cwnd set -> dispatcher.init(): look up, icsk_ca_ops = version->ops,
 *                               real init(), settings
 *   every ACK                -> the real functions, straight from the copy
 *   CWND_RESTART, TX_START   -> ct_cwnd_event(), only in versions that care for idle connections
 *   close, disconnect, other congestion control chosen
 *                            -> version->ops.release(): real release(), count,
 *                               icsk_ca_ops = dispatcher again
 *
 * The dispatcher and all copies have the same owner, so the reference that TCP took for the first
 * covers the second, and TCP, which reads icsk_ca_ops anew after release() for its module_put(),
 * drops what it took. A second release() (disconnect, then close) meets the dispatcher, which has
 * none; a reconnect is dispatched anew.
 *
 * A congestion control may replace its operations by others, as dctcp_init() does where there is
 * no ECN: TCP drops the reference to the owner of those that it finds at the end. So each of our
 * connections holds a reference to the real one's module too, as TCP would without us, and the
 * real init() and release() find icsk_ca_ops as TCP would have set it. If it is another one
 * afterwards, the connection is no longer ours: TCP owes a reference to the others' module, which
 * is held, and we drop ours (ct_leave()). Operations replaced later, in a callback that is not
 * wrapped, leave our reference where it is: this module then cannot be unloaded, but no module
 * goes while it is in use.
 *
 * slow_start_after_idle is a sysctl of the namespace, read by the core where no hook is. But the
 * core calls the congestion control before it cuts the window (CWND_RESTART) and when the first
 * segment after idle leaves (TX_START): what was saved at the one is put back at the other. The
 * first segments leave under the cut window, the rest at once. Linux 7.1 and later have a callback
 * of its own for TX_START.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "internal.h"

static struct tcp_congestion_ops ct_dispatcher;
static atomic_t ct_serial = ATOMIC_INIT(0);

bool ct_enabled = true;
module_param_named(enabled, ct_enabled, bool, 0644);
MODULE_PARM_DESC(enabled, "0: leave every new connection of all namespaces as it is");

static bool ct_is_port(const struct ct_scope *scope, u16 port)
{
	int i;

	for (i = 0; i < CONFIGTRON_PORTS && scope->ports[i]; i++)
		if (scope->ports[i] == port)
			return true;
	return !i;
}

/* Whether this connection is one of those we were asked for; the rest are left as they are. */
static bool ct_concerns(const struct sock *sk, const struct ct_scope *scope)
{
	if (!READ_ONCE(ct_enabled) || !scope || !(scope->flags & CONFIGTRON_ENABLED))
		return false;
	/* the kernel's own (NFS and the like): may outlive our tables */
	if (!sk->sk_net_refcnt || !ct_is_port(scope, inet_sk(sk)->inet_num))
		return false;
	if (sk->sk_state == TCP_SYN_RECV || inet_csk(sk)->icsk_ca_setsockopt)
		return true; /* we were called; or the application chose us by name */
	return scope->flags & CONFIGTRON_ACTIVE_OPENS;
}

/* The profile of a connection that we were asked for; NULL: it is left as it is. */
static struct ct_profile *ct_profile_of(const struct sock *sk, struct ct_net *cn,
					const struct ct_scope *scope, struct ct_choice *choice)
{
	const struct ct_plan *plan = rcu_dereference(cn->plan);
	struct ct_profile *profile;
	const void *address;
	u8 family;

	if (ct_plan_lapsed(plan))
		return NULL;
	family = ct_address(sk, true, &address);
	profile = ct_store_lookup(&cn->store, family, address);
	if (plan)
		profile = ct_plan_choose(plan, profile, sk, ct_unit(family, address), choice);
	if (!profile && choice->arm == CONFIGTRON_ARM_NONE)
		profile = scope->unmatched;
	return profile;
}

static void ct_choose(const struct sock *sk, struct ct_choice *choice)
{
	struct ct_net *cn = ct_net_of(sock_net(sk));
	const struct ct_scope *scope;
	struct ct_profile *profile;

	*choice = (struct ct_choice){ .arm = CONFIGTRON_ARM_NONE };
	rcu_read_lock();
	scope = rcu_dereference(cn->scope);
	profile = ct_concerns(sk, scope) ? ct_profile_of(sk, cn, scope, choice) : NULL;
	if (profile)
		choice->version = ct_version_get(&profile->now);
	if (!choice->version)
		choice->version = ct_version_get(&cn->plain);
	rcu_read_unlock();
}

static void ct_account(const struct sock *sk, const struct ct_version *version)
{
	struct ct_counts __percpu *counts = version->profile->counts;
	const struct tcp_sock *tp = tcp_sk(sk);

	this_cpu_inc(counts->closed);
	this_cpu_add(counts->bytes_acked, tp->bytes_acked);
	this_cpu_add(counts->segs_out, tp->data_segs_out);
	this_cpu_add(counts->retrans, tp->total_retrans);
	this_cpu_add(counts->srtt_us, tp->srtt_us >> 3);
	if (tcp_min_rtt(tp) != ~0U)
		this_cpu_add(counts->min_rtt_us, tcp_min_rtt(tp));
}

/*
 * References to this module that connections have left behind. The last must not go while code of
 * ours runs on any processor, and there is no later moment of ours in ct_leave(): a second is
 * longer than any way back from it. ct_wrap_unregister() waits for the work itself.
 */
#define CT_PUT_DELAY HZ

static atomic_t ct_left = ATOMIC_INIT(0);

static void ct_left_put(struct work_struct *work)
{
	int left = atomic_xchg(&ct_left, 0);

	while (left--)
		module_put(THIS_MODULE);
}

static DECLARE_DELAYED_WORK(ct_left_work, ct_left_put);

/* The real congestion control has put others' operations in the place of ours. */
static void ct_leave(struct sock *sk, struct ct_version *version)
{
	pr_notice_once("configtron: %s became %s at init; such connections are left to it\n",
		       version->real->ops->name, inet_csk(sk)->icsk_ca_ops->name);
	if (version->profile) {
		this_cpu_inc(version->profile->counts->replaced);
		ct_account(sk, version);
	}
	ct_record(sk, version);
	ct_version_put(version);
	atomic_inc(&ct_left);
	schedule_delayed_work(&ct_left_work, CT_PUT_DELAY);
}

/*
 * Passes the caller's reference to `version` to the socket, which the caller owns, with a
 * reference to this module.
 */
void ct_attach(struct sock *sk, struct ct_version *version)
{
	const struct tcp_congestion_ops *real = version->real->ops;
	struct inet_connection_sock *icsk = inet_csk(sk);
	bool replaced;

	ct_params_before(sk, &version->set);
	__module_get(real->owner);
	WRITE_ONCE(icsk->icsk_ca_ops, real);
	if (real->init)
		real->init(sk);
	replaced = icsk->icsk_ca_ops != real;
	if (!replaced)
		WRITE_ONCE(icsk->icsk_ca_ops, &version->ops);
	ct_params_after(sk, &version->set);
	if (!replaced)
		ct_resume_begin(sk, version);
	if (version->profile)
		this_cpu_inc(version->profile->counts->opened);
	if (replaced)
		ct_leave(sk, version);
}

static void ct_dispatch(struct sock *sk)
{
	struct ct_choice choice;

	ct_choose(sk, &choice);
	if (!choice.version)
		return;
	if (choice.planned)
		ct_record_open(sk, &choice);
	ct_attach(sk, choice.version);
}

/* As bpf_module_put(), whose part for struct_ops is not exported. */
static void ct_owner_put(const struct tcp_congestion_ops *ops)
{
	if (ops->owner != BPF_MODULE_OWNER)
		module_put(ops->owner);
}

static void ct_release(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct ct_version *version = ct_version_of(sk);

	if (version->profile)
		ct_account(sk, version);
	ct_record(sk, version);
	ct_resume_end(sk, version);
	/* as tcp_cleanup_congestion_control() */
	WRITE_ONCE(icsk->icsk_ca_ops, version->real->ops);
	if (version->real->ops->release)
		version->real->ops->release(sk);
	ct_owner_put(icsk->icsk_ca_ops);
	WRITE_ONCE(icsk->icsk_ca_ops, &ct_dispatcher);
	ct_version_put(version);
}

/*
 * The window that a connection restarts with after idle: its profile's initial one, or all that
 * it had.
 */
static void ct_restart(struct sock *sk, const struct ct_settings *set, struct ct_saved *saved)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = saved->cwnd;

	if (ct_stays_fast(set))
		tp->snd_ssthresh = saved->ssthresh;
	else
		window = min_t(u32, window, set->value[CONFIGTRON_INITCWND]);
	window = min(window, tp->snd_cwnd_clamp);
	if (window > tcp_snd_cwnd(tp))
		tcp_snd_cwnd_set(tp, window);
	saved->cwnd = 0;
}

static bool ct_minds_idle(const struct ct_real *real, const struct ct_settings *set)
{
	if (real->ops->cong_control ||
	    real->private_bytes + sizeof(struct ct_saved) > ICSK_CA_PRIV_SIZE)
		return false;
	return ct_given(set, CONFIGTRON_INITCWND) || ct_stays_fast(set);
}

static void ct_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	const struct ct_version *version = ct_version_of(sk);
	struct ct_saved *saved = &ct_room(sk)->saved;

	if (version->real->ops->cwnd_event)
		version->real->ops->cwnd_event(sk, event);
	if (ct_has_room(version->real))
		ct_resume_event(sk, event);
	if (!ct_minds_idle(version->real, &version->set))
		return;
	if (event == CA_EVENT_CWND_RESTART && !saved->cwnd) {
		saved->cwnd = tcp_snd_cwnd(tcp_sk(sk));
		saved->ssthresh = tcp_sk(sk)->snd_ssthresh;
	} else if (event == CA_EVENT_TX_START && saved->cwnd) {
		ct_restart(sk, &version->set, saved);
	} else if (event == CA_EVENT_LOSS) {
		saved->cwnd = 0;
	}
}

#ifdef CT_HAS_TX_START
static void ct_cwnd_event_tx_start(struct sock *sk)
{
	const struct ct_version *version = ct_version_of(sk);
	struct ct_saved *saved = &ct_room(sk)->saved;

	if (version->real->ops->cwnd_event_tx_start)
		version->real->ops->cwnd_event_tx_start(sk);
	if (ct_minds_idle(version->real, &version->set) && saved->cwnd)
		ct_restart(sk, &version->set, saved);
}
#endif

/*
 * Makes a copy of a congestion control's operations ours. TCP calls init() of the dispatcher
 * only.
 */
static void ct_wrap(struct tcp_congestion_ops *ops, const struct ct_real *real,
		    const struct ct_settings *set)
{
	INIT_LIST_HEAD(&ops->list);
	ops->owner = THIS_MODULE;
	ops->init = NULL;
	ops->release = ct_release;
	if (ct_minds_idle(real, set) || ct_has_room(real))
		ops->cwnd_event = ct_cwnd_event;
#ifdef CT_HAS_TX_START
	if (ct_minds_idle(real, set))
		ops->cwnd_event_tx_start = ct_cwnd_event_tx_start;
#endif
	if (ct_has_room(real))
		ct_resume_wrap(ops, set);
}

struct ct_version *ct_version_new(struct ct_profile *profile, const struct ct_settings *set,
				  const struct ct_real *real)
{
	struct ct_version *version = kzalloc(sizeof(*version), GFP_KERNEL_ACCOUNT);

	if (!version)
		return NULL;
	refcount_set(&version->users, 1);
	version->serial = atomic_inc_return(&ct_serial);
	version->real = real;
	version->set = *set;
	version->profile = profile;
	if (profile)
		refcount_inc(&profile->users);
	memcpy(&version->ops, real->ops, sizeof(version->ops));
	ct_wrap(&version->ops, real, set);
	atomic_inc(&ct_versions);
	return version;
}

/* The version that a socket is held by, or NULL. The caller owns the socket. */
const struct ct_version *ct_version_held(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_ops->release == ct_release ? ct_version_of(sk) : NULL;
}

int ct_wrap_register(void)
{
	return tcp_register_congestion_control(&ct_dispatcher);
}

void ct_wrap_unregister(void)
{
	tcp_unregister_congestion_control(&ct_dispatcher);
	flush_delayed_work(&ct_left_work);
}

/*
 * A namespace begins with the default of the first one. While that is us, it is given what the
 * first one had before instead: it has no profile, so that is how its connections would run
 * anyhow, and it neither holds this module nor keeps us when the first one is put back. As
 * tcp_set_default_congestion_control(), which is not exported. The namespace is being made:
 * nothing else has it.
 */
void ct_disinherit(struct net *net, const struct ct_real *plain)
{
	if (rcu_access_pointer(net->ipv4.tcp_congestion_control) != &ct_dispatcher)
		return;
	__module_get(plain->ops->owner);
	rcu_assign_pointer(net->ipv4.tcp_congestion_control, plain->ops);
	module_put(THIS_MODULE);
}

/* Between SYN and init() a connection has nothing to decide; reno fills the required places. */
static struct tcp_congestion_ops ct_dispatcher __read_mostly = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = ct_dispatch,
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.owner = THIS_MODULE,
	.name = "configtron",
};
