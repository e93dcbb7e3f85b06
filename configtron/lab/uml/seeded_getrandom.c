// SPDX-License-Identifier: MIT
/*
 * A preload for the User-Mode Linux process: getrandom() that gives bytes from a seed.
 *
 * The guest kernel seeds its random generator from the host's getrandom() and, in virtual time, from nothing that
 * differs between runs. With this preload, TLS keys, initial sequence numbers, MAC addresses and netem's losses are all
 * a function of CONFIGTRON_SEED. It is meant for simulated hosts only; the generator is not a cryptographic one.
 *
 * The seed is hashed before use: neighbours such as 1, 2, 3 fed in raw give first outputs near zero, and in a loss
 * model that is a loss of an early packet in every run.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

/* splitmix64 (Steele, Lea, Flood 2014): its constants, its two rounds of mixing */
static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint64_t next(void)
{
	static uint64_t state;
	static int started;

	if (!started) {
		const char *seed = getenv("CONFIGTRON_SEED");

		state = mix(mix(seed ? strtoull(seed, NULL, 10) : 0) + 0x9e3779b97f4a7c15ull);
		started = 1;
	}
	return mix(state += 0x9e3779b97f4a7c15ull);
}

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
	unsigned char *bytes = buffer;

	(void)flags;
	for (size_t i = 0; i < length; i++)
		bytes[i] = next() >> 56;
	return length;
}
