// SPDX-License-Identifier: GPL-2.0-only
/*
 * Versions: what a profile sets, as the connections hold it.
 *
 * A version is a copy of the real congestion control's operations with the settings beside it,
 * never changed once it is published. A change of a profile makes a new version and puts it in
 * the old one's place, so a connection has all of one version or all of the next, and keeps what
 * it began with.
 *
 * References: the profile holds its current version; each connection holds the version it was
 * given; each version holds the profile (for its counters); the namespace's table holds the
 * profile. So a profile may be deleted while connections that it was given to live on: the last
 * of them frees it. Versions and profiles go by kfree_rcu(), for a connection that begins may be
 * looking at them, and `ss` may be reading the operations' name.
 *
 * ct_version_get() and ct_version_put() run anywhere, softirq included; all else under the
 * namespace's mutex.
 */
#include <linux/percpu.h>
#include <linux/slab.h>

#include "internal.h"

unsigned int ct_net_id; /* of struct ct_net; main.c registers it */
atomic_t ct_versions = ATOMIC_INIT(0);

void ct_profile_put(struct ct_profile *profile)
{
	if (!refcount_dec_and_test(&profile->users))
		return;
	free_percpu(profile->counts);
	kfree_rcu(profile, rcu);
}

void ct_version_put(struct ct_version *version)
{
	if (!refcount_dec_and_test(&version->users))
		return;
	if (version->profile)
		ct_profile_put(version->profile);
	kfree_rcu(version, rcu);
	atomic_dec(&ct_versions);
}

/*
 * A reference to the version that is current now; NULL when there is none any more. The caller
 * holds rcu_read_lock(). A version whose last user has just left was replaced before that, so the
 * second look finds its successor.
 */
struct ct_version *ct_version_get(struct ct_version __rcu **from)
{
	struct ct_version *version;

	do
		version = rcu_dereference(*from);
	while (version && !refcount_inc_not_zero(&version->users));
	return version;
}

/* Puts `version` in the place of what is there, whose reference of the place is dropped. */
void ct_publish(struct ct_net *cn, struct ct_version __rcu **slot, struct ct_version *version)
{
	struct ct_version *old = rcu_replace_pointer(*slot, version, lockdep_is_held(&cn->lock));

	if (old)
		ct_version_put(old);
}

/* What is current, for a writer. */
struct ct_version *ct_now(struct ct_net *cn, struct ct_version __rcu *slot)
{
	return rcu_dereference_protected(slot, lockdep_is_held(&cn->lock));
}

/* For a writer. */
struct ct_profile *ct_profile_find(struct ct_net *cn, u32 id)
{
	lockdep_assert_held(&cn->lock);
	return xa_load(&cn->profiles, id);
}

void ct_counts_sum(const struct ct_profile *profile, struct configtron_stats *stats)
{
	const struct ct_counts *counts;
	int cpu;

	for_each_possible_cpu(cpu) {
		counts = per_cpu_ptr(profile->counts, cpu);
		stats->opened += counts->opened;
		stats->closed += counts->closed;
		stats->bytes_acked += counts->bytes_acked;
		stats->segs_out += counts->segs_out;
		stats->retrans += counts->retrans;
		stats->srtt_us += counts->srtt_us;
		stats->min_rtt_us += counts->min_rtt_us;
		stats->replaced += counts->replaced;
	}
}
