// SPDX-License-Identifier: GPL-2.0-only
/*
 * configtron: TCP settings per client prefix and per socket, without a change of kernel or
 * application.
 *
 * A congestion control called "configtron" is registered. Where it is the default
 * (net.ipv4.tcp_congestion_control), TCP asks it to initialise each new connection; it looks the
 * client's address up, gives the connection its profile's settings and a copy of the real
 * congestion control's operations, and is out of the way until the connection ends. README.md is
 * the essay: hooks, locking, lifetimes, what cannot be done and why.
 *
 *   configtron.h  what programs say to /dev/configtron     store.c     prefix -> profile
 *   chardev.c     the calls                                params.c    what can be set, and how
 *   profiles.c    profiles and their versions              real.c      congestion controls by name
 *   wrap.c        where TCP calls us                       records.c   connections, begin and end
 *   draw.c        plans: which arm of its class a client gets
 */
#include <linux/module.h>

#include "internal.h"

/* Plain one of namespaces older than the module. */
static const struct ct_real *ct_default_real;

/* What the first namespace's connections are left to; its own, when that is the one being made. */
static const struct ct_real *ct_plain_of_first(void)
{
	const struct ct_real *real = ct_default_real;
	const struct ct_version *plain;

	rcu_read_lock();
	plain = rcu_dereference(ct_net_of(&init_net)->plain);
	if (plain)
		real = plain->real; /* lives until the module goes */
	rcu_read_unlock();
	return real;
}

static int __net_init ct_pernet_init(struct net *net)
{
	const struct ct_real *plain = ct_plain_of_first();
	int err = ct_net_init(ct_net_of(net), plain);

	if (!err)
		ct_disinherit(net, plain);
	return err;
}

static void __net_exit ct_pernet_exit(struct net *net)
{
	ct_net_exit(ct_net_of(net));
}

static struct pernet_operations ct_pernet = {
	.init = ct_pernet_init,
	.exit = ct_pernet_exit,
	.id = &ct_net_id,
	.size = sizeof(struct ct_net),
};

/*
 * The host's default, if it can be wrapped; else cubic, which most kernels have, or reno, which
 * every kernel has.
 */
static int __init ct_default_find(void)
{
	char name[TCP_CA_NAME_MAX];

	rcu_read_lock();
	strscpy(name, rcu_dereference(init_net.ipv4.tcp_congestion_control)->name, sizeof(name));
	rcu_read_unlock();
	ct_default_real = ct_real_find(name);
	if (IS_ERR(ct_default_real))
		ct_default_real = ct_real_find("cubic");
	if (IS_ERR(ct_default_real))
		ct_default_real = ct_real_find("reno");
	return PTR_ERR_OR_ZERO(ct_default_real);
}

static int __init ct_init(void)
{
	int err;

	err = ct_store_setup();
	if (err)
		return err;
	err = ct_default_find();
	if (err)
		goto no_default;
	err = register_pernet_subsys(&ct_pernet);
	if (err)
		goto no_pernet;
	err = ct_chardev_register();
	if (err)
		goto no_chardev;
	err = ct_wrap_register();
	if (err)
		goto no_wrap;
	return 0;

no_wrap:
	ct_chardev_unregister();
no_chardev:
	unregister_pernet_subsys(&ct_pernet);
no_pernet:
no_default:
	ct_real_release_all();
	ct_store_teardown();
	return err;
}

/*
 * Nothing holds the module: no connection has a version, no socket the dispatcher, no file the
 * device.
 */
static void __exit ct_exit(void)
{
	ct_wrap_unregister(); /* waits until no connection is just beginning */
	ct_chardev_unregister();
	unregister_pernet_subsys(&ct_pernet);
	WARN_ON(atomic_read(&ct_versions));
	ct_real_release_all();
	ct_store_teardown();
}

module_init(ct_init);
module_exit(ct_exit);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("The configtron authors");
MODULE_DESCRIPTION("TCP settings per client prefix and per socket");
MODULE_VERSION(CT_RELEASE);
