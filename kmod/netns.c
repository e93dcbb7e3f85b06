// SPDX-License-Identifier: GPL-2.0-only
/*
 * A network namespace's tables: made when it is, gone when it goes; and the options that hold for
 * all of it.
 *
 * A namespace begins with no profile and no prefix: every connection is left as it is, under the
 * plain congestion control; one that is made while we are loaded, under the first namespace's.
 * `generation` counts changes, so that a watcher sees with one cheap call that something
 * changed.
 */
#include <linux/slab.h>

#include "internal.h"

/*
 * New versions of the profiles that follow the plain congestion control; all are made before any
 * is published.
 */
static int ct_follow_plain(struct ct_net *cn, const struct ct_real *real)
{
	struct ct_version *now, *next;
	struct ct_profile *profile;
	unsigned long id;
	int err = 0;

	xa_for_each(&cn->profiles, id, profile) {
		now = ct_now(cn, profile->now);
		if (profile->own_cc || now->real == real)
			continue;
		err = ct_settings_fit(real, &now->set);
		profile->next = err ? NULL : ct_version_new(profile, &now->set, real);
		if (!profile->next) {
			err = err ?: -ENOMEM;
			break;
		}
	}
	xa_for_each(&cn->profiles, id, profile) {
		next = profile->next;
		profile->next = NULL;
		if (next && err)
			ct_version_put(next);
		else if (next)
			ct_publish(cn, &profile->now, next);
	}
	return err;
}

static int ct_plain_set(struct ct_net *cn, const struct ct_real *real)
{
	static const struct ct_settings nothing;
	struct ct_version *version;
	int err;

	if (ct_now(cn, cn->plain)->real == real)
		return 0;
	version = ct_version_new(NULL, &nothing, real);
	if (!version)
		return -ENOMEM;
	err = ct_follow_plain(cn, real);
	if (err)
		ct_version_put(version);
	else
		ct_publish(cn, &cn->plain, version);
	return err;
}

static void ct_scope_publish(struct ct_net *cn, struct ct_scope *scope)
{
	struct ct_scope *old = rcu_replace_pointer(cn->scope, scope, lockdep_is_held(&cn->lock));

	kfree_rcu(old, rcu);
}

/* `plain` is what options->plain stands for. */
int ct_options_set(struct ct_net *cn, const struct configtron_options *options,
		   const struct ct_real *plain)
{
	struct ct_scope *scope;
	int err;

	scope = kzalloc(sizeof(*scope), GFP_KERNEL_ACCOUNT);
	if (!scope)
		return -ENOMEM;
	if (options->unmatched)
		scope->unmatched = ct_profile_find(cn, options->unmatched);
	err = options->unmatched && !scope->unmatched ? -ENOENT : ct_plain_set(cn, plain);
	if (err) {
		kfree(scope);
		return err;
	}
	scope->flags = options->flags;
	memcpy(scope->ports, options->ports, sizeof(scope->ports));
	ct_scope_publish(cn, scope);
	ct_net_changed(cn);
	return 0;
}

void ct_options_get(struct ct_net *cn, struct configtron_options *options)
{
	const struct ct_scope *scope = ct_scope_now(cn);

	options->flags = scope->flags;
	options->unmatched = scope->unmatched ? scope->unmatched->id : 0;
	memcpy(options->ports, scope->ports, sizeof(options->ports));
	strscpy(options->plain, ct_now(cn, cn->plain)->ops.name, sizeof(options->plain));
}

int ct_net_init(struct ct_net *cn, const struct ct_real *real)
{
	static const struct ct_settings nothing;
	struct ct_version *plain;
	struct ct_scope *scope;
	int err = -ENOMEM;

	mutex_init(&cn->lock);
	xa_init_flags(&cn->profiles, XA_FLAGS_ALLOC1);
	init_waitqueue_head(&cn->changed);
	spin_lock_init(&cn->readers_lock);
	INIT_LIST_HEAD(&cn->readers);
	cn->next_id = 1;
	scope = kzalloc(sizeof(*scope), GFP_KERNEL_ACCOUNT);
	plain = ct_version_new(NULL, &nothing, real);
	if (scope && plain)
		err = ct_store_init(&cn->store);
	if (err) {
		kfree(scope);
		if (plain)
			ct_version_put(plain);
		return err;
	}
	scope->flags = CONFIGTRON_ENABLED;
	RCU_INIT_POINTER(cn->scope, scope);
	RCU_INIT_POINTER(cn->plain, plain);
	return 0;
}

/* No connection and no open file of this namespace is left. */
void ct_net_exit(struct ct_net *cn)
{
	struct ct_profile *profile;
	unsigned long id;

	ct_store_destroy(&cn->store);
	mutex_lock(&cn->lock);
	ct_plan_drop(cn);
	xa_for_each(&cn->profiles, id, profile)
		ct_profile_retire(cn, profile);
	ct_publish(cn, &cn->plain, NULL);
	ct_scope_publish(cn, NULL);
	mutex_unlock(&cn->lock);
	xa_destroy(&cn->profiles);
}
