// SPDX-License-Identifier: GPL-2.0-only
/*
 * Congestion controls that do what a module from elsewhere may do: put other operations in the place of their own, as
 * dctcp_init() does, at one moment of a connection or another; and two that lose count of their own module. All of them
 * are reno otherwise. Loaded in test guests only.
 *
 *   rep_init, rep_release   when a connection begins, when it ends: every count must balance
 *   rep_late                at the first ACK, where no hook is: what wraps it stays loaded, nothing goes that is used
 *   lost_get, lost_put      mistakes: one reference too many, one too few
 */
#include <linux/module.h>
#include <net/tcp.h>

static struct tcp_congestion_ops replacing_other = {
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.owner = THIS_MODULE,
	.name = "rep_other",
};

static void replacing_replace(struct sock *sk)
{
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &replacing_other);
}

static void replacing_late(struct sock *sk, u32 ack, u32 acked)
{
	replacing_replace(sk);
}

static void replacing_get(struct sock *sk)
{
	__module_get(THIS_MODULE);
}

static void replacing_put(struct sock *sk)
{
	module_put(THIS_MODULE);
}

#define REPLACING(...)                                                             \
	{                                                                          \
		.flags = TCP_CONG_NON_RESTRICTED, .ssthresh = tcp_reno_ssthresh,   \
		.undo_cwnd = tcp_reno_undo_cwnd, .owner = THIS_MODULE, __VA_ARGS__ \
	}

static struct tcp_congestion_ops replacing[] = {
	REPLACING(.name = "rep_init", .cong_avoid = tcp_reno_cong_avoid, .init = replacing_replace),
	REPLACING(.name = "rep_release", .cong_avoid = tcp_reno_cong_avoid,
		  .release = replacing_replace),
	REPLACING(.name = "rep_late", .cong_avoid = replacing_late),
	REPLACING(.name = "lost_get", .cong_avoid = tcp_reno_cong_avoid, .init = replacing_get),
	REPLACING(.name = "lost_put", .cong_avoid = tcp_reno_cong_avoid, .release = replacing_put),
};

static int __init replacing_init(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(replacing); i++) {
		err = tcp_register_congestion_control(&replacing[i]);
		if (err)
			goto undo;
	}
	return 0;

undo:
	while (i--)
		tcp_unregister_congestion_control(&replacing[i]);
	return err;
}

static void __exit replacing_exit(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(replacing); i++)
		tcp_unregister_congestion_control(&replacing[i]);
}

module_init(replacing_init);
module_exit(replacing_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("congestion controls that replace their own operations");
