// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/configtron: the calls of configtron.h, each a row of the table at the end.
 *
 * An open file belongs to the network namespace of the process that opened it and holds that
 * namespace. CAP_NET_ADMIN in the first user namespace is asked for at every call, reading
 * included, so a file passed to a process without it is of no use there. What comes from the
 * user is copied, checked and forgotten; no pointer of theirs is kept.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "calls.h"

static int ct_call_version(struct ct_file *cf, union ct_argument *a)
{
	a->version = (struct configtron_version){
		.abi = CONFIGTRON_ABI,
		.features = CONFIGTRON_HAS_ACTIVE_OPENS | CONFIGTRON_HAS_RECORDS |
			    CONFIGTRON_HAS_SOCKET_GET | CONFIGTRON_HAS_PLANS,
		.parameters = CONFIGTRON_KEYS,
		.profiles_max = CT_PROFILES_MAX,
		.prefixes_max = ct_prefixes_max,
		.record_bytes = sizeof(struct configtron_record),
		.release = CT_RELEASE,
	};
	return 0;
}

static int ct_call_param_info(struct ct_file *cf, union ct_argument *a)
{
	return ct_param_info(&a->info);
}

static int ct_call_socket_assign(struct ct_file *cf, union ct_argument *a)
{
	return ct_socket_assign(cf->cn, a->socket.fd, a->socket.profile);
}

static int ct_call_socket_get(struct ct_file *cf, union ct_argument *a)
{
	struct configtron_param params[CONFIGTRON_KEYS] = {};
	struct configtron_socket_params *arg = &a->socket_params;
	int err;

	if (arg->reserved)
		return -EINVAL;
	arg->count = min_t(u32, arg->count, CONFIGTRON_KEYS);
	err = ct_socket_get(cf->cn, arg->fd, arg, params);
	if (err)
		return err;
	if (copy_to_user(u64_to_user_ptr(arg->params), params, arg->count * sizeof(*params)))
		return -EFAULT;
	return 0;
}

static int ct_call_options_set(struct ct_file *cf, union ct_argument *a)
{
	const struct configtron_options *arg = &a->options;
	const struct ct_real *plain;
	int err;

	if (arg->flags & ~(CONFIGTRON_ENABLED | CONFIGTRON_ACTIVE_OPENS))
		return -EINVAL;
	if (!arg->plain[0] || strnlen(arg->plain, sizeof(arg->plain)) == sizeof(arg->plain))
		return -EINVAL;
	plain = ct_real_find(arg->plain); /* may load a module: no lock is held */
	if (IS_ERR(plain))
		return PTR_ERR(plain);
	mutex_lock(&cf->cn->lock);
	err = ct_options_set(cf->cn, arg, plain);
	mutex_unlock(&cf->cn->lock);
	return err;
}

static int ct_call_options_get(struct ct_file *cf, union ct_argument *a)
{
	mutex_lock(&cf->cn->lock);
	ct_options_get(cf->cn, &a->options);
	mutex_unlock(&cf->cn->lock);
	return 0;
}

static int ct_call_status(struct ct_file *cf, union ct_argument *a)
{
	struct ct_net *cn = cf->cn;

	a->status = (struct configtron_status){
		.generation = atomic64_read(&cn->generation),
		.records = atomic64_read(&cn->records),
		.records_lost = atomic64_read(&cn->records_lost),
		.profiles = READ_ONCE(cn->profile_count),
		.prefixes = READ_ONCE(cn->store.count),
		.versions = atomic_read(&ct_versions),
		.readers = READ_ONCE(cn->reader_count),
	};
	WRITE_ONCE(cf->seen, a->status.generation);
	return 0;
}

static int ct_call_records(struct ct_file *cf, union ct_argument *a)
{
	struct ct_reader *reader;
	int err = -EEXIST;

	if (a->records.reserved)
		return -EINVAL;
	mutex_lock(&cf->lock);
	if (!cf->reader) {
		reader = ct_reader_new(cf->cn, a->records.capacity, &cf->records);
		err = PTR_ERR_OR_ZERO(reader);
		if (!err) /* complete before it is seen */
			smp_store_release(&cf->reader, reader);
	}
	mutex_unlock(&cf->lock);
	return err;
}

static ssize_t ct_read(struct file *file, char __user *to, size_t size, loff_t *unused)
{
	struct ct_file *cf = file->private_data;
	struct ct_reader *reader = smp_load_acquire(&cf->reader); /* complete when it is seen */
	ssize_t got;

	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	if (!reader)
		return -ENODATA;
	if (size < sizeof(struct configtron_record))
		return -EINVAL;
	do {
		if (!(file->f_flags & O_NONBLOCK) &&
		    wait_event_interruptible(cf->records, ct_reader_ready(reader)))
			return -ERESTARTSYS;
		mutex_lock(&cf->lock);
		got = ct_reader_read(reader, to, size);
		mutex_unlock(&cf->lock);
		if (!got && file->f_flags & O_NONBLOCK)
			return -EAGAIN;
	} while (!got); /* another thread took them */
	return got;
}

/*
 * EPOLLIN: close records; EPOLLPRI: the tables have changed since this file last asked for the
 * status.
 */
static __poll_t ct_poll(struct file *file, poll_table *wait)
{
	struct ct_file *cf = file->private_data;
	struct ct_reader *reader;
	__poll_t ready = 0;

	/* both queues even before RECORDS: epoll asks for them once */
	poll_wait(file, &cf->cn->changed, wait);
	poll_wait(file, &cf->records, wait);
	reader = smp_load_acquire(&cf->reader); /* complete when it is seen */
	if (atomic64_read(&cf->cn->generation) != READ_ONCE(cf->seen))
		ready |= EPOLLPRI;
	if (reader && ct_reader_ready(reader))
		ready |= EPOLLIN | EPOLLRDNORM;
	return capable(CAP_NET_ADMIN) ? ready : EPOLLERR;
}

static int ct_open(struct inode *inode, struct file *file)
{
	struct ct_file *cf;

	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	cf = kzalloc(sizeof(*cf), GFP_KERNEL_ACCOUNT);
	if (!cf)
		return -ENOMEM;
	mutex_init(&cf->lock);
	init_waitqueue_head(&cf->records);
	cf->net = get_net(current->nsproxy->net_ns);
	cf->cn = ct_net_of(cf->net);
	cf->seen = atomic64_read(&cf->cn->generation);
	file->private_data = cf;
	return stream_open(inode, file);
}

static int ct_close(struct inode *inode, struct file *file)
{
	struct ct_file *cf = file->private_data;

	ct_dump_end(cf);
	if (cf->reader)
		ct_reader_free(cf->cn, cf->reader);
	put_net(cf->net);
	kfree(cf);
	return 0;
}

static const struct ct_call {
	unsigned int cmd;
	int (*call)(struct ct_file *cf, union ct_argument *a);
} ct_calls[] = {
	{ CONFIGTRON_VERSION, ct_call_version },
	{ CONFIGTRON_PARAM_INFO, ct_call_param_info },
	{ CONFIGTRON_PROFILE_NEW, ct_call_profile_new },
	{ CONFIGTRON_PROFILE_DEL, ct_call_profile_del },
	{ CONFIGTRON_PROFILE_NEXT, ct_call_profile_next },
	{ CONFIGTRON_PARAMS_SET, ct_call_params_set },
	{ CONFIGTRON_PARAMS_GET, ct_call_params_get },
	{ CONFIGTRON_PREFIX_SET, ct_call_prefix_set },
	{ CONFIGTRON_PREFIX_GET, ct_call_prefix_get },
	{ CONFIGTRON_PREFIX_DEL, ct_call_prefix_del },
	{ CONFIGTRON_PREFIX_DUMP, ct_call_prefix_dump },
	{ CONFIGTRON_PREFIX_FLUSH, ct_call_prefix_flush },
	{ CONFIGTRON_SOCKET_ASSIGN, ct_call_socket_assign },
	{ CONFIGTRON_SOCKET_GET, ct_call_socket_get },
	{ CONFIGTRON_OPTIONS_SET, ct_call_options_set },
	{ CONFIGTRON_OPTIONS_GET, ct_call_options_get },
	{ CONFIGTRON_STATUS, ct_call_status },
	{ CONFIGTRON_STATS, ct_call_stats },
	{ CONFIGTRON_RECORDS, ct_call_records },
	{ CONFIGTRON_PLAN_LOAD, ct_call_plan_load },
	{ CONFIGTRON_PLAN_TURN, ct_call_plan_turn },
	{ CONFIGTRON_PLAN_RENEW, ct_call_plan_renew },
	{ CONFIGTRON_PLAN_DROP, ct_call_plan_drop },
	{ CONFIGTRON_PLAN_STATUS, ct_call_plan_status },
	{ CONFIGTRON_PLAN_MIXES, ct_call_plan_mixes },
};

/*
 * Copies the argument in, calls, copies it out even after an error: batches report there how far
 * they came.
 */
static long ct_run(struct file *file, const struct ct_call *row, void __user *user)
{
	union ct_argument a = {};
	int err;

	if (_IOC_DIR(row->cmd) & _IOC_WRITE && copy_from_user(&a, user, _IOC_SIZE(row->cmd)))
		return -EFAULT;
	err = row->call(file->private_data, &a);
	if (_IOC_DIR(row->cmd) & _IOC_READ && copy_to_user(user, &a, _IOC_SIZE(row->cmd)))
		return -EFAULT;
	return err;
}

static long ct_ioctl(struct file *file, unsigned int cmd, unsigned long user)
{
	unsigned int i;

	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	for (i = 0; i < ARRAY_SIZE(ct_calls); i++)
		if (ct_calls[i].cmd == cmd)
			return ct_run(file, &ct_calls[i], (void __user *)user);
	return -ENOTTY;
}

static const struct file_operations ct_file_ops = {
	.owner = THIS_MODULE,
	.open = ct_open,
	.release = ct_close,
	.unlocked_ioctl = ct_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.read = ct_read,
	.poll = ct_poll,
};

static struct miscdevice ct_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "configtron",
	.mode = 0600,
	.fops = &ct_file_ops,
};

int ct_chardev_register(void)
{
	return misc_register(&ct_device);
}

void ct_chardev_unregister(void)
{
	misc_deregister(&ct_device);
}
