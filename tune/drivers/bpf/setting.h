/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a profile is set on a connection, step by step, and what the kernel refuses of it is counted. */
#ifndef CONFIGTRON_SETTING_H
#define CONFIGTRON_SETTING_H

#include "clients.h"

#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_BPF_IW 1001

/* Row 0 of layout.py's table. */
#define KNOB_CONGESTION_CONTROL 0

static __always_inline void count_refusal(__u32 knob, long error)
{
	struct refusal *refusal = bpf_map_lookup_elem(&refusals, &knob);

	if (!refusal)
		return;
	refusal->error = error;
	__sync_fetch_and_add(&refusal->count, 1);
}

/* `on` is a sock_ops context or a locked socket. `keeps_window`: it keeps the congestion window that it has, since it
 * lives already (the kernel takes an initial window only before the first byte), or since the kernel has cut it. The
 * congestion control comes last, since BBR derives its first pacing rate from the window when it begins.
 */
static __always_inline void set_profile(void *on, struct profile *profile, int keeps_window)
{
	long error;

	for (int i = 0; i < MAX_STEPS; i++) {
		struct step *step = &profile->steps[i];
		int value = step->value;

		if (i >= profile->steps_count)
			break;
		if (keeps_window && step->level == SOL_TCP && step->option == TCP_BPF_IW)
			continue;
		error = bpf_setsockopt(on, step->level, step->option, &value, sizeof(value));
		if (error)
			count_refusal(step->knob, error);
	}
	if (!profile->congestion_control[0])
		return;
	error = bpf_setsockopt(on, SOL_TCP, TCP_CONGESTION, profile->congestion_control, CC_BYTES);
	if (error)
		count_refusal(KNOB_CONGESTION_CONTROL, error);
}

#endif
