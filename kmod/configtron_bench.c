// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a lookup costs: fills the prefix table and looks random addresses up, once per insmod.
 *
 * benchmarks/kmod_costs.py loads it for each size and reads the figure from its parameters.
 * Addresses are drawn from all that is filled, by the same loop that is timed without the lookup
 * and taken away.
 */
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/timekeeping.h>

#include "store.c"

/*
 * Lookups timed at once: a millisecond, less than a turn of the processor, so the least of many was
 * disturbed by nothing; and more than any cache holds of a million prefixes, so it missed as usual.
 */
#define CT_BENCH_PIECE 4096

static unsigned int prefixes = 10000;
module_param(prefixes, uint, 0444);
static unsigned int pieces = 200;
module_param(pieces, uint, 0444);
static unsigned int lengths = 1; /* how many are in use: /24 alone, or /24, /23 ... */
module_param(lengths, uint, 0444);
static bool ipv6;
module_param(ipv6, bool, 0444);

static unsigned long long lookup_ps; /* picoseconds of one lookup */
module_param(lookup_ps, ullong, 0444);
static unsigned int hits;
module_param(hits, uint, 0444);

static struct ct_store ct_bench_store;

/* The i-th of all: consecutive ones of each length, the longest /24 or, below 2001::/16, /48. */
static struct ct_key ct_bench_key(unsigned int i)
{
	struct ct_key key = { .family = ipv6 ? AF_INET6 : AF_INET };
	unsigned int shorter = i % lengths;
	__be32 bits = htonl(((i / lengths) << shorter) << 8);

	if (ipv6) {
		key.address[0] = 0x20;
		key.address[1] = 0x01;
	}
	memcpy(key.address + (ipv6 ? 2 : 0), &bits, sizeof(bits));
	key.length = (ipv6 ? 48 : 24) - shorter;
	return key;
}

static int ct_bench_fill(void)
{
	struct ct_profile *profile = (struct ct_profile *)8, *was;
	struct ct_key key;
	unsigned int i;
	int err = 0;

	for (i = 0; i < prefixes && !err; i++) {
		key = ct_bench_key(i);
		err = ct_store_set(&ct_bench_store, &key, profile, UINT_MAX, &was);
		if (!(i % CT_BENCH_PIECE))
			cond_resched();
	}
	return err;
}

/* Nanoseconds of one piece of lookups, or of the same loop without them. */
static u64 ct_bench_piece(struct rnd_state *chance, bool with)
{
	u64 begin = ktime_get_ns();
	struct ct_key key;
	unsigned int i;

	for (i = 0; i < CT_BENCH_PIECE; i++) {
		key = ct_bench_key(prandom_u32_state(chance) % prefixes);
		OPTIMIZER_HIDE_VAR(key.length);
		if (!with)
			continue;
		rcu_read_lock();
		hits += !!ct_store_lookup(&ct_bench_store, key.family, key.address);
		rcu_read_unlock();
	}
	return ktime_get_ns() - begin;
}

static void ct_bench_lookup(void)
{
	u64 with = U64_MAX, without = U64_MAX;
	struct rnd_state chance;
	unsigned int i;

	prandom_seed_state(&chance, 7);
	for (i = 0; i < pieces; i++) {
		with = min(with, ct_bench_piece(&chance, true));
		without = min(without, ct_bench_piece(&chance, false));
		cond_resched();
	}
	lookup_ps = div_u64((with - min(with, without)) * 1000, CT_BENCH_PIECE);
}

static void ct_bench_empty(void)
{
	struct ct_key key;
	unsigned int i;

	for (i = 0; i < prefixes; i++) {
		key = ct_bench_key(i);
		ct_store_del(&ct_bench_store, &key);
		if (!(i % CT_BENCH_PIECE))
			cond_resched();
	}
}

static int __init ct_bench_init(void)
{
	int err = -EINVAL;

	if (!prefixes || !pieces || !lengths || lengths > 8 || prefixes > 1 << 20)
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
