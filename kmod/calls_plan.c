// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls about plans: load one, put it in force, renew its lease, drop it, read what is in force.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "calls.h"

int ct_call_plan_load(struct ct_file *cf, union ct_argument *a)
{
	struct configtron_plan *arg = &a->plan;
	struct configtron_mix *mixes;
	struct ct_plan *plan;
	int err;

	if (arg->count > CT_PROFILES_MAX)
		return -EINVAL;
	mixes = vmemdup_user(u64_to_user_ptr(arg->mixes), arg->count * sizeof(*mixes));
	if (IS_ERR(mixes))
		return PTR_ERR(mixes);
	mutex_lock(&cf->cn->lock);
	plan = ct_plan_new(cf->cn, arg, mixes);
	err = IS_ERR(plan) ? PTR_ERR(plan) : ct_plan_load(cf->cn, plan);
	mutex_unlock(&cf->cn->lock);
	kvfree(mixes);
	return err;
}

int ct_call_plan_turn(struct ct_file *cf, union ct_argument *a)
{
	int err;

	mutex_lock(&cf->cn->lock);
	err = ct_plan_turn(cf->cn);
	mutex_unlock(&cf->cn->lock);
	return err;
}

int ct_call_plan_renew(struct ct_file *cf, union ct_argument *a)
{
	int err;

	mutex_lock(&cf->cn->lock);
	err = ct_plan_renew(cf->cn, a->lease.not_after);
	mutex_unlock(&cf->cn->lock);
	return err;
}

int ct_call_plan_drop(struct ct_file *cf, union ct_argument *a)
{
	mutex_lock(&cf->cn->lock);
	ct_plan_drop(cf->cn);
	mutex_unlock(&cf->cn->lock);
	return 0;
}

int ct_call_plan_status(struct ct_file *cf, union ct_argument *a)
{
	mutex_lock(&cf->cn->lock);
	ct_plan_status(cf->cn, &a->plan_status);
	mutex_unlock(&cf->cn->lock);
	return 0;
}

int ct_call_plan_mixes(struct ct_file *cf, union ct_argument *a)
{
	u32 room = min_t(u32, a->mixes.count, CT_PROFILES_MAX);
	struct configtron_mixes *arg = &a->mixes;
	struct configtron_mix *mixes;
	int err = 0;

	if (arg->reserved)
		return -EINVAL;
	mixes = kvcalloc(room, sizeof(*mixes), GFP_KERNEL_ACCOUNT);
	if (!mixes)
		return -ENOMEM;
	mutex_lock(&cf->cn->lock);
	arg->count = ct_plan_mixes(cf->cn, mixes, room);
	mutex_unlock(&cf->cn->lock);
	if (copy_to_user(u64_to_user_ptr(arg->mixes), mixes,
			 min(room, arg->count) * sizeof(*mixes)))
		err = -EFAULT;
	kvfree(mixes);
	return err;
}
