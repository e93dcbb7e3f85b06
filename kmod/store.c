// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prefixes: a client's address -> its profile, by longest match.
 *
 * One hash table holds prefixes of both families and all lengths, keyed {family, length,
 * address}. A lookup tries the lengths in use, longest first; masking the address shorter at each
 * step is incremental, for lengths only fall. So the cost is one hash probe per length *in use*,
 * not per bit: a routing table cut to /24 and /48 costs one probe a family. A trie would bound
 * the number of lengths but chase a pointer per bit; measured, this is faster up to a million
 * prefixes of eight lengths (README.md has the figures).
 *
 * Readers hold rcu_read_lock(), writers the namespace's mutex. A reader that races a change of
 * the map of lengths may miss a prefix that is being added or probe for one that is being
 * removed: it sees the table from before or after.
 *
 * Nothing here knows what a profile is: KUnit tests this file by itself.
 */
#include <linux/delay.h>
#include <linux/in6.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "internal.h"

/*
 * An insertion into a chain that a running rehash is about to cut fails with EBUSY. It has never
 * been seen to last longer than the rehash; 100 times 200 us is 20 ms, ten times what a rehash of
 * a million takes.
 */
#define CT_BUSY_TRIES 100
#define CT_BUSY_US 100

static struct kmem_cache *ct_prefix_cache;

static const struct rhashtable_params ct_params = {
	.head_offset = offsetof(struct ct_prefix, node),
	.key_offset = offsetof(struct ct_prefix, key),
	.key_len = sizeof(struct ct_key),
	.automatic_shrinking = true,
};

int ct_store_setup(void)
{
	BUILD_BUG_ON(sizeof(struct ct_key) != 20); /* no padding: it is hashed as bytes */
	ct_prefix_cache = KMEM_CACHE(ct_prefix, 0);
	return ct_prefix_cache ? 0 : -ENOMEM;
}

void ct_store_teardown(void)
{
	rcu_barrier(); /* prefixes still on their way through call_rcu() */
	kmem_cache_destroy(ct_prefix_cache);
}

int ct_store_init(struct ct_store *store)
{
	return rhashtable_init(&store->table, &ct_params);
}

static void ct_prefix_free(void *prefix, void *unused)
{
	kmem_cache_free(ct_prefix_cache, prefix);
}

static void ct_prefix_free_rcu(struct rcu_head *head)
{
	kmem_cache_free(ct_prefix_cache, container_of(head, struct ct_prefix, rcu));
}

void ct_store_destroy(struct ct_store *store)
{
	rhashtable_free_and_destroy(&store->table, ct_prefix_free, NULL);
}

static int ct_family(u8 family)
{
	return family == AF_INET6;
}

static unsigned int ct_bytes(u8 family)
{
	return family == AF_INET6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);
}

/* Zero the bits below `length`. */
static void ct_mask(u8 *address, unsigned int bytes, unsigned int length)
{
	unsigned int i = length / 8;

	if (i < bytes && length % 8)
		address[i++] &= 0xff << (8 - length % 8);
	if (i < bytes)
		memset(address + i, 0, bytes - i);
}

/*
 * -EINVAL for anything but a prefix written one way: stray bits and v4-mapped prefixes would
 * never match as read.
 */
int ct_key_parse(const struct configtron_prefix *prefix, struct ct_key *key)
{
	unsigned int bytes = ct_bytes(prefix->family);

	if (prefix->family != AF_INET && prefix->family != AF_INET6)
		return -EINVAL;
	if (prefix->length > 8 * bytes || prefix->reserved)
		return -EINVAL;
	memset(key, 0, sizeof(*key));
	key->family = prefix->family;
	key->length = prefix->length;
	memcpy(key->address, prefix->address, bytes);
	ct_mask(key->address, bytes, key->length);
	if (memcmp(key->address, prefix->address, sizeof(key->address)))
		return -EINVAL;
	if (key->family == AF_INET6 && key->length >= 96 &&
	    ipv6_addr_v4mapped((const struct in6_addr *)key->address))
		return -EINVAL;
	return 0;
}

static void ct_length_add(struct ct_store *store, const struct ct_key *key)
{
	int family = ct_family(key->family);

	if (!store->lengths[family][key->length]++)
		set_bit(128 - key->length, store->used[family]);
	store->count++;
}

static void ct_length_del(struct ct_store *store, const struct ct_key *key)
{
	int family = ct_family(key->family);

	if (!--store->lengths[family][key->length])
		clear_bit(128 - key->length, store->used[family]);
	store->count--;
}

static struct ct_prefix *ct_insert(struct ct_store *store, struct ct_prefix *prefix)
{
	struct ct_prefix *there;
	int tries = 0;

	for (;;) {
		there = rhashtable_lookup_get_insert_fast(&store->table, &prefix->node, ct_params);
		if (there != ERR_PTR(-EBUSY) || ++tries == CT_BUSY_TRIES)
			return there;
		usleep_range(CT_BUSY_US, 2 * CT_BUSY_US);
	}
}

/*
 * Sets a prefix; *was is the profile it had, or NULL when it is new. The caller holds the mutex.
 * -ENOSPC for a new one when there are `most`, -ENOMEM, or -EBUSY when the table cannot grow now.
 */
int ct_store_set(struct ct_store *store, const struct ct_key *key, struct ct_profile *profile,
		 unsigned int most, struct ct_profile **was)
{
	struct ct_prefix *prefix, *there;

	there = rhashtable_lookup_fast(&store->table, key, ct_params);
	if (there) {
		*was = there->profile;
		there->epoch = store->epoch;
		WRITE_ONCE(there->profile, profile);
		return 0;
	}
	if (store->count >= most)
		return -ENOSPC;
	prefix = kmem_cache_zalloc(ct_prefix_cache, GFP_KERNEL_ACCOUNT);
	if (!prefix)
		return -ENOMEM;
	prefix->key = *key;
	prefix->epoch = store->epoch;
	prefix->profile = profile;
	there = ct_insert(store, prefix);
	if (IS_ERR(there)) {
		kmem_cache_free(ct_prefix_cache, prefix);
		return PTR_ERR(there);
	}
	ct_length_add(store, key);
	*was = NULL;
	return 0;
}

/*
 * Deletes a prefix and returns the profile it had; NULL when there is none. The caller holds the
 * mutex.
 */
struct ct_profile *ct_store_del(struct ct_store *store, const struct ct_key *key)
{
	struct ct_prefix *prefix = rhashtable_lookup_fast(&store->table, key, ct_params);
	struct ct_profile *profile;

	if (!prefix)
		return NULL;
	profile = prefix->profile;
	rhashtable_remove_fast(&store->table, &prefix->node, ct_params);
	ct_length_del(store, &prefix->key);
	call_rcu(&prefix->rcu, ct_prefix_free_rcu);
	return profile;
}

/* The profile of exactly this prefix, or NULL. The caller holds the mutex. */
struct ct_profile *ct_store_get(struct ct_store *store, const struct ct_key *key)
{
	const struct ct_prefix *prefix = rhashtable_lookup_fast(&store->table, key, ct_params);

	return prefix ? prefix->profile : NULL;
}

/* The profile of an address in network order, or NULL. The caller holds rcu_read_lock(). */
struct ct_profile *ct_store_lookup(const struct ct_store *store, u8 family, const void *address)
{
	const unsigned long *used = store->used[ct_family(family)];
	unsigned int bytes = ct_bytes(family);
	struct ct_key key = { .family = family };
	const struct ct_prefix *prefix;
	unsigned int bit;

	memcpy(key.address, address, bytes);
	for_each_set_bit(bit, used, CT_LENGTHS) {
		key.length = 128 - bit;
		ct_mask(key.address, bytes, key.length);
		prefix = rhashtable_lookup((struct rhashtable *)&store->table, &key, ct_params);
		if (prefix)
			return READ_ONCE(prefix->profile);
	}
	return NULL;
}

/*
 * A walk over all prefixes, in no order, that may pause. Each prefix that is there from begin to
 * end comes at least once, unless one beside it is deleted while the walk pauses; it may come twice
 * if the table grows meanwhile.
 */
void ct_walk_begin(struct ct_walk *walk, struct ct_store *store)
{
	walk->store = store;
	rhashtable_walk_enter(&store->table, &walk->iter);
}

void ct_walk_resume(struct ct_walk *walk) __acquires(RCU)
{
	rhashtable_walk_start(&walk->iter);
}

void ct_walk_pause(struct ct_walk *walk) __releases(RCU)
{
	rhashtable_walk_stop(&walk->iter);
}

void ct_walk_end(struct ct_walk *walk)
{
	rhashtable_walk_exit(&walk->iter);
}

/* The next prefix, NULL after the last; between resume and pause. */
const struct ct_prefix *ct_walk_next(struct ct_walk *walk)
{
	struct ct_prefix *prefix;

	do { /* EAGAIN: the table grew, and the walk goes on in the new one */
		prefix = rhashtable_walk_next(&walk->iter);
	} while (prefix == ERR_PTR(-EAGAIN));
	return prefix;
}
