// SPDX-License-Identifier: MIT
/*
 * Connections, one after another, as fast as one processor makes them: the worst case for whatever acts once a
 * connection, since nothing else is done.
 *
 *   churn serve PORT [CONGESTION]        accept, read the question, answer, close; for ever; all under that one
 *   churn visit                          lines on stdin, a line on stdout for each:
 *       ADDRESS PORT PID COUNT FIRST  -> CONNECTIONS NS CPU_NS P50_NS P99_NS
 *
 * A visit opens COUNT connections to ADDRESS, in batches, from the client addresses number FIRST, FIRST + 1, ... Client
 * number k is 10.64.0.0 + 8 k + 2 for k below CLIENTS, taken in an order that no cache likes. CPU_NS is what this
 * process and PID (the server) used: packets of both sides are handled in whichever of them runs, so only the sum means
 * anything. P50 and P99 are of connect(2), from the call to the established connection.
 *
 * No end keeps a connection in TIME_WAIT: the server closes first, the client answers with a reset.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* as many clients as there are prefixes of eight addresses, at most */
#define CLIENTS 100000u
#define FIRST_CLIENT 0x0a400002u
#define SPACING 8u
/* a prime that does not divide CLIENTS: neighbours in time are strangers in space */
#define STRIDE 38113u
/* open at once: enough that server and client run in turns of many connections, few enough for the listen queue */
#define BATCH 32
/* one segment: nothing here is about how much is sent */
#define ANSWER_BYTES 1000
#define MOST 100000
/* so that a web server understands it, and closes */
#define QUESTION "GET / HTTP/1.0\r\n\r\n"
/* longer than any queue of connections in a benchmark */
#define BACKLOG 1024

static int64_t setup_ns[MOST];

static int64_t now(clockid_t clock)
{
	struct timespec at;

	if (clock_gettime(clock, &at))
		err(1, "clock_gettime");
	return at.tv_sec * 1000000000ll + at.tv_nsec;
}

static int compare(const void *one, const void *other)
{
	int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

	return (a > b) - (a < b);
}

static void serve(int port, const char *congestion)
{
	struct sockaddr_in6 here = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	static char answer[ANSWER_BYTES];
	int on = 1, listener = socket(AF_INET6, SOCK_STREAM, 0);
	char question[64];

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (congestion &&
	    setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, congestion, strlen(congestion)))
		err(1, "TCP_CONGESTION %s", congestion);
	if (bind(listener, (void *)&here, sizeof(here)) || listen(listener, BACKLOG))
		err(1, "port %d", port);
	puts("listening");
	fflush(stdout);
	for (;;) {
		struct sockaddr_in6 peer;
		socklen_t size = sizeof(peer);
		int visitor = accept(listener, (void *)&peer, &size);

		if (visitor < 0)
			err(1, "accept");
		if (read(visitor, question, sizeof(question)) > 0 &&
		    write(visitor, answer, sizeof(answer)) < 0)
			warn("write");
		close(visitor);
	}
}

static int visitor(unsigned int number, const struct sockaddr_in *there, int64_t *took)
{
	unsigned int client = (unsigned int)((uint64_t)number * STRIDE % CLIENTS);
	struct sockaddr_in here = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(FIRST_CLIENT + client * SPACING),
	};
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	int64_t began;

	if (fd < 0)
		err(1, "socket");
	setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (bind(fd, (void *)&here, sizeof(here)))
		err(1, "bind to %s", inet_ntoa(here.sin_addr));
	began = now(CLOCK_MONOTONIC);
	if (connect(fd, (void *)there, sizeof(*there)))
		err(1, "connect from %s", inet_ntoa(here.sin_addr));
	*took = now(CLOCK_MONOTONIC) - began;
	if (write(fd, QUESTION, strlen(QUESTION)) != (ssize_t)strlen(QUESTION))
		err(1, "write");
	return fd;
}

static void visit(const struct sockaddr_in *there, unsigned int count, unsigned int first)
{
	int open_now[BATCH];
	char answer[ANSWER_BYTES];
	unsigned int done = 0;

	while (done < count) {
		int batch = count - done < BATCH ? count - done : BATCH;

		for (int i = 0; i < batch; i++)
			open_now[i] = visitor(first + done + i, there, &setup_ns[done + i]);
		for (int i = 0; i < batch; i++) {
			ssize_t got, whole = 0;

			while ((got = read(open_now[i], answer, sizeof(answer))) > 0)
				whole += got;
			/* a web server's has a head as well */
			if (got < 0 || whole < ANSWER_BYTES)
				errx(1, "an answer of %zd bytes", whole);
			close(open_now[i]);
		}
		done += batch;
	}
}

static void visits(void)
{
	struct sockaddr_in there = { .sin_family = AF_INET };
	unsigned int port, count, first;
	char address[64];
	int pid;

	while (scanf("%63s %u %d %u %u", address, &port, &pid, &count, &first) == 5) {
		int64_t began, cpu;
		clockid_t theirs;

		if (count < 1 || count > MOST || !inet_aton(address, &there.sin_addr))
			errx(2, "1 to %d connections to an IPv4 address", MOST);
		there.sin_port = htons(port);
		if (clock_getcpuclockid(pid, &theirs))
			errx(1, "no process %d", pid);
		cpu = now(theirs) + now(CLOCK_PROCESS_CPUTIME_ID);
		began = now(CLOCK_MONOTONIC);
		visit(&there, count, first);
		began = now(CLOCK_MONOTONIC) - began;
		cpu = now(theirs) + now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		qsort(setup_ns, count, sizeof(*setup_ns), compare);
		printf("%u %ld %ld %ld %ld\n", count, (long)began, (long)cpu,
		       (long)setup_ns[count / 2], (long)setup_ns[count * 99ull / 100]);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	if ((argc == 3 || argc == 4) && !strcmp(argv[1], "serve"))
		serve(atoi(argv[2]), argv[3]);
	else if (argc == 2 && !strcmp(argv[1], "visit"))
		visits();
	else
		errx(2, "usage: churn serve PORT [CONGESTION] | churn visit");
	return 0;
}
