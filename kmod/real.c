// SPDX-License-Identifier: GPL-2.0-only
/*
 * The congestion controls that the kernel has, found by name and held.
 *
 * tcp_ca_find() is not exported, nor are reno, cubic and bbr's operations. But any socket can
 * choose one by name (TCP_CONGESTION), and then points to it: so there is one unconnected kernel
 * socket per congestion control in use. It also holds that module: while the socket is there its
 * functions are, and so a copy of the operations stays valid. Choosing a name loads tcp_NAME if
 * need be (in the first user namespace, by CAP_NET_ADMIN), which may take as long as modprobe
 * likes: it happens before a profile is set, never when a connection begins, and under no lock of
 * ours.
 *
 * Refused are:
 *   -EOPNOTSUPP       BPF's struct_ops: they are counted by a function that is not exported.
 *   -EPROTONOSUPPORT  those that need ECN (TCP_CONG_NEEDS_ECN; of the tree's dctcp alone). ECN is
 *                     agreed on in the SYN and SYN-ACK, by the listener's congestion control or
 *                     the route, before a client's profile is looked up: some clients of a prefix
 *                     would run dctcp and the rest what dctcp_init() puts in its place. A route
 *                     (congctl dctcp) decides both at once: ip_metrics_convert() adds ECN to it.
 *   -EINVAL           our own name: a wrap of the wrap has no end.
 * Any other may still replace its operations by others; wrap.c sees to that.
 */
#include <linux/slab.h>
#include <net/sock.h>

#include "internal.h"

/*
 * Bytes of icsk_ca_priv that a congestion control of the kernel uses, so that ct_cwnd_event() can
 * keep struct ct_saved behind them. Read by pahole from 6.1, 6.12 and 7.3: struct bictcp 60,
 * struct vegas 28 or less; rounded up. Those not listed are taken to use it all. Other modules
 * may change theirs: ct_private_bytes() checks, when one is looked up for the first time, how
 * far its init() writes.
 * On kernels that the list was not read from (CT_ANY_KERNEL), all are taken to use all.
 */
static const struct {
	const char *name;
	unsigned int bytes;
} ct_private[] = {
	{ "reno", 0 },
#ifndef CT_ANY_KERNEL
	{ "cubic", 64 },
	{ "vegas", 40 },
#endif
};

#define CT_POISON 0xa5

static LIST_HEAD(ct_reals);
static DEFINE_MUTEX(ct_reals_lock); /* the list only: no module is loaded under it */

/* How many bytes of its state init() reaches, on a socket that has no connection. */
static unsigned int ct_private_written(struct sock *sk, const struct tcp_congestion_ops *ops)
{
	u8 *state = inet_csk_ca(sk);
	unsigned int bytes = ICSK_CA_PRIV_SIZE;

	if (!ops->init)
		return 0;
	if (ops->release)
		return bytes; /* init() may have taken what only release() gives back */
	lock_sock(sk);
	memset(state, CT_POISON, ICSK_CA_PRIV_SIZE);
	ops->init(sk);
	while (bytes && state[bytes - 1] == CT_POISON)
		bytes--;
	memset(state, 0, ICSK_CA_PRIV_SIZE);
	release_sock(sk);
	return bytes;
}

static unsigned int ct_private_bytes(struct sock *sk, const struct tcp_congestion_ops *ops)
{
	unsigned int i, written;

	for (i = 0; i < ARRAY_SIZE(ct_private); i++)
		if (!strcmp(ops->name, ct_private[i].name))
			break;
	if (i == ARRAY_SIZE(ct_private))
		return ICSK_CA_PRIV_SIZE;
	written = ct_private_written(sk, ops);
	if (written <= ct_private[i].bytes)
		return ct_private[i].bytes;
	pr_notice("configtron: %s keeps %u bytes, not %u; its window after idle is left alone\n",
		  ops->name, written, ct_private[i].bytes);
	return ICSK_CA_PRIV_SIZE;
}

/* 0 if connections can be given a copy of these operations; or the error that says why not. */
static int ct_real_check(const struct tcp_congestion_ops *ops)
{
	if (ops->owner == BPF_MODULE_OWNER)
		return -EOPNOTSUPP;
	return ops->flags & TCP_CONG_NEEDS_ECN ? -EPROTONOSUPPORT : 0;
}

/* A socket of the kernel's own that uses the congestion control of that name. */
static int ct_pin(const char *name, struct socket **pin)
{
	sockptr_t text = KERNEL_SOCKPTR((void *)name);
	int err;

	err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, pin);
	if (err)
		return err;
	/* through the table of operations: tcp_setsockopt() itself is not exported on every 6.12 */
	err = (*pin)->ops->setsockopt(*pin, SOL_TCP, TCP_CONGESTION, text, strlen(name));
	if (!err)
		err = ct_real_check(inet_csk((*pin)->sk)->icsk_ca_ops);
	if (err)
		sock_release(*pin);
	return err;
}

/* May load a module: the caller holds no lock. */
static struct ct_real *ct_real_new(const char *name)
{
	struct ct_real *real;
	int err;

	real = kzalloc(sizeof(*real), GFP_KERNEL);
	if (!real)
		return ERR_PTR(-ENOMEM);
	err = ct_pin(name, &real->pin);
	if (err) {
		kfree(real);
		return ERR_PTR(err);
	}
	real->ops = inet_csk(real->pin->sk)->icsk_ca_ops;
	real->private_bytes = ct_private_bytes(real->pin->sk, real->ops);
	return real;
}

static void ct_real_free(struct ct_real *real)
{
	sock_release(real->pin);
	kfree(real);
}

static struct ct_real *ct_real_listed(const char *name)
{
	struct ct_real *real;

	lockdep_assert_held(&ct_reals_lock);
	list_for_each_entry(real, &ct_reals, list)
		if (!strcmp(real->ops->name, name))
			return real;
	return NULL;
}

/*
 * The congestion control of that name, held until the module goes. The caller holds no lock.
 * -ENOENT, -ENOMEM, or one of the refusals above.
 */
const struct ct_real *ct_real_find(const char *name)
{
	struct ct_real *real, *made;

	if (!strcmp(name, "configtron"))
		return ERR_PTR(-EINVAL);
	mutex_lock(&ct_reals_lock);
	real = ct_real_listed(name);
	mutex_unlock(&ct_reals_lock);
	if (real)
		return real;
	made = ct_real_new(name);
	if (IS_ERR(made))
		return made;
	mutex_lock(&ct_reals_lock);
	real = ct_real_listed(name); /* by another caller meanwhile? */
	if (!real)
		list_add_tail(&made->list, &ct_reals);
	mutex_unlock(&ct_reals_lock);
	if (!real)
		return made;
	ct_real_free(made);
	return real;
}

void ct_real_release_all(void)
{
	struct ct_real *real, *next;

	list_for_each_entry_safe(real, next, &ct_reals, list) {
		list_del(&real->list);
		ct_real_free(real);
	}
}
