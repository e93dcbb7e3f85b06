// SPDX-License-Identifier: GPL-2.0-only
/*
 * Profiles: a number, a name, counters, and what it sets (versions.c). All under the namespace's
 * mutex.
 */
#include <linux/percpu.h>
#include <linux/slab.h>

#include "internal.h"

static struct ct_profile *ct_profile_alloc(struct ct_net *cn, const char *name)
{
	static const struct ct_settings nothing;
	struct ct_profile *profile = kzalloc(sizeof(*profile), GFP_KERNEL_ACCOUNT);
	struct ct_version *version;

	if (!profile)
		return NULL;
	refcount_set(&profile->users, 1);
	strscpy(profile->name, name, sizeof(profile->name));
	profile->counts = alloc_percpu_gfp(struct ct_counts, GFP_KERNEL_ACCOUNT);
	if (!profile->counts)
		goto no_counts;
	version = ct_version_new(profile, &nothing, ct_now(cn, cn->plain)->real);
	if (!version)
		goto no_version;
	RCU_INIT_POINTER(profile->now, version);
	return profile;

no_version:
	free_percpu(profile->counts);
no_counts:
	kfree(profile);
	return NULL;
}

/* The table's reference goes; connections keep theirs. */
void ct_profile_retire(struct ct_net *cn, struct ct_profile *profile)
{
	ct_publish(cn, &profile->now, NULL);
	ct_profile_put(profile);
}

int ct_profile_new(struct ct_net *cn, const char *name, u32 *id)
{
	struct ct_profile *profile;
	int err;

	lockdep_assert_held(&cn->lock);
	if (cn->profile_count >= CT_PROFILES_MAX)
		return -ENOSPC;
	profile = ct_profile_alloc(cn, name);
	if (!profile)
		return -ENOMEM;
	err = xa_alloc_cyclic(&cn->profiles, &profile->id, profile, XA_LIMIT(1, INT_MAX),
			      &cn->next_id, GFP_KERNEL_ACCOUNT);
	if (err < 0) {
		ct_profile_retire(cn, profile);
		return err;
	}
	cn->profile_count++;
	*id = profile->id;
	ct_net_changed(cn);
	return 0;
}

int ct_profile_del(struct ct_net *cn, u32 id)
{
	struct ct_profile *profile = ct_profile_find(cn, id);

	if (!profile)
		return -ENOENT;
	if (profile->prefixes || profile->plans || ct_scope_now(cn)->unmatched == profile)
		return -EBUSY;
	xa_erase(&cn->profiles, id);
	cn->profile_count--;
	ct_profile_retire(cn, profile);
	ct_net_changed(cn);
	return 0;
}

/*
 * 0, or what stands against these settings under this congestion control. -EOPNOTSUPP:
 * slow_start_after_idle=0 needs room beside the congestion control's own state, unless that never
 * slows down, and so does Careful Resume. -EINVAL: a window without its round trip, or the other
 * way round.
 */
int ct_settings_fit(const struct ct_real *real, const struct ct_settings *set)
{
	if (ct_resumes(set) != ct_given(set, CONFIGTRON_RESUME_RTT))
		return -EINVAL;
	if (ct_resumes(set) && !ct_has_room(real))
		return -EOPNOTSUPP;
	if (ct_stays_fast(set) && !real->ops->cong_control &&
	    real->private_bytes == ICSK_CA_PRIV_SIZE)
		return -EOPNOTSUPP;
	return 0;
}

struct ct_draft {
	struct ct_settings set;
	const struct ct_real *real;
	bool own_cc;
};

/* `cc` is what the parameter's name stands for, or NULL when it is unset. */
static void ct_draft_param(struct ct_draft *draft, const struct ct_real *plain,
			   const struct ct_real *cc, const struct configtron_param *param)
{
	bool unset = param->flags & CONFIGTRON_PARAM_UNSET;

	if (unset)
		draft->set.given &= ~BIT(param->key);
	else
		draft->set.given |= BIT(param->key);
	if (!ct_param_is_text(param->key)) {
		draft->set.value[param->key] = unset ? 0 : param->value;
		return;
	}
	draft->own_cc = !unset;
	draft->real = unset ? plain : cc;
}

/*
 * Whether each of `params` can be taken, and in *cc what the last name among them stands for. May
 * load a module: the caller holds no lock. On error *refused is the one that was not taken.
 */
int ct_profile_params(const struct configtron_param *params, u32 count, const struct ct_real **cc,
		      u32 *refused)
{
	const struct ct_real *found;
	int err;
	u32 i;

	*cc = NULL;
	for (i = 0; i < count; i++) {
		*refused = i;
		err = ct_param_check(&params[i]);
		if (err)
			return err;
		if (!ct_param_is_text(params[i].key) || params[i].flags & CONFIGTRON_PARAM_UNSET)
			continue;
		found = ct_real_find(params[i].text);
		if (IS_ERR(found))
			return PTR_ERR(found);
		*cc = found;
	}
	return 0;
}

/* All of `params`, which ct_profile_params() has seen, or none. */
int ct_profile_set(struct ct_net *cn, u32 id, u32 flags, const struct configtron_param *params,
		   u32 count, const struct ct_real *cc)
{
	struct ct_profile *profile = ct_profile_find(cn, id);
	const struct ct_real *plain = ct_now(cn, cn->plain)->real;
	struct ct_draft draft = { .real = plain };
	struct ct_version *version;
	int err;
	u32 i;

	if (!profile)
		return -ENOENT;
	if (!(flags & CONFIGTRON_REPLACE)) {
		version = ct_now(cn, profile->now);
		draft = (struct ct_draft){ version->set, version->real, profile->own_cc };
	}
	for (i = 0; i < count; i++)
		ct_draft_param(&draft, plain, cc, &params[i]);
	err = ct_settings_fit(draft.real, &draft.set);
	if (err)
		return err;
	version = ct_version_new(profile, &draft.set, draft.real);
	if (!version)
		return -ENOMEM;
	profile->own_cc = draft.own_cc;
	ct_publish(cn, &profile->now, version);
	ct_net_changed(cn);
	return 0;
}
