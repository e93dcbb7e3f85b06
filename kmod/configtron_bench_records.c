// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a record costs: fills records of a socket of the kernel's own and pushes them to readers,
 * once per insmod.
 *
 * benchmarks/kmod_costs.py loads it for each number of readers and reads the figures from its
 * parameters: filling runs beside other processors, pushing under the lock of the namespace.
 */
#include <linux/module.h>
#include <net/sock.h>

#include "records.c"

/* As many at once as a ring of that size takes: some 50 us, which few interrupts disturb. */
#define CT_BENCH_PIECE 256

static unsigned int readers;
module_param(readers, uint, 0444);
static unsigned int pieces = 200;
module_param(pieces, uint, 0444);

static unsigned long long fill_ps; /* picoseconds: an open record and a close record */
module_param(fill_ps, ullong, 0444);
static unsigned long long push_ps; /* picoseconds of one record to all readers */
module_param(push_ps, ullong, 0444);
static unsigned int pushed;
module_param(pushed, uint, 0444);

/* What records.c has of the other files; a socket without a connection has no room, no address. */
unsigned int ct_net_id;

u8 ct_address(const struct sock *sk, bool remote, const void **address)
{
	*address = remote ? &sk->sk_daddr : &sk->sk_rcv_saddr;
	return AF_INET;
}

u16 ct_resume_flags(const struct sock *sk, const struct ct_version *version)
{
	return 0;
}

u32 ct_max_cwnd(const struct sock *sk, const struct ct_version *version)
{
	return 0;
}

static DECLARE_WAIT_QUEUE_HEAD(ct_bench_wait);
static struct ct_reader *ct_bench_readers[CT_READERS_MAX];
static struct ct_net ct_bench_net;
static struct ct_version ct_bench_version;
static struct configtron_record ct_bench_record;

static u64 ct_bench_fill(const struct sock *sk)
{
	u64 begin = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < CT_BENCH_PIECE; i++) {
		ct_fill(&ct_bench_record, sk, &ct_bench_version);
		OPTIMIZER_HIDE_VAR(sk);
		ct_fill(&ct_bench_record, sk, &ct_bench_version);
		ct_fill_end(&ct_bench_record, sk, &ct_bench_version);
	}
	return ktime_get_ns() - begin;
}

static u64 ct_bench_push(void)
{
	u64 begin = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < CT_BENCH_PIECE; i++)
		ct_push_all(&ct_bench_net, &ct_bench_record);
	return ktime_get_ns() - begin;
}

/* As a program that has read all. */
static void ct_bench_drain(void)
{
	unsigned int i;

	for (i = 0; i < readers; i++) {
		pushed += ct_bench_readers[i]->head - ct_bench_readers[i]->tail;
		ct_bench_readers[i]->tail = ct_bench_readers[i]->head;
	}
}

static void ct_bench_run(const struct sock *sk)
{
	u64 fill = U64_MAX, push = U64_MAX;
	unsigned int i;

	for (i = 0; i < pieces; i++) {
		fill = min(fill, ct_bench_fill(sk));
		push = min(push, ct_bench_push());
		ct_bench_drain();
		cond_resched();
	}
	fill_ps = div_u64(fill * 1000, CT_BENCH_PIECE);
	push_ps = div_u64(push * 1000, CT_BENCH_PIECE);
}

static int __init ct_bench_init(void)
{
	struct socket *sock;
	unsigned int i;
	int err;

	if (!pieces || readers > CT_READERS_MAX)
		return -EINVAL;
	err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err)
		return err;
	spin_lock_init(&ct_bench_net.readers_lock);
	INIT_LIST_HEAD(&ct_bench_net.readers);
	for (i = 0; i < readers && !err; i++) {
		ct_bench_readers[i] = ct_reader_new(&ct_bench_net, CT_BENCH_PIECE, &ct_bench_wait);
		err = PTR_ERR_OR_ZERO(ct_bench_readers[i]);
	}
	if (!err)
		ct_bench_run(sock->sk);
	else
		i--;
	while (i--)
		ct_reader_free(&ct_bench_net, ct_bench_readers[i]);
	sock_release(sock);
	return err;
}

static void __exit ct_bench_exit(void)
{
}

module_init(ct_bench_init);
module_exit(ct_bench_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Cost of configtron's records");
