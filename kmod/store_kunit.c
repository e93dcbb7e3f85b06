// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the prefix table, taken in whole: no socket, no namespace.
 *
 * The longest match is compared with what a scan of all prefixes finds; prefixes and addresses come
 * from a fixed seed, so a failure repeats.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "store.c"

/* Small address space and many lengths: most addresses are inside several prefixes. */
#define CT_TEST_PREFIXES 400
#define CT_TEST_ADDRESSES 4000
#define CT_TEST_SEED 7

static struct ct_profile *ct_test_profile(unsigned int number)
{
	return (struct ct_profile *)(8UL * (number + 1)); /* only compared, never followed */
}

static struct ct_store *ct_test_store(struct kunit *test)
{
	return test->priv;
}

static int ct_test_init(struct kunit *test)
{
	struct ct_store *store = kunit_kzalloc(test, sizeof(*store), GFP_KERNEL);

	if (!store)
		return -ENOMEM;
	test->priv = store;
	return ct_store_init(store);
}

static void ct_test_exit(struct kunit *test)
{
	if (test->priv)
		ct_store_destroy(test->priv);
}

static struct ct_key ct_test_key(struct kunit *test, u8 family, const u8 *address, u8 length)
{
	struct configtron_prefix prefix = { .family = family, .length = length };
	struct ct_key key = {};

	memcpy(prefix.address, address, ct_bytes(family));
	ct_mask(prefix.address, ct_bytes(family), length);
	KUNIT_ASSERT_EQ(test, 0, ct_key_parse(&prefix, &key));
	return key;
}

static void ct_test_set(struct kunit *test, const struct ct_key *key, struct ct_profile *profile,
			struct ct_profile *was)
{
	struct ct_profile *found = ERR_PTR(-EINVAL);

	KUNIT_ASSERT_EQ(test, 0, ct_store_set(ct_test_store(test), key, profile, UINT_MAX, &found));
	KUNIT_EXPECT_PTR_EQ(test, was, found);
}

static struct ct_profile *ct_test_lookup(struct kunit *test, u8 family, const u8 *address)
{
	struct ct_profile *profile;

	rcu_read_lock();
	profile = ct_store_lookup(ct_test_store(test), family, address);
	rcu_read_unlock();
	return profile;
}

static void ct_longest_wins(struct kunit *test)
{
	const u8 host[4] = { 10, 1, 2, 3 }, near[4] = { 10, 1, 2, 4 }, other[4] = { 11, 0, 0, 1 };
	struct ct_key all = ct_test_key(test, AF_INET, host, 0);
	struct ct_key net = ct_test_key(test, AF_INET, host, 24);
	struct ct_key one = ct_test_key(test, AF_INET, host, 32);

	KUNIT_EXPECT_NULL(test, ct_test_lookup(test, AF_INET, host));
	ct_test_set(test, &net, ct_test_profile(1), NULL);
	ct_test_set(test, &one, ct_test_profile(2), NULL);
	KUNIT_EXPECT_NULL(test, ct_test_lookup(test, AF_INET, other));
	ct_test_set(test, &all, ct_test_profile(0), NULL);
	KUNIT_EXPECT_PTR_EQ(test, ct_test_profile(2), ct_test_lookup(test, AF_INET, host));
	KUNIT_EXPECT_PTR_EQ(test, ct_test_profile(1), ct_test_lookup(test, AF_INET, near));
	KUNIT_EXPECT_PTR_EQ(test, ct_test_profile(0), ct_test_lookup(test, AF_INET, other));
}

static void ct_set_again_and_delete(struct kunit *test)
{
	const u8 host[4] = { 192, 0, 2, 1 };
	struct ct_key key = ct_test_key(test, AF_INET, host, 25);
	struct ct_store *store = ct_test_store(test);

	KUNIT_EXPECT_NULL(test, ct_store_del(store, &key));
	ct_test_set(test, &key, ct_test_profile(1), NULL);
	ct_test_set(test, &key, ct_test_profile(2), ct_test_profile(1));
	KUNIT_EXPECT_EQ(test, 1U, store->count);
	KUNIT_EXPECT_PTR_EQ(test, ct_test_profile(2), ct_store_del(store, &key));
	KUNIT_EXPECT_EQ(test, 0U, store->count);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(store->used[0], CT_LENGTHS));
	KUNIT_EXPECT_NULL(test, ct_test_lookup(test, AF_INET, host));
}

static void ct_families_stand_apart(struct kunit *test)
{
	const u8 four[4] = { 32, 1, 13, 184 }, six[16] = { 0x20, 0x01, 0x0d, 0xb8 };
	struct ct_key key = ct_test_key(test, AF_INET6, six, 32);

	ct_test_set(test, &key, ct_test_profile(1), NULL);
	/* the same first four bytes */
	KUNIT_EXPECT_NULL(test, ct_test_lookup(test, AF_INET, four));
	KUNIT_EXPECT_PTR_EQ(test, ct_test_profile(1), ct_test_lookup(test, AF_INET6, six));
}

static void ct_limit_holds_for_new_ones(struct kunit *test)
{
	const u8 one[4] = { 10 }, two[4] = { 11 };
	struct ct_key first = ct_test_key(test, AF_INET, one, 8);
	struct ct_key second = ct_test_key(test, AF_INET, two, 8);
	struct ct_store *store = ct_test_store(test);
	struct ct_profile *was;

	KUNIT_EXPECT_EQ(test, 0, ct_store_set(store, &first, ct_test_profile(1), 1, &was));
	KUNIT_EXPECT_EQ(test, -ENOSPC, ct_store_set(store, &second, ct_test_profile(1), 1, &was));
	KUNIT_EXPECT_EQ(test, 0, ct_store_set(store, &first, ct_test_profile(2), 1, &was));
}

static void ct_prefixes_are_written_one_way(struct kunit *test)
{
	static const struct {
		struct configtron_prefix prefix;
		int err;
	} cases[] = {
		{ { AF_INET, 8, 0, 0, { 10 } }, 0 },
		{ { AF_INET, 32, 0, 0, { 10, 0, 0, 1 } }, 0 },
		{ { AF_INET, 8, 0, 0, { 10, 1 } }, -EINVAL }, /* a bit below the length */
		{ { AF_INET, 33, 0, 0, { 10 } }, -EINVAL },
		{ { AF_INET, 8, 1, 0, { 10 } }, -EINVAL }, /* reserved */
		{ { AF_INET, 32, 0, 0, { 10, 0, 0, 1, 1 } }, -EINVAL }, /* beyond four bytes */
		{ { AF_UNIX, 8, 0, 0, { 10 } }, -EINVAL },
		{ { AF_INET6, 128, 0, 0, { [15] = 1 } }, 0 },
		{ { AF_INET6, 129, 0, 0, { 0x20 } }, -EINVAL },
		{ { AF_INET6, 96, 0, 0, { [10] = 0xff, [11] = 0xff } }, -EINVAL },
		{ { AF_INET6, 0, 0, 0, {} }, 0 },
	};
	struct ct_key key;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, cases[i].err, ct_key_parse(&cases[i].prefix, &key),
				    "case %u", i);
}

/* An address whose bits below the first few are few: prefixes meet. */
static void ct_test_draw(struct rnd_state *chance, u8 *address)
{
	unsigned int i;

	memset(address, 0, 16);
	for (i = 0; i < 16; i += 3)
		address[i] = prandom_u32_state(chance) & 0x83;
}

static void ct_test_same(struct kunit *test, const struct ct_key *keys, u8 family,
			 const u8 *address)
{
	struct ct_profile *longest = NULL;
	u8 masked[16], best = 0;
	unsigned int i;

	for (i = 0; i < CT_TEST_PREFIXES; i++) {
		memcpy(masked, address, sizeof(masked));
		ct_mask(masked, sizeof(masked), keys[i].length);
		if (keys[i].family != family || memcmp(masked, keys[i].address, ct_bytes(family)))
			continue;
		if (longest && keys[i].length < best)
			continue;
		best = keys[i].length;
		longest = ct_test_profile(i); /* a later one of the same prefix took its place */
	}
	KUNIT_EXPECT_PTR_EQ(test, longest, ct_test_lookup(test, family, address));
}

static void ct_lookup_is_a_scan(struct kunit *test)
{
	struct ct_key *keys = kunit_kcalloc(test, CT_TEST_PREFIXES, sizeof(*keys), GFP_KERNEL);
	struct ct_profile *was;
	struct rnd_state chance;
	u8 family, address[16];
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, keys);
	prandom_seed_state(&chance, CT_TEST_SEED);
	for (i = 0; i < CT_TEST_PREFIXES; i++) {
		ct_test_draw(&chance, address);
		family = i % 2 ? AF_INET : AF_INET6;
		keys[i] = ct_test_key(test, family, address,
				      prandom_u32_state(&chance) % (8 * ct_bytes(family) + 1));
		KUNIT_ASSERT_EQ(test, 0,
				ct_store_set(ct_test_store(test), &keys[i], ct_test_profile(i),
					     UINT_MAX, &was));
	}
	for (i = 0; i < CT_TEST_ADDRESSES; i++) {
		ct_test_draw(&chance, address);
		ct_test_same(test, keys, i % 2 ? AF_INET : AF_INET6, address);
	}
}

static void ct_walk_sees_all(struct kunit *test)
{
	struct ct_walk walk;
	struct ct_key key;
	u8 address[4] = {};
	unsigned int i, seen = 0;

	for (i = 0; i < 256; i++) {
		address[1] = i;
		key = ct_test_key(test, AF_INET, address, 16);
		ct_test_set(test, &key, ct_test_profile(i), NULL);
	}
	ct_walk_begin(&walk, ct_test_store(test));
	ct_walk_resume(&walk);
	while (ct_walk_next(&walk)) {
		if (++seen % 100)
			continue;
		ct_walk_pause(&walk);
		ct_walk_resume(&walk);
	}
	ct_walk_pause(&walk);
	ct_walk_end(&walk);
	KUNIT_EXPECT_GE(test, seen, 256U);
}

static struct kunit_case ct_store_cases[] = { KUNIT_CASE(ct_longest_wins),
					      KUNIT_CASE(ct_set_again_and_delete),
					      KUNIT_CASE(ct_families_stand_apart),
					      KUNIT_CASE(ct_limit_holds_for_new_ones),
					      KUNIT_CASE(ct_prefixes_are_written_one_way),
					      KUNIT_CASE(ct_lookup_is_a_scan),
					      KUNIT_CASE(ct_walk_sees_all),
					      {} };

static int ct_suite_init(struct kunit_suite *suite)
{
	return ct_store_setup();
}

static void ct_suite_exit(struct kunit_suite *suite)
{
	ct_store_teardown();
}

static struct kunit_suite ct_store_suite = {
	.name = "configtron_store",
	.suite_init = ct_suite_init,
	.suite_exit = ct_suite_exit,
	.init = ct_test_init,
	.exit = ct_test_exit,
	.test_cases = ct_store_cases,
};

kunit_test_suite(ct_store_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of configtron's prefix table");
