// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls about prefixes: AssignProfile(prefix, id) in batches, deletion, a dump that comes in
 * pieces, a flush.
 *
 * Batches are copied in pieces; the mutex is held for one piece at a time, and a fatal signal
 * ends a batch in between: `done` is how far it came. A dump does not take the mutex at all:
 * it walks the table as readers do.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "calls.h"

/* A million entries take 70 MB; more is taken for a mistake. */
unsigned int ct_prefixes_max = 1000000;
module_param_named(prefixes_max, ct_prefixes_max, uint, 0444);
MODULE_PARM_DESC(prefixes_max, "prefixes that one network namespace may hold");

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

	*err = mutex_lock_killable(&cn->lock);
	if (*err)
		return 0;
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

struct ct_flush {
	struct ct_net *cn;
	struct ct_walk walk;
	u32 id; /* of this profile only; 0: of all */
	u32 epoch; /* set no later than this */
	u32 removed;
};

static bool ct_flush_takes(const struct ct_flush *flush, const struct ct_prefix *prefix)
{
	if (flush->id && prefix->profile->id != flush->id)
		return false;
	return (s32)(prefix->epoch - flush->epoch) <= 0;
}

/*
 * Deletes what the walk meets next, under the mutex; 1 when there is more, 0 at the end. A walk
 * that pauses finds its place again by the prefix that it stands on, or by counting, if that one
 * is gone.
 */
static int ct_flush_piece(struct ct_flush *flush)
{
	const struct ct_prefix *prefix = NULL;
	u32 seen, before = flush->removed;
	int err;

	err = mutex_lock_killable(&flush->cn->lock);
	if (err)
		return err;
	ct_walk_resume(&flush->walk);
	for (seen = 0; seen < CT_BATCH; seen++) {
		prefix = ct_walk_next(&flush->walk);
		if (!prefix)
			break;
		if (!ct_flush_takes(flush, prefix))
			continue;
		prefix->profile->prefixes--;
		ct_store_del(&flush->cn->store, &prefix->key);
		flush->removed++;
	}
	ct_walk_pause(&flush->walk);
	if (flush->removed != before)
		ct_net_changed(flush->cn);
	mutex_unlock(&flush->cn->lock);
	cond_resched();
	if (fatal_signal_pending(current))
		return -EINTR;
	return prefix ? 1 : 0;
}

static int ct_flush_pass(struct ct_flush *flush)
{
	int more;

	ct_walk_begin(&flush->walk, &flush->cn->store);
	do {
		more = ct_flush_piece(flush);
	} while (more > 0);
	ct_walk_end(&flush->walk);
	return more;
}

/*
 * Deletes the prefixes of one profile, or all, that were set before the call. In pieces, as a
 * batch: others change the tables in between, and a fatal signal ends it there; `removed` says
 * how far it came. The table shrinks under the walk: the last pass is one that deletes none.
 */
int ct_call_prefix_flush(struct ct_file *cf, union ct_argument *a)
{
	struct ct_flush flush = { .cn = cf->cn, .id = a->flush.profile };
	u32 before;
	int err;

	a->flush.removed = 0;
	err = mutex_lock_killable(&cf->cn->lock);
	if (err)
		return err;
	flush.epoch = cf->cn->store.epoch++;
	mutex_unlock(&cf->cn->lock);
	do {
		before = flush.removed;
		err = ct_flush_pass(&flush);
	} while (!err && flush.removed != before);
	a->flush.removed = flush.removed;
	return err;
}
