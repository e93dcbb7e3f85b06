/* SPDX-License-Identifier: MIT */
/* What the processes of churn.c do (traffic.c, changes.c) and what they share. */
#ifndef STRESS_ROLES_H
#define STRESS_ROLES_H

#include "device.h"

#define PROFILES 8
#define CLIENTS 6
/* Client prefixes are 127.1.0.0/16 to 127.39.0.0/16, in four thirds of which a /24 counts. */
#define NETWORKS 39
#define SUBNETS 4

/* Counters are added to atomically; `done` is set once. */
struct shared {
	uint32_t profile[PROFILES];
	unsigned long wanted;
	volatile int done;
	unsigned long begun, connected, refused, accepted, assigned, overridden, reconnected;
	unsigned long changes, namespaces, unloads_refused, records, turns, lapsed;
};

extern struct shared *shared;

static inline unsigned long count_one(unsigned long *counter)
{
	return __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

/* xorshift64: the same seed gives the same choices, though never the same order of events */
extern uint64_t random_state;

static inline void random_begin(unsigned int seed)
{
	random_state = 0x9e3779b97f4a7c15ull * (seed + 1);
}

static inline unsigned int below(unsigned int limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 11) % limit;
}

/*
 * Until so many more connections have begun; false once all have ended. Changes keep step with connections, so that a
 * slow kernel gets the same mixture as a fast one, and a long run more of everything.
 */
static inline int wait_for_connections(unsigned long more)
{
	unsigned long until = __atomic_load_n(&shared->begun, __ATOMIC_RELAXED) + more;

	while (!shared->done && __atomic_load_n(&shared->begun, __ATOMIC_RELAXED) < until)
		usleep(1000);
	return !shared->done;
}

static inline uint32_t any_profile(void)
{
	return shared->profile[below(PROFILES)];
}

/* traffic.c; by_name: one listener asks for us by name, and so holds the module */
extern unsigned int keep_most; /* connections that the server keeps open */
void listen_everywhere(int by_name);
void close_listeners(void);
void serve(unsigned int seed);
void connect_often(unsigned int seed);

/* changes.c */
void change_params(unsigned int seed);
void change_prefixes(unsigned int seed);
void change_profiles(unsigned int seed);
void flip_default(unsigned int seed);
void make_namespaces(unsigned int seed);
void try_unload(unsigned int seed);
void read_records(unsigned int seed);
void turn_plans(unsigned int seed);

#endif
