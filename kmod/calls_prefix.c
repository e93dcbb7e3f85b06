// SPDX-License-Identifier: GPL-2.0
/*
 * Calls about prefixes: AssignProfile(prefix, id) in batches, deletion, a dump that comes in
 * pieces, a flush.
 *
 * Batches are copied in pieces; the mutex is held for one piece at a time, and a fatal signal
 * ends a batch in between: `done` tells how far it came. A dump does not take the mutex at all:
 * it walks the table as readers do.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "calls.h"

static int ct_prefix_set_one(struct ct_net *cn, struct configtron_prefix *prefix, u32 flags)
{
	struct ct_profile *profile, *was;
	struct ct_key key;
	int err = ct_key_parse(prefix, &key);

	if (err)
		return err;
	profile = ct_profile_find(cn, prefix->profile);
	if (!profile)
		return -ENOENT;
	err = ct_store_set(&cn->store, &key, profile, ct_prefixes_max, &was);
	if (err)
		return err;
	if (was)
		was->prefixes--;
	profile->prefixes++;
	return 0;
}

static int ct_prefix_del_one(struct ct_net *cn, struct configtron_prefix *prefix, u32 flags)
{
	struct ct_profile *was;
	struct ct_key key;
	int err = ct_key_parse(prefix, &key);

	if (err)
		return err;
	was = ct_store_del(&cn->store, &key);
	if (!was)
		return flags & CONFIGTRON_ABSENT_OK ? 0 : -ENOENT;
	was->prefixes--;
	return 0;
}

static int ct_prefix_get_one(struct ct_net *cn, struct configtron_prefix *prefix, u32 flags)
{
	const struct ct_profile *profile;
	struct ct_key key;
	int err = ct_key_parse(prefix, &key);

	if (err)
		return err;
	profile = ct_store_get(&cn->store, &key);
	prefix->profile = profile ? profile->id : 0;
	return 0;
}

typedef int (*ct_prefix_fn)(struct ct_net *cn, struct configtron_prefix *prefix, u32 flags);

/* One piece of a batch under the mutex; returns how many were done. */
static u32 ct_piece(struct ct_net *cn, struct configtron_prefix *piece, u32 count, u32 flags,
		    ct_prefix_fn each, int *err)
{
	u32 i;

	mutex_lock(&cn->lock);
	for (i = 0; i < count && !*err; i++)
		*err = each(cn, &piece[i], flags);
	if (*err)
		i--;
	if (i && each != ct_prefix_get_one)
		ct_net_changed(cn);
	mutex_unlock(&cn->lock);
	return i;
}

static int ct_batch(struct ct_file *cf, struct configtron_prefixes *arg, ct_prefix_fn each)
{
	struct configtron_prefix __user *user = u64_to_user_ptr(arg->prefixes);
	struct configtron_prefix *piece;
	u32 count, done;
	int err = 0;

	arg->done = 0;
	if (arg->reserved || arg->flags & ~CONFIGTRON_ABSENT_OK)
		return -EINVAL;
	piece = kvmalloc_array(CT_BATCH, sizeof(*piece), GFP_KERNEL);
	if (!piece)
		return -ENOMEM;
	while (arg->done < arg->count && !err) {
		count = min_t(u32, arg->count - arg->done, CT_BATCH);
		if (copy_from_user(piece, user + arg->done, count * sizeof(*piece))) {
			err = -EFAULT;
			break;
		}
		done = ct_piece(cf->cn, piece, count, arg->flags, each, &err);
		if (each == ct_prefix_get_one &&
		    copy_to_user(user + arg->done, piece, done * sizeof(*piece)))
			err = -EFAULT;
		arg->done += done;
		cond_resched();
		if (fatal_signal_pending(current))
			err = err ?: -EINTR;
	}
	kvfree(piece);
	return err;
}

int ct_call_prefix_set(struct ct_file *cf, union ct_argument *a)
{
	return ct_batch(cf, &a->prefixes, ct_prefix_set_one);
}

int ct_call_prefix_get(struct ct_file *cf, union ct_argument *a)
{
	return ct_batch(cf, &a->prefixes, ct_prefix_get_one);
}

int ct_call_prefix_del(struct ct_file *cf, union ct_argument *a)
{
	return ct_batch(cf, &a->prefixes, ct_prefix_del_one);
}

void ct_dump_end(struct ct_file *cf)
{
	if (cf->dump == CT_DUMP_RUNS)
		ct_walk_end(&cf->walk);
	cf->dump = CT_DUMP_DONE;
}

static u32 ct_dump_piece(struct ct_file *cf, struct configtron_prefix *piece, u32 room)
{
	const struct ct_prefix *prefix = NULL;
	u32 count = 0;

	ct_walk_resume(&cf->walk);
	while (count < room && (prefix = ct_walk_next(&cf->walk))) {
		piece[count].family = prefix->key.family;
		piece[count].length = prefix->key.length;
		piece[count].profile = READ_ONCE(prefix->profile)->id;
		memcpy(piece[count++].address, prefix->key.address, sizeof(prefix->key.address));
	}
	ct_walk_pause(&cf->walk);
	if (count < room)
		ct_dump_end(cf);
	return count;
}

static void ct_dump_begin(struct ct_file *cf)
{
	ct_dump_end(cf);
	ct_walk_begin(&cf->walk, &cf->cn->store);
	cf->dump = CT_DUMP_RUNS;
}

static int ct_dump(struct ct_file *cf, struct configtron_prefixes *arg,
		   struct configtron_prefix *piece)
{
	struct configtron_prefix __user *to = u64_to_user_ptr(arg->prefixes);
	u32 count;

	while (arg->done < arg->count && cf->dump == CT_DUMP_RUNS) {
		count = ct_dump_piece(cf, piece, min_t(u32, arg->count - arg->done, CT_BATCH));
		if (copy_to_user(to + arg->done, piece, count * sizeof(*piece)))
			return -EFAULT;
		arg->done += count;
		cond_resched();
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return 0;
}

int ct_call_prefix_dump(struct ct_file *cf, union ct_argument *a)
{
	struct configtron_prefix *piece;
	int err;

	a->prefixes.done = 0;
	if (a->prefixes.reserved || a->prefixes.flags & ~CONFIGTRON_FROM_START)
		return -EINVAL;
	piece = kvcalloc(CT_BATCH, sizeof(*piece), GFP_KERNEL);
	if (!piece)
		return -ENOMEM;
	mutex_lock(&cf->lock);
	if (cf->dump == CT_DUMP_IDLE || a->prefixes.flags & CONFIGTRON_FROM_START)
		ct_dump_begin(cf);
	err = ct_dump(cf, &a->prefixes, piece);
	mutex_unlock(&cf->lock);
	kvfree(piece);
	return err;
}

/*
 * Deletes what a walk meets. A walk that pauses finds its place again by the prefix it stands on,
 * so the pause comes before that one is deleted; the mutex keeps it there meanwhile.
 */
static u32 ct_flush_pass(struct ct_net *cn, u32 id)
{
	const struct ct_prefix *prefix;
	struct ct_walk walk;
	u32 seen = 0, removed = 0;

	ct_walk_begin(&walk, &cn->store);
	ct_walk_resume(&walk);
	while ((prefix = ct_walk_next(&walk))) {
		if (!(++seen % CT_BATCH)) {
			ct_walk_pause(&walk);
			cond_resched();
			ct_walk_resume(&walk);
		}
		if (id && prefix->profile->id != id)
			continue;
		prefix->profile->prefixes--;
		ct_store_del(&cn->store, &prefix->key);
		removed++;
	}
	ct_walk_pause(&walk);
	ct_walk_end(&walk);
	return removed;
}

/*
 * Deletes the prefixes of one profile, or all; the mutex is held throughout, so none comes back
 * meanwhile. The table shrinks under the walk: the last pass is one that meets none.
 */
int ct_call_prefix_flush(struct ct_file *cf, union ct_argument *a)
{
	u32 id = a->flush.profile;
	u32 removed;

	a->flush.removed = 0;
	mutex_lock(&cf->cn->lock);
	do {
		removed = ct_flush_pass(cf->cn, id);
		a->flush.removed += removed;
	} while (removed);
	if (a->flush.removed)
		ct_net_changed(cf->cn);
	mutex_unlock(&cf->cn->lock);
	return 0;
}
