// SPDX-License-Identifier: MIT
/*
 * What a user can do without any driver, on a server of his own: LD_PRELOAD this, and every accepted connection gets
 * the congestion control of its client's prefix by setsockopt(2).
 *
 *   CHURN_PREFIXES=FILE LD_PRELOAD=shim.so churn serve PORT
 *
 * FILE holds lines "ADDRESS/LENGTH NAME" of IPv4, all of one length, sorted; none may be found. The initial window
 * cannot be set so (TCP_BPF_IW is for BPF alone), a connection answers with the old congestion control until it is
 * accepted, and a program that accepts by io_uring or is linked statically is not reached.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MOST 200000
#define NAME_BYTES 16

struct rule {
	uint32_t prefix;
	char name[NAME_BYTES];
};

static struct rule rules[MOST];
static unsigned int count;
static uint32_t mask;
static int (*real_accept)(int, struct sockaddr *, socklen_t *);
static int (*real_accept4)(int, struct sockaddr *, socklen_t *, int);

__attribute__((constructor)) static void load(void)
{
	const char *path = getenv("CHURN_PREFIXES");
	FILE *file = path ? fopen(path, "r") : NULL;
	char address[64];
	struct in_addr parsed;
	int length;

	real_accept = dlsym(RTLD_NEXT, "accept");
	real_accept4 = dlsym(RTLD_NEXT, "accept4");
	if (!file)
		err(1, "CHURN_PREFIXES");
	while (count < MOST &&
	       fscanf(file, "%63[0-9.]/%d %15s\n", address, &length, rules[count].name) == 3) {
		if (!inet_aton(address, &parsed))
			errx(1, "%s: %s is no address", path, address);
		rules[count++].prefix = ntohl(parsed.s_addr);
		mask = length ? ~0u << (32 - length) : 0;
	}
	fclose(file);
}

static int by_prefix(const void *key, const void *rule)
{
	uint32_t a = *(const uint32_t *)key, b = ((const struct rule *)rule)->prefix;

	return (a > b) - (a < b);
}

static int settled(int visitor, const struct sockaddr *peer)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)peer;
	const struct rule *rule;
	uint32_t key;

	if (visitor < 0 || !count || !peer || six->sin6_family != AF_INET6)
		return visitor;
	memcpy(&key, &six->sin6_addr.s6_addr[12], sizeof(key));
	key = ntohl(key) & mask;
	rule = bsearch(&key, rules, count, sizeof(*rules), by_prefix);
	if (rule &&
	    setsockopt(visitor, IPPROTO_TCP, TCP_CONGESTION, rule->name, strlen(rule->name)))
		err(1, "TCP_CONGESTION %s", rule->name);
	return visitor;
}

int accept(int listener, struct sockaddr *peer, socklen_t *size)
{
	return settled(real_accept(listener, peer, size), peer);
}

int accept4(int listener, struct sockaddr *peer, socklen_t *size, int flags)
{
	return settled(real_accept4(listener, peer, size, flags), peer);
}
