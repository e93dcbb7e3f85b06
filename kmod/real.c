// SPDX-License-Identifier: GPL-2.0-only
/*
 * The congestion controls that the kernel has, found by name and held.
 *
 * tcp_ca_find() is not exported, nor are reno, cubic and bbr's operations. But any socket can be
 * told to use one by name, and then points to it: so there is one unconnected kernel socket per
 * congestion control in use. It also holds that module: while the socket is there its functions
 * are, and so a copy of the operations stays valid. Being told a name loads tcp_NAME if need be
 * (in the first user namespace, by CAP_NET_ADMIN), which may take as long as modprobe likes: it
 * happens before a profile is set, never when a connection begins, and under no lock of ours.
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
 * Bytes of icsk_ca_priv in use; ct_cwnd_event() keeps 12 at its end where there is room. Those
 * not listed are taken to use it all. Read from 6.1 and 6.12: struct bictcp 60, struct vegas 28,
 * struct bbr 104 (by pahole); rounded up.
 */
static const struct {
	const char *name;
	unsigned int bytes;
} ct_private[] = {
	{ "reno", 0 },
	{ "cubic", 64 },
	{ "vegas", 40 },
};

static LIST_HEAD(ct_reals);
static DEFINE_MUTEX(ct_reals_lock);	/* the list only: no module is loaded under it */

static unsigned int ct_private_bytes(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ct_private); i++)
		if (!strcmp(name, ct_private[i].name))
			return ct_private[i].bytes;
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
	real->private_bytes = ct_private_bytes(name);
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
	real = ct_real_listed(name);	/* by somebody else meanwhile? */
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
