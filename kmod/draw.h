/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which profile of its class a client gets in an epoch: a keyed hash draws, so that the kernel module, the BPF programs
 * and user space compute the same arm, and every server draws the same arm for a client.
 *
 *   unit   the client that is drawn for: an IPv4 address as 0x0000ffff << 32 | address, a v4-mapped IPv6 address the
 *          same (it is those eight bytes, RFC 4291 section 2.5.5.2), of any other IPv6 address its /64; host order
 *   slice  the low 16 bits of SipHash-2-4 of (epoch, unit) under the plan's key
 *   held   the client is held back where the slice of epoch ~0 is below the plan's share: in all epochs, on all servers
 *   arm    the first of the mix whose last slice is not below the client's slice
 *
 * SipHash-2-4 of two words is the kernel's siphash_2u64(); it is written out here for programs that cannot call that.
 * configtron/model/draw.py is its twin, tests/test_draw.py compares both. No include but the integer types.
 *
 * Source: Aumasson and Bernstein, SipHash: a fast short-input PRF (2012); lib/siphash.c
 */
#ifndef CONFIGTRON_DRAW_H
#define CONFIGTRON_DRAW_H

#include <linux/types.h>

#define DRAW_ARMS 8
#define DRAW_BANDS 4
/* The arm of a client that is held back, in records. */
#define DRAW_HELD DRAW_ARMS
/* The epoch that the holdback is drawn in; no plan has it. */
#define DRAW_HELD_EPOCH (~0ULL)
/* Weights, shares and slices count in parts of this. */
#define DRAW_PARTS 65536

/* The profiles of a class. `upto` is the last slice of each arm, rising, 65535 from the last arm on; every arm has one
 * slice at least. `profile` is the number of a profile; 0 of the first arm: this is no class.
 */
struct mix {
	__u16 upto[DRAW_ARMS];
	__u16 profile[DRAW_ARMS];
};

/* What all classes share in an epoch. `held` of DRAW_PARTS are held back and get `held_profile`, 0 for the untouched
 * stack. A client that no prefix holds is of class `band_class[i]` of the first band whose `band_us` is not below the
 * round trip of its handshake; a band of 0 us is unused. The lease is not part of it: it changes each second.
 */
struct plan {
	__u64 key[2];
	__u64 epoch;
	__u32 held;
	__u32 held_profile;
	__u32 band_us[DRAW_BANDS];
	__u32 band_class[DRAW_BANDS];
};

#ifdef __clang__
#define DRAW_UNROLL _Pragma("clang loop unroll(full)")
#else
#define DRAW_UNROLL
#endif

#define DRAW_INLINE static inline __attribute__((always_inline))

#define DRAW_TURNED(word, bits) ((word) << (bits) | (word) >> (64 - (bits)))

#define DRAW_ROUND(v0, v1, v2, v3)             \
	do {                                   \
		v0 += v1;                      \
		v1 = DRAW_TURNED(v1, 13) ^ v0; \
		v0 = DRAW_TURNED(v0, 32);      \
		v2 += v3;                      \
		v3 = DRAW_TURNED(v3, 16) ^ v2; \
		v0 += v3;                      \
		v3 = DRAW_TURNED(v3, 21) ^ v0; \
		v2 += v1;                      \
		v1 = DRAW_TURNED(v1, 17) ^ v2; \
		v2 = DRAW_TURNED(v2, 32);      \
	} while (0)

#define DRAW_WORD(word, v0, v1, v2, v3)     \
	do {                                \
		v3 ^= (word);               \
		DRAW_ROUND(v0, v1, v2, v3); \
		DRAW_ROUND(v0, v1, v2, v3); \
		v0 ^= (word);               \
	} while (0)

/* siphash_2u64(first, second, key) */
DRAW_INLINE __u64 draw_hash(const __u64 *key, __u64 first, __u64 second)
{
	__u64 v0 = 0x736f6d6570736575ULL ^ key[0];
	__u64 v1 = 0x646f72616e646f6dULL ^ key[1];
	__u64 v2 = 0x6c7967656e657261ULL ^ key[0];
	__u64 v3 = 0x7465646279746573ULL ^ key[1];

	DRAW_WORD(first, v0, v1, v2, v3);
	DRAW_WORD(second, v0, v1, v2, v3);
	DRAW_WORD(16ULL << 56, v0, v1, v2, v3); /* the length in bytes */
	v2 ^= 0xff;
	DRAW_ROUND(v0, v1, v2, v3);
	DRAW_ROUND(v0, v1, v2, v3);
	DRAW_ROUND(v0, v1, v2, v3);
	DRAW_ROUND(v0, v1, v2, v3);
	return v0 ^ v1 ^ v2 ^ v3;
}

/* Address in host order. */
DRAW_INLINE __u64 draw_unit4(__u32 address)
{
	return 0xffffULL << 32 | address;
}

/* The first and the second four bytes, and the third and fourth, each in host order. */
DRAW_INLINE __u64 draw_unit6(__u32 first, __u32 second, __u32 third, __u32 fourth)
{
	if (!first && !second && third == 0xffff)
		return draw_unit4(fourth);
	return (__u64)first << 32 | second;
}

DRAW_INLINE __u32 draw_slice(const struct plan *plan, __u64 epoch, __u64 unit)
{
	return draw_hash(plan->key, epoch, unit) & (DRAW_PARTS - 1);
}

DRAW_INLINE int draw_is_held(const struct plan *plan, __u64 unit)
{
	return plan->held && draw_slice(plan, DRAW_HELD_EPOCH, unit) < plan->held;
}

DRAW_INLINE __u32 draw_arm(const struct mix *mix, __u32 slice)
{
	__u32 arm = 0;

	DRAW_UNROLL
	for (int i = 0; i < DRAW_ARMS - 1; i++)
		arm += slice > mix->upto[i];
	return arm;
}

/* The band of a round trip, from 1; 0: none, as for a round trip of 0, which is unknown. */
DRAW_INLINE __u32 draw_band(const struct plan *plan, __u32 rtt_us)
{
	__u32 band = 0;

	DRAW_UNROLL
	for (int i = DRAW_BANDS - 1; i >= 0; i--)
		if (rtt_us && rtt_us <= plan->band_us[i])
			band = i + 1;
	return band;
}

#endif
