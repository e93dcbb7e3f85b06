// SPDX-License-Identifier: GPL-2.0
/*
 * What a lookup costs: fills the prefix table and looks random addresses up, once per insmod.
 *
 * benchmarks/kmod_lookup.py loads it for each size and reads the figures from its parameters. The
 * clock is read around a million lookups at a time, so it does not count. Addresses miss no cache
 * on purpose and hit none on purpose: they are drawn from all that is filled.
 */
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/timekeeping.h>

#include "store.c"

/* Between two looks at the scheduler; a thousand lookups take less than a tick. */
#define CT_BENCH_PIECE	1024

static unsigned int prefixes = 10000;
module_param(prefixes, uint, 0444);
static unsigned int lookups = 1000000;
module_param(lookups, uint, 0444);
static unsigned int lengths = 1;	/* how many are in use: /24 alone, or /24, /23 ... */
module_param(lengths, uint, 0444);
static bool ipv6;
module_param(ipv6, bool, 0444);

static unsigned long long insert_ns, lookup_ns, delete_ns;
module_param(insert_ns, ullong, 0444);
module_param(lookup_ns, ullong, 0444);
module_param(delete_ns, ullong, 0444);
static unsigned int hits;
module_param(hits, uint, 0444);

static struct ct_store ct_bench_store;

/*
 * The i-th of all prefixes: consecutive /24 from 16.0.0.0 on, or /48 from 2001::/16 on; last ones
 * shorter.
 */
static struct ct_key ct_bench_key(unsigned int i)
{
	struct ct_key key = { .family = ipv6 ? AF_INET6 : AF_INET };
	unsigned int at = ipv6 ? 2 : 0;
	__be32 bits = htonl((0x100000 + i) << 8);

	if (ipv6) {
		key.address[0] = 0x20;
		key.address[1] = 0x01;
	}
	memcpy(key.address + at, &bits, sizeof(bits));
	key.length = (ipv6 ? 48 : 24) - i % lengths;
	ct_mask(key.address, ct_bytes(key.family), key.length);
	return key;
}

static int ct_bench_fill(void)
{
	struct ct_profile *profile = (struct ct_profile *)8, *was;
	u64 begin = ktime_get_ns();
	struct ct_key key;
	unsigned int i;
	int err = 0;

	for (i = 0; i < prefixes && !err; i++) {
		key = ct_bench_key(i);
		err = ct_store_set(&ct_bench_store, &key, profile, UINT_MAX, &was);
		if (!(i % CT_BENCH_PIECE))
			cond_resched();
	}
	insert_ns = ktime_get_ns() - begin;
	return err;
}

static void ct_bench_lookup(void)
{
	struct rnd_state chance;
	struct ct_key key;
	unsigned int i;
	u64 begin;

	prandom_seed_state(&chance, 7);
	begin = ktime_get_ns();
	for (i = 0; i < lookups; i++) {
		key = ct_bench_key(prandom_u32_state(&chance) % prefixes);
		rcu_read_lock();
		hits += !!ct_store_lookup(&ct_bench_store, key.family, key.address);
		rcu_read_unlock();
		if (!(i % CT_BENCH_PIECE))
			cond_resched();
	}
	lookup_ns = ktime_get_ns() - begin;
	prandom_seed_state(&chance, 7);
	begin = ktime_get_ns();
	for (i = 0; i < lookups; i++) {		/* the loop without the lookup */
		key = ct_bench_key(prandom_u32_state(&chance) % prefixes);
		OPTIMIZER_HIDE_VAR(key.length);
		if (!(i % CT_BENCH_PIECE))
			cond_resched();
	}
	lookup_ns -= min_t(u64, lookup_ns, ktime_get_ns() - begin);
}

static void ct_bench_empty(void)
{
	u64 begin = ktime_get_ns();
	struct ct_key key;
	unsigned int i;

	for (i = 0; i < prefixes; i++) {
		key = ct_bench_key(i);
		ct_store_del(&ct_bench_store, &key);
		if (!(i % CT_BENCH_PIECE))
			cond_resched();
	}
	delete_ns = ktime_get_ns() - begin;
}

static int __init ct_bench_init(void)
{
	int err = -EINVAL;

	if (!prefixes || !lookups || !lengths || lengths > 8)
		return err;
	err = ct_store_setup();
	if (err)
		return err;
	err = ct_store_init(&ct_bench_store);
	if (!err) {
		err = ct_bench_fill();
		if (!err)
			ct_bench_lookup();
		ct_bench_empty();
		ct_store_destroy(&ct_bench_store);
	}
	ct_store_teardown();
	return err;
}

static void __exit ct_bench_exit(void)
{
}

module_init(ct_bench_init);
module_exit(ct_bench_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Cost of configtron's prefix lookups");
