// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the table of parameters: every row is listed, every range holds, and what can be
 * set has its functions.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "params.c"

static void ct_every_parameter_is_listed(struct kunit *test)
{
	struct configtron_param_info info = {};
	u32 key;

	for (key = 0; key < CONFIGTRON_KEYS; key++) {
		info.key = key;
		KUNIT_ASSERT_EQ(test, 0, ct_param_info(&info));
		KUNIT_EXPECT_EQ(test, key, info.key);
		KUNIT_EXPECT_GT(test, strlen(info.name), 0UL);
		KUNIT_EXPECT_STREQ(test, ct_rows[key].words, info.words); /* not cut off */
		KUNIT_EXPECT_LE(test, info.min, info.max);
	}
	info.key = CONFIGTRON_KEYS;
	KUNIT_EXPECT_EQ(test, -EINVAL, ct_param_info(&info));
}

static void ct_ranges_hold(struct kunit *test)
{
	struct configtron_param param = {};
	const struct ct_row *row;
	u32 key;

	for (key = 0; key < CONFIGTRON_KEYS; key++) {
		row = &ct_rows[key];
		param = (struct configtron_param){ .key = key, .value = row->min };
		if (!(row->flags & CONFIGTRON_PARAM_SETTABLE)) {
			KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, ct_param_check(&param));
			continue;
		}
		if (row->flags & CONFIGTRON_PARAM_TEXT)
			continue;
		KUNIT_EXPECT_EQ(test, 0, ct_param_check(&param));
		param.value = row->min - 1;
		KUNIT_EXPECT_EQ(test, -ERANGE, ct_param_check(&param));
		param.value = row->max;
		KUNIT_EXPECT_EQ(test, 0, ct_param_check(&param));
		if (row->max == S64_MAX)
			continue;
		param.value = row->max + 1;
		KUNIT_EXPECT_EQ(test, -ERANGE, ct_param_check(&param));
	}
}

/* Set by the choice of operations (wrap.c, resume.c): in no field of the socket. */
static bool ct_is_operations(u32 key)
{
	return key == CONFIGTRON_CONGESTION_CONTROL || key == CONFIGTRON_SLOW_START_AFTER_IDLE ||
	       key == CONFIGTRON_RESUME_CWND || key == CONFIGTRON_RESUME_RTT;
}

static void ct_what_can_be_set_has_functions(struct kunit *test)
{
	const struct ct_row *row;
	bool settable;
	u32 key;

	for (key = 0; key < CONFIGTRON_KEYS; key++) {
		if (ct_is_operations(key))
			continue;
		row = &ct_rows[key];
		settable = row->flags & CONFIGTRON_PARAM_SETTABLE;
		KUNIT_EXPECT_EQ_MSG(test, settable, row->set_before || row->set_after, "%s",
				    row->name);
		KUNIT_EXPECT_EQ_MSG(test, settable, !!row->get, "%s", row->name);
	}
}

static void ct_malformed_is_refused(struct kunit *test)
{
	struct configtron_param param = { .key = CONFIGTRON_KEYS };

	KUNIT_EXPECT_EQ(test, -EINVAL, ct_param_check(&param));
	param = (struct configtron_param){ .key = CONFIGTRON_INITCWND, .flags = 2, .value = 10 };
	KUNIT_EXPECT_EQ(test, -EINVAL, ct_param_check(&param));
	param = (struct configtron_param){ .key = CONFIGTRON_CONGESTION_CONTROL };
	KUNIT_EXPECT_EQ(test, -EINVAL, ct_param_check(&param)); /* no name */
	memset(param.text, 'x', sizeof(param.text));
	KUNIT_EXPECT_EQ(test, -EINVAL, ct_param_check(&param)); /* no end */
	param.text[sizeof(param.text) - 1] = 0;
	KUNIT_EXPECT_EQ(test, 0, ct_param_check(&param));
}

static struct kunit_case ct_param_cases[] = { KUNIT_CASE(ct_every_parameter_is_listed),
					      KUNIT_CASE(ct_ranges_hold),
					      KUNIT_CASE(ct_what_can_be_set_has_functions),
					      KUNIT_CASE(ct_malformed_is_refused),
					      {} };

static struct kunit_suite ct_param_suite = {
	.name = "configtron_params",
	.test_cases = ct_param_cases,
};

kunit_test_suite(ct_param_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of configtron's parameters");
