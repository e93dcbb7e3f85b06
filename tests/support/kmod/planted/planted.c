// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mistakes made on purpose, one by name: `insmod planted.ko mistake=lock-order`. Loaded in debug guests only, to see that
 * what should catch a mistake does. The kernel's words that each must bring are in tests/support/kmod/gate.py.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *mistake = "";
module_param(mistake, charp, 0444);

static DEFINE_MUTEX(planted_a);
static DEFINE_MUTEX(planted_b);
static DEFINE_SPINLOCK(planted_spin);
static int planted_value;
static int __rcu *planted_pointer = (int __rcu *)&planted_value;

static noinline void planted_use_after_free(void)
{
	int *freed = kmalloc(sizeof(*freed) * 16, GFP_KERNEL);

	kfree(freed);
	if (freed)
		planted_value = READ_ONCE(freed[3]);
}

static noinline void planted_lock_order(void)
{
	mutex_lock(&planted_a);
	mutex_lock(&planted_b);
	mutex_unlock(&planted_b);
	mutex_unlock(&planted_a);
	mutex_lock(&planted_b);
	mutex_lock(&planted_a);
	mutex_unlock(&planted_a);
	mutex_unlock(&planted_b);
}

static noinline void planted_rcu(void)
{
	planted_value = *rcu_dereference(planted_pointer);
}

static noinline void planted_atomic_sleep(void)
{
	void *block;

	spin_lock(&planted_spin);
	block = kmalloc(16, GFP_KERNEL);
	spin_unlock(&planted_spin);
	kfree(block);
}

static noinline void planted_leak(void)
{
	char *lost = kzalloc(1000, GFP_KERNEL);

	/* kmemleak shows the first bytes of what it finds */
	if (lost)
		planted_value = snprintf(lost, 1000, "a planted leak");
}

static const struct {
	const char *name;
	void (*make)(void);
} planted[] = {
	{ "use-after-free", planted_use_after_free },
	{ "lock-order", planted_lock_order },
	{ "rcu", planted_rcu },
	{ "atomic-sleep", planted_atomic_sleep },
	{ "leak", planted_leak },
};

static int __init planted_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(planted); i++) {
		if (strcmp(planted[i].name, mistake))
			continue;
		planted[i].make();
		return 0;
	}
	return -EINVAL;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("mistakes made on purpose");
