// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls about profiles and their parameters: initConfigProfile, setProfileParam, getProfileParam,
 * deleteConfigProfile.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "calls.h"

int ct_call_profile_new(struct ct_file *cf, union ct_argument *a)
{
	struct configtron_profile *arg = &a->profile;
	int err;

	if (arg->reserved || strnlen(arg->name, sizeof(arg->name)) == sizeof(arg->name))
		return -EINVAL;
	mutex_lock(&cf->cn->lock);
	err = ct_profile_new(cf->cn, arg->name, &arg->id);
	mutex_unlock(&cf->cn->lock);
	return err;
}

int ct_call_profile_del(struct ct_file *cf, union ct_argument *a)
{
	int err;

	mutex_lock(&cf->cn->lock);
	err = ct_profile_del(cf->cn, a->profile.id);
	mutex_unlock(&cf->cn->lock);
	return err;
}

int ct_call_profile_next(struct ct_file *cf, union ct_argument *a)
{
	struct configtron_profile *arg = &a->profile;
	struct ct_profile *profile;
	unsigned long id = arg->id;

	mutex_lock(&cf->cn->lock);
	profile = xa_find(&cf->cn->profiles, &id, ULONG_MAX, XA_PRESENT);
	if (profile) {
		arg->id = profile->id;
		strscpy_pad(arg->name, profile->name, sizeof(arg->name));
	}
	mutex_unlock(&cf->cn->lock);
	return profile ? 0 : -ENOENT;
}

int ct_call_params_set(struct ct_file *cf, union ct_argument *a)
{
	struct configtron_params *arg = &a->params;
	struct configtron_param *params;
	const struct ct_real *cc;
	int err;

	arg->refused = 0;
	if (arg->count > CONFIGTRON_KEYS || arg->flags & ~CONFIGTRON_REPLACE)
		return -EINVAL;
	params = memdup_user(u64_to_user_ptr(arg->params), arg->count * sizeof(*params));
	if (IS_ERR(params))
		return PTR_ERR(params);
	err = ct_profile_params(params, arg->count, &cc, &arg->refused);
	if (err)
		goto out;
	mutex_lock(&cf->cn->lock);
	err = ct_profile_set(cf->cn, arg->profile, arg->flags, params, arg->count, cc);
	mutex_unlock(&cf->cn->lock);
out:
	kfree(params);
	return err;
}

static u32 ct_params_fill(const struct ct_version *version, struct configtron_param *params,
			  u32 room)
{
	u32 key, count = 0;

	for (key = 0; key < CONFIGTRON_KEYS && count < room; key++) {
		if (!ct_given(&version->set, key))
			continue;
		params[count].key = key;
		params[count].value = version->set.value[key];
		if (ct_param_is_text(key))
			strscpy(params[count].text, version->ops.name, sizeof(params[count].text));
		count++;
	}
	return count;
}

int ct_call_params_get(struct ct_file *cf, union ct_argument *a)
{
	struct configtron_param params[CONFIGTRON_KEYS] = {};
	struct configtron_params *arg = &a->params;
	struct ct_profile *profile;

	mutex_lock(&cf->cn->lock);
	profile = ct_profile_find(cf->cn, arg->profile);
	if (profile)
		arg->count = ct_params_fill(ct_now(cf->cn, profile->now), params,
					    min_t(u32, arg->count, CONFIGTRON_KEYS));
	mutex_unlock(&cf->cn->lock);
	if (!profile)
		return -ENOENT;
	if (copy_to_user(u64_to_user_ptr(arg->params), params, arg->count * sizeof(*params)))
		return -EFAULT;
	return 0;
}

int ct_call_stats(struct ct_file *cf, union ct_argument *a)
{
	u32 id = a->stats.profile;
	struct ct_profile *profile;

	memset(&a->stats, 0, sizeof(a->stats));
	mutex_lock(&cf->cn->lock);
	profile = ct_profile_find(cf->cn, id);
	if (profile) {
		a->stats.profile = id;
		a->stats.prefixes = profile->prefixes;
		ct_counts_sum(profile, &a->stats);
	}
	mutex_unlock(&cf->cn->lock);
	return profile ? 0 : -ENOENT;
}
