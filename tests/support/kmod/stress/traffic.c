// SPDX-License-Identifier: MIT
/* churn.c's connections: listeners, the server's liberties with its sockets, the clients. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/time.h>

#include "roles.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78
#endif

/* An ordinary IPv4 one; one that asks for us by name; IPv6, which also takes v4-mapped clients; MPTCP, if there is any. */
enum {
	PLAIN,
	BY_NAME,
	BOTH_FAMILIES,
	BY_MPTCP,
	LISTENERS
};

#define FIRST_PORT 7001
#define KEPT 256

uint64_t random_state;
unsigned int keep_most = KEPT;
static int listeners[LISTENERS];

static int listener(int family, int protocol, unsigned int port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
	const struct sockaddr *name = family == AF_INET ? (void *)&four : (void *)&six;
	socklen_t length = family == AF_INET ? sizeof(four) : sizeof(six);
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol), on = 1;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, name, length) || listen(fd, 512))
		die("listen");
	return fd;
}

void listen_everywhere(int by_name)
{
	listeners[PLAIN] = listener(AF_INET, 0, FIRST_PORT + PLAIN);
	listeners[BY_NAME] = listener(AF_INET, 0, FIRST_PORT + BY_NAME);
	listeners[BOTH_FAMILIES] = listener(AF_INET6, 0, FIRST_PORT + BOTH_FAMILIES);
	listeners[BY_MPTCP] = listener(AF_INET, IPPROTO_MPTCP, FIRST_PORT + BY_MPTCP);
	if (by_name &&
	    setsockopt(listeners[BY_NAME], IPPROTO_TCP, TCP_CONGESTION, "configtron", 10))
		die("TCP_CONGESTION configtron");
}

void close_listeners(void)
{
	for (unsigned int i = 0; i < LISTENERS; i++)
		if (listeners[i] >= 0)
			close(listeners[i]);
}

/* Ends the connection but keeps the socket, and opens another with it to a listener of our own. */
static void reconnect(int fd)
{
	struct sockaddr unconnected = { .sa_family = AF_UNSPEC };
	struct sockaddr_in us = { .sin_family = AF_INET, .sin_port = htons(FIRST_PORT + PLAIN) };

	us.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, &unconnected, sizeof(unconnected)))
		return;
	if (!connect(fd, (void *)&us, sizeof(us)) || errno == EINPROGRESS)
		count_one(&shared->reconnected);
}

static void take_liberties(int device, int fd)
{
	static const char *const names[] = { "reno", "cubic", "bbr", "vegas", "configtron" };
	static const char page[50000];
	const char *name = names[below(5)];
	unsigned int what = below(10);

	if (what < 2 && !socket_assign(device, fd, any_profile()))
		count_one(&shared->assigned);
	if (what == 2 && !setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)))
		count_one(&shared->overridden);
	if (what == 3)
		socket_get(device, fd);
	send(fd, page, 1 + below(sizeof(page)), MSG_DONTWAIT | MSG_NOSIGNAL);
	/* once more, now with data on the way */
	if (what == 4 && !socket_assign(device, fd, any_profile()))
		count_one(&shared->assigned);
	if (what == 5)
		reconnect(fd);
}

static void accept_one(int device, int from, int *kept)
{
	unsigned int place = below(keep_most);
	int fd = accept4(from, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	count_one(&shared->accepted);
	take_liberties(device, fd);
	if (below(2)) {
		close(fd);
		return;
	}
	if (kept[place] >= 0)
		close(kept[place]);
	kept[place] = fd;
}

void serve(unsigned int seed)
{
	struct pollfd ready[LISTENERS];
	int device = device_open(), kept[KEPT];

	memset(kept, -1, sizeof(kept));
	for (unsigned int i = 0; i < LISTENERS; i++)
		ready[i] = (struct pollfd){ .fd = listeners[i], .events = POLLIN };
	while (poll(ready, LISTENERS, 100) || !shared->done)
		for (unsigned int i = 0; i < LISTENERS; i++)
			if (ready[i].revents & POLLIN)
				accept_one(device, listeners[i], kept);
}

/* A client address in one of the prefixes, and a server. */
static int client_socket(struct sockaddr_storage *to, socklen_t *length)
{
	/* a profile may pace the answer to one byte a second; other clients are waiting */
	struct timeval patience = { .tv_usec = 200000 };
	unsigned int port = listeners[BY_MPTCP] < 0 ? below(BY_MPTCP) : below(LISTENERS), on = 1;
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 }, *to6 = (void *)to;
	struct sockaddr_in four = { .sin_family = AF_INET }, *to4 = (void *)to;
	int by_six = port == BOTH_FAMILIES && below(2), fd, failed;

	fd = socket(by_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC,
		    port == BY_MPTCP ? IPPROTO_MPTCP : 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	memset(to, 0, sizeof(*to));
	if (by_six) {
		/* fd00::/16 is local to the loopback device (inside.py) */
		six.sin6_addr.s6_addr[0] = 0xfd;
		six.sin6_addr.s6_addr[5] = below(NETWORKS);
		six.sin6_addr.s6_addr[15] = 1 + below(250);
		setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on));
		*to6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
					      .sin6_port = htons(FIRST_PORT + port),
					      .sin6_addr = IN6ADDR_LOOPBACK_INIT };
		*length = sizeof(*to6);
		failed = bind(fd, (void *)&six, sizeof(six));
	} else {
		four.sin_addr.s_addr = htonl(127u << 24 | (1 + below(NETWORKS)) << 16 |
					     below(SUBNETS) << 8 | (1 + below(250)));
		to4->sin_family = AF_INET;
		to4->sin_port = htons(FIRST_PORT + port);
		to4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		*length = sizeof(*to4);
		failed = bind(fd, (void *)&four, sizeof(four));
	}
	if (failed) {
		close(fd);
		return -1;
	}
	return fd;
}

void connect_often(unsigned int seed)
{
	struct linger reset = { .l_onoff = 1 };
	struct sockaddr_storage to;
	socklen_t length;
	char page[4096];
	int fd;

	while (count_one(&shared->begun) <= shared->wanted) {
		fd = client_socket(&to, &length);
		if (fd < 0 || connect(fd, (void *)&to, length)) {
			count_one(&shared->refused);
		} else {
			count_one(&shared->connected);
			if (recv(fd, page, sizeof(page), 0) > 0 && below(4) == 0)
				send(fd, page, 100, MSG_NOSIGNAL);
			if (below(3) == 0)
				setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		}
		if (fd >= 0)
			close(fd);
	}
}
