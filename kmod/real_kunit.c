// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of what is assumed of other modules' private state: a congestion control that keeps
 * more than the list says is found out when it is looked up.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "real.c"

static unsigned int ct_last_byte;

static void ct_fake_init(struct sock *sk)
{
	((u8 *)inet_csk_ca(sk))[ct_last_byte] = 0;
}

static unsigned int ct_found(struct kunit *test, const char *name, unsigned int last_byte,
			     void (*init)(struct sock *sk), void (*release)(struct sock *sk))
{
	struct tcp_congestion_ops ops = { .init = init, .release = release };
	struct socket *sock;
	unsigned int bytes;

	strscpy(ops.name, name, sizeof(ops.name));
	KUNIT_ASSERT_EQ(test, 0,
			sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock));
	ct_last_byte = last_byte;
	bytes = ct_private_bytes(sock->sk, &ops);
	sock_release(sock);
	return bytes;
}

static void ct_listed_sizes_are_checked(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 64U, ct_found(test, "cubic", 59, ct_fake_init, NULL));
	KUNIT_EXPECT_EQ(test, 64U, ct_found(test, "cubic", 63, ct_fake_init, NULL));
	KUNIT_EXPECT_EQ(test, (unsigned int)ICSK_CA_PRIV_SIZE,
			ct_found(test, "cubic", 64, ct_fake_init, NULL));
	KUNIT_EXPECT_EQ(test, (unsigned int)ICSK_CA_PRIV_SIZE,
			ct_found(test, "vegas", ICSK_CA_PRIV_SIZE - 1, ct_fake_init, NULL));
}

static void ct_unknown_ones_use_it_all(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 0U, ct_found(test, "reno", 0, NULL, NULL));
	KUNIT_EXPECT_EQ(test, (unsigned int)ICSK_CA_PRIV_SIZE,
			ct_found(test, "unheard_of", 0, ct_fake_init, NULL));
	KUNIT_EXPECT_EQ(test, (unsigned int)ICSK_CA_PRIV_SIZE,
			ct_found(test, "cubic", 0, ct_fake_init, ct_fake_init));
}

static struct kunit_case ct_real_cases[] = { KUNIT_CASE(ct_listed_sizes_are_checked),
					     KUNIT_CASE(ct_unknown_ones_use_it_all),
					     {} };

static struct kunit_suite ct_real_suite = {
	.name = "configtron_real",
	.test_cases = ct_real_cases,
};

kunit_test_suite(ct_real_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of what configtron assumes of congestion controls");
