// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion controls that the kernel has, found by name and held.
 *
 * tcp_ca_find() is not exported, nor are reno, cubic and bbr's operations. But any socket can be
 * told to use one by name, and then points to it: so there is one unconnected kernel socket per
 * congestion control in use. It also holds that module: while the socket is there its functions
 * are, and so a copy of the operations stays valid. Being told a name loads tcp_NAME if need be
 * (in the first user namespace, by CAP_NET_ADMIN); that is why it happens when a profile is set
 * and never when a connection begins.
 *
 * Copies are right because nothing in the tree compares the address of its own operations. BPF's
 * struct_ops are refused: they are counted by a function that is not exported. Our own name is
 * refused: a wrap of the wrap has no end.
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
static DEFINE_MUTEX(ct_reals_lock);	/* inside a namespace's mutex */

static unsigned int ct_private_bytes(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ct_private); i++)
		if (!strcmp(name, ct_private[i].name))
			return ct_private[i].bytes;
	return ICSK_CA_PRIV_SIZE;
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
	if (!err && inet_csk((*pin)->sk)->icsk_ca_ops->owner == BPF_MODULE_OWNER)
		err = -EOPNOTSUPP;
	if (err)
		sock_release(*pin);
	return err;
}

static const struct ct_real *ct_real_add(const char *name)
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
	list_add_tail(&real->list, &ct_reals);
	return real;
}

/*
 * The congestion control of that name, held until the module goes. -ENOENT, -EOPNOTSUPP
 * (struct_ops), -ENOMEM.
 */
const struct ct_real *ct_real_find(const char *name)
{
	const struct ct_real *real;

	if (!strcmp(name, "configtron"))
		return ERR_PTR(-EINVAL);
	mutex_lock(&ct_reals_lock);
	list_for_each_entry(real, &ct_reals, list)
		if (!strcmp(real->ops->name, name))
			goto out;
	real = ct_real_add(name);
out:
	mutex_unlock(&ct_reals_lock);
	return real;
}

void ct_real_release_all(void)
{
	struct ct_real *real, *next;

	list_for_each_entry_safe(real, next, &ct_reals, list) {
		list_del(&real->list);
		sock_release(real->pin);
		kfree(real);
	}
}
