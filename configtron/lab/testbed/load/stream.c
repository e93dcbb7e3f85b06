// SPDX-License-Identifier: MIT
/*
 * Connections: TCP, then TLS over memory that one system call fills.
 *
 * Events are edge-triggered and each wake-up reads until a call brings less than it could; only a closed connection is
 * asked once more. A TLS record is of use when all of it is there: until then the kernel is asked not to wake us, since
 * two system calls for each packet would be most of what a load costs in a guest. Nothing can be seen any sooner with
 * them; compiled with EACH_PACKET the client has them, to show just that (tests, benchmarks).
 */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

int watch;
static SSL_CTX *context;
static BIO_METHOD *method;

/* Wakes us when so many bytes are there: OpenSSL, without reading ahead, asks for what its record still lacks. */
static void sleep_until(struct connection *c, int bytes)
{
#ifndef EACH_PACKET
	int least = bytes > WORTH_WAITING_BYTES ? bytes : 1;

	if (least != c->least)
		setsockopt(c->socket, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least));
	c->least = least;
#endif
}

static int take(BIO *bio, char *into, int room)
{
	struct connection *c = BIO_get_data(bio);
	ssize_t got;

	BIO_clear_retry_flags(bio);
	if (c->in_from == c->in_to && !c->drained) {
		got = recv(c->socket, c->in, INPUT_BYTES, 0);
		if (got == 0 || (got < 0 && errno != EAGAIN))
			c->ended = true;
		c->drained = got < INPUT_BYTES && !(c->closes && got > 0);
		c->in_from = 0;
		c->in_to = got > 0 ? got : 0;
	}
	if (c->in_from == c->in_to) {
		if (c->ended)
			return 0;
		sleep_until(c, room);
		BIO_set_retry_read(bio);
		return -1;
	}
	if ((size_t)room > c->in_to - c->in_from)
		room = c->in_to - c->in_from;
	memcpy(into, c->in + c->in_from, room);
	c->in_from += room;
	return room;
}

static int give(BIO *bio, const char *from, int count)
{
	struct connection *c = BIO_get_data(bio);
	ssize_t sent = send(c->socket, from, count, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (sent < 0 && errno == EAGAIN)
		BIO_set_retry_write(bio);
	return sent;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
	(void)bio, (void)number, (void)pointer;
	return command == BIO_CTRL_FLUSH;
}

/* The latest ticket of an origin is for its next handshake. */
static int keep_session(SSL *tls, SSL_SESSION *session)
{
	struct connection *c = SSL_get_app_data(tls);

	SSL_SESSION_free(c->pool->session);
	c->pool->session = session;
	return 1;
}

void prepare_tls(void)
{
	context = SSL_CTX_new(TLS_client_method());
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "connection");
	if (!context || !method)
		abort();
	SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
	SSL_CTX_set_read_ahead(context, 0);
	SSL_CTX_set_mode(context,
			 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(context, keep_session);
	BIO_meth_set_read(method, take);
	BIO_meth_set_write(method, give);
	BIO_meth_set_ctrl(method, control);
}

static void begin_tls(struct connection *c)
{
	static const unsigned char h1[] = "\x08http/1.1", h2[] = "\x02h2";
	const unsigned char *offered = load.h2 ? h2 : h1;
	BIO *bio = BIO_new(method);

	c->tls = SSL_new(context);
	if (!bio || !c->tls)
		abort();
	BIO_set_data(bio, c);
	BIO_set_init(bio, 1);
	SSL_set_bio(c->tls, bio, bio);
	SSL_set_connect_state(c->tls);
	SSL_set_tlsext_host_name(c->tls, c->pool->host);
	SSL_set_alpn_protos(c->tls, offered, offered[0] + 1);
	SSL_set_app_data(c->tls, c);
	if (load.resumes && c->pool->session)
		SSL_set_session(c->tls, c->pool->session);
}

struct connection *open_connection(struct pool *pool)
{
	struct sockaddr_in there = { .sin_family = AF_INET,
				     .sin_port = htons(443),
				     .sin_addr.s_addr = pool->address };
	struct connection *c = malloc(sizeof(*c)), **last = &pool->connections;
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				     .data.ptr = c };
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = load.source };
	socklen_t size = sizeof(here);
	int yes = 1;

	if (!c)
		abort();
	/* all but the input buffer, which is large and needs no beginning */
	memset(c, 0, offsetof(struct connection, in));
	memset(&c->in_from, 0, sizeof(*c) - offsetof(struct connection, in_from));
	while (*last)
		last = &(*last)->next;
	*last = c;
	c->pool = pool;
	c->least = 1;
	c->socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	epoll_ctl(watch, EPOLL_CTL_ADD, c->socket, &event);
	if (load.source)
		setsockopt(c->socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
	if (load.source && bind(c->socket, (struct sockaddr *)&here, sizeof(here)))
		load.failed = "unreachable";
	if (connect(c->socket, (struct sockaddr *)&there, sizeof(there)) && errno != EINPROGRESS)
		load.failed = "unreachable";
	if (load.source && load.connections < MOST_PORTS &&
	    !getsockname(c->socket, (struct sockaddr *)&here, &size))
		load.ports[load.connections] = ntohs(here.sin_port);
	load.connections++;
	return c;
}

static void begun(struct connection *c, uint32_t events)
{
	socklen_t size = sizeof(int);
	int error = 0;

	if (!(events & (EPOLLOUT | EPOLLERR)))
		return;
	getsockopt(c->socket, SOL_SOCKET, SO_ERROR, &error, &size);
	if (error) {
		load.failed = error == ECONNREFUSED ? "refused" : "unreachable";
		return;
	}
	c->connected = true;
	if (!load.connected)
		load.connected = now();
	begin_tls(c);
}

static void shake_hands(struct connection *c)
{
	const unsigned char *chosen;
	unsigned int length;
	int code = SSL_do_handshake(c->tls);

	if (code != 1) {
		int why = SSL_get_error(c->tls, code);

		if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
			load.failed = "tls";
		return;
	}
	SSL_get0_alpn_selected(c->tls, &chosen, &length);
	if (load.h2 && length != 2) {
		load.failed = "alpn";
		return;
	}
	c->open = true;
	load.resumed += SSL_session_reused(c->tls);
	load.protocol->opened(c);
}

static void read_all(struct connection *c)
{
	unsigned char plain[16384];
	int got;

	while (!load.failed && (got = SSL_read(c->tls, plain, sizeof(plain))) > 0)
		load.protocol->read(c, plain, got);
	/* TLS may say that it was the last, and be read no further: TCP's own end is then never seen */
	c->ended |= SSL_get_shutdown(c->tls) & SSL_RECEIVED_SHUTDOWN;
	if (load.failed || !c->ended)
		return;
	c->open = false;
	load.protocol->ended(c);
}

void on_event(struct connection *c, uint32_t events)
{
	if (c->ended)
		return;
	if (!c->connected)
		begun(c, events);
	if (!c->connected || load.failed)
		return;
	if (events & EPOLLIN)
		c->drained = false;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->closes = true;
	if (!c->open)
		shake_hands(c);
	if (!c->open || load.failed)
		return;
	if (events & EPOLLOUT)
		flush(c);
	read_all(c);
}

void put(struct connection *c, const void *bytes, size_t count)
{
	if (c->out_to + count > c->out_room) {
		c->out_room = 2 * (c->out_to + count);
		c->out = realloc(c->out, c->out_room);
		if (!c->out)
			abort();
	}
	memcpy(c->out + c->out_to, bytes, count);
	c->out_to += count;
}

void flush(struct connection *c)
{
	int sent;

	while (c->out_from < c->out_to) {
		sent = SSL_write(c->tls, c->out + c->out_from, c->out_to - c->out_from);
		if (sent <= 0)
			return; /* no room: the edge to writable calls again; a dead connection is seen by reading */
		c->out_from += sent;
	}
	c->out_from = c->out_to = 0;
}

void forget_sessions(struct page *page)
{
	for (int i = 0; i < page->pool_count; i++) {
		SSL_SESSION_free(page->pools[i].session);
		page->pools[i].session = NULL;
	}
}

void close_all(struct page *page)
{
	struct linger reset = { 1, 0 };

	for (int i = 0; i < page->pool_count; i++) {
		struct connection *c = page->pools[i].connections, *next;

		for (page->pools[i].connections = NULL; c; c = next) {
			next = c->next;
			if (load.failed) /* what is still on its way must not meet the next load */
				setsockopt(c->socket, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
			close(c->socket);
			if (c->tls) /* else OpenSSL takes its session for broken off, and resumes it no more */
				SSL_set_shutdown(c->tls, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
			SSL_free(c->tls);
			nghttp2_session_del(c->session);
			free(c->out);
			free(c);
		}
	}
}
