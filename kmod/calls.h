/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The calls of /dev/configtron: each takes the open file and its argument, copied in before and
 * out after by chardev.c.
 */
#ifndef _CONFIGTRON_CALLS_H
#define _CONFIGTRON_CALLS_H

#include "internal.h"

enum ct_dump {
	CT_DUMP_IDLE,
	CT_DUMP_RUNS,
	CT_DUMP_DONE
};

struct ct_file {
	struct net *net;
	struct ct_net *cn;
	struct mutex lock; /* reading, dumping, becoming a reader */
	struct ct_reader *reader; /* set once */
	wait_queue_head_t records; /* where the reader's wait */
	struct ct_walk walk;
	enum ct_dump dump;
	u64 seen; /* generation that this file last saw */
};

union ct_argument {
	struct configtron_version version;
	struct configtron_param_info info;
	struct configtron_profile profile;
	struct configtron_params params;
	struct configtron_prefixes prefixes;
	struct configtron_flush flush;
	struct configtron_socket socket;
	struct configtron_socket_params socket_params;
	struct configtron_options options;
	struct configtron_status status;
	struct configtron_stats stats;
	struct configtron_records records;
	struct configtron_plan plan;
	struct configtron_lease lease;
	struct configtron_plan_status plan_status;
	struct configtron_mixes mixes;
};

int ct_call_profile_new(struct ct_file *cf, union ct_argument *a);
int ct_call_profile_del(struct ct_file *cf, union ct_argument *a);
int ct_call_profile_next(struct ct_file *cf, union ct_argument *a);
int ct_call_params_set(struct ct_file *cf, union ct_argument *a);
int ct_call_params_get(struct ct_file *cf, union ct_argument *a);
int ct_call_stats(struct ct_file *cf, union ct_argument *a);
int ct_call_prefix_set(struct ct_file *cf, union ct_argument *a);
int ct_call_prefix_get(struct ct_file *cf, union ct_argument *a);
int ct_call_prefix_del(struct ct_file *cf, union ct_argument *a);
int ct_call_prefix_dump(struct ct_file *cf, union ct_argument *a);
int ct_call_prefix_flush(struct ct_file *cf, union ct_argument *a);
int ct_call_plan_load(struct ct_file *cf, union ct_argument *a);
int ct_call_plan_turn(struct ct_file *cf, union ct_argument *a);
int ct_call_plan_renew(struct ct_file *cf, union ct_argument *a);
int ct_call_plan_drop(struct ct_file *cf, union ct_argument *a);
int ct_call_plan_status(struct ct_file *cf, union ct_argument *a);
int ct_call_plan_mixes(struct ct_file *cf, union ct_argument *a);
void ct_dump_end(struct ct_file *cf);

#endif /* _CONFIGTRON_CALLS_H */
