// SPDX-License-Identifier: MIT
/*
 * A wall clock that is set while a program runs, for that program alone (LD_PRELOAD): what clock_gettime() and the
 * kernel's receive stamps say of CLOCK_REALTIME is CLK_BY seconds further, CLK_AT seconds after the first question.
 *
 * cc -shared -fPIC -o clock_step.so clock_step.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* linux/socket.h: SO_TIMESTAMPNS_OLD, with struct timespec of 64 bits. */
#define STAMP 35

/* Seconds to add to a time of the wall clock as the kernel has it. */
static long step(const struct timespec *t)
{
	static double at;
	double now = t->tv_sec + t->tv_nsec / 1e9;

	if (!at)
		at = now + atof(getenv("CLK_AT"));
	return now > at ? atol(getenv("CLK_BY")) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int failed = syscall(SYS_clock_gettime, clock, t);

	if (!failed && clock == CLOCK_REALTIME)
		t->tv_sec += step(t);
	return failed;
}

ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
	static ssize_t (*real)(int, struct msghdr *, int);
	struct cmsghdr *c;
	ssize_t size;

	if (!real)
		real = dlsym(RTLD_NEXT, "recvmsg");
	size = real(socket, message, flags);
	for (c = size < 0 ? NULL : CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == STAMP) {
			struct timespec t;

			memcpy(&t, CMSG_DATA(c), sizeof(t));
			t.tv_sec += step(&t);
			memcpy(CMSG_DATA(c), &t, sizeof(t));
		}
	}
	return size;
}
