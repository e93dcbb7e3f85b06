// SPDX-License-Identifier: GPL-2.0-only
/*
 * Plans: which arm of its class a client gets in an epoch.
 *
 * draw.h has the hash and the choice, this file what they are made of and how it is replaced. A
 * plan is one block with the mixes of all classes, never changed once it is published: who
 * begins a connection reads the plan once, so key, epoch and mixes fit one another. Its lease is
 * in the same block, so no plan is ever judged by another's; it is renewed each second, and once
 * it has passed, new connections are left as they are, though every process of ours be dead.
 *
 * References: a plan counts in each profile that it names (`plans`), so such a profile cannot
 * be deleted. A plan that was replaced goes by kfree_rcu(), and so does a profile: a connection
 * that is just beginning finds both.
 *
 * A profile without a mix is not drawn and not held back. Round trips are the handshake's:
 * tcp_check_req() has measured it by now; not with Fast Open, nor with SYN cookies without
 * timestamps.
 */
#include <linux/bsearch.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/timekeeping.h>
#include <net/ipv6.h>

#include "internal.h"

/* One address of a connection in network order, and its family; v4-mapped addresses are IPv4. */
u8 ct_address(const struct sock *sk, bool remote, const void **address)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		*address = remote ? &sk->sk_v6_daddr : &sk->sk_v6_rcv_saddr;
		return AF_INET6;
	}
#endif
	*address = remote ? &sk->sk_daddr : &sk->sk_rcv_saddr;
	return AF_INET;
}

/* The client that is drawn for, from an address in network order. */
u64 ct_unit(u8 family, const void *address)
{
	__be32 word[4];

	if (family == AF_INET)
		return draw_unit4(be32_to_cpup(address));
	memcpy(word, address, sizeof(word));
	return draw_unit6(be32_to_cpu(word[0]), be32_to_cpu(word[1]), be32_to_cpu(word[2]),
			  be32_to_cpu(word[3]));
}

static int ct_mix_order(const void *a, const void *b)
{
	u32 first = ((const struct ct_mix *)a)->class_id;
	u32 second = ((const struct ct_mix *)b)->class_id;

	return first < second ? -1 : first > second;
}

static const struct ct_mix *ct_mix_find(const struct ct_plan *plan, u32 class_id)
{
	const struct ct_mix key = { .class_id = class_id };

	return bsearch(&key, plan->mixes, plan->count, sizeof(key), ct_mix_order);
}

/* Whether a plan is in force whose lease has passed. */
bool ct_plan_lapsed(const struct ct_plan *plan)
{
	return plan && ktime_get_boottime_ns() > (u64)atomic64_read(&plan->not_after);
}

/*
 * The profile of a client whose prefix has `profile`, or NULL where no prefix holds it; NULL:
 * left as it is. The caller holds rcu_read_lock().
 */
struct ct_profile *ct_plan_choose(const struct ct_plan *plan, struct ct_profile *profile,
				  const struct sock *sk, u64 unit, struct ct_choice *choice)
{
	const struct ct_mix *mix;

	choice->planned = true;
	choice->epoch = plan->draw.epoch;
	choice->handshake_us = tcp_sk(sk)->srtt_us >> 3;
	if (!profile) {
		choice->band = draw_band(&plan->draw, choice->handshake_us);
		profile = choice->band ? plan->band[choice->band - 1] : NULL;
	}
	mix = profile ? ct_mix_find(plan, profile->id) : NULL;
	if (!mix)
		return profile;
	choice->class_profile = mix->class_id;
	if (draw_is_held(&plan->draw, unit)) {
		choice->arm = CONFIGTRON_ARM_HELD;
		return plan->held_profile;
	}
	choice->arm = draw_arm(&mix->draw, draw_slice(&plan->draw, plan->draw.epoch, unit));
	return mix->arm[choice->arm];
}

/* Each profile that a plan names, NULL where a place is empty. */
static void ct_plan_count(struct ct_plan *plan, int one)
{
	u32 i, j;

	if (plan->held_profile)
		plan->held_profile->plans += one;
	for (i = 0; i < CONFIGTRON_BANDS; i++)
		if (plan->band[i])
			plan->band[i]->plans += one;
	for (i = 0; i < plan->count; i++) {
		plan->mixes[i].class->plans += one;
		for (j = 0; j < plan->mixes[i].arms; j++)
			plan->mixes[i].arm[j]->plans += one;
	}
}

static int ct_mix_fill(struct ct_net *cn, struct ct_mix *mix, const struct configtron_mix *set)
{
	u32 i;

	if (!set->arms || set->arms > CONFIGTRON_ARMS)
		return -EINVAL;
	mix->class_id = set->profile;
	mix->class = ct_profile_find(cn, set->profile);
	if (!mix->class)
		return -ENOENT;
	mix->arms = set->arms;
	for (i = 0; i < CONFIGTRON_ARMS; i++) {
		mix->draw.upto[i] = set->upto[i];
		if (i >= set->arms - 1 ? set->upto[i] != DRAW_PARTS - 1
				       : set->upto[i] >= set->upto[i + 1])
			return -EINVAL;
		if (i >= set->arms && set->arm[i])
			return -EINVAL;
		if (i >= set->arms)
			continue;
		mix->arm[i] = ct_profile_find(cn, set->arm[i]);
		if (!mix->arm[i])
			return -ENOENT;
	}
	return 0;
}

static int ct_plan_fill(struct ct_net *cn, struct ct_plan *plan, const struct configtron_plan *set)
{
	u32 i, last = 0;

	if (set->held > DRAW_PARTS || set->epoch == DRAW_HELD_EPOCH || set->reserved)
		return -EINVAL;
	plan->draw.key[0] = set->key[0];
	plan->draw.key[1] = set->key[1];
	plan->draw.epoch = set->epoch;
	atomic64_set(&plan->not_after, set->not_after);
	plan->draw.held = set->held;
	if (set->held_profile) {
		plan->held_profile = ct_profile_find(cn, set->held_profile);
		if (!plan->held_profile)
			return -ENOENT;
	}
	for (i = 0; i < CONFIGTRON_BANDS && set->band_us[i]; i++) {
		if (set->band_us[i] <= last)
			return -EINVAL;
		last = set->band_us[i];
		plan->draw.band_us[i] = last;
		plan->band[i] = ct_profile_find(cn, set->band_class[i]);
		if (!plan->band[i])
			return -ENOENT;
	}
	for (; i < CONFIGTRON_BANDS; i++)
		if (set->band_us[i] || set->band_class[i])
			return -EINVAL;
	return 0;
}

/* A plan that is not loaded yet; -EINVAL for one that does not hold together. */
struct ct_plan *ct_plan_new(struct ct_net *cn, const struct configtron_plan *set,
			    const struct configtron_mix *mixes)
{
	struct ct_plan *plan;
	int err;
	u32 i;

	lockdep_assert_held(&cn->lock);
	plan = kvzalloc(struct_size(plan, mixes, set->count), GFP_KERNEL_ACCOUNT);
	if (!plan)
		return ERR_PTR(-ENOMEM);
	plan->count = set->count;
	err = ct_plan_fill(cn, plan, set);
	for (i = 0; !err && i < set->count; i++)
		err = ct_mix_fill(cn, &plan->mixes[i], &mixes[i]);
	if (!err) {
		sort(plan->mixes, plan->count, sizeof(*plan->mixes), ct_mix_order, NULL);
		for (i = 1; !err && i < plan->count; i++)
			if (plan->mixes[i].class_id == plan->mixes[i - 1].class_id)
				err = -EINVAL;
	}
	if (!err)
		return plan;
	kvfree(plan);
	return ERR_PTR(err);
}

static void ct_plan_retire(struct ct_plan *plan)
{
	if (!plan)
		return;
	ct_plan_count(plan, -1);
	kvfree_rcu(plan, rcu);
}

static bool ct_mix_same(const struct ct_mix *a, const struct ct_mix *b)
{
	return a->class_id == b->class_id && a->arms == b->arms &&
	       !memcmp(a->draw.upto, b->draw.upto, sizeof(a->draw.upto)) &&
	       !memcmp(a->arm, b->arm, sizeof(a->arm));
}

/* Whether `plan` would give clients other arms in the epoch that is in force. */
static bool ct_plan_moves(const struct ct_plan *now, const struct ct_plan *plan)
{
	u32 i;

	if (!now || now->draw.epoch != plan->draw.epoch ||
	    memcmp(now->draw.key, plan->draw.key, sizeof(now->draw.key)))
		return false;
	if (now->count != plan->count || memcmp(&now->draw, &plan->draw, sizeof(now->draw)) ||
	    now->held_profile != plan->held_profile ||
	    memcmp(now->band, plan->band, sizeof(now->band)))
		return true;
	for (i = 0; i < plan->count; i++)
		if (!ct_mix_same(&now->mixes[i], &plan->mixes[i]))
			return true;
	return false;
}

/* In the place of what was loaded before; takes the plan, also after an error. */
int ct_plan_load(struct ct_net *cn, struct ct_plan *plan)
{
	lockdep_assert_held(&cn->lock);
	if (ct_plan_moves(rcu_dereference_protected(cn->plan, lockdep_is_held(&cn->lock)), plan)) {
		kvfree(plan);
		return -EEXIST;
	}
	ct_plan_count(plan, 1);
	ct_plan_retire(cn->next_plan);
	cn->next_plan = plan;
	return 0;
}

int ct_plan_turn(struct ct_net *cn)
{
	struct ct_plan *plan = cn->next_plan;

	lockdep_assert_held(&cn->lock);
	if (!plan)
		return -ENODATA;
	cn->next_plan = NULL;
	ct_plan_retire(rcu_replace_pointer(cn->plan, plan, lockdep_is_held(&cn->lock)));
	ct_net_changed(cn);
	return 0;
}

int ct_plan_renew(struct ct_net *cn, u64 not_after)
{
	struct ct_plan *plan = rcu_dereference_protected(cn->plan, lockdep_is_held(&cn->lock));

	if (!plan)
		return -ENODATA;
	atomic64_set(&plan->not_after, not_after);
	return 0;
}

void ct_plan_drop(struct ct_net *cn)
{
	lockdep_assert_held(&cn->lock);
	ct_plan_retire(cn->next_plan);
	cn->next_plan = NULL;
	if (!rcu_access_pointer(cn->plan))
		return;
	ct_plan_retire(rcu_replace_pointer(cn->plan, NULL, lockdep_is_held(&cn->lock)));
	ct_net_changed(cn);
}

void ct_plan_status(struct ct_net *cn, struct configtron_plan_status *status)
{
	const struct ct_plan *plan =
		rcu_dereference_protected(cn->plan, lockdep_is_held(&cn->lock));

	*status = (struct configtron_plan_status){};
	if (cn->next_plan) {
		status->flags |= CONFIGTRON_PLAN_LOADED;
		status->next_epoch = cn->next_plan->draw.epoch;
	}
	if (!plan)
		return;
	status->flags |= CONFIGTRON_PLAN_IN_FORCE;
	status->mixes = plan->count;
	status->epoch = plan->draw.epoch;
	status->not_after = atomic64_read(&plan->not_after);
	status->held = plan->draw.held;
	status->held_profile = plan->held_profile ? plan->held_profile->id : 0;
}

/* Fills in at most `room` of the mixes in force, and returns how many there are. */
u32 ct_plan_mixes(struct ct_net *cn, struct configtron_mix *mixes, u32 room)
{
	const struct ct_plan *plan =
		rcu_dereference_protected(cn->plan, lockdep_is_held(&cn->lock));
	u32 i, j;

	for (i = 0; plan && i < min(room, plan->count); i++) {
		mixes[i].profile = plan->mixes[i].class_id;
		mixes[i].arms = plan->mixes[i].arms;
		memcpy(mixes[i].upto, plan->mixes[i].draw.upto, sizeof(mixes[i].upto));
		for (j = 0; j < plan->mixes[i].arms; j++)
			mixes[i].arm[j] = plan->mixes[i].arm[j]->id;
	}
	return plan ? plan->count : 0;
}
